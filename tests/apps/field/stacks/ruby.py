"""Ruby: Sinatra on Puma, with packages of the system."""

from stack import THREADS, App, Stack
from stacks.go import go

ROUTES = ("seq", "par", "tx", "nest", "deep", "later", "stream")


def puma(*options, **env):
    command = ["puma", "-q", "-b", "tcp://127.0.0.1:{port}", "-e", "production", *options, "{here}/ruby/config.ru"]
    return App(
        command,
        env,
        programs=("puma",),
        packages=("ruby-sinatra", "ruby-concurrent", "ruby-redis", "ruby-pg", "ruby-sequel"),
    )


STACKS = {
    "sinatra": Stack(
        "Ruby: Sinatra on Puma, Sequel, redis-rb, Net::HTTP in front of Go's net/http",
        puma(),
        THREADS,
        routes=ROUTES,
        back=go("nethttp"),
    ),
    "sinatra-workers": Stack(
        "Ruby: Sinatra on Puma with two workers and kept connections, in front of Sinatra with one",
        puma("-w", "2", "-t", "8:8", KEEP="on"),
        THREADS,
        routes=ROUTES,
        back=puma("-t", "1:16"),
    ),
}
