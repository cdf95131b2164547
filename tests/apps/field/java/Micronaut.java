// Micronaut on Netty: its HTTP client, JDBC with HikariCP on its blocking executor, Lettuce, synchronous and reactive.
package field;

import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.micronaut.context.annotation.Value;
import io.micronaut.http.annotation.Controller;
import io.micronaut.http.annotation.Get;
import io.micronaut.reactor.http.client.ReactorHttpClient;
import io.micronaut.scheduling.TaskExecutors;
import io.micronaut.scheduling.annotation.Async;
import io.micronaut.scheduling.annotation.ExecuteOn;
import jakarta.inject.Named;
import jakarta.inject.Singleton;
import java.net.URL;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import javax.sql.DataSource;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

public class Micronaut {
    public static void main(String[] args) {
        io.micronaut.runtime.Micronaut.build(args).mainClass(Micronaut.class)
                .properties(Map.of("micronaut.server.host", "127.0.0.1", "micronaut.server.port", System.getenv("PORT"),
                        "redis.uri", "redis://127.0.0.1:" + System.getenv("REDIS_PORT"), "datasources.default.url",
                        "jdbc:postgresql://127.0.0.1:5432/postgres", "datasources.default.username", "app"))
                .start();
    }
}

@Singleton
class Store {
    private final DataSource database;

    Store(DataSource database) {
        this.database = database;
    }

    String item(String id) {
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

    void order(String id) throws SQLException {
        try (Connection connection = database.getConnection()) {
            connection.setAutoCommit(false);
            execute(connection, "INSERT INTO orders (id, item) VALUES (?, 'book')", id);
            execute(connection, "UPDATE orders SET state = 'paid' WHERE id = ?", id);
            connection.commit();
        }
    }

    private static void execute(Connection connection, String sql, String id) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, id);
            statement.executeUpdate();
        }
    }
}

@Singleton
class Reports {
    private final ReactorHttpClient http;
    private final String leaf;

    Reports(Web web, @Value("${leaf.url}") String leaf) {
        this.http = web.http;
        this.leaf = leaf;
    }

    @Async
    void report(String id) {
        http.toBlocking().retrieve(leaf + "/report/" + id);
    }
}

@Singleton
class Web {
    final ReactorHttpClient http = ReactorHttpClient.create((URL) null);
}

@Controller
class Shop {
    private final Store store;
    private final StatefulRedisConnection<String, String> redis;
    private final ReactorHttpClient http;
    private final Reports reports;
    private final ExecutorService blocking;
    private final String leaf, back;

    Shop(Store store, StatefulRedisConnection<String, String> redis, Web web, Reports reports,
            @Named(TaskExecutors.BLOCKING) ExecutorService blocking, @Value("${leaf.url}") String leaf,
            @Value("${back.url}") String back) {
        this.store = store;
        this.redis = redis;
        this.http = web.http;
        this.reports = reports;
        this.blocking = blocking;
        this.leaf = leaf;
        this.back = back;
    }

    private Mono<String> get(String url) {
        return http.retrieve(url);
    }

    private Mono<String> item(String id) {
        return Mono.fromCallable(() -> store.item(id)).subscribeOn(Schedulers.fromExecutor(blocking));
    }

    private Mono<String> cached(String id) {
        return redis.reactive().get("item:" + id).defaultIfEmpty("");
    }

    @Get("/seq/{id}")
    @ExecuteOn(TaskExecutors.BLOCKING)
    String seq(String id) {
        String cached = redis.sync().get("item:" + id), item = store.item(id);
        String price = http.toBlocking().retrieve(leaf + "/price/" + id);
        redis.sync().set("item:" + id, item, SetArgs.Builder.ex(60));
        return id + cached + item + price;
    }

    @Get("/par/{id}")
    Mono<String> par(String id) {
        return Mono.zip(cached(id), item(id), get(leaf + "/price/" + id), get(leaf + "/stock/" + id))
                .map(Object::toString);
    }

    @Get("/tx/{id}")
    @ExecuteOn(TaskExecutors.BLOCKING)
    String tx(String id) throws SQLException {
        store.order(id);
        redis.sync().del("item:" + id);
        return http.toBlocking().retrieve(leaf + "/ship/" + id);
    }

    @Get("/nest/{id}")
    Mono<String> nest(String id) {
        return redis.reactive().incr("seen:" + id)
                .flatMap(seen -> Mono.zip(get(back + "/seq/" + id), get(leaf + "/price/" + id)))
                .map(Object::toString);
    }

    @Get("/later/{id}")
    Mono<String> later(String id) {
        reports.report(id);
        return cached(id);
    }
}
