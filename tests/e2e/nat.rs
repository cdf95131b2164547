//! One address that stands for several backends, as a Service of Kubernetes does: counts must be right for each one.

use crate::harness::{can_trace, compile, has, skip, Running, WIRESPAN};
use crate::spaces::Spaces;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

const BACKENDS: usize = 5;
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
fn five_backends() -> Result<Spaces, String> {
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
    let spaces = Spaces::new("nat5", FIRST + BACKENDS, &lines)?;
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

/// Connections opened, by both ends of their edge.
fn edges(file: &Path) -> BTreeMap<(String, String), u64> {
    let map: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let edges = map["edges"].as_array().unwrap().iter();
    let text = |v: &Value| v.as_str().unwrap().to_string();
    edges.map(|e| ((text(&e["from"]), text(&e["to"])), e["tcp"]["opened"].as_u64().unwrap())).collect()
}

/// Lets a client make its connections, which it does once.
fn call(client: &mut Running) {
    client.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut said = String::new();
    BufReader::new(client.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("\"opened\":60"), "{said}");
}

#[test]
fn connections_through_nat_are_counted_by_backend() {
    let test = "nat_backends";
    if !can_trace(test) || !has(test, &["ip", "nft", "sysctl"]) {
        return;
    }
    let spaces = match five_backends() {
        Ok(spaces) => spaces,
        Err(reason) => return skip(test, &reason),
    };
    let dir = tempfile::tempdir().unwrap();
    let program = compile("flows/flows.c", dir.path()).display().to_string();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "[capture]\nmessages = false\n[flows]\nwindow_s = 1\ndrain_ms = 200\n").unwrap();
    let start = |space, name: &str, args: &[&str]| {
        let name = format!("OTEL_SERVICE_NAME={name}");
        let command = [&["env", &name, &program][..], args].concat();
        let mut running = Running(spaces.command(space, &command).stdin(Stdio::piped()).spawn().unwrap());
        running.wait_for("ready");
        running
    };
    let servers: Vec<Running> =
        (0..BACKENDS).map(|n| start(FIRST + n, &format!("shelf{n}"), &["serve", "tcp", &address(n), "80"])).collect();
    let [ip, port] = SERVICE;
    let calls = ["call", "tcp", ip, port, "-n", "60", "-1", "-h"];
    for sees_servers in [false, true] {
        // The second client stands beside the first backend: some of its calls come back to its own host.
        let mut clients = [start(CLIENT, "reader", &calls), start(FIRST, "inner", &calls)];
        let file = dir.path().join("map.json");
        let (config, to) = (config.display().to_string(), file.display().to_string());
        let mut pids: Vec<String> = clients.iter().map(|c| c.pid().to_string()).collect();
        pids.extend(servers.iter().filter(|_| sees_servers).map(|s| s.pid().to_string()));
        let mut args = vec![WIRESPAN, "--config", &config, "up", "--no-ui", "--map-file", &to];
        pids.iter().for_each(|pid| args.extend(["--pid", pid]));
        let mut up = Running(spaces.command(ROUTER, &args).spawn().unwrap());
        up.wait_for("tracing");
        let mut want = BTreeMap::new();
        for (client, name) in clients.iter_mut().zip(["reader", "inner"]) {
            let before = given(&spaces);
            call(client);
            for (n, (now, before)) in given(&spaces).into_iter().zip(before).enumerate() {
                assert!(now > before, "the router gave nothing to {n}");
                let server =
                    if sees_servers { format!("service:shelf{n}") } else { format!("address:{}:80", address(n)) };
                want.insert((format!("service:{name}"), server), now - before);
            }
        }
        up.end();
        assert_eq!(edges(&file), want);
    }
}
