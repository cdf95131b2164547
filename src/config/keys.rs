//! Every key, its description and its default. Where a stage has an option for the key, the default is the option's.
//! Long because docs/configuration.md is generated from this one file.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use wirespan_capture::FlowOptions;
use wirespan_join::JoinConfig;
use wirespan_plugin::Limits;
use wirespan_trace::SolverConfig;

const NS_PER_S: u64 = 1_000_000_000;

/// Everything that can be configured. `docs/configuration.md` is generated from this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    /// The kernel programs: which ones run, and how many bytes they copy.
    pub(crate) capture: Capture,
    /// How much each process exchanges with each peer: connections bundled in the kernel.
    pub(crate) flows: Flows,
    /// Packets of watched services: devices on the way of a request; see docs/packets.md.
    pub(crate) packets: Packets,
    /// Protocols that the user adds; see docs/protocols/custom.md.
    pub(crate) protocols: Protocols,
    /// Protocols that WebAssembly plug-ins read; see docs/plugins.md.
    pub(crate) plugin: Vec<Plugin>,
    /// What is shown of messages beyond names and numbers, by protocol; see docs/privacy.md.
    pub(crate) mask: std::collections::BTreeMap<String, Mask>,
    /// How requests and responses are paired.
    pub(crate) join: Join,
    /// Causes of calls that are inferred from time and structure only.
    pub(crate) inference: Inference,
    /// What slow requests waited for; see docs/why.md.
    pub(crate) waits: Waits,
    /// What a trace shows.
    pub(crate) traces: Traces,
    /// Where spans are kept.
    pub(crate) store: Store,
    /// Addresses on which wirespan listens.
    pub(crate) serve: Serve,
    /// Export of traces and metrics over OTLP.
    pub(crate) export: Export,
    /// What `/metrics` shows.
    pub(crate) metrics: Metrics,
}

/// The kernel programs: which ones run, and how many bytes they copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Capture {
    /// Payload bytes copied per call, at most 4096.
    pub(crate) payload_bytes: u32,
    /// KiB of records of a new connection that carry all their payload, until its protocol is known.
    pub(crate) young_kib: u32,
    /// Size of the ring buffer between kernel and agent, MiB; a power of two.
    pub(crate) ring_mib: u32,
    /// How messages are captured: `socket-tracepoints` or `syscall-tracepoints`; empty chooses the best.
    pub(crate) rung: String,
    /// Optional kernel programs to leave out, by the names of `wirespan check --format json`.
    pub(crate) without: Vec<String>,
    /// Attach every kernel program at the start: no call is missed, and every call on every socket costs more. Without
    /// it the programs for io_uring, splice() and the begin of long sends are attached when a target first needs
    /// them, and may miss the first such call.
    pub(crate) hooks_from_start: bool,
    /// Capture messages and make spans of them; without it there are flows only, at a small part of the cost.
    pub(crate) messages: bool,
    /// Follow the actors of the targets' runtimes (goroutines, virtual threads, asyncio, tokio, Node, …); without it
    /// causes come from threads, from hand-overs between threads, and from inference only.
    pub(crate) runtimes: bool,
    /// Load an agent into the Java machines of the targets, without a restart, as `--attach-java`: tasks of executors,
    /// event loops and reactors are then told by the machine. It changes classes of the running program;
    /// see docs/java-attach.md.
    pub(crate) attach_java: bool,
    /// Actors of runtimes (goroutines, virtual threads, greenlets, tasks, streams) whose cause is remembered, at least
    /// 512; the actor that was idle longest is forgotten first.
    pub(crate) actors: u32,
    /// Put trace context into requests of targets, see docs/propagation.md: `off`, `auto` (as `--propagate`), `first`,
    /// `every` or `vouched`.
    pub(crate) propagate: String,
    /// Put trace context into an option of TCP beside requests that are not HTTP/1, as `--propagate-option`.
    pub(crate) propagate_option: bool,
}

impl Default for Capture {
    fn default() -> Self {
        let options = wirespan_capture::Options::default();
        Capture {
            payload_bytes: options.payload_bytes,
            young_kib: options.young_bytes >> 10,
            ring_mib: options.ring_bytes >> 20,
            rung: options.rung.unwrap_or_default(),
            without: options.without,
            hooks_from_start: options.hooks_from_start,
            messages: options.messages,
            runtimes: options.runtimes,
            attach_java: options.attach_java,
            actors: options.actors,
            propagate: options.propagate.as_word().into(),
            propagate_option: options.propagate_options,
        }
    }
}

/// How much each process exchanges with each peer: connections bundled in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Flows {
    /// Bundle flows.
    pub(crate) enabled: bool,
    /// Milliseconds between two drains of the kernel's bundles.
    pub(crate) drain_ms: u64,
    /// Seconds of a record: bundles of several drains become one.
    pub(crate) window_s: u64,
    /// Bundles that fit in the kernel between two drains; further bundles go out one by one, which costs more.
    pub(crate) bundles: u32,
    /// TCP connections that the kernel follows cheaply at a time; further connections are bundled with each message.
    pub(crate) sockets: u32,
}

impl Default for Flows {
    fn default() -> Self {
        let FlowOptions { bundles, sockets } = FlowOptions::default();
        let enabled = wirespan_capture::Options::default().flows.is_some();
        Flows { enabled, drain_ms: 1000, window_s: 10, bundles, sockets }
    }
}

/// Protocols that the user adds; see `docs/protocols/custom.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Protocols {
    /// Directory whose `*.toml` describe protocols; read if it exists.
    pub(crate) dir: PathBuf,
    /// Further files that describe protocols.
    pub(crate) files: Vec<PathBuf>,
}

impl Default for Protocols {
    fn default() -> Self {
        Protocols { dir: "/etc/wirespan/protocols".into(), files: Vec::new() }
    }
}

/// A protocol that a WebAssembly plug-in reads, see docs/plugins.md; one such table for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Plugin {
    /// The module: WebAssembly, binary (`.wasm`) or as text (`.wat`).
    pub(crate) path: PathBuf,
    /// Name of the protocol; empty takes that of the file.
    pub(crate) name: String,
    /// Ports of servers; if there are any, the plug-in is asked about connections to these only.
    pub(crate) ports: Vec<u16>,
    /// Most fuel of one call; a unit is about one instruction.
    pub(crate) fuel: u64,
    /// Most memory of the module, MiB.
    pub(crate) memory_mib: u64,
    /// Faults (each costs a connection) after which the plug-in is switched off.
    pub(crate) faults: u32,
}

impl Default for Plugin {
    fn default() -> Self {
        let Limits { fuel, memory_bytes, faults } = Limits::default();
        Plugin {
            path: PathBuf::new(),
            name: String::new(),
            ports: Vec::new(),
            fuel,
            memory_mib: memory_bytes as u64 >> 20,
            faults,
        }
    }
}

impl Plugin {
    /// A plug-in of which only the file is told.
    pub(crate) fn of_file(path: PathBuf) -> Self {
        Plugin { path, ..Plugin::default() }
    }
}

/// What messages of one protocol show beyond names and numbers, and what they hide; see docs/privacy.md. PROTOCOL is a
/// name of docs/protocols.md, in quotes where it has a dot (`[mask."microsoft.sql_server"]`), one of your own, or
/// `grpc`. A key that the protocol does not read is an error; every protocol reads `hide`. Masking happens in the
/// process that captures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Mask {
    /// `http` (for HTTP/1, HTTP/2 and gRPC): fields of requests that are shown as `http.request.header.NAME`. Without
    /// it only those header fields are shown that OpenTelemetry has attributes for.
    pub(crate) request_headers: Vec<String>,
    /// `http`: fields of responses that are shown as `http.response.header.NAME`.
    pub(crate) response_headers: Vec<String>,
    /// `http`: parameters of the query that are shown in `url.query`. Without it only the path of a URL is shown.
    /// Neither values nor names of other parameters are shown.
    pub(crate) query: Vec<String>,
    /// `postgresql`, `mysql` (MariaDB too), `microsoft.sql_server`, `clickhouse`, `cassandra`: show literals in
    /// `db.query.text`, except those that look like credentials and those of statements about passwords.
    pub(crate) literals: bool,
    /// `redis`, `memcached`: show the first key of a command in `db.query.text`, up to 64 bytes, unless it looks like a
    /// credential.
    pub(crate) keys: bool,
    /// `mongodb`: fields whose values in queries are shown as `db.query.parameter.NAME`: texts up to 64 bytes that do
    /// not look like a credential, and numbers, at the top level of a filter or of an aggregation's first `$match`.
    pub(crate) fields: Vec<String>,
    /// Every protocol: attributes that are left out; also `operation`, `target` and `error`.
    pub(crate) hide: Vec<String>,
}

/// How requests and responses are paired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Join {
    /// Seconds for which a request waits for its response while its connection is open; datagrams wait 30 s at most.
    pub(crate) window_s: u64,
    /// Most connections followed at once; the least recently used is given up and counted.
    pub(crate) max_connections: usize,
    /// Keep the calls by which SDKs and agents export telemetry (OTLP, Zipkin, Jaeger); else they are left out and
    /// counted.
    pub(crate) telemetry: bool,
}

impl Default for Join {
    fn default() -> Self {
        let config = JoinConfig::default();
        Join { window_s: config.window_ns / NS_PER_S, max_connections: config.max_connections, telemetry: false }
    }
}

/// Causes of calls that are inferred from time and structure only. Inferred where spans are captured; `wirespan server`
/// takes the causes that its agents inferred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inference {
    /// Infer causes; without it such calls have no parent.
    pub(crate) enabled: bool,
    /// Least confidence of an inferred link; below it a call has no parent.
    pub(crate) min_confidence: f32,
    /// Longest time for which a call waits until the requests that may have caused it have ended, s.
    pub(crate) max_wait_s: u64,
}

impl Default for Inference {
    fn default() -> Self {
        let SolverConfig { enabled, min_confidence, max_wait_ns, .. } = SolverConfig::default();
        Inference { enabled, min_confidence, max_wait_s: max_wait_ns / NS_PER_S }
    }
}

/// What slow requests waited for; see docs/why.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Waits {
    /// Requests that take at least so long (`50ms`) are slow, and what their threads waited for is recorded; `auto`
    /// learns it for each endpoint; empty records nothing, and attaches nothing to the scheduler. As `--threshold`.
    pub(crate) threshold: String,
    /// Record the waits of one in so many other requests, too, so that slow ones can be compared; 0: of none.
    pub(crate) one_of: u32,
    /// Take the stacks of the kernel where threads wait and run. Without: the kernel programs take none.
    pub(crate) kernel_stack: bool,
    /// Take the stacks of programs there, and copy the memory of those that keep no frame pointers. Without: neither.
    pub(crate) user_stack: bool,
    /// Tell how often the threads of a request were woken, and how long they were ready then (`wirespan.wait.wakeups`,
    /// `wirespan.wait.wakeup_latency`).
    pub(crate) metrics: bool,
    /// Let the server of an agent have this recorded for a time, as `--why-orders`.
    pub(crate) orders: bool,
    /// Thresholds of services and endpoints.
    pub(crate) endpoint: Vec<WaitsOf>,
}

impl Default for Waits {
    fn default() -> Self {
        Waits {
            threshold: String::new(),
            one_of: 100,
            kernel_stack: true,
            user_stack: true,
            metrics: true,
            orders: false,
            endpoint: Vec::new(),
        }
    }
}

/// The threshold of a service or an endpoint; one such table for each. The first that fits a request decides, before
/// `waits.threshold`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WaitsOf {
    /// Name of the service; empty for all.
    pub(crate) service: String,
    /// Endpoint, as `GET /cart/*`, or `/cart/*` for all operations; empty for all. `*`, or a part with digits, stands
    /// for each part of a path that has digits.
    pub(crate) endpoint: String,
    /// As `waits.threshold`.
    pub(crate) threshold: String,
}

/// Packets of watched services: devices on the way of a request; see docs/packets.md.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Packets {
    /// Services and endpoints whose packets are followed, as `--watch-packets`. Empty: nothing is attached.
    pub(crate) watch: Vec<String>,
    /// Of watched requests, only devices in these network namespaces, as `--watch-netns`. Empty: all.
    pub(crate) watch_netns: Vec<String>,
    /// Follow only one of so many connections, chosen by a hash of addresses and ports; 0: all.
    pub(crate) one_flow_of: u32,
    /// Devices whose packets are read, as `--mirror`. Empty: none.
    pub(crate) mirror: Vec<String>,
    /// Of these, only packets from and to these ports (at most 32). Empty: all.
    pub(crate) mirror_ports: Vec<u16>,
    /// Let the UI of `up` and `run`, and the server of an agent, start packet programs, as `--packet-programs`.
    pub(crate) programs: bool,
}

/// What a trace shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Traces {
    /// Show what drivers do for their connections (set-up, prepares, resets, pings), and connections without a byte, as
    /// spans and traces of their own; else they are counted, and calls say how much of it they had. See
    /// docs/housekeeping.md.
    pub(crate) housekeeping: bool,
}

/// Where spans are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Store {
    /// Directory; empty keeps spans in memory only.
    pub(crate) dir: PathBuf,
    /// Hours for which spans are kept.
    pub(crate) max_age_h: u64,
    /// Most MiB on disk; the oldest spans go first.
    pub(crate) max_mib: u64,
    /// Most MiB of memory that spans and flows take where no directory is named; the oldest spans go first.
    pub(crate) memory_mib: u64,
}

impl Default for Store {
    fn default() -> Self {
        let wirespan_store::Options { max_age, max_bytes, .. } = wirespan_store::Options::default();
        Store { dir: PathBuf::new(), max_age_h: max_age.as_secs() / 3600, max_mib: max_bytes >> 20, memory_mib: 256 }
    }
}

/// Addresses on which wirespan listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Serve {
    /// UI and query API.
    pub(crate) ui: SocketAddr,
    /// Agents' spans (`wirespan server`).
    pub(crate) agents: SocketAddr,
    /// OTLP of SDKs over gRPC (`server`, `up`, `run`); empty string is off.
    pub(crate) otlp_grpc: String,
    /// OTLP of SDKs over HTTP (`server`, `up`, `run`); empty string is off.
    pub(crate) otlp_http: String,
    /// Secret that the UI and the API ask for; empty asks for none on loopback, and for one that is made at the start
    /// on other addresses.
    pub(crate) ui_token: String,
    /// Further names by which clients reach listeners on loopback (a proxy's, without port): other names are refused,
    /// because pages in a browser could use them.
    pub(crate) hosts: Vec<String>,
}

impl Default for Serve {
    fn default() -> Self {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Serve {
            ui: local(9473),
            agents: local(9474),
            otlp_grpc: "127.0.0.1:4317".into(),
            otlp_http: "127.0.0.1:4318".into(),
            ui_token: String::new(),
            hosts: Vec::new(),
        }
    }
}

/// Export of traces and metrics over OTLP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Export {
    /// OTLP endpoint of a collector (`http://host:4317` for gRPC, `http://host:4318` for HTTP); empty is off.
    pub(crate) otlp_endpoint: String,
    /// `grpc`, `http/protobuf` or `http/json`; empty goes by the port.
    pub(crate) otlp_protocol: String,
    /// Seconds between exports of the dependency map's metrics to the same place; 0 is off, or once a minute with
    /// `--otlp-metrics`.
    pub(crate) otlp_metrics_s: u64,
    /// Headers for the collector.
    pub(crate) otlp_headers: std::collections::BTreeMap<String, String>,
}

/// What `/metrics` shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Metrics {
    /// Edges of the dependency map that have series of their own: those with most of the recent traffic. The other
    /// edges share one series.
    pub(crate) max_edges: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { max_edges: 500 }
    }
}
