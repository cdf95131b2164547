// Helidon SE (a virtual thread for each request) with its client, structured concurrency, JDBC over HikariCP, Jedis.
package field;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.helidon.webclient.api.WebClient;
import io.helidon.webserver.WebServer;
import io.helidon.webserver.http.HttpRouting;
import io.helidon.webserver.http.ServerRequest;
import io.helidon.webserver.http.ServerResponse;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.StructuredTaskScope;
import java.util.concurrent.StructuredTaskScope.Joiner;
import java.util.concurrent.StructuredTaskScope.Subtask;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import redis.clients.jedis.JedisPooled;

public class Helidon {
    static final String LEAF = System.getenv("LEAF_URL"), BACK = System.getenv("BACK_URL");
    static final JedisPooled redis = new JedisPooled("127.0.0.1", Integer.parseInt(System.getenv("REDIS_PORT")));
    static final WebClient http = WebClient.builder().readTimeout(Duration.ofSeconds(30)).build();
    static HikariDataSource database;

    interface Route {
        String answer(String id) throws Exception;
    }

    public static void main(String[] args) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://127.0.0.1:5432/postgres");
        config.setUsername("app");
        database = new HikariDataSource(config);
        WebServer.builder()
                .host("127.0.0.1")
                .port(Integer.parseInt(System.getenv("PORT")))
                .routing(Helidon::routes)
                .build()
                .start();
    }

    static void routes(HttpRouting.Builder routing) {
        routing.get("/seq/{id}", (request, response) -> answer(Helidon::seq, request, response))
                .get("/par/{id}", (request, response) -> answer(Helidon::par, request, response))
                .get("/tx/{id}", (request, response) -> answer(Helidon::tx, request, response))
                .get("/nest/{id}", (request, response) -> answer(Helidon::nest, request, response))
                .get("/deep/{id}", (request, response) -> answer(Helidon::deep, request, response))
                .get("/race/{id}", (request, response) -> answer(Helidon::race, request, response))
                .get("/later/{id}", (request, response) -> answer(Helidon::later, request, response));
    }

    static void answer(Route route, ServerRequest request, ServerResponse response) throws Exception {
        response.send(route.answer(request.path().pathParameters().get("id")));
    }

    static String get(String url) {
        return http.get(url).requestEntity(String.class);
    }

    static int execute(Connection connection, String sql, String id) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, id);
            return statement.executeUpdate();
        }
    }

    static String item(String id) throws SQLException {
        try (Connection connection = database.getConnection();
                PreparedStatement statement = connection.prepareStatement("SELECT name FROM items WHERE id = ?")) {
            statement.setString(1, id);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(1) : "none";
            }
        }
    }

    static String seq(String id) throws Exception {
        String cached = redis.get("item:" + id), item = item(id), price = get(LEAF + "/price/" + id);
        redis.setex("item:" + id, 60, item);
        return cached + item + price;
    }

    static String par(String id) throws Exception {
        try (var scope = StructuredTaskScope.open()) {
            Subtask<String> cached = scope.fork(() -> redis.get("item:" + id));
            Subtask<String> item = scope.fork(() -> item(id));
            Subtask<String> price = scope.fork(() -> get(LEAF + "/price/" + id));
            Subtask<String> stock = scope.fork(() -> get(LEAF + "/stock/" + id));
            scope.join();
            return cached.get() + item.get() + price.get() + stock.get();
        }
    }

    static String tx(String id) throws Exception {
        try (Connection connection = database.getConnection()) {
            connection.setAutoCommit(false);
            execute(connection, "INSERT INTO orders (id, item) VALUES (?, 'book')", id);
            execute(connection, "UPDATE orders SET state = 'paid' WHERE id = ?", id);
            connection.commit();
        }
        redis.del("item:" + id);
        return get(LEAF + "/ship/" + id);
    }

    static String nest(String id) throws Exception {
        redis.incr("seen:" + id);
        try (var scope = StructuredTaskScope.open()) {
            Subtask<String> item = scope.fork(() -> get(BACK + "/seq/" + id));
            String price = get(LEAF + "/price/" + id);
            scope.join();
            return item.get() + price;
        }
    }

    /** Scopes in a scope, and a parallel stream: virtual threads fork tasks to the common pool. */
    static String deep(String id) throws Exception {
        try (var scope = StructuredTaskScope.open(Joiner.<String>allSuccessfulOrThrow())) {
            scope.fork(() -> {
                try (var inner = StructuredTaskScope.open(Joiner.<String>allSuccessfulOrThrow())) {
                    inner.fork(() -> get(LEAF + "/inner0/" + id));
                    inner.fork(() -> get(LEAF + "/inner1/" + id));
                    return inner.join().map(Subtask::get).collect(Collectors.joining());
                }
            });
            scope.fork(() -> IntStream.range(0, 3).parallel().mapToObj(i -> get(LEAF + "/part" + i + "/" + id))
                    .collect(Collectors.joining()));
            String all = scope.join().map(Subtask::get).collect(Collectors.joining());
            return all + item(id);
        }
    }

    /** The first answer wins, and the other call is interrupted. */
    static String race(String id) throws Exception {
        try (var scope = StructuredTaskScope.open(Joiner.<String>anySuccessfulResultOrThrow())) {
            scope.fork(() -> get(LEAF + "/near/" + id));
            scope.fork(() -> get(LEAF + "/far/" + id));
            return scope.join() + redis.get("item:" + id);
        }
    }

    static String later(String id) {
        Thread.startVirtualThread(() -> {
            redis.incr("seen:" + id);
            get(LEAF + "/mail/" + id);
        });
        return id;
    }
}
