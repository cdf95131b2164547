import java.io.IOException;
import java.net.InetSocketAddress;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

/**
 * The same service on Netty's event loops, by reactor-netty: what Spring WebFlux and Spring Cloud Gateway stand on.
 *
 * <p>HOW: {@code seq} makes one call after the other, {@code fanout} all at once. Its pool of connections belongs to
 * all loops.
 */
final class Netty {
    private static final int AT_ONCE = 16;

    private static Mono<Boolean> call(HttpClient client, Service.Todo todo) {
        return Mono.defer(() -> {
            String path = Service.newPath(todo.load);
            long start = Service.now();
            InetSocketAddress to = Service.upstream(todo);
            return client.get().uri("http://" + to.getAddress().getHostAddress() + ":" + to.getPort() + path)
                    .responseSingle((answer, body) -> body.asByteArray().thenReturn(answer.status().code()))
                    .map(status -> {
                        Service.note("client", path, "\"in\":\"" + todo.in + "\",", to.getPort(), start, status);
                        return status == 200;
                    });
        });
    }

    public static void main(String[] args) throws IOException {
        Service.begin();
        ConnectionProvider pool = ConnectionProvider.builder("calls").maxConnections(2048).pendingAcquireMaxCount(-1)
            .build();
        HttpClient client = HttpClient.create(pool);
        HttpServer.create().host(Service.LISTEN.getAddress().getHostAddress()).port(Service.LISTEN.getPort())
            .handle((request, response) -> {
            String path = request.uri();
            long start = Service.now();
            Flux<Service.Todo> todo = Flux.fromIterable(Service.calls(path));
            Flux<Boolean> done = Service.HOW.equals("fanout") ? todo.flatMap(t -> call(client, t),
                AT_ONCE) : todo.concatMap(t -> call(client, t));
            return done.reduce(true, Boolean::logicalAnd).flatMap(good -> {
                Service.note("server", path, "", Service.LISTEN.getPort(), start, good ? 200 : 502);
                return response.status(good ? 200 : 502).header("Content-Length",
                    "2").sendString(Mono.just("ok")).then();
            });
        }).bindNow().onDispose().block();
    }
}
