// Ktor on Netty: coroutines, Ktor's client (CIO), plain JDBC over HikariCP and JedisPooled on Dispatchers.IO.
package field

import com.zaxxer.hikari.HikariConfig
import com.zaxxer.hikari.HikariDataSource
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.request.get
import io.ktor.client.statement.bodyAsText
import io.ktor.server.application.ApplicationCall
import io.ktor.server.engine.embeddedServer
import io.ktor.server.netty.Netty
import io.ktor.server.response.respondText
import io.ktor.server.routing.get
import io.ktor.server.routing.routing
import java.sql.Connection
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.withContext
import redis.clients.jedis.JedisPooled

object Ktor {
    private val leaf = System.getenv("LEAF_URL")
    private val back = System.getenv("BACK_URL")
    private val redis = JedisPooled("127.0.0.1", System.getenv("REDIS_PORT").toInt())
    private val client = HttpClient(CIO)
    private val database = HikariDataSource(HikariConfig().apply {
        jdbcUrl = "jdbc:postgresql://127.0.0.1:5432/postgres"
        username = "app"
    })

    @JvmStatic
    fun main(args: Array<String>) {
        embeddedServer(Netty, port = System.getenv("PORT").toInt(), host = "127.0.0.1") {
            routing {
                get("/seq/{id}") { call.respondText(seq(id(call))) }
                get("/par/{id}") { call.respondText(par(id(call))) }
                get("/tx/{id}") { call.respondText(tx(id(call))) }
                get("/nest/{id}") { call.respondText(nest(id(call))) }
                get("/delay/{id}") { call.respondText(delayed(id(call))) }
            }
        }.start(wait = true)
    }

    private fun id(call: ApplicationCall) = call.parameters["id"]!!

    private suspend fun get(url: String) = client.get(url).bodyAsText()

    private suspend fun <T> cache(ask: JedisPooled.() -> T) = withContext(Dispatchers.IO) { redis.ask() }

    private suspend fun <T> query(ask: (Connection) -> T) = withContext(Dispatchers.IO) { database.connection.use(ask) }

    private fun execute(connection: Connection, sql: String, id: String) =
        connection.prepareStatement(sql).use {
            it.setString(1, id)
            it.executeUpdate()
        }

    private suspend fun item(id: String) = query { connection ->
        connection.prepareStatement("SELECT name FROM items WHERE id = ?").use {
            it.setString(1, id)
            it.executeQuery().use { rows -> if (rows.next()) rows.getString(1) else "none" }
        }
    }

    private suspend fun seq(id: String): String {
        val cached = cache { get("item:$id") }
        val item = item(id)
        val price = get("$leaf/price/$id")
        cache { setex("item:$id", 60, item) }
        return "$id $cached $item $price"
    }

    private suspend fun par(id: String) = coroutineScope {
        val cached = async { cache { get("item:$id") } }
        val item = async { item(id) }
        val price = async { get("$leaf/price/$id") }
        val stock = async { get("$leaf/stock/$id") }
        "${cached.await()} ${item.await()} ${price.await()} ${stock.await()}"
    }

    private suspend fun tx(id: String): String {
        query { connection ->
            connection.autoCommit = false
            execute(connection, "INSERT INTO orders (id, item) VALUES (?, 'book')", id)
            execute(connection, "UPDATE orders SET state = 'paid' WHERE id = ?", id)
            connection.commit()
        }
        cache { del("item:$id") }
        return get("$leaf/ship/$id")
    }

    private suspend fun nest(id: String) = coroutineScope {
        val seen = cache { incr("seen:$id") }
        val item = async { get("$back/seq/$id") }
        val price = get("$leaf/price/$id")
        "$seen ${item.await()} $price"
    }

    /** A timer resumes the coroutine. */
    private suspend fun delayed(id: String): String {
        val cached = cache { get("item:$id") }
        delay(3)
        return "$cached ${item(id)} ${get("$leaf/price/$id")}"
    }
}
