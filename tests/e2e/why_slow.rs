//! Why the requests of an endpoint are slow: waits are ordered by the query API as the UI does, and slow requests stand
//! beside usual ones.

use crate::harness::{can_trace, has, wirespan, within};
use crate::trace_why::{ask, get, order, served, Traced};
use serde_json::{json, Value};
use std::time::Duration;

/// Usual requests while waits are recorded: one in ten of them is of the sample.
const USUAL: usize = 90;
const SLOW: usize = 6;

/// Requests that wait for a lock whose holder waits for the disk, and others that find it free.
fn ask_for_the_lock(port: u16) {
    for n in 0..USUAL {
        assert!(ask(port, &format!("/lock/0/usual{n}")));
    }
    for n in 0..SLOW {
        std::thread::scope(|scope| {
            let keeper = scope.spawn(move || ask(port, &format!("/keep/90/k{n}")));
            std::thread::sleep(Duration::from_millis(20));
            assert!(ask(port, &format!("/lock/0/slow{n}")));
            assert!(keeper.join().unwrap());
        });
    }
}

#[test]
fn slow_requests_of_an_endpoint_stand_beside_usual_ones_with_what_they_wait_for() {
    let test = "why_slow";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let Traced { port, ui, service: _service, up } = Traced::start("/lock/0/first", &[]);
    ask_for_the_lock(port);
    let name = served(&ui, "/lock/0/slow5")["service"].as_str().unwrap().to_string();
    let why = || get(&ui, &format!("why?service={name}&endpoint=/lock/0/"));
    // Nothing was recorded: the parts alone tell that they were blocked.
    let before = within(Duration::from_secs(20), "all spans", || Some(why()).filter(|why| why["requests"] == 97));
    assert_eq!((&before["recorded"], &before["takes_orders"]), (&json!(0), &json!(true)), "{before}");
    assert!(before["compared"]["words"][0].as_str().unwrap().contains("are blocked"), "{before}");
    assert!(before["compared"]["waits"].is_null() && before["recording"] == json!([]), "{before}");

    let endpoint = "GET /lock/*/*";
    let begun = order(&ui, &json!({"service": name, "endpoint": endpoint, "threshold": "30ms", "for": "5m"}));
    assert_eq!(begun["processes"], 1, "{begun}");
    let recording = why()["recording"].clone();
    assert_eq!((&recording[0]["service"], &recording[0]["endpoint"]), (&json!(name), &json!(endpoint)), "{recording}");
    std::thread::sleep(Duration::from_millis(300));
    ask_for_the_lock(port);
    let told = within(Duration::from_secs(20), "the waits of slow requests", || {
        Some(why()).filter(|why| why["compared"]["waits"]["slow_spans"].as_u64() >= Some(SLOW as u64))
    });
    let words = told["compared"]["words"][0].as_str().unwrap();
    assert!(words.contains("longer for a lock held by thread keeper") && words.contains("service.py:"), "{told}");
    let first = &told["compared"]["waits"]["ranked"][0];
    assert_eq!(first["kind"], "lock", "{told}");
    // The holder keeps the lock for 90 ms; the others ask for it 20 ms later.
    let more_ms = first["more_ns"].as_i64().unwrap() / 1_000_000;
    assert!((40..200).contains(&more_ms), "{more_ms} ms: {first}");

    let of = format!("service={name}");
    let said = wirespan(&["explain", &of, "endpoint=/lock/0/", "--server", &ui]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(place("Slow ones wait") < place("What they wait for") && place("held by thread keeper") > 0, "{text}");
    let said = wirespan(&["explain", &of, "endpoint=/lock/0/", "--server", &ui, "--format", "json"]);
    let json: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(json["waits"]["waits"][0]["longest"]["kind"], "lock", "{json}");
    // The slowest, in the order of time.
    let slowest = told["compared"]["slowest"].as_str().unwrap();
    let said = String::from_utf8(wirespan(&["explain", slowest, "--server", &ui]).stdout).unwrap();
    let (_, line) = said.split_once("What happened when:").unwrap_or_else(|| panic!("{said}"));
    let when = line.find("waited for a lock held by thread keeper").unwrap_or_else(|| panic!("{said}"));
    assert!(when < line.find("answered: ok 200").unwrap_or_else(|| panic!("{said}")), "{said}");

    order(&ui, &json!({"service": name, "endpoint": endpoint, "end": true}));
    assert_eq!(why()["recording"], json!([]));
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(ask(port, "/hold/60/after1"));
    std::thread::scope(|scope| {
        scope.spawn(|| ask(port, "/keep/90/last"));
        std::thread::sleep(Duration::from_millis(20));
        assert!(ask(port, "/lock/0/late1"));
    });
    let late = served(&ui, "/lock/0/late1");
    assert!(late["attributes"]["wirespan.wait.reason"].is_null(), "the order has ended: {late}");
    up.end();
}
