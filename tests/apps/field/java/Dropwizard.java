// Dropwizard (Jersey on Jetty): JDBI over Tomcat's pool, Redisson, Jersey's client over Apache's, pools of threads.
package field;

import com.fasterxml.jackson.annotation.JsonProperty;
import io.dropwizard.client.JerseyClientBuilder;
import io.dropwizard.client.JerseyClientConfiguration;
import io.dropwizard.configuration.EnvironmentVariableSubstitutor;
import io.dropwizard.configuration.ResourceConfigurationSourceProvider;
import io.dropwizard.configuration.SubstitutingSourceProvider;
import io.dropwizard.core.Application;
import io.dropwizard.core.Configuration;
import io.dropwizard.core.setup.Bootstrap;
import io.dropwizard.core.setup.Environment;
import io.dropwizard.db.DataSourceFactory;
import io.dropwizard.jdbi3.JdbiFactory;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.client.Client;
import jakarta.ws.rs.container.AsyncResponse;
import jakarta.ws.rs.container.Suspended;
import jakarta.ws.rs.core.MediaType;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jdbi.v3.core.Jdbi;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

public class Dropwizard extends Application<Dropwizard.Settings> {
    public static class Settings extends Configuration {
        @JsonProperty
        public DataSourceFactory database = new DataSourceFactory();

        @JsonProperty
        public JerseyClientConfiguration client = new JerseyClientConfiguration();
    }

    public static void main(String[] args) throws Exception {
        new Dropwizard().run("server", "dropwizard.yml");
    }

    @Override
    public void initialize(Bootstrap<Settings> bootstrap) {
        bootstrap.setConfigurationSourceProvider(new SubstitutingSourceProvider(
                new ResourceConfigurationSourceProvider(), new EnvironmentVariableSubstitutor(true)));
    }

    @Override
    public void run(Settings settings, Environment environment) {
        Config redis = new Config();
        redis.setCodec(StringCodec.INSTANCE);
        redis.useSingleServer().setAddress("redis://127.0.0.1:" + System.getenv("REDIS_PORT"));
        environment.jersey().register(new Shop(
                new JdbiFactory().build(environment, settings.database, "postgresql"),
                Redisson.create(redis),
                new JerseyClientBuilder(environment).using(settings.client).build("shop"),
                environment.lifecycle().executorService("shop-%d").minThreads(16).maxThreads(16).build(),
                environment.lifecycle().scheduledExecutorService("later-%d").threads(4).build()));
    }

    @Path("/")
    @Produces(MediaType.APPLICATION_JSON)
    public static class Shop {
        private static final String LEAF = System.getenv("LEAF_URL"), BACK = System.getenv("BACK_URL");
        private final Jdbi jdbi;
        private final RedissonClient redis;
        private final Client http;
        private final ExecutorService executor;
        private final ScheduledExecutorService scheduled;

        Shop(Jdbi jdbi, RedissonClient redis, Client http, ExecutorService executor,
                ScheduledExecutorService scheduled) {
            this.jdbi = jdbi;
            this.redis = redis;
            this.http = http;
            this.executor = executor;
            this.scheduled = scheduled;
        }

        private String get(String url) {
            return http.target(url).request().get(String.class);
        }

        private String cached(String id) {
            return String.valueOf(redis.getBucket("item:" + id).get());
        }

        private String item(String id) {
            return jdbi.withHandle(handle -> handle.createQuery("SELECT name FROM items WHERE id = :id")
                    .bind("id", id).mapTo(String.class).findOne().orElse("none"));
        }

        @GET
        @Path("/seq/{id}")
        public Map<String, String> seq(@PathParam("id") String id) {
            String cached = cached(id), item = item(id), price = get(LEAF + "/price/" + id);
            redis.getBucket("item:" + id).set(item, Duration.ofMinutes(1));
            return Map.of("id", id, "cached", cached, "item", item, "price", price);
        }

        @GET
        @Path("/par/{id}")
        public List<String> par(@PathParam("id") String id) {
            var calls = List.of(
                    CompletableFuture.supplyAsync(() -> cached(id), executor),
                    CompletableFuture.supplyAsync(() -> item(id), executor),
                    CompletableFuture.supplyAsync(() -> get(LEAF + "/price/" + id), executor),
                    CompletableFuture.supplyAsync(() -> get(LEAF + "/stock/" + id), executor));
            return calls.stream().map(CompletableFuture::join).collect(Collectors.toList());
        }

        @GET
        @Path("/tx/{id}")
        public String tx(@PathParam("id") String id) {
            jdbi.useTransaction(handle -> {
                handle.createUpdate("INSERT INTO orders (id, item) VALUES (:id, 'book')").bind("id", id).execute();
                handle.createUpdate("UPDATE orders SET state = 'paid' WHERE id = :id").bind("id", id).execute();
            });
            redis.getBucket("item:" + id).delete();
            return get(LEAF + "/ship/" + id);
        }

        @GET
        @Path("/nest/{id}")
        public Map<String, Object> nest(@PathParam("id") String id) {
            long seen = redis.getAtomicLong("seen:" + id).incrementAndGet();
            var item = CompletableFuture.supplyAsync(() -> get(BACK + "/seq/" + id), executor);
            String price = get(LEAF + "/price/" + id);
            return Map.of("id", id, "seen", seen, "item", item.join(), "price", price);
        }

        /** A parallel stream: threads of the common pool, and the caller's own. */
        @GET
        @Path("/deep/{id}")
        public List<String> deep(@PathParam("id") String id) {
            List<String> parts = IntStream.range(0, 4).parallel().mapToObj(i -> get(LEAF + "/part" + i + "/" + id))
                    .collect(Collectors.toList());
            parts.add(item(id));
            return parts;
        }

        /** The answer comes from another thread, at the end of a chain. */
        @GET
        @Path("/async/{id}")
        public void async(@PathParam("id") String id, @Suspended AsyncResponse response) {
            CompletableFuture.supplyAsync(() -> item(id), executor)
                    .thenCombineAsync(
                            CompletableFuture.supplyAsync(() -> get(LEAF + "/stock/" + id), executor),
                            (item, stock) -> item + stock + get(LEAF + "/price/" + id), executor)
                    .whenComplete((answer, error) -> {
                        if (error == null) {
                            response.resume(answer);
                        } else {
                            response.resume(error);
                        }
                    });
        }

        /** A timer starts what comes after the answer. */
        @GET
        @Path("/later/{id}")
        public Map<String, String> later(@PathParam("id") String id) {
            scheduled.schedule(() -> {
                jdbi.useHandle(handle -> handle.createUpdate("UPDATE items SET stock = stock - 1 WHERE id = :id")
                        .bind("id", id).execute());
                get(LEAF + "/mail/" + id);
            }, 2, TimeUnit.MILLISECONDS);
            return Map.of("id", id);
        }
    }
}
