// Spring MVC on Undertow: OpenFeign, JPA (Hibernate) over HikariCP, Spring Data Redis on a pool of Jedis.
package field;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.openfeign.EnableFeignClients;
import org.springframework.cloud.openfeign.FeignClient;
import org.springframework.core.task.AsyncTaskExecutor;
import org.springframework.data.jpa.repository.JpaRepository;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.request.async.DeferredResult;

@SpringBootApplication
@EnableFeignClients
public class Undertow {
    public static void main(String[] args) {
        SpringApplication.run(Undertow.class, args);
    }
}

@Entity
@Table(name = "items")
class Item {
    @Id
    public String id;
    public String name;
    public int stock;
}

@Entity
@Table(name = "orders")
class Order {
    @Id
    public String id;
    public String item, state;
}

interface ItemRepository extends JpaRepository<Item, String> {}

interface OrderRepository extends JpaRepository<Order, String> {}

@FeignClient(name = "leaf", url = "${leaf.url}")
interface LeafClient {
    @GetMapping("/{what}/{id}")
    Map<String, Object> get(@PathVariable String what, @PathVariable String id);
}

@FeignClient(name = "back", url = "${back.url}")
interface BackClient {
    @GetMapping("/seq/{id}")
    Map<String, Object> seq(@PathVariable String id);
}

@Service
class OrderService {
    private final OrderRepository orders;

    OrderService(OrderRepository orders) {
        this.orders = orders;
    }

    /** Hibernate looks for the row, and writes INSERT and UPDATE when the transaction ends. */
    @Transactional
    public void order(String id) {
        Order order = new Order();
        order.id = id;
        order.item = "book";
        order.state = "new";
        order = orders.saveAndFlush(order);
        order.state = "paid";
    }
}

@RestController
class ItemController {
    private final ItemRepository items;
    private final OrderService orders;
    private final StringRedisTemplate redis;
    private final LeafClient leaf;
    private final BackClient back;
    private final AsyncTaskExecutor executor;

    ItemController(ItemRepository items, OrderService orders, StringRedisTemplate redis, LeafClient leaf,
            BackClient back, @Qualifier("applicationTaskExecutor") AsyncTaskExecutor executor) {
        this.items = items;
        this.orders = orders;
        this.redis = redis;
        this.leaf = leaf;
        this.back = back;
        this.executor = executor;
    }

    @GetMapping("/seq/{id}")
    Object seq(@PathVariable String id) {
        String cached = redis.opsForValue().get("item:" + id);
        String item = items.findById(id).map(found -> found.name).orElse("none");
        Object price = leaf.get("price", id);
        redis.opsForValue().set("item:" + id, item, Duration.ofMinutes(1));
        return Map.of("id", id, "cached", String.valueOf(cached), "item", item, "price", price);
    }

    @GetMapping("/par/{id}")
    CompletableFuture<Object> par(@PathVariable String id) {
        var cached = CompletableFuture.supplyAsync(() -> redis.opsForValue().get("item:" + id), executor);
        var item = CompletableFuture.supplyAsync(() -> items.findById(id).map(f -> f.name).orElse("none"), executor);
        var price = CompletableFuture.supplyAsync(() -> leaf.get("price", id), executor);
        var stock = CompletableFuture.supplyAsync(() -> leaf.get("stock", id), executor);
        return CompletableFuture.allOf(cached, item, price, stock)
                .thenApply(all -> Map.of("item", item.join(), "price", price.join(), "stock", stock.join()));
    }

    @GetMapping("/tx/{id}")
    Object tx(@PathVariable String id) {
        orders.order(id);
        redis.delete("item:" + id);
        return Map.of("id", id, "ship", leaf.get("ship", id));
    }

    @GetMapping("/nest/{id}")
    Object nest(@PathVariable String id) throws Exception {
        Long seen = redis.opsForValue().increment("seen:" + id);
        var item = executor.submit(() -> back.seq(id));
        Object price = leaf.get("price", id);
        return Map.of("id", id, "seen", seen, "item", item.get(), "price", price);
    }

    @GetMapping("/async/{id}")
    DeferredResult<Object> async(@PathVariable String id) {
        DeferredResult<Object> result = new DeferredResult<>();
        executor.execute(() -> result.setResult(Map.of("seen", redis.opsForValue().increment("seen:" + id),
                "price", leaf.get("price", id), "there", items.existsById(id))));
        return result;
    }
}
