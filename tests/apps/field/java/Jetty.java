// Spring MVC on Jetty: RestClient over Apache's HttpClient, TransactionTemplate over HikariCP, a pool of Jedis, @Async.
package field;

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.stereotype.Service;
import org.springframework.transaction.support.TransactionTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestClient;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;

@SpringBootApplication
@EnableAsync
public class Jetty {
    public static void main(String[] args) {
        SpringApplication.run(Jetty.class, args);
    }

    @Bean
    JedisPool jedisPool(@Value("${spring.data.redis.port}") int port) {
        return new JedisPool("127.0.0.1", port);
    }
}

@Service
class Shop {
    private final JdbcClient jdbc;
    private final JedisPool pool;
    private final RestClient rest;

    Shop(JdbcClient jdbc, JedisPool pool, RestClient.Builder rest) {
        this.jdbc = jdbc;
        this.pool = pool;
        this.rest = rest.build();
    }

    Object item(String id) {
        return jdbc.sql("SELECT name, stock FROM items WHERE id = ?").param(id).query().listOfRows();
    }

    String cached(String id) {
        try (Jedis jedis = pool.getResource()) {
            return String.valueOf(jedis.get("item:" + id));
        }
    }

    Map<?, ?> get(String url, String id) {
        return rest.get().uri(url, id).retrieve().body(Map.class);
    }

    @Async
    public CompletableFuture<String> cachedLater(String id) {
        return CompletableFuture.completedFuture(cached(id));
    }

    @Async
    public CompletableFuture<Object> itemLater(String id) {
        return CompletableFuture.completedFuture(item(id));
    }

    @Async
    public CompletableFuture<Map<?, ?>> getLater(String url, String id) {
        return CompletableFuture.completedFuture(get(url, id));
    }

    /** Runs after the answer. */
    @Async
    public void report(String url, String id) {
        jdbc.sql("UPDATE items SET stock = stock - 1 WHERE id = ?").param(id).update();
        get(url, id);
    }
}

@RestController
class Items {
    private final Shop shop;
    private final JdbcClient jdbc;
    private final JedisPool pool;
    private final TransactionTemplate transaction;
    private final String leaf, back;

    Items(Shop shop, JdbcClient jdbc, JedisPool pool, TransactionTemplate transaction,
            @Value("${leaf.url}") String leaf, @Value("${back.url}") String back) {
        this.shop = shop;
        this.jdbc = jdbc;
        this.pool = pool;
        this.transaction = transaction;
        this.leaf = leaf;
        this.back = back;
    }

    @GetMapping("/seq/{id}")
    Object seq(@PathVariable String id) {
        String cached = shop.cached(id);
        Object rows = shop.item(id);
        Object price = shop.get(leaf + "/price/{id}", id);
        try (Jedis jedis = pool.getResource()) {
            jedis.setex("item:" + id, 60, rows.toString());
        }
        return Map.of("id", id, "cached", cached, "rows", rows, "price", price);
    }

    @GetMapping("/par/{id}")
    Object par(@PathVariable String id) throws Exception {
        var cached = shop.cachedLater(id);
        var rows = shop.itemLater(id);
        var price = shop.getLater(leaf + "/price/{id}", id);
        var stock = shop.getLater(leaf + "/stock/{id}", id);
        return Map.of("cached", cached.get(), "rows", rows.get(), "price", price.get(), "stock", stock.get());
    }

    @GetMapping("/tx/{id}")
    Object tx(@PathVariable String id) {
        transaction.executeWithoutResult(status -> {
            jdbc.sql("INSERT INTO orders (id, item) VALUES (?, ?)").params(id, "book").update();
            jdbc.sql("UPDATE orders SET state = 'paid' WHERE id = ?").param(id).update();
        });
        try (Jedis jedis = pool.getResource()) {
            jedis.del("item:" + id);
        }
        return Map.of("id", id, "ship", shop.get(leaf + "/ship/{id}", id));
    }

    /** The handler's rest runs in another thread of Spring. */
    @GetMapping("/nest/{id}")
    Callable<Object> nest(@PathVariable String id) {
        long seen;
        try (Jedis jedis = pool.getResource()) {
            seen = jedis.incr("seen:" + id);
        }
        return () -> {
            var item = CompletableFuture.supplyAsync(() -> shop.get(back + "/seq/{id}", id));
            Object price = shop.get(leaf + "/price/{id}", id);
            return Map.of("id", id, "seen", seen, "item", item.get(), "price", price);
        };
    }

    @GetMapping("/later/{id}")
    Object later(@PathVariable String id) {
        shop.report(leaf + "/report/{id}", id);
        return Map.of("id", id, "cached", shop.cached(id));
    }
}
