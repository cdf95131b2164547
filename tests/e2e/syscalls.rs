//! System calls of requests: as many as the service made, in each form, and only while they are asked for.

use crate::harness::{can_trace, has, root, wirespan, Running, WIRESPAN};
use crate::trace_why::{ask, attached, free_port, get, listens, said_meanwhile, served};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The number of calls of each name that a span of this request must show: as asked, and one openat that fails.
fn expected(getppids: u64, files: u64, sockets: u64) -> Vec<(String, u64)> {
    let all = [("getppid", getppids), ("openat", files + 1), ("socket", sockets)];
    all.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_string(), n)).collect()
}

/// Requests with other numbers of calls each.
fn requests() -> Vec<(u64, u64, u64)> {
    (0..12).map(|n| (n * 7 % 40, n % 5, n % 3)).chain([(400, 20, 10)]).collect()
}

/// What a form shows of a span: names and numbers of calls.
fn shown(ui: &str, span: &Value, form: &str) -> Vec<(String, u64)> {
    let id = span["id"].as_str().unwrap();
    let mut counts: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    if form == "attributes" {
        for (key, n) in span["attributes"].as_object().unwrap() {
            let name = key.strip_prefix("wirespan.syscall.").and_then(|rest| rest.strip_suffix(".count"));
            name.map(|name| counts.insert(name.to_string(), n.as_u64().unwrap()));
        }
        return counts.into_iter().collect();
    }
    let done = wirespan(&["trace", id, "--server", ui, "--format", "otlp"]);
    let otlp: Value = serde_json::from_slice(&done.stdout).expect("OTLP JSON");
    let spans = otlp["resourceSpans"].as_array().unwrap().iter().flat_map(|r| r["scopeSpans"].as_array().unwrap());
    let spans: Vec<&Value> = spans.flat_map(|scope| scope["spans"].as_array().unwrap()).collect();
    let own = spans.iter().find(|s| s["spanId"] == id).expect("the request");
    let names: Vec<String> = match form {
        "events" => own["events"].as_array().into_iter().flatten().filter_map(call_of_event).collect(),
        _ => spans.iter().filter(|s| s["parentSpanId"] == id).map(|s| s["name"].as_str().unwrap().into()).collect(),
    };
    names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
    counts.into_iter().collect()
}

fn call_of_event(event: &Value) -> Option<String> {
    let attributes = event["attributes"].as_array().filter(|_| event["name"] == "wirespan.syscall")?;
    let name = attributes.iter().find(|a| a["key"] == "wirespan.syscall.name")?;
    Some(name["value"]["stringValue"].as_str()?.to_string())
}

/// Has calls recorded while the service answers.
fn record(ui: &str, service: &str, port: u16, form: &str) -> String {
    let names = "getppid,openat,socket";
    let args = [
        "trace-why",
        service,
        "--server",
        ui,
        "--threshold",
        "off",
        "--for",
        "3s",
        "--syscalls",
        names,
        "--syscalls-as",
        form,
    ];
    let paths: Vec<String> = requests().into_iter().map(|(a, b, c)| format!("/calls/{a}/{b}/{c}/{form}")).collect();
    said_meanwhile(&args, Duration::from_secs(1), port, &paths)
}

#[test]
fn each_request_shows_as_many_calls_as_the_service_made_in_each_form_and_only_while_asked_for() {
    let test = "syscalls";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let (port, ui) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let service = root().join("tests/apps/syscalls/service.py").display().to_string();
    let traced = Running::start("python3", &[&service, &port.to_string()]);
    let mut up = Running::start(WIRESPAN, &["up", "--ui", &ui, "--pid", &traced.pid().to_string()]);
    up.wait_for("Ctrl-C ends");
    listens(port, "/calls/1/1/1/first");
    let before = served(&ui, "/calls/1/1/1/first");
    let name = before["service"].as_str().unwrap();
    assert!(before["attributes"]["wirespan.syscalls"].is_null(), "{before}");
    let at_first = attached(&ui);
    for form in ["attributes", "events", "spans"] {
        let said = record(&ui, name, port, form);
        // Whichever was the slowest: each of them calls openat.
        assert!(said.contains("Its system calls, ") && said.contains("openat"), "{said}");
        for (a, b, c) in requests() {
            let span = served(&ui, &format!("/calls/{a}/{b}/{c}/{form}"));
            assert_eq!(shown(&ui, &span, form), expected(a, b, c), "{form}: {span}");
            assert!(span["attributes"]["wirespan.syscalls.lost"].is_null(), "{span}");
            let trace = get(&ui, &format!("trace/{}", span["id"].as_str().unwrap()));
            let spans = trace["spans"].as_array().unwrap();
            let own = spans.iter().find(|s| s["span"]["id"] == span["id"]).unwrap();
            let sums = own["syscalls"]["sums"].as_array().unwrap();
            let failed = sums.iter().find(|sum| sum["name"] == "openat").unwrap();
            assert_eq!((&failed["failed"], own["syscalls"]["form"].as_str()), (&1.into(), Some(form)), "{own}");
            let below = spans.iter().filter(|s| s["parent"]["span_id"] == span["id"]).count() as u64;
            assert_eq!(below, if form == "spans" { a + b + 1 + c } else { 0 });
        }
        assert!(ask(port, &format!("/calls/3/3/3/after-{form}")));
        assert!(served(&ui, &format!("/calls/3/3/3/after-{form}"))["attributes"]["wirespan.syscalls"].is_null());
    }
    // Two programs, three times: they were detached in between.
    let until = Instant::now() + Duration::from_secs(5);
    while attached(&ui) < at_first + 6 {
        assert!(Instant::now() < until, "{} after {at_first}", attached(&ui));
        std::thread::sleep(Duration::from_millis(200));
    }
    let wrong = wirespan(&["trace-why", name, "--server", &ui, "--syscalls", "getpid,opennat"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("`opennat` is not a system call"), "{said}");
    assert!(said.contains("did you mean `openat`?"), "{said}");
    up.end();
}

#[test]
fn calls_are_recorded_from_the_start_of_a_command_and_a_wrong_name_ends_it() {
    let test = "syscalls_of_run";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let wrong = wirespan(&["run", "--no-ui", "--syscalls", "reed", "--", "true"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        !wrong.status.success() && said.contains("`reed` is not a system call") && said.contains("`read`?"),
        "{said}"
    );
    let (port, ui) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let service = root().join("tests/apps/syscalls/service.py").display().to_string();
    let args = ["run", "--ui", &ui, "--syscalls", "all", "--", "python3", &service, &port.to_string()];
    let mut run = Running::start(WIRESPAN, &args);
    run.wait_for("UI on");
    listens(port, "/calls/0/0/0/first");
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(ask(port, "/calls/5/2/0/all"));
    let span = served(&ui, "/calls/5/2/0/all");
    let count = |name: &str| span["attributes"][format!("wirespan.syscall.{name}.count")].as_u64();
    assert_eq!((count("getppid"), count("openat"), count("close")), (Some(5), Some(3), Some(2)), "{span}");
    assert_eq!(count("sendto"), Some(1), "the answer: {span}");
    run.signal(rustix::process::Signal::TERM);
    run.finish(Duration::from_secs(30));
}

#[test]
fn calls_that_find_no_room_are_counted_at_their_request() {
    let test = "syscalls_lost";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let (port, ui) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let service = root().join("tests/apps/syscalls/service.py").display().to_string();
    let traced = Running::start("python3", &[&service, &port.to_string()]);
    let pid = traced.pid().to_string();
    let mut up = Running::start(WIRESPAN, &["up", "--ui", &ui, "--pid", &pid, "--syscalls", "getppid"]);
    up.wait_for("Ctrl-C ends");
    listens(port, "/calls/0/0/0/first");
    std::thread::sleep(Duration::from_millis(1_500));
    // Nobody reads while the calls are made, and their ring has room for 43,690. The last call comes afterwards.
    const MADE: u64 = 100_000;
    std::thread::scope(|scope| {
        up.signal(rustix::process::Signal::STOP);
        let asks = scope.spawn(|| ask(port, &format!("/calls/{MADE}/0/0/pause")));
        std::thread::sleep(Duration::from_secs(3));
        up.signal(rustix::process::Signal::CONT);
        assert!(asks.join().unwrap(), "the service answers");
    });
    let span = served(&ui, &format!("/calls/{MADE}/0/0/pause"));
    let number = |key: &str| span["attributes"][key].as_u64().unwrap_or_default();
    let (told, lost) = (number("wirespan.syscall.getppid.count"), number("wirespan.syscalls.lost"));
    assert!(lost > MADE / 4 && told > 40_000, "{span}");
    assert_eq!(told + lost, MADE + 1, "{span}");
    up.end();
}
