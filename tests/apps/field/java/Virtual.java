// Spring Boot 4 with virtual threads: RestClient over the JDK's HttpClient, JdbcClient over HikariCP, Lettuce.
package field;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestClient;

@SpringBootApplication
@EnableAsync
public class Virtual {
    public static void main(String[] args) {
        SpringApplication.run(Virtual.class, args);
    }

    /** The sources are compiled by Java 17, which has no name for this method. */
    static ExecutorService perTask() {
        try {
            return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}

@Service
class Orders {
    private final JdbcClient jdbc;
    private final StringRedisTemplate redis;

    Orders(JdbcClient jdbc, StringRedisTemplate redis) {
        this.jdbc = jdbc;
        this.redis = redis;
    }

    @Transactional
    public void order(String id) {
        jdbc.sql("INSERT INTO orders (id, item) VALUES (:id, 'book')").param("id", id).update();
        jdbc.sql("UPDATE orders SET state = 'paid' WHERE id = :id").param("id", id).update();
    }

    /** Runs after the answer. */
    @Async
    public void report(String id) {
        jdbc.sql("UPDATE items SET stock = stock - 1 WHERE id = :id").param("id", id).update();
        redis.opsForValue().increment("seen:" + id);
    }
}

@RestController
class Items {
    private final JdbcClient jdbc;
    private final StringRedisTemplate redis;
    private final RestClient rest;
    private final Orders orders;
    private final String leaf, back;

    Items(JdbcClient jdbc, StringRedisTemplate redis, RestClient.Builder rest, Orders orders,
            @Value("${leaf.url}") String leaf, @Value("${back.url}") String back) {
        this.jdbc = jdbc;
        this.redis = redis;
        this.rest = rest.build();
        this.orders = orders;
        this.leaf = leaf;
        this.back = back;
    }

    private Object item(String id) {
        return jdbc.sql("SELECT name, stock FROM items WHERE id = :id").param("id", id).query().listOfRows();
    }

    private Map<?, ?> get(String url, String id) {
        return rest.get().uri(url, id).retrieve().body(Map.class);
    }

    @GetMapping("/seq/{id}")
    Object seq(@PathVariable String id) {
        String cached = redis.opsForValue().get("item:" + id);
        Object rows = item(id);
        Object price = get(leaf + "/price/{id}", id);
        redis.opsForValue().set("item:" + id, rows.toString(), Duration.ofMinutes(1));
        return Map.of("id", id, "cached", String.valueOf(cached), "rows", rows, "price", price);
    }

    @GetMapping("/par/{id}")
    Object par(@PathVariable String id) throws Exception {
        ExecutorService tasks = Virtual.perTask();
        try {
            var cached = tasks.submit(() -> String.valueOf(redis.opsForValue().get("item:" + id)));
            var rows = tasks.submit(() -> item(id));
            var price = tasks.submit(() -> get(leaf + "/price/{id}", id));
            var stock = tasks.submit(() -> get(leaf + "/stock/{id}", id));
            return Map.of("cached", cached.get(), "rows", rows.get(), "price", price.get(), "stock", stock.get());
        } finally {
            tasks.shutdown();
        }
    }

    @GetMapping("/tx/{id}")
    Object tx(@PathVariable String id) {
        orders.order(id);
        redis.delete("item:" + id);
        return Map.of("id", id, "ship", get(leaf + "/ship/{id}", id));
    }

    @GetMapping("/nest/{id}")
    Object nest(@PathVariable String id) throws Exception {
        Long seen = redis.opsForValue().increment("seen:" + id);
        ExecutorService tasks = Virtual.perTask();
        try {
            var item = tasks.submit(() -> get(back + "/seq/{id}", id));
            Object price = get(leaf + "/price/{id}", id);
            return Map.of("id", id, "seen", seen, "item", item.get(), "price", price);
        } finally {
            tasks.shutdown();
        }
    }

    @GetMapping("/later/{id}")
    Object later(@PathVariable String id) {
        orders.report(id);
        return get(leaf + "/price/{id}", id);
    }
}
