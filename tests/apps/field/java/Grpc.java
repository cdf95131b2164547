// Spring MVC on Tomcat that calls a gRPC service by blocking, future and asynchronous calls over one channel.
package field;

import com.google.protobuf.StringValue;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.request.async.DeferredResult;

@SpringBootApplication
public class Grpc {
    public static void main(String[] args) {
        SpringApplication.run(Grpc.class, args);
    }

    @Bean
    ManagedChannel channel(@Value("${back.url}") String back) {
        return ManagedChannelBuilder.forTarget(back.replace("http://", "")).usePlaintext().build();
    }
}

@RestController
class Items {
    private static final Metadata.Key<String> ITEM = Metadata.Key.of("x-item", Metadata.ASCII_STRING_MARSHALLER);
    private final ManagedChannel channel;
    private final StringRedisTemplate redis;

    Items(ManagedChannel channel, StringRedisTemplate redis) {
        this.channel = channel;
        this.redis = redis;
    }

    /** What a generated stub does in `withInterceptors`. */
    private Channel named(String id) {
        Metadata headers = new Metadata();
        headers.put(ITEM, id);
        return ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
    }

    @GetMapping("/seq/{id}")
    Object seq(@PathVariable String id) {
        Long seen = redis.opsForValue().increment("seen:" + id);
        StringValue item = ClientCalls.blockingUnaryCall(named(id), GrpcServer.SEQ, CallOptions.DEFAULT,
                StringValue.of(id));
        return Map.of("id", id, "seen", seen, "item", item.getValue());
    }

    @GetMapping("/par/{id}")
    Object par(@PathVariable String id) throws Exception {
        var item = ClientCalls.futureUnaryCall(named(id).newCall(GrpcServer.SEQ, CallOptions.DEFAULT),
                StringValue.of(id));
        var price = ClientCalls.futureUnaryCall(named(id).newCall(GrpcServer.PRICE, CallOptions.DEFAULT),
                StringValue.of(id));
        String cached = redis.opsForValue().get("item:" + id);
        return Map.of("cached", String.valueOf(cached), "item", item.get().getValue(), "price", price.get().getValue());
    }

    @GetMapping("/list/{id}")
    Object list(@PathVariable String id) {
        StringBuilder parts = new StringBuilder();
        ClientCalls.blockingServerStreamingCall(named(id), GrpcServer.LIST, CallOptions.DEFAULT, StringValue.of(id))
                .forEachRemaining(part -> parts.append(part.getValue()));
        return Map.of("id", id, "parts", parts.toString());
    }

    /** The answer is sent by a thread of gRPC's executor. */
    @GetMapping("/async/{id}")
    DeferredResult<Object> async(@PathVariable String id) {
        DeferredResult<Object> result = new DeferredResult<>();
        ClientCalls.asyncUnaryCall(named(id).newCall(GrpcServer.PRICE, CallOptions.DEFAULT), StringValue.of(id),
                new StreamObserver<StringValue>() {
                    @Override
                    public void onNext(StringValue price) {
                        Long seen = redis.opsForValue().increment("seen:" + id);
                        result.setResult(Map.of("id", id, "seen", seen, "price", price.getValue()));
                    }

                    @Override
                    public void onError(Throwable error) {
                        result.setErrorResult(error);
                    }

                    @Override
                    public void onCompleted() {}
                });
        return result;
    }
}
