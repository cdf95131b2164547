//! What is recorded with waits: stacks of the kernel, stacks of programs, metrics; and of which requests: also of those
//! that fail, however quick they are.

use crate::harness::{can_trace, has, within};
use crate::trace_why::{ask, get, order, served, Traced};
use serde_json::{json, Value};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Asks for something that fails, and keeps the connection.
fn ask_and_stay(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert!(line.contains(" 500 "), "{line}");
    stream
}

impl Traced {
    /// The waits and the attributes of a request, once they are known.
    fn told(&self, path: &str) -> (Value, Value) {
        let span = served(&self.ui, path);
        let id = span["id"].as_str().unwrap();
        let waits = within(Duration::from_secs(20), "the waits of the request", || {
            let trace = get(&self.ui, &format!("trace/{id}"));
            let item = trace["spans"].as_array()?.iter().find(|item| item["span"]["id"] == id)?;
            Some(item["waits"].clone()).filter(Value::is_object)
        });
        (waits, span["attributes"].clone())
    }

    fn order(&self, order: &Value) {
        self::order(&self.ui, order);
        // The programs are attached, and the settings known.
        std::thread::sleep(Duration::from_millis(500));
    }

    /// The sum of these counters, once they are published again.
    fn count(&self, names: &[&str]) -> u64 {
        std::thread::sleep(Duration::from_millis(1_500));
        let status = get(&self.ui, "status");
        let stages = status["agent"]["stages"].as_array().into_iter().flatten();
        let counters = stages.flat_map(|stage| stage["counters"].as_array().into_iter().flatten());
        let of_those = counters.filter(|c| names.contains(&c["name"].as_str().unwrap()));
        of_those.map(|c| c["value"].as_u64().unwrap()).sum()
    }
}

/// The longest stack of the program and of the kernel that any of these waits has.
fn stacks(waits: &Value) -> [usize; 2] {
    let all = waits["waits"].as_array().unwrap();
    ["stack", "kernel_stack"].map(|kind| all.iter().map(|w| w[kind].as_array().unwrap().len()).max().unwrap_or(0))
}

const COPIES: [&str; 4] =
    ["stack_copies_followed", "stack_copies_followed_partly", "stack_copies_not_followed", "stack_copies_lost"];
const FRAMES: [&str; 2] = ["stack_frames_named", "stack_frames_without_name"];

#[test]
fn stacks_and_metrics_are_recorded_as_an_order_says_and_cost_nothing_without() {
    let test = "why_knobs";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let traced = Traced::start("/sleep/1/first", &[]);
    let name = served(&traced.ui, "/sleep/1/first")["service"].as_str().unwrap().to_string();
    let order = |knobs: Value| {
        let mut all = json!({"service": name, "threshold": "30ms", "for": "5m"});
        all.as_object_mut().unwrap().extend(knobs.as_object().unwrap().clone());
        traced.order(&all);
    };
    let end = || {
        order(json!({"end": true}));
        // Until the programs hang on the scheduler no longer.
        std::thread::sleep(Duration::from_millis(2_500));
    };
    order(json!({"kernel_stack": false, "user_stack": false, "metrics": false}));
    assert!(ask(traced.port, "/sleep/60/bare1"));
    let (waits, attributes) = traced.told("/sleep/60/bare1");
    assert_eq!((stacks(&waits), &attributes["wirespan.wait.reason"]), ([0, 0], &json!("slow")), "{waits}");
    assert!(attributes["wirespan.wait.wakeups"].is_null(), "{attributes}");
    assert_eq!(traced.count(&[&COPIES[..], &FRAMES].concat()), 0);
    end();

    order(json!({"user_stack": false}));
    assert!(ask(traced.port, "/sleep/60/kernel1"));
    let (waits, attributes) = traced.told("/sleep/60/kernel1");
    let [user, kernel] = stacks(&waits);
    assert!(user == 0 && kernel > 0, "{waits}");
    assert!(attributes["wirespan.wait.wakeups"].as_u64() >= Some(1), "{attributes}");
    assert!(attributes["wirespan.wait.wakeup_latency"].is_u64(), "{attributes}");
    assert_eq!(traced.count(&COPIES), 0);

    // Another order wants them, while the first one still runs.
    order(json!({"endpoint": "/sleep/*/*", "kernel_stack": false, "user_stack": true}));
    assert!(ask(traced.port, "/sleep/60/both1"));
    let [user, kernel] = stacks(&traced.told("/sleep/60/both1").0);
    assert!(user > 0 && kernel > 0, "{user} {kernel}");
    assert!(traced.count(&COPIES) > 0);
    order(json!({"endpoint": "/sleep/*/*", "end": true}));
    end();

    order(json!({"kernel_stack": false}));
    assert!(ask(traced.port, "/sleep/60/user1"));
    let (waits, _) = traced.told("/sleep/60/user1");
    let [user, kernel] = stacks(&waits);
    assert!(user > 0 && kernel == 0, "{waits}");
    traced.up.end();
}

#[test]
fn the_waits_of_requests_that_fail_are_recorded_also_when_they_are_quick() {
    let test = "why_errors";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let traced = Traced::start("/sleep/1/first", &["--threshold", "10s"]);
    assert!(ask(traced.port, "/sleep/40/fine1"));
    // A thread that ends with its connection may have ended before it is asked for its waits.
    let kept = ask_and_stay(traced.port, "/fail/40/wrong1");
    let (waits, attributes) = traced.told("/fail/40/wrong1");
    assert_eq!((&waits["reason"], &attributes["wirespan.wait.reason"]), (&json!("error"), &json!("error")), "{waits}");
    let slept = waits["waits"].as_array().unwrap().iter().find(|wait| wait["kind"] == "sleep");
    let slept = slept.unwrap_or_else(|| panic!("{waits}"));
    assert!(slept["duration_ns"].as_u64() >= Some(38_000_000), "{slept}");
    assert!(slept["stack"].as_array().unwrap().iter().any(|f| f.as_str().unwrap().contains("service.py")), "{slept}");
    drop(kept);
    assert_ne!(served(&traced.ui, "/sleep/40/fine1")["attributes"]["wirespan.wait.reason"], "error");
    traced.up.end();
}
