//! Servers of Ruby and PHP as they are used: Puma with several threads, and PHP-FPM with several processes.

use crate::harness::{can_trace, eventually, has, otlp, root, within, Running, Span, WIRESPAN};
use crate::interpreted::right;
use crate::stacks::{traced, written, Server};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Files of tests/apps/stacks in a folder of their own: what they write stands beside them.
fn copied(dir: &Path, names: &[&str]) {
    names.iter().for_each(|name| {
        std::fs::copy(root().join("tests/apps/stacks").join(name), dir.join(name)).unwrap();
    });
}

/// How many functions of these waits are right, and all.
fn compared(spans: &[Span], paths: &[String], truth: &Path) -> (usize, usize) {
    let truth = std::fs::read_to_string(truth).unwrap();
    let counts = spans.iter().zip(paths).map(|(span, path)| right(span, path, &written(&truth, path)));
    counts.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1))
}

#[test]
fn requests_in_pumas_pool_say_in_which_functions_and_for_which_thread_they_waited() {
    let test = "stacks_puma";
    if !can_trace(test) || !has(test, &["ruby", "puma"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    copied(dir.path(), &["stacks.rb", "puma.ru"]);
    let program = dir.path().join("start");
    let rackup = dir.path().join("puma.ru");
    let start = format!("exec puma -q -e production -t 4:4 -b tcp://127.0.0.1:$1 {}", rackup.display());
    std::fs::write(&program, format!("#!/bin/sh\n{start}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let paths = ["sleep", "each", "rescued", "fiber", "read"].map(|what| format!("/{what}/40"));
    let spans = traced(&program, &paths.each_ref().map(String::as_str));
    let (right, all) = compared(&spans, &paths, &dir.path().join("stacks.rb.truth"));
    println!("{right} of {all} functions are right");
    assert!(all > 40 && right * 100 >= all * 95, "{right} of {all}");
    // The thread of the pool that has the lock is told.
    let server = Server::start(&program);
    let file = dir.path().join("shared");
    let pid = server.pid().to_string();
    let args = ["up", "--no-ui", "--threshold", "10ms", "--pid", &pid, "--otlp-file", file.to_str().unwrap()];
    let mut agent = Running::start(WIRESPAN, &args);
    agent.wait_for("Ctrl-C ends");
    let is_held = |e: &BTreeMap<String, String>| {
        let fact = |name: &str| e.get(&format!("wirespan.wait.{name}")).map_or("", String::as_str);
        fact("kind") == "lock" && fact("held_by").starts_with("thread puma srv tp 00") && long(e)
    };
    let ask = || server.ask("/shared/40");
    within(Duration::from_secs(30), "a request that waited for another thread of the pool", || {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(ask);
            }
        });
        otlp(&file).into_iter().find(|span| span.events.iter().any(is_held)).map(|span| println!("{:#?}", span.events))
    });
}

/// A wait of 30 ms or more.
fn long(event: &BTreeMap<String, String>) -> bool {
    event["wirespan.wait.duration"].parse::<u64>().unwrap() >= 30_000_000
}

/// PHP-FPM, ended with the test.
struct Fpm {
    master: Child,
    port: u16,
}

impl Fpm {
    fn start(program: &Path, dir: &Path) -> Fpm {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = dir.join("fpm.log");
        let conf = format!(
            "[global]\nerror_log={}\ndaemonize=no\n[shop]\nlisten=127.0.0.1:{port}\nuser=root\ngroup=root\npm=static\n\
             pm.max_children=2\n",
            log.display()
        );
        std::fs::write(dir.join("fpm.conf"), conf).unwrap();
        let master = Command::new(program).args(["-F", "-R", "-y"]).arg(dir.join("fpm.conf")).spawn().unwrap();
        let fpm = Fpm { master, port };
        eventually("PHP-FPM listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        fpm
    }

    /// Asks for a file by FastCGI, as a web server does.
    fn ask(&self, file: &Path, path: &str) {
        let record = |kind: u8, body: &[u8]| {
            let length = u16::try_from(body.len()).unwrap().to_be_bytes();
            [&[1, kind, 0, 1, length[0], length[1], 0, 0], body].concat()
        };
        let pair = |(name, value): (&str, &str)| {
            let sizes = [name, value].map(|text| (u32::try_from(text.len()).unwrap() | 1 << 31).to_be_bytes());
            [&sizes.concat(), name.as_bytes(), value.as_bytes()].concat()
        };
        let file = file.to_str().unwrap();
        let parameters = [("SCRIPT_FILENAME", file), ("REQUEST_METHOD", "GET"), ("REQUEST_URI", path)].map(pair);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let begin = record(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
        stream.write_all(&[begin, record(4, &parameters.concat()), record(4, &[]), record(5, &[])].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.windows(2).any(|two| two == b"ok"), "{}", String::from_utf8_lossy(&answer));
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // It ends its children, which it would leave behind if it were killed.
        let master = rustix::process::Pid::from_child(&self.master);
        let _ = rustix::process::kill_process(master, rustix::process::Signal::TERM);
        let _ = self.master.wait();
    }
}

#[test]
fn functions_of_php_fpm_are_told() {
    let test = "stacks_php_fpm";
    let program = ["8.4", "8.3", "8.2", "8.1"].map(|version| PathBuf::from(format!("/usr/sbin/php-fpm{version}")));
    let Some(program) = program.into_iter().find(|program| program.exists()) else {
        has(test, &["php-fpm"]);
        return;
    };
    if !can_trace(test) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    copied(dir.path(), &["stacks.php"]);
    let (source, file) = (dir.path().join("stacks.php"), dir.path().join("spans"));
    let fpm = Fpm::start(&program, dir.path());
    let pid = fpm.master.id().to_string();
    let args = ["up", "--no-ui", "--threshold", "10ms", "--pid", &pid, "--otlp-file", file.to_str().unwrap()];
    let mut agent = Running::start(WIRESPAN, &args);
    agent.wait_for("Ctrl-C ends");
    let paths = ["sleep", "deep", "mapped", "generated", "class", "missing", "caught", "read"];
    let paths = paths.map(|what| format!("/{what}/40"));
    let found = |path: &String| {
        within(Duration::from_secs(30), &format!("a span of {path} with stacks"), || {
            fpm.ask(&source, path);
            let is = |s: &Span| s.attr("url.path") == *path && s.attr("wirespan.tap_side") == "server-process";
            // At the first stack, where PHP has its functions is not known yet.
            let is_php = |e: &BTreeMap<String, String>| {
                e.get("code.stacktrace").is_some_and(|stack| stack.contains("(stacks.php:"))
            };
            otlp(&file).into_iter().find(|s| is(s) && s.events.iter().any(is_php))
        })
    };
    let spans: Vec<Span> = paths.iter().map(found).collect();
    let (right, all) = compared(&spans, &paths, &source.with_extension("php.truth"));
    println!("{right} of {all} functions are right");
    // What the file does outside of functions is freed before its name is asked for: it is one function of each.
    assert!(right + paths.len() >= all && all > 40, "{right} of {all}");
}
