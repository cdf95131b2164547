// Spring MVC on Tomcat: RestTemplate, JdbcTemplate over HikariCP, Lettuce (one connection for all threads).
package field;

import java.io.FileInputStream;
import java.io.InputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;

@SpringBootApplication
public class Tomcat {
    public static void main(String[] args) throws Exception {
        String trusted = System.getenv("TLS_CERT");
        if (trusted != null) {
            SSLContext.setDefault(trust(trusted));
        }
        SpringApplication.run(Tomcat.class, args);
    }

    /** A context whose clients trust one certificate. */
    private static SSLContext trust(String file) throws Exception {
        KeyStore known = KeyStore.getInstance("PKCS12");
        known.load(null, null);
        try (InputStream in = new FileInputStream(file)) {
            known.setCertificateEntry("own", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(known);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    @Bean
    RestTemplate restTemplate() {
        return new RestTemplate();
    }
}

@Service
class Orders {
    private final JdbcTemplate jdbc;

    Orders(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    @Transactional
    public void order(String id) {
        jdbc.update("INSERT INTO orders (id, item) VALUES (?, ?)", id, "book");
        jdbc.update("UPDATE orders SET state = 'paid' WHERE id = ?", id);
    }
}

@RestController
class Items {
    private final JdbcTemplate jdbc;
    private final StringRedisTemplate redis;
    private final RestTemplate rest;
    private final Orders orders;
    private final String leaf, back;

    Items(JdbcTemplate jdbc, StringRedisTemplate redis, RestTemplate rest, Orders orders,
            @Value("${leaf.url}") String leaf, @Value("${back.url}") String back) {
        this.jdbc = jdbc;
        this.redis = redis;
        this.rest = rest;
        this.orders = orders;
        this.leaf = leaf;
        this.back = back;
    }

    private Object item(String id) {
        return jdbc.queryForList("SELECT name, stock FROM items WHERE id = ?", id);
    }

    @GetMapping("/seq/{id}")
    Object seq(@PathVariable String id) {
        String cached = redis.opsForValue().get("item:" + id);
        Object rows = item(id);
        Object price = rest.getForObject(leaf + "/price/{id}", Map.class, id);
        redis.opsForValue().set("item:" + id, rows.toString(), Duration.ofMinutes(1));
        return Map.of("id", id, "cached", String.valueOf(cached), "rows", rows, "price", price);
    }

    @GetMapping("/par/{id}")
    Object par(@PathVariable String id) {
        var cached = CompletableFuture.supplyAsync(() -> redis.opsForValue().get("item:" + id));
        var rows = CompletableFuture.supplyAsync(() -> item(id));
        var price = CompletableFuture.supplyAsync(() -> rest.getForObject(leaf + "/price/{id}", Map.class, id));
        var stock = CompletableFuture.supplyAsync(() -> rest.getForObject(leaf + "/stock/{id}", Map.class, id));
        CompletableFuture.allOf(cached, rows, price, stock).join();
        return Map.of("id", id, "rows", rows.join(), "price", price.join(), "stock", stock.join());
    }

    @GetMapping("/tx/{id}")
    Object tx(@PathVariable String id) {
        orders.order(id);
        redis.delete("item:" + id);
        return Map.of("id", id, "ship", rest.getForObject(leaf + "/ship/{id}", Map.class, id));
    }

    @GetMapping("/nest/{id}")
    Object nest(@PathVariable String id) {
        Long seen = redis.opsForValue().increment("seen:" + id);
        var item = CompletableFuture.supplyAsync(() -> rest.getForObject(back + "/seq/{id}", Map.class, id));
        Object price = rest.getForObject(leaf + "/price/{id}", Map.class, id);
        return Map.of("id", id, "seen", seen, "item", item.join(), "price", price);
    }

    @GetMapping("/stream/{id}")
    StreamingResponseBody stream(@PathVariable String id) {
        String cached = redis.opsForValue().get("item:" + id);
        return out -> {
            out.write(String.valueOf(cached).getBytes());
            out.flush();
            out.write(item(id).toString().getBytes());
            out.write(rest.getForObject(leaf + "/price/{id}", Map.class, id).toString().getBytes());
        };
    }
}
