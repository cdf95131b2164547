import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;

/**
 * A service of a shape, in Java 11; README.md has the environment.
 *
 * <p>HOW says who makes the calls. One blocking thread per caller's connection reads and answers, and {@code thread}
 * itself makes them, {@code pool} gives each to a fixed thread pool of WORKERS and waits, {@code fanout} gives it all
 * at once. {@code client} makes them itself, too, by the JDK's client, which all share and which hands them to threads
 * of its own. {@code virtual} and {@code virtual-fanout} (Java 21): a virtual thread per connection makes them, or
 * starts one for each. {@code reactor}: the JDK's selector-driven server and client; the thread that gets the
 * last answer goes on.
 */
public final class Service {
    private static final String NAME = System.getenv("SERVICE");
    static final String HOW = System.getenv("HOW");
    static final InetSocketAddress LISTEN = address(System.getenv("LISTEN"));
    private static final List<InetSocketAddress> UPSTREAMS = new ArrayList<>();
    private static final ThreadLocal<Map<Integer, Connection>> OWN = ThreadLocal.withInitial(HashMap::new);
    private static FileOutputStream truth;
    private static ExecutorService pool;
    private static HttpClient client;

    static final class Todo {
        final int upstream;
        final int load;
        final String in;

        Todo(int upstream, int load, String in) {
            this.upstream = upstream;
            this.load = load;
            this.in = in;
        }
    }

    private static final class Connection {
        final Socket socket;
        final InputStream in;

        Connection(Socket socket) throws IOException {
            this.socket = socket;
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
        }

        String line() throws IOException {
            StringBuilder text = new StringBuilder();
            for (int b = in.read(); b >= 0; b = in.read()) {
                if (b == '\n') {
                    return text.toString();
                }
                if (b != '\r') {
                    text.append((char) b);
                }
            }
            return null;
        }

        /** First line of the next message, or null at the end. Its body is thrown away. */
        String message() throws IOException {
            String first = line();
            int length = 0;
            for (String header = first; header != null && !header.isEmpty(); header = line()) {
                if (header.toLowerCase().startsWith("content-length:")) {
                    length = Integer.parseInt(header.substring(15).trim());
                }
            }
            in.readNBytes(length);
            return first;
        }
    }

    private static InetSocketAddress address(String text) {
        String[] parts = text.split(":");
        return new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
    }

    static long now() {
        Instant t = Instant.now();
        return t.getEpochSecond() * 1_000_000_000L + t.getNano();
    }

    /** Appends one record in one write: nothing is lost when the process is ended. */
    static void note(String kind, String path, String more, int port, long start, int status) {
        String line =
            String.format("{\"service\":\"%s\",\"kind\":\"%s\",\"target\":\"%s\",%s"
                + "\"port\":%d,\"start\":%d,\"end\":%d,\"status\":%d}\n",
                NAME, kind, path, more, port, start, now(), status);
        synchronized (truth) {
            try {
                truth.write(line.getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    static InetSocketAddress upstream(Todo todo) {
        return UPSTREAMS.get(todo.upstream);
    }

    static String newPath(int load) {
        return String.format("/work/%d/%012x", load, ThreadLocalRandom.current().nextLong() >>> 16);
    }

    /** What a request makes its service call, by its path alone. */
    static List<Todo> calls(String path) {
        int load = Integer.parseInt(path.split("/")[2]);
        List<Todo> all = new ArrayList<>();
        for (int u = 0; u < UPSTREAMS.size(); u++) {
            for (int i = 0; i <= (load >> u & 1); i++) {
                all.add(new Todo(u, (load + i + 1) % 4, path));
            }
        }
        return all;
    }

    private static boolean call(Map<Integer, Connection> connections, Todo todo) {
        String path = newPath(todo.load);
        long start = now();
        InetSocketAddress to = upstream(todo);
        try {
            Connection c = connections.get(todo.upstream);
            if (c == null) {
                c = new Connection(new Socket(to.getAddress(), to.getPort()));
                connections.put(todo.upstream, c);
            }
            c.socket.getOutputStream().write(("GET " + path + " HTTP/1.1\r\nHost: shapes\r\n\r\n")
                .getBytes(StandardCharsets.US_ASCII));
            int status = Integer.parseInt(c.message().split(" ")[1]);
            note("client", path, "\"in\":\"" + todo.in + "\",", to.getPort(), start, status);
            return status == 200;
        } catch (IOException e) {
            e.printStackTrace();
            return false;
        }
    }

    private static boolean callAlone(Todo todo) {
        Map<Integer, Connection> connections = new HashMap<>();
        try {
            return call(connections, todo);
        } finally {
            for (Connection c : connections.values()) {
                try {
                    c.socket.close();
                } catch (IOException e) {
                    e.printStackTrace();
                }
            }
        }
    }

    /**
     * In a thread of its own: a virtual one where HOW says so, which Java 11, by which this is compiled, has no name
     * for.
     */
    private static void start(Runnable work) {
        if (HOW.startsWith("virtual")) {
            try {
                Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, work);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
            return;
        }
        Thread thread = new Thread(work, "caller");
        thread.setDaemon(true);
        thread.start();
    }

    private static boolean work(String path, Map<Integer, Connection> connections) {
        boolean good = true;
        List<CompletableFuture<Boolean>> answers = new ArrayList<>();
        for (Todo todo : calls(path)) {
            if (HOW.equals("thread") || HOW.equals("virtual")) {
                good &= call(connections, todo);
            } else if (HOW.equals("client")) {
                good &= callByClient(todo);
            } else if (HOW.equals("pool")) {
                good &= CompletableFuture.supplyAsync(() -> call(OWN.get(), todo), pool).join();
            } else if (HOW.equals("virtual-fanout")) {
                answers.add(CompletableFuture.supplyAsync(() -> callAlone(todo), Service::start));
            } else {
                answers.add(CompletableFuture.supplyAsync(() -> call(OWN.get(), todo), pool));
            }
        }
        for (CompletableFuture<Boolean> answer : answers) {
            good &= answer.join();
        }
        return good;
    }

    private static void serve(Socket socket) {
        Map<Integer, Connection> connections = new HashMap<>();
        try (socket) {
            Connection caller = new Connection(socket);
            for (String line = caller.message(); line != null; line = caller.message()) {
                long start = now();
                String path = line.split(" ")[1];
                boolean good = work(path, connections);
                note("server", path, "", LISTEN.getPort(), start, good ? 200 : 502);
                String answer = "HTTP/1.1 " + (good ? "200 OK" : "502 Bad Gateway") + "\r\nContent-Length: 2\r\n\r\nok";
                socket.getOutputStream().write(answer.getBytes(StandardCharsets.US_ASCII));
            }
            for (Connection c : connections.values()) {
                c.socket.close();
            }
        } catch (IOException e) {
            // the caller went away
        }
    }

    // --- the JDK's client, and its server
    // --------------------------------------------------------------------------------

    private static void react(HttpExchange exchange) {
        long start = now();
        String path = exchange.getRequestURI().getPath();
        CompletableFuture<Boolean> all = CompletableFuture.completedFuture(true);
        for (Todo todo : calls(path)) {
            all = all.thenCompose(good -> callAsync(todo).thenApply(fine -> good && fine));
        }
        all.thenAccept(good -> {
            note("server", path, "", LISTEN.getPort(), start, good ? 200 : 502);
            try {
                exchange.sendResponseHeaders(good ? 200 : 502, 2);
                exchange.getResponseBody().write("ok".getBytes(StandardCharsets.US_ASCII));
                exchange.close();
            } catch (IOException e) {
                e.printStackTrace();
            }
        });
    }

    private static CompletableFuture<Boolean> callAsync(Todo todo) {
        String path = newPath(todo.load);
        long start = now();
        return client.sendAsync(request(todo, path),
            HttpResponse.BodyHandlers.discarding()).thenApply(answer -> answered(todo, path, start, answer));
    }

    private static boolean callByClient(Todo todo) {
        String path = newPath(todo.load);
        long start = now();
        try {
            return answered(todo, path, start,
                client.send(request(todo, path), HttpResponse.BodyHandlers.discarding()));
        } catch (IOException | InterruptedException e) {
            e.printStackTrace();
            return false;
        }
    }

    private static HttpRequest request(Todo todo, String path) {
        InetSocketAddress to = upstream(todo);
        return HttpRequest.newBuilder(URI.create("http://" + to.getAddress().getHostAddress() + ":" + to.getPort()
            + path)).build();
    }

    private static boolean answered(Todo todo, String path, long start, HttpResponse<Void> answer) {
        note("client", path, "\"in\":\"" + todo.in + "\",", upstream(todo).getPort(), start, answer.statusCode());
        return answer.statusCode() == 200;
    }

    /** What every way of making calls needs first. */
    static void begin() throws IOException {
        truth = new FileOutputStream(Path.of(System.getenv("GROUND_TRUTH_DIR"), NAME + ".jsonl").toFile(), true);
        String calls = System.getenv("CALLS");
        for (String text : calls == null || calls.isEmpty() ? new String[0] : calls.split(",")) {
            UPSTREAMS.add(address(text));
        }
    }

    public static void main(String[] args) throws IOException {
        begin();
        String workers = System.getenv("WORKERS");
        ThreadPoolExecutor executor = (ThreadPoolExecutor) Executors.newFixedThreadPool(workers == null ? 8
            : Integer.parseInt(workers));
        executor.prestartAllCoreThreads(); // else each task of a new pool starts a thread of its own
        pool = executor;
        if (HOW.equals("reactor")) {
            client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).executor(pool).build();
            HttpServer server = HttpServer.create(LISTEN, 1024);
            server.setExecutor(pool);
            server.createContext("/", Service::react);
            server.start();
            return;
        }
        if (HOW.equals("client")) {
            client = HttpClient.newHttpClient(); // with the threads and the version that it has if nobody says another
        }
        try (ServerSocket server = new ServerSocket(LISTEN.getPort(), 1024, LISTEN.getAddress())) {
            while (true) {
                Socket caller = server.accept();
                start(() -> serve(caller));
            }
        }
    }
}
