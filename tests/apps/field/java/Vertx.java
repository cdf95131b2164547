// Vert.x: one event loop with its web server, web client, PostgreSQL client and Redis client.
package field;

import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.PoolOptions;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.client.HttpResponse;
import io.vertx.ext.web.client.WebClient;
import io.vertx.ext.web.client.WebClientOptions;
import io.vertx.pgclient.PgBuilder;
import io.vertx.redis.client.Redis;
import io.vertx.redis.client.RedisAPI;
import io.vertx.redis.client.RedisOptions;
import io.vertx.sqlclient.Pool;
import io.vertx.sqlclient.Row;
import io.vertx.sqlclient.Tuple;
import java.util.List;
import java.util.stream.StreamSupport;

public class Vertx extends VerticleBase {
    private static final String LEAF = System.getenv("LEAF_URL"), BACK = System.getenv("BACK_URL");
    private WebClient web;
    private Pool database;
    private RedisAPI redis;

    public static void main(String[] args) {
        io.vertx.core.Vertx.vertx().deployVerticle(new Vertx()).onFailure(Throwable::printStackTrace);
    }

    @Override
    public Future<HttpServer> start() {
        web = WebClient.create(vertx, new WebClientOptions(), new PoolOptions().setHttp1MaxSize(64));
        database = PgBuilder.pool().connectingTo(System.getenv("DATABASE_URL")).using(vertx).build();
        String url = "redis://127.0.0.1:" + System.getenv("REDIS_PORT");
        var options = new RedisOptions().setConnectionString(url).setMaxPoolWaiting(256);
        redis = RedisAPI.api(Redis.createClient(vertx, options));
        Router router = Router.router(vertx);
        router.get("/seq/:id").respond(context -> seq(id(context)));
        router.get("/par/:id").respond(context -> par(id(context)));
        router.get("/tx/:id").respond(context -> tx(id(context)));
        router.get("/nest/:id").respond(context -> nest(id(context)));
        router.get("/thread/:id").respond(context -> thread(id(context)));
        return vertx.createHttpServer().requestHandler(router)
                .listen(Integer.parseInt(System.getenv("PORT")), "127.0.0.1");
    }

    private static String id(RoutingContext context) {
        return context.pathParam("id");
    }

    private Future<JsonArray> item(String id) {
        return database.preparedQuery("SELECT name, stock FROM items WHERE id = $1").execute(Tuple.of(id))
                .map(rows -> new JsonArray(StreamSupport.stream(rows.spliterator(), false).map(Row::toJson).toList()));
    }

    private Future<JsonObject> get(String url) {
        return web.getAbs(url).send().map(HttpResponse::bodyAsJsonObject);
    }

    private Future<JsonObject> seq(String id) {
        return redis.get("item:" + id).compose(cached -> item(id)
                .compose(rows -> get(LEAF + "/price/" + id)
                        .compose(price -> redis.setex("item:" + id, "60", rows.encode())
                                .map(ok -> new JsonObject().put("id", id).put("rows", rows).put("price", price)))));
    }

    private Future<JsonObject> par(String id) {
        var price = get(LEAF + "/price/" + id);
        var stock = get(LEAF + "/stock/" + id);
        return Future.all(redis.get("item:" + id), item(id), price, stock)
                .map(all -> new JsonObject().put("price", price.result()).put("stock", stock.result()));
    }

    private Future<JsonObject> tx(String id) {
        return database
                .withTransaction(connection -> connection
                        .preparedQuery("INSERT INTO orders (id, item) VALUES ($1, $2)").execute(Tuple.of(id, "book"))
                        .compose(done -> connection.preparedQuery("UPDATE orders SET state = 'paid' WHERE id = $1")
                                .execute(Tuple.of(id))))
                .compose(done -> redis.del(List.of("item:" + id)))
                .compose(done -> get(LEAF + "/ship/" + id));
    }

    private Future<JsonObject> nest(String id) {
        return redis.incr("seen:" + id).compose(seen -> {
            var price = get(LEAF + "/price/" + id);
            return get(BACK + "/seq/" + id).compose(item -> price)
                    .map(got -> new JsonObject().put("seen", seen.toLong()).put("price", got));
        });
    }

    /** Blocking work in a thread of the worker pool, between two calls of the loop. */
    private Future<JsonObject> thread(String id) {
        return redis.get("item:" + id).compose(cached -> vertx.executeBlocking(() -> {
            Thread.sleep(2);
            return id;
        })).compose(same -> item(same)).compose(rows -> get(LEAF + "/price/" + id));
    }
}
