//! Waits that are recorded for a time only, while wirespan runs.

use crate::harness::{can_trace, has, root, wirespan, within, Running, WIRESPAN};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Whether the service answers.
pub(crate) fn ask(port: u16, path: &str) -> bool {
    let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    });
    asked.is_ok_and(|answer| answer.contains(" 200"))
}

/// The service with known waits, and `wirespan up` that traces it.
pub(crate) struct Traced {
    pub(crate) port: u16,
    pub(crate) ui: String,
    pub(crate) service: Running,
    pub(crate) up: Running,
}

impl Traced {
    /// Both, once the service has answered this request. `more`: further arguments of `up`.
    pub(crate) fn start(first: &str, more: &[&str]) -> Traced {
        let (port, ui) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let service = root().join("tests/apps/waits/service.py").display().to_string();
        let service = Running::start("python3", &[&service, "threads", &port.to_string()]);
        let pid = service.pid().to_string();
        let mut up = Running::start(WIRESPAN, &[&["up", "--ui", &ui, "--pid", &pid], more].concat());
        up.wait_for("Ctrl-C ends");
        listens(port, first);
        Traced { port, ui, service, up }
    }
}

/// Orders waits, or ends an order; what the query API answers.
pub(crate) fn order(ui: &str, order: &Value) -> Value {
    let sent = ureq::post(format!("http://{ui}/api/v1/why")).header("content-type", "application/json");
    let mut answer = sent.send(order.to_string()).unwrap();
    assert!(answer.status().is_success(), "{order}");
    serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
}

/// An answer of the query API; null if there is none.
pub(crate) fn get(ui: &str, path: &str) -> Value {
    let answer = ureq::get(format!("http://{ui}/api/v1/{path}")).call().ok();
    let text = answer.and_then(|mut answer| answer.body_mut().read_to_string().ok()).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// How often a program was attached after the start; 0 until the counters are published.
pub(crate) fn attached(ui: &str) -> u64 {
    let status = get(ui, "status");
    let stages = status["agent"]["stages"].as_array().into_iter().flatten();
    let mut counters = stages.flat_map(|stage| stage["counters"].as_array().into_iter().flatten());
    counters.find(|c| c["name"] == "hooks_attached_later").map_or(0, |c| c["value"].as_u64().unwrap())
}

/// The served span of a path, once it is there.
pub(crate) fn served(ui: &str, path: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let found = get(ui, &format!("spans?from=-1h&tap=server-process&attr=url.path:{path}"));
        if found["spans"][0].is_object() {
            return found["spans"][0].clone();
        }
        assert!(Instant::now() < until, "no span of {path}: {found}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the service answers this path.
pub(crate) fn listens(port: u16, path: &str) {
    within(Duration::from_secs(60), "the service listens", || ask(port, path).then_some(()));
}

/// What `wirespan` says that runs with these arguments, while the service is asked for each of these paths, some time
/// after it has begun.
pub(crate) fn said_meanwhile(args: &[&str], begins: Duration, port: u16, paths: &[String]) -> String {
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            std::thread::sleep(begins);
            paths.iter().all(|path| ask(port, path))
        });
        let done = wirespan(args);
        assert!(asks.join().unwrap(), "the service answers");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        format!("{said}\n{}", String::from_utf8_lossy(&done.stdout))
    })
}

/// What `trace-why` says of a service that is asked meanwhile for each of these paths.
fn why(ui: &str, service: &str, port: u16, paths: &[&str], more: &[&str]) -> String {
    let args = ["trace-why", service, "--server", ui, "--threshold", "30ms", "--for", "2s"];
    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
    said_meanwhile(&[&args, more].concat(), Duration::from_millis(700), port, &paths)
}

#[test]
fn waits_are_recorded_for_a_time_of_one_service_and_endpoint_and_then_no_longer() {
    let test = "trace_why";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let Traced { port, ui, service: _service, up } = Traced::start("/sleep/1/first", &[]);
    assert!(ask(port, "/sleep/80/before"));
    let before = served(&ui, "/sleep/80/before");
    let name = before["service"].as_str().unwrap();
    assert!(before["attributes"]["wirespan.wait.reason"].is_null(), "{before}");

    let at_first = attached(&ui);
    let said = why(&ui, name, port, &["/sleep/80/slow", "/sleep/1/quick"], &[]);
    assert!(said.contains(&format!("requests of {name} were slow")), "{said}");
    assert!(said.contains("/sleep/80/slow") && said.contains("slept"), "{said}");
    assert_eq!(served(&ui, "/sleep/80/slow")["attributes"]["wirespan.wait.reason"], "slow");
    // On a busy machine it may be slow, too.
    let quick = served(&ui, "/sleep/1/quick");
    let is_slow = quick["duration_ns"].as_u64().unwrap() >= 30_000_000;
    assert_eq!(quick["attributes"]["wirespan.wait.reason"] == "slow", is_slow, "{quick}");
    assert!(ask(port, "/sleep/80/after"));
    assert!(served(&ui, "/sleep/80/after")["attributes"]["wirespan.wait.reason"].is_null());

    // Attached once more; another endpoint is left alone.
    let said = why(&ui, name, port, &["/sleep/80/other", "/hold/80/again"], &["--endpoint", "GET /hold/*/again"]);
    assert!(said.contains("/hold/80/again") && said.contains("slept"), "{said}");
    assert!(served(&ui, "/sleep/80/other")["attributes"]["wirespan.wait.reason"].is_null());
    let said = why(&ui, "nobody", port, &["/sleep/80/others"], &[]);
    assert!(said.contains("no request of nobody was slow"), "{said}");

    // Three programs on the scheduler, three times: they were detached in between. The clocks that sample threads are
    // one more, where the kernel has them. Other hooks are four at most.
    let until = Instant::now() + Duration::from_secs(20);
    while attached(&ui) < at_first + 9 {
        assert!(Instant::now() < until, "{} after {at_first}", attached(&ui));
        std::thread::sleep(Duration::from_millis(200));
    }
    let wrong = wirespan(&["trace-why", name, "--server", &ui, "--threshold", "soon"]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("`soon` is not a duration"));
    up.end();
}
