"""C++: services that are compiled on the spot, with libraries of the system."""

from stack import LOOPS, THREADS, App, Stack

LIBRARIES = ("libhiredis-dev", "libpqxx-dev")


def cpp(name, package):
    return App([f"{{cache}}/field_cpp/{name}"], needs=(f"field_cpp/{name}",), packages=(package, *LIBRARIES))


httplib, pistache = cpp("httplib", "libcpp-httplib-dev"), cpp("pistache", "libpistache-dev")

STACKS = {
    "httplib": Stack(
        "C++: cpp-httplib as server and client, libpqxx, hiredis, std::async, workers at a queue in front of Pistache",
        httplib,
        THREADS,
        routes=("seq", "par", "tx", "nest", "work", "retry", "later"),
        back=pistache,
    ),
    "pistache": Stack(
        "C++: Pistache with its client's event loops, libpqxx, hiredis in front of cpp-httplib",
        pistache,
        LOOPS,
        routes=("seq", "par", "tx", "nest", "async", "later"),
        back=httplib,
    ),
}
