// Spring WebFlux on Netty: WebClient, R2DBC with its pool, reactive Lettuce.
package field;

import java.time.Duration;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.data.redis.core.ReactiveStringRedisTemplate;
import org.springframework.r2dbc.core.DatabaseClient;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

@SpringBootApplication
public class Webflux {
    public static void main(String[] args) {
        SpringApplication.run(Webflux.class, args);
    }
}

@Service
class Orders {
    private final DatabaseClient database;

    Orders(DatabaseClient database) {
        this.database = database;
    }

    @Transactional
    public Mono<Void> order(String id) {
        return database.sql("INSERT INTO orders (id, item) VALUES (:id, :item)").bind("id", id).bind("item", "book")
                .then()
                .then(database.sql("UPDATE orders SET state = 'paid' WHERE id = :id").bind("id", id).then());
    }
}

@RestController
class Items {
    private final DatabaseClient database;
    private final ReactiveStringRedisTemplate redis;
    private final WebClient web;
    private final Orders orders;
    private final String leaf, back;

    Items(DatabaseClient database, ReactiveStringRedisTemplate redis, WebClient.Builder web, Orders orders,
            @Value("${leaf.url}") String leaf, @Value("${back.url}") String back) {
        this.database = database;
        this.redis = redis;
        this.web = web.build();
        this.orders = orders;
        this.leaf = leaf;
        this.back = back;
    }

    private Mono<Object> item(String id) {
        return database.sql("SELECT name, stock FROM items WHERE id = :id").bind("id", id).fetch().all().collectList()
                .cast(Object.class);
    }

    private Mono<Map> get(String url, String id) {
        return web.get().uri(url, id).retrieve().bodyToMono(Map.class);
    }

    private Mono<String> cached(String id) {
        return redis.opsForValue().get("item:" + id).defaultIfEmpty("");
    }

    @GetMapping("/seq/{id}")
    Mono<Map<String, Object>> seq(@PathVariable String id) {
        return cached(id).flatMap(cached -> item(id)
                .flatMap(rows -> get(leaf + "/price/{id}", id)
                        .flatMap(price -> redis.opsForValue().set("item:" + id, rows.toString(), Duration.ofMinutes(1))
                                .thenReturn(Map.of("id", id, "cached", cached, "rows", rows, "price", price)))));
    }

    @GetMapping("/par/{id}")
    Mono<Map<String, Object>> par(@PathVariable String id) {
        return Mono.zip(cached(id), item(id), get(leaf + "/price/{id}", id), get(leaf + "/stock/{id}", id))
                .map(all -> Map.of("id", id, "rows", all.getT2(), "price", all.getT3(), "stock", all.getT4()));
    }

    @GetMapping("/tx/{id}")
    Mono<Map<String, Object>> tx(@PathVariable String id) {
        return orders.order(id).then(redis.delete("item:" + id)).then(get(leaf + "/ship/{id}", id))
                .map(ship -> Map.of("id", id, "ship", ship));
    }

    @GetMapping("/nest/{id}")
    Mono<Map<String, Object>> nest(@PathVariable String id) {
        return redis.opsForValue().increment("seen:" + id)
                .flatMap(seen -> Mono.zip(get(back + "/seq/{id}", id), get(leaf + "/price/{id}", id))
                        .map(both -> Map.of("id", id, "seen", seen, "item", both.getT1(), "price", both.getT2())));
    }

    @GetMapping("/stream/{id}")
    Flux<String> stream(@PathVariable String id) {
        return Flux.concat(cached(id), item(id).map(Object::toString),
                get(leaf + "/price/{id}", id).map(Object::toString));
    }
}
