//! What does not work is said: when it begins, when it ends, and in the status as long as it lasts.

use crate::harness::{can_trace, eventually, wirespan, Running, WIRESPAN};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A command whose stderr is read all the time.
struct Said {
    process: Running,
    text: Arc<Mutex<String>>,
}

impl Said {
    fn start(args: &[&str]) -> Said {
        let mut process = Running::start(WIRESPAN, args);
        let mut stderr = process.0.stderr.take().unwrap();
        let text: Arc<Mutex<String>> = Arc::default();
        let said = text.clone();
        std::thread::spawn(move || {
            let mut buf = [0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut buf) {
                said.lock().unwrap().push_str(&String::from_utf8_lossy(&buf[..n]));
            }
        });
        Said { process, text }
    }

    fn wait_for(&self, words: &str) -> String {
        let line = || self.text.lock().unwrap().lines().find(|l| l.contains(words)).map(str::to_string);
        let mut said = String::new();
        eventually(&format!("{words:?} is said; so far: {}", self.text.lock().unwrap()), || {
            said = line()?;
            Some(())
        });
        said
    }
}

/// A process to trace.
fn target() -> Running {
    let child =
        Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Running(child.unwrap())
}

#[test]
fn an_agent_says_that_its_server_is_away_and_when_it_is_back() {
    if !can_trace("silence_link") {
        return;
    }
    let (target, link, ui) = (target(), free_port(), free_port());
    let (pid, link, ui) = (target.pid().to_string(), format!("127.0.0.1:{link}"), format!("127.0.0.1:{ui}"));
    let state = format!("127.0.0.1:{}", free_port());
    let agent = Said::start(&["agent", "--pid", &pid, "--server", &link, "--status", &state]);
    let line = agent.wait_for("the server is not connected");
    assert!(line.contains("refused") && line.contains("spans wait") && line.contains("wirespan server"), "{line}");
    agent.wait_for("Ctrl-C ends");
    let status = || String::from_utf8(wirespan(&["status", "--server", &state]).stdout).unwrap();
    let said = status();
    assert!(
        said.contains("the server is not connected") && said.contains("memory") && !said.contains("store"),
        "{said}"
    );
    let traces = wirespan(&["traces", "--server", &state]);
    assert!(String::from_utf8_lossy(&traces.stderr).contains("its spans are at its server"), "{traces:?}");
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("wirespan.toml");
    std::fs::write(&config, "[serve]\notlp_grpc = \"\"\notlp_http = \"\"\n").unwrap();
    let config = config.to_str().unwrap();
    let server = Said::start(&["server", "--listen", &link, "--ui", &ui, "--config", config]);
    let line = agent.wait_for("is connected");
    assert!(line.contains(&link) && line.contains("after"), "{line}");
    let said = status();
    assert!(said.contains("all      as it should be"), "{said}");
    server.wait_for("is connected");
    drop(agent);
    let note = eventually("the server says that the agent has gone", || {
        let done = wirespan(&["status", "--server", &ui]);
        let text = String::from_utf8_lossy(&done.stdout).to_string();
        text.lines().find(|l| l.contains("has gone")).map(str::to_string)
    });
    assert!(note.contains("since") && note.contains("UTC"), "{note}");
}

#[test]
fn a_wrong_token_is_said_at_both_ends() {
    if !can_trace("silence_token") {
        return;
    }
    let (target, link, ui) = (target(), free_port(), free_port());
    let (pid, link, ui) = (target.pid().to_string(), format!("127.0.0.1:{link}"), format!("127.0.0.1:{ui}"));
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("wirespan.toml");
    std::fs::write(&config, "[serve]\notlp_grpc = \"\"\notlp_http = \"\"\n").unwrap();
    let config = config.to_str().unwrap();
    let server = Said::start(&["server", "--listen", &link, "--ui", &ui, "--token", "right", "--config", config]);
    server.wait_for("agents on");
    let agent = Said::start(&["agent", "--pid", &pid, "--server", &link, "--token", "wrong"]);
    let line = agent.wait_for("the server refuses this agent");
    assert!(line.contains("wrong token") && line.contains("WIRESPAN_TOKEN"), "{line}");
    let line = server.wait_for("is turned away");
    assert!(line.contains("127.0.0.1") && line.contains("wrong token"), "{line}");
    let status = wirespan(&["status", "--server", &ui]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("is turned away"), "{status:?}");
}

#[test]
fn a_dead_collector_is_said_at_once() {
    if !can_trace("silence_collector") {
        return;
    }
    let target = target();
    let (pid, to) = (target.pid().to_string(), format!("http://127.0.0.1:{}", free_port()));
    let agent = Said::start(&["agent", "--pid", &pid, "--otlp-endpoint", &to]);
    let line = agent.wait_for("does not take spans");
    assert!(line.contains("refused") && line.contains(&to) && line.contains("collector listening"), "{line}");
}

#[test]
fn places_that_cannot_be_are_refused_at_once() {
    let pid = std::process::id().to_string();
    for (option, part) in [("--otlp-endpoint", "http://foo:4317"), ("--server", "foo:9474")] {
        let done = wirespan(&["agent", "--pid", &pid, option, "foo"]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(option) && said.contains(part), "{said}");
    }
}

#[test]
fn a_second_agent_on_the_same_target_is_refused() {
    if !can_trace("silence_double") {
        return;
    }
    let target = target();
    let (pid, link) = (target.pid().to_string(), format!("127.0.0.1:{}", free_port()));
    let first = Said::start(&["agent", "--pid", &pid, "--server", &link]);
    first.wait_for("tracing");
    let second = wirespan(&["agent", "--pid", &pid, "--server", &link]);
    let said = String::from_utf8_lossy(&second.stderr);
    let owner = format!("wirespan agent (process {})", first.process.pid());
    assert!(!second.status.success() && said.contains(&owner) && said.contains("twice"), "{said}");
    drop(first);
    // The one that was killed holds nothing.
    let third = Said::start(&["agent", "--pid", &pid, "--server", &link, "--seconds", "1"]);
    third.wait_for("tracing");
}
