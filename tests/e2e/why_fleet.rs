//! What slow requests do, asked of the agents of a server.

use crate::harness::{can_trace, has, root, wirespan, Running};
use crate::packet_fleet::named;
use crate::split::{Place, UI_TOKEN};
use crate::trace_why::{ask, free_port, listens};
use std::path::Path;
use std::time::Duration;

/// A service that answers.
fn service() -> (Running, u16) {
    let port = free_port();
    let file = root().join("tests/apps/syscalls/service.py").display().to_string();
    let running = Running::start("python3", &[&file, &port.to_string()]);
    listens(port, "/calls/0/0/0/first");
    (running, port)
}

#[test]
fn a_server_reaches_the_agents_of_a_service_and_names_those_that_refuse_or_are_silent() {
    let test = "why_fleet";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let server = place.serve(&["--ui-token", UI_TOKEN].map(Path::new));
    let services = [service(), service()];
    let others = [(); 3].map(|()| Running::start("sleep", &["300"]));
    let willing = ["--why-orders"].map(Path::new);
    let own = services.each_ref().map(|(target, _)| place.trace(target.pid(), &willing));
    let idle = place.trace(others[0].pid(), &willing);
    let unwilling = place.trace(others[1].pid(), &[]);
    let packets_only = place.trace(others[2].pid(), &["--packet-programs"].map(Path::new));
    let token = folder.path().join("token");
    std::fs::write(&token, format!("{UI_TOKEN}\n")).unwrap();
    let asked = |service: &str, more: &[&str]| {
        let all = ["trace-why", service, "--server", place.ui(), "--token-file", token.to_str().unwrap()];
        let done = wirespan(&[&all, more].concat());
        let said = format!("{}\n{}", String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&done.stdout));
        (done.status.success(), said)
    };

    let record = ["--for", "4s", "--threshold", "off", "--syscalls", "getppid", "--syscalls-as", "attributes"];
    let (done, said) = std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(2_000));
            services.iter().enumerate().all(|(n, (_, port))| ask(*port, &format!("/calls/{}/0/0/x", 30 + n)))
        });
        let answer = asked("service", &record);
        assert!(asks.join().unwrap(), "the services answer");
        answer
    });
    assert!(done, "{said}");
    for agent in &own {
        assert!(said.contains(&format!("{} records 1 processes", named(agent))), "{said}");
    }
    assert!(said.contains(&format!("{} traces no process of that service", named(&idle))), "{said}");
    for agent in [&unwilling, &packets_only] {
        assert!(said.contains(&format!("{} does not record: it was started without --why", named(agent))), "{said}");
    }
    assert!(said.contains("2 requests of service told their system calls"), "{said}");
    let found = wirespan(&[
        "traces",
        "service=service",
        "--server",
        place.ui(),
        "--token-file",
        token.to_str().unwrap(),
        "--format",
        "json",
    ]);
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("/calls/30/0/0/x") && found.contains("/calls/31/0/0/x"), "{found}");

    // One stops answering.
    rustix::process::kill_process(pid_of(&own[1]), rustix::process::Signal::STOP).unwrap();
    let (done, said) = asked("service", &["--for", "1s", "--threshold", "30ms"]);
    rustix::process::kill_process(pid_of(&own[1]), rustix::process::Signal::CONT).unwrap();
    assert!(done && said.contains(&format!("{} is silent", named(&own[1]))), "{said}");
    assert!(said.contains(&format!("{} records 1 processes", named(&own[0]))), "{said}");

    let (done, said) = asked("nobody", &["--for", "1s"]);
    assert!(!done && said.contains("no agent records it"), "{said}");
    let (done, said) = asked("service", &["--for", "1s", "--syscalls", "getpidd"]);
    assert!(!done && said.contains("did you mean `getpid`?"), "{said}");
    own.into_iter().chain([idle, unwilling, packets_only, server]).for_each(|running| {
        running.end();
    });
}

fn pid_of(running: &Running) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap()
}
