//! One address that stands for several backends, as a Service of Kubernetes does: counts must be right for each one.

use crate::harness::{can_trace, compile, has, skip, Running, WIRESPAN};
use crate::spaces::Spaces;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

const BACKENDS: usize = 5;
/// Connections of each client.
const CALLS: u64 = 60;
/// Namespaces: the client, the router, then the backends.
const CLIENT: usize = 0;
const ROUTER: usize = 1;
const FIRST: usize = 2;
/// The address of all backends.
const SERVICE: [&str; 2] = ["10.213.1.1", "8080"];

fn address(backend: usize) -> String {
    format!("10.213.{}.2", 10 + backend)
}

/// client — router — five backends, each on a link of its own. The router gives a connection to a backend by the
/// client's port, and counts what it gives to each. It hides all clients.
fn five_backends(tag: &str) -> Result<Spaces, String> {
    let mut lines: Vec<String> = [
        "-n {1} link add toc type veth peer name eth0 netns {0}",
        "-n {0} addr add 10.213.1.2/24 dev eth0",
        "-n {1} addr add 10.213.1.1/24 dev toc",
        "-n {0} link set eth0 up",
        "-n {1} link set toc up",
        "-n {0} route add default via 10.213.1.1",
    ]
    .map(String::from)
    .into();
    let mut rules = String::from("table ip wsnat {\nchain pre { type nat hook prerouting priority dstnat;\n");
    // A client's ports are all odd or all even, so the lowest bit says nothing.
    for bits in 0..8 {
        let backend = bits % BACKENDS;
        rules.push_str(&format!(
            "tcp dport 8080 tcp sport & 14 == {} counter dnat to {}:80\n",
            bits * 2,
            address(backend)
        ));
    }
    rules.push_str("}\nchain post { type nat hook postrouting priority srcnat; oifname \"to*\" masquerade; }\n}\n");
    for backend in 0..BACKENDS {
        let (space, net) = (FIRST + backend, 10 + backend);
        lines.extend([
            format!("-n {{1}} link add to{backend} type veth peer name eth0 netns {{{space}}}"),
            format!("-n {{1}} addr add 10.213.{net}.1/24 dev to{backend}"),
            format!("-n {{{space}}} addr add 10.213.{net}.2/24 dev eth0"),
            format!("-n {{1}} link set to{backend} up"),
            format!("-n {{{space}}} link set eth0 up"),
            format!("-n {{{space}}} route add default via 10.213.{net}.1"),
        ]);
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let spaces = Spaces::new(tag, FIRST + BACKENDS, &lines)?;
    spaces.inside(ROUTER, &["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
    spaces.inside(ROUTER, &["nft", &rules])?;
    Ok(spaces)
}

/// Connections that the router has given to each backend.
fn given(spaces: &Spaces) -> Vec<u64> {
    let list = spaces.command(ROUTER, &["nft", "list", "table", "ip", "wsnat"]).output().unwrap();
    let mut given = vec![0; BACKENDS];
    for line in String::from_utf8_lossy(&list.stdout).lines().filter(|line| line.contains("packets")) {
        let packets = line.split("packets ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let backend = (0..BACKENDS).find(|n| line.contains(&address(*n))).unwrap();
        given[backend] += packets.parse::<u64>().unwrap();
    }
    given
}

/// Connections, by both ends of their edge.
type Edges = BTreeMap<(String, String), u64>;

/// Connections opened, and attempts that failed.
fn edges(file: &Path) -> (Edges, Edges) {
    let map: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let (mut opened, mut failed) = (Edges::new(), Edges::new());
    for edge in map["edges"].as_array().unwrap() {
        let ends = ["from", "to"].map(|end| edge[end].as_str().unwrap().to_string());
        for (counts, name) in [(&mut opened, "opened"), (&mut failed, "failed")] {
            let count = edge["tcp"][name].as_u64().unwrap();
            if count > 0 || (name == "opened" && edge["tcp"]["failed"] == 0) {
                *counts.entry(ends.clone().into()).or_default() += count;
            }
        }
    }
    (opened, failed)
}

/// Lets a client make its connections, which it does once.
fn begin(client: &mut Running) {
    client.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

/// Waits for the client's report.
fn end(client: &mut Running) -> String {
    let mut said = String::new();
    BufReader::new(client.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    said
}

/// Lets a client make its connections. Returns how many were given to each backend.
fn call(spaces: &Spaces, client: &mut Running) -> Vec<u64> {
    let before = given(spaces);
    begin(client);
    let said = end(client);
    let given: Vec<u64> = given(spaces).into_iter().zip(before).map(|(now, before)| now - before).collect();
    assert!(given.iter().all(|n| *n > 0) && given.iter().sum::<u64>() == CALLS, "{given:?} {said}");
    given
}

/// The namespaces, with servers of the first backends.
struct World {
    spaces: Spaces,
    dir: tempfile::TempDir,
    program: String,
    servers: Vec<Running>,
}

impl World {
    /// `None` if this machine lacks something.
    fn new(test: &str, tag: &str, servers: usize) -> Option<World> {
        if !can_trace(test) || !has(test, &["ip", "nft", "sysctl"]) {
            return None;
        }
        let spaces = five_backends(tag).map_err(|reason| skip(test, &reason)).ok()?;
        let dir = tempfile::tempdir().unwrap();
        let program = compile("flows/flows.c", dir.path()).display().to_string();
        let config = "[capture]\nmessages = false\n[flows]\nwindow_s = 1\ndrain_ms = 100\n";
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        let mut world = World { spaces, dir, program, servers: Vec::new() };
        for n in 0..servers {
            let server = world.start(FIRST + n, &format!("shelf{n}"), &["serve", "tcp", &address(n), "80"]);
            world.servers.push(server);
        }
        Some(world)
    }

    fn start(&self, space: usize, name: &str, args: &[&str]) -> Running {
        let name = format!("OTEL_SERVICE_NAME={name}");
        let command = [&["env", &name, &self.program][..], args].concat();
        let mut running = Running(self.spaces.command(space, &command).stdin(Stdio::piped()).spawn().unwrap());
        running.wait_for("ready");
        running
    }

    /// Two clients that call the one address sixty times each. The second stands beside the first backend, so that some
    /// of its calls come back to its own host.
    fn clients(&self) -> [Running; 2] {
        let calls = ["call", "tcp", SERVICE[0], SERVICE[1], "-n", &CALLS.to_string(), "-r", "100", "-1", "-h"];
        [self.start(CLIENT, "reader", &calls), self.start(FIRST, "inner", &calls)]
    }

    /// Traces in the router's namespace, as an agent on a host with containers does, until `work` is done.
    fn traced(&self, pids: &[u32], work: impl FnOnce()) -> (Edges, Edges) {
        let (config, file) = (self.dir.path().join("config.toml"), self.dir.path().join("map.json"));
        let (config, to) = (config.display().to_string(), file.display().to_string());
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut args = vec![WIRESPAN, "--config", &config, "up", "--no-ui", "--map-file", &to];
        pids.iter().for_each(|pid| args.extend(["--pid", pid]));
        let mut up = Running(self.spaces.command(ROUTER, &args).spawn().unwrap());
        up.wait_for("tracing");
        work();
        up.end();
        edges(&file)
    }
}

const NAMES: [&str; 2] = ["reader", "inner"];

#[test]
fn connections_through_nat_are_counted_by_backend() {
    let Some(world) = World::new("nat_backends", "nat5", BACKENDS) else { return };
    for sees_servers in [false, true] {
        let mut clients = world.clients();
        let pids: Vec<u32> = clients.iter().map(Running::pid).collect();
        let servers = world.servers.iter().filter(|_| sees_servers).map(Running::pid);
        let pids: Vec<u32> = pids.into_iter().chain(servers).collect();
        let mut want = Edges::new();
        let (opened, failed) = world.traced(&pids, || {
            for (client, name) in clients.iter_mut().zip(NAMES) {
                for (n, count) in call(&world.spaces, client).into_iter().enumerate() {
                    let server = match sees_servers {
                        true => format!("service:shelf{n}"),
                        false => format!("address:{}:80", address(n)),
                    };
                    want.insert((format!("service:{name}"), server), count);
                }
            }
        });
        assert_eq!((opened, failed), (want, Edges::new()));
    }
}

/// A refused connection leaves no entry of translation. The others of the same address are told by theirs.
#[test]
fn a_backend_that_refuses_spoils_no_count_of_another() {
    let last = BACKENDS - 1;
    let Some(world) = World::new("nat_refused", "natno", last) else { return };
    let mut clients = world.clients();
    let pids: Vec<u32> = clients.iter().map(Running::pid).collect();
    let (mut want, mut refused) = (Edges::new(), Edges::new());
    let (opened, failed) = world.traced(&pids, || {
        for (client, name) in clients.iter_mut().zip(NAMES) {
            let given = call(&world.spaces, client);
            let from = format!("service:{name}");
            for (n, count) in given.iter().enumerate().take(last) {
                want.insert((from.clone(), format!("address:{}:80", address(n))), *count);
            }
            refused.insert((from, format!("address:{}:{}", SERVICE[0], SERVICE[1])), given[last]);
        }
    });
    assert_eq!((opened, failed), (want, refused));
}

/// The router hides its clients behind its own addresses: servers alone see who called.
#[test]
fn hidden_clients_are_counted_by_client() {
    let Some(world) = World::new("nat_clients", "natby", BACKENDS) else { return };
    let mut clients = world.clients();
    let pids: Vec<u32> = world.servers.iter().map(Running::pid).collect();
    let mut given_to = Vec::new();
    let (opened, failed) = world.traced(&pids, || {
        let before = given(&world.spaces);
        // Both at once, so that the connections of one moment are not all of one client.
        clients.iter_mut().for_each(begin);
        clients.iter_mut().for_each(|client| drop(end(client)));
        given_to = given(&world.spaces).into_iter().zip(before).map(|(now, before)| now - before).collect();
    });
    let sum = |end: fn(&(String, String)) -> &String| {
        opened.iter().fold(BTreeMap::new(), |mut sums, (ends, count)| {
            *sums.entry(end(ends).clone()).or_insert(0) += count;
            sums
        })
    };
    let callers = ["10.213.1.2".to_string(), address(0)].map(|from| (format!("caller:{from}"), CALLS));
    assert_eq!(sum(|ends| &ends.0), callers.into(), "{opened:?}");
    let servers = given_to.into_iter().enumerate().map(|(n, count)| (format!("service:shelf{n}"), count));
    assert_eq!((sum(|ends| &ends.1), failed), (servers.collect(), Edges::new()), "{opened:?}");
}
