"""The shapes: what runs in each, and what it needs.

Each is `load → front → mid → leaf` and `front → leaf`; front and mid are what the shape is about, the leaf is always the
C service with a thread per connection (with HTTP/2, one in Go). A proxy stands before the front.
"""

import dataclasses
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
VENV = ROOT / "target" / "servers" / "venv" / "bin" / "python3"


@dataclasses.dataclass
class Shape:
    runtime: str  # of front and mid: one of RUNTIMES
    how: str  # who makes the calls: HOW of the runtime's service
    what: str  # for people
    workers: int = 8
    proxy: str = ""  # before the front
    leaf: str = "c"


# runtime → programs on PATH, what run.py builds, its command
RUNTIMES = {
    "c": (["cc"], "service", ["{build}/service"]),
    "python": ([], None, [sys.executable, "{here}/service.py"]),
    "gevent": ([], None, [VENV, "{here}/service.py"]),
    "java": (["javac", "java"], "Service.class", ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Xss256k", "-cp", "{build}", "Service"]),
    "go": (["go"], "go_service", ["{build}/go_service"]),
    "node": (["node"], None, ["node", "{here}/service.mjs"]),
    "tokio": ([], None, ["{tokio}"]),
}

# Pools with more workers than calls at a time, and with fewer: what a queue does to the hand-over is the hard case.
WIDE, NARROW = 256, 4

SHAPES = {
    "c-thread": Shape("c", "thread", "C, a thread per connection"),
    "python-thread": Shape("python", "thread", "Python, a thread per connection"),
    "java-thread": Shape("java", "thread", "Java, a thread per connection"),
    "c-spawn": Shape("c", "spawn", "C, a new thread for each call"),
    "c-fork": Shape("c", "fork", "C, a new process for each call"),
    "c-fanout": Shape("c", "fanout", "C, a new thread for each call, all at once"),
    "go-seq": Shape("go", "seq", "Go net/http, one call after the other"),
    "go-fanout": Shape("go", "fanout", "Go net/http, a goroutine for each call, all at once"),
    "go-channel": Shape("go", "channel", "Go net/http, worker goroutines by channel", 256),
    "go-h2": Shape("go", "h2", "Go, calls over one HTTP/2 connection", leaf="go"),
    "go-h2-fanout": Shape("go", "h2-fanout", "the same, all at once", leaf="go"),
    "c-pool": Shape("c", "pool", "C, a pool with a condition variable", WIDE),
    "c-pool-full": Shape("c", "pool", "the same, saturated", NARROW),
    "python-pool": Shape("python", "pool", "Python, ThreadPoolExecutor", WIDE),
    "python-pool-full": Shape("python", "pool", "the same, saturated", NARROW),
    "python-fanout": Shape("python", "fanout", "Python, ThreadPoolExecutor, all calls at once", WIDE),
    "java-pool": Shape("java", "pool", "Java, fixed thread pool", WIDE),
    "java-pool-full": Shape("java", "pool", "the same, saturated", NARROW),
    "java-fanout": Shape("java", "fanout", "Java, fixed thread pool, all calls at once", WIDE),
    "node": Shape("node", "http", "Node, kept connections"),
    "node-fanout": Shape("node", "fanout", "Node, all calls at once"),
    "node-h2": Shape("node", "http2", "Node, calls over one HTTP/2 connection", leaf="go"),
    "node-h2-fanout": Shape("node", "http2-fanout", "the same, all at once", leaf="go"),
    "asyncio": Shape("python", "asyncio", "Python asyncio, kept connections"),
    "asyncio-fanout": Shape("python", "asyncio-fanout", "Python asyncio, all calls at once"),
    "nginx": Shape("c", "thread", "nginx with kept upstream connections", proxy="nginx"),
    "haproxy": Shape("c", "thread", "HAProxy with reused upstream connections", proxy="haproxy"),
    "tokio": Shape("tokio", "tokio", "tokio, four worker threads, kept connections"),
    "tokio-fanout": Shape("tokio", "tokio-fanout", "tokio, a task for each call, all at once"),
    "java-reactor": Shape("java", "reactor", "Java, the JDK's selector-driven server and client"),
    "gevent": Shape("gevent", "gevent", "gevent, a greenlet per connection"),
    "gevent-fanout": Shape("gevent", "gevent-fanout", "gevent, a greenlet for each call, all at once"),
}

NGINX = """
daemon off; worker_processes 2; user root; pid {work}/pid; error_log {work}/errors.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000; keepalive_timeout 3600s;
    client_body_temp_path {work}/b; proxy_temp_path {work}/p; fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
    upstream front {{ server 127.0.0.1:{front}; keepalive 64; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{gateway} backlog=1024;
        location / {{ proxy_pass http://front; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream off; }}
    }}
}}
"""

HAPROXY = """
global
    nbthread 2
    maxconn 2000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    retries 0
frontend gateway
    bind 127.0.0.1:{gateway} backlog 1024
    default_backend front
backend front
    http-reuse always
    server one 127.0.0.1:{front}
"""

PROXIES = {
    "nginx": (NGINX, ["nginx", "-p", "{work}", "-c", "{conf}"]),
    "haproxy": (HAPROXY, ["haproxy", "-db", "-f", "{conf}"]),
}
