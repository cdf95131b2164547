// Kotlin's coroutines: Ktor on Netty with its CIO client and JDBC on Dispatchers.IO, and Ktor's CIO engine with Apache's
// client and R2DBC. Both use Lettuce's coroutines.
package field

import com.zaxxer.hikari.HikariConfig
import com.zaxxer.hikari.HikariDataSource
import io.ktor.client.HttpClient
import io.ktor.client.engine.apache5.Apache5
import io.ktor.client.request.get
import io.ktor.client.statement.bodyAsText
import io.ktor.server.application.Application
import io.ktor.server.engine.embeddedServer
import io.ktor.server.netty.Netty
import io.ktor.server.response.respondText
import io.ktor.server.routing.RoutingCall
import io.ktor.server.routing.get
import io.ktor.server.routing.routing
import io.lettuce.core.ExperimentalLettuceCoroutinesApi
import io.lettuce.core.RedisClient
import io.lettuce.core.SetArgs
import io.lettuce.core.api.coroutines
import io.r2dbc.pool.ConnectionPool
import io.r2dbc.pool.ConnectionPoolConfiguration
import io.r2dbc.spi.ConnectionFactories
import java.sql.Connection
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.reactive.awaitFirstOrNull
import kotlinx.coroutines.reactive.awaitSingle
import kotlinx.coroutines.withContext

private val leaf = System.getenv("LEAF_URL")
private val back = System.getenv("BACK_URL")
private val port = System.getenv("PORT").toInt()

private const val ITEM = "SELECT name FROM items WHERE id = "
private const val INSERT = "INSERT INTO orders (id, item) VALUES "
private const val UPDATE = "UPDATE orders SET state = 'paid' WHERE id = "

object KtorNetty {
    @JvmStatic
    fun main(arguments: Array<String>) {
        embeddedServer(Netty, port, "127.0.0.1") { shop(HttpClient(io.ktor.client.engine.cio.CIO), Jdbc()) }
            .start(wait = true)
    }
}

object KtorCio {
    @JvmStatic
    fun main(arguments: Array<String>) {
        embeddedServer(io.ktor.server.cio.CIO, port, "127.0.0.1") { shop(HttpClient(Apache5), Reactive()) }
            .start(wait = true)
    }
}

interface Orders {
    suspend fun item(id: String): String
    suspend fun order(id: String)
}

class Jdbc : Orders {
    private val pool = HikariDataSource(HikariConfig().apply {
        jdbcUrl = "jdbc:postgresql://127.0.0.1:5432/postgres"
        username = "app"
    })

    private fun Connection.execute(sql: String, id: String) = prepareStatement(sql).use {
        it.setString(1, id)
        it.executeUpdate()
    }

    override suspend fun item(id: String) = withContext(Dispatchers.IO) {
        pool.connection.use { connection ->
            connection.prepareStatement("$ITEM?").use {
                it.setString(1, id)
                it.executeQuery().use { rows -> if (rows.next()) rows.getString(1) else "none" }
            }
        }
    }

    override suspend fun order(id: String): Unit = withContext(Dispatchers.IO) {
        pool.connection.use {
            it.autoCommit = false
            it.execute("$INSERT(?, 'book')", id)
            it.execute("$UPDATE?", id)
            it.commit()
        }
    }
}

class Reactive : Orders {
    private val pool = ConnectionPool(
        ConnectionPoolConfiguration.builder(ConnectionFactories.get("r2dbc:postgresql://app@127.0.0.1:5432/postgres"))
            .build())

    private suspend fun <T> connected(block: suspend (io.r2dbc.spi.Connection) -> T): T {
        val connection = pool.create().awaitSingle()
        try {
            return block(connection)
        } finally {
            connection.close().awaitFirstOrNull()
        }
    }

    override suspend fun item(id: String) = connected { connection ->
        val result = connection.createStatement("$ITEM\$1").bind("$1", id).execute().awaitSingle()
        result.map { row, _ -> row.get(0, String::class.java)!! }.awaitFirstOrNull() ?: "none"
    }

    override suspend fun order(id: String) = connected { connection ->
        connection.beginTransaction().awaitFirstOrNull()
        for (sql in listOf("$INSERT(\$1, 'book')", "$UPDATE\$1")) {
            connection.createStatement(sql).bind("$1", id).execute().awaitSingle().rowsUpdated.awaitSingle()
        }
        connection.commitTransaction().awaitFirstOrNull()
        Unit
    }
}

@OptIn(ExperimentalLettuceCoroutinesApi::class)
private fun Application.shop(http: HttpClient, orders: Orders) {
    val redis = RedisClient.create("redis://127.0.0.1:${System.getenv("REDIS_PORT")}").connect().coroutines()
    suspend fun fetch(url: String) = http.get(url).bodyAsText()
    fun id(call: RoutingCall) = call.pathParameters["id"]!!
    routing {
        get("/seq/{id}") {
            val id = id(call)
            val cached = redis.get("item:$id")
            val item = orders.item(id)
            val price = fetch("$leaf/price/$id")
            redis.set("item:$id", item, SetArgs.Builder.ex(60))
            call.respondText("$id $cached $item $price")
        }
        get("/par/{id}") {
            val id = id(call)
            val all = coroutineScope {
                listOf(
                    async { redis.get("item:$id") },
                    async { orders.item(id) },
                    async { fetch("$leaf/price/$id") },
                    async { fetch("$leaf/stock/$id") },
                ).awaitAll()
            }
            call.respondText(all.joinToString())
        }
        get("/tx/{id}") {
            val id = id(call)
            orders.order(id)
            redis.del("item:$id")
            call.respondText(fetch("$leaf/ship/$id"))
        }
        get("/nest/{id}") {
            val id = id(call)
            val seen = redis.incr("seen:$id")
            coroutineScope {
                val item = async { fetch("$back/seq/$id") }
                val price = fetch("$leaf/price/$id")
                call.respondText("$seen ${item.await()} $price")
            }
        }
        get("/later/{id}") {
            val id = id(call)
            this@shop.launch {
                delay(5)
                fetch("$leaf/report/$id")
            }
            call.respondText("$id ${redis.get("item:$id")}")
        }
    }
}
