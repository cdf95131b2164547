// A grpc-java server on its default executor: JDBC over HikariCP, Lettuce, the JDK's HttpClient.
package field;

import com.google.protobuf.StringValue;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerBuilder;
import io.grpc.ServerServiceDefinition;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

public class GrpcServer {
    static final MethodDescriptor<StringValue, StringValue> SEQ = method("Seq", MethodType.UNARY),
            PRICE = method("Price", MethodType.UNARY), LIST = method("List", MethodType.SERVER_STREAMING);

    private final HttpClient http = HttpClient.newHttpClient();
    private final RedisCommands<String, String> redis;
    private final HikariDataSource database;

    GrpcServer() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://127.0.0.1:5432/postgres");
        config.setUsername("app");
        database = new HikariDataSource(config);
        redis = RedisClient.create("redis://127.0.0.1:" + System.getenv("REDIS_PORT")).connect().sync();
    }

    public static void main(String[] args) throws Exception {
        GrpcServer shop = new GrpcServer();
        ServerBuilder.forPort(Integer.parseInt(System.getenv("PORT")))
                .addService(ServerServiceDefinition.builder("shop.Shop")
                        .addMethod(SEQ, ServerCalls.asyncUnaryCall(shop::seq))
                        .addMethod(PRICE, ServerCalls.asyncUnaryCall(shop::price))
                        .addMethod(LIST, ServerCalls.asyncServerStreamingCall(shop::list)).build())
                .build().start().awaitTermination();
    }

    /** What the compiler of protocol buffers writes for a method. */
    static MethodDescriptor<StringValue, StringValue> method(String name, MethodType type) {
        return MethodDescriptor.<StringValue, StringValue>newBuilder().setType(type)
                .setFullMethodName(MethodDescriptor.generateFullMethodName("shop.Shop", name))
                .setRequestMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
                .setResponseMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance())).build();
    }

    private String get(String what, String id) {
        try {
            URI uri = URI.create(System.getenv("LEAF_URL") + "/" + what + "/" + id);
            return http.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString()).body();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private String item(String id) {
        try (Connection connection = database.getConnection();
                PreparedStatement statement = connection.prepareStatement("SELECT name FROM items WHERE id = ?")) {
            statement.setString(1, id);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(1) : "none";
            }
        } catch (SQLException error) {
            throw new IllegalStateException(error);
        }
    }

    private void seq(StringValue request, StreamObserver<StringValue> observer) {
        String id = request.getValue();
        redis.get("item:" + id);
        String item = item(id);
        String price = get("price", id);
        redis.setex("item:" + id, 60, item);
        observer.onNext(StringValue.of(item + price));
        observer.onCompleted();
    }

    private void price(StringValue request, StreamObserver<StringValue> observer) {
        observer.onNext(StringValue.of(get("price", request.getValue())));
        observer.onCompleted();
    }

    private void list(StringValue request, StreamObserver<StringValue> observer) {
        for (String part : new String[] {"price", "stock", "ship"}) {
            observer.onNext(StringValue.of(get(part, request.getValue())));
        }
        observer.onCompleted();
    }
}
