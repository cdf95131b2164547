// Javalin (Jetty): plain JDBC over HikariCP, JedisPooled, OkHttp, a pool of threads; answers later by the JDK's client.
package field;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.javalin.http.Context;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.Response;
import redis.clients.jedis.JedisPooled;

public class Javalin {
    static final String LEAF = System.getenv("LEAF_URL"), BACK = System.getenv("BACK_URL");
    static final JedisPooled redis = new JedisPooled("127.0.0.1", Integer.parseInt(System.getenv("REDIS_PORT")));
    static final OkHttpClient http = new OkHttpClient();
    static final HttpClient client = HttpClient.newHttpClient();
    static final ExecutorService executor = Executors.newFixedThreadPool(16);
    static HikariDataSource database;

    public static void main(String[] args) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://127.0.0.1:5432/postgres");
        config.setUsername("app");
        database = new HikariDataSource(config);
        io.javalin.Javalin.create()
                .get("/seq/{id}", Javalin::seq)
                .get("/par/{id}", Javalin::par)
                .get("/tx/{id}", Javalin::tx)
                .get("/nest/{id}", Javalin::nest)
                .get("/async/{id}", Javalin::async)
                .start("127.0.0.1", Integer.parseInt(System.getenv("PORT")));
    }

    static String get(String url) throws Exception {
        try (Response response = http.newCall(new Request.Builder().url(url).build()).execute()) {
            return response.body().string();
        }
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

    static void seq(Context context) throws Exception {
        String id = context.pathParam("id");
        String cached = redis.get("item:" + id);
        String item = item(id);
        String price = get(LEAF + "/price/" + id);
        redis.setex("item:" + id, 60, item);
        context.json(Map.of("id", id, "cached", String.valueOf(cached), "item", item, "price", price));
    }

    static void par(Context context) throws Exception {
        String id = context.pathParam("id");
        List<Callable<String>> calls = List.of(() -> redis.get("item:" + id), () -> item(id),
                () -> get(LEAF + "/price/" + id), () -> get(LEAF + "/stock/" + id));
        StringBuilder all = new StringBuilder();
        for (var done : executor.invokeAll(calls)) {
            all.append(done.get());
        }
        context.result(all.toString());
    }

    static void tx(Context context) throws Exception {
        String id = context.pathParam("id");
        try (Connection connection = database.getConnection()) {
            connection.setAutoCommit(false);
            execute(connection, "INSERT INTO orders (id, item) VALUES (?, 'book')", id);
            execute(connection, "UPDATE orders SET state = 'paid' WHERE id = ?", id);
            connection.commit();
        }
        redis.del("item:" + id);
        context.result(get(LEAF + "/ship/" + id));
    }

    static void nest(Context context) throws Exception {
        String id = context.pathParam("id");
        long seen = redis.incr("seen:" + id);
        var item = executor.submit(() -> get(BACK + "/seq/" + id));
        String price = get(LEAF + "/price/" + id);
        context.result(seen + item.get() + price);
    }

    /** The JDK's client calls back in its own executor; the answer is sent from there. */
    static void async(Context context) {
        String id = context.pathParam("id");
        HttpRequest price = HttpRequest.newBuilder(URI.create(LEAF + "/price/" + id)).build();
        HttpRequest stock = HttpRequest.newBuilder(URI.create(LEAF + "/stock/" + id)).build();
        context.future(() -> client.sendAsync(price, BodyHandlers.ofString())
                .thenApply(got -> got.body() + redis.get("item:" + id))
                .thenCompose(got -> client.sendAsync(stock, BodyHandlers.ofString()))
                .thenAccept(got -> context.result(got.body())));
    }
}
