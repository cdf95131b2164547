//! A proxy that is not traced between two services that are, each with an agent of its own: only the X-Request-ID joins
//! them.

use crate::harness::{can_trace, eventually, has, otlp, root, Running, Span};
use crate::split::{free_port, Place};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

/// Requests of each kind, ten at a time.
const REQUESTS: usize = 30;

/// nginx as a proxy: on the first port it names each request and tells the caller, on the second it keeps the name.
/// One process, so that none is left however the test ends.
fn nginx(dir: &Path, new: u16, kept: u16, behind: u16) -> Running {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/{kind};", dir.display()));
    let conf = format!(
        "daemon off; master_process off; pid {0}/nginx.pid; error_log {0}/nginx.log; events {{}}
        http {{
            {1} access_log off;
            server {{
                listen 127.0.0.1:{new};
                location / {{
                    proxy_pass http://127.0.0.1:{behind};
                    proxy_set_header X-Request-ID $request_id;
                    add_header X-Request-ID $request_id;
                }}
            }}
            server {{
                listen 127.0.0.1:{kept};
                location / {{ proxy_pass http://127.0.0.1:{behind}; }}
            }}
        }}\n",
        dir.display(),
        temporary.join(" ")
    );
    let file = dir.join("nginx.conf");
    std::fs::write(&file, conf).unwrap();
    Running::start("nginx", &[Path::new("-p"), dir, Path::new("-c"), &file])
}

fn get(port: u16, path: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
}

fn ask_all(port: u16) {
    let all: Vec<String> = (0..REQUESTS).flat_map(|i| [format!("/new/{i}"), format!("/fan/{i}")]).collect();
    std::thread::scope(|scope| {
        for part in all.chunks(all.len() / 10) {
            scope.spawn(move || part.iter().for_each(|path| get(port, path)));
        }
    });
}

#[test]
fn a_request_id_joins_two_agents_around_a_proxy_that_is_not_traced() {
    let test = "unseen";
    if !can_trace(test) || !has(test, &["python3", "nginx"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [new, kept, caller_port, called_port] = [(); 4].map(|()| free_port());
    let program = root().join("tests/apps/unseen/services.py");
    let service = |args: &[&str]| Running::start("python3", &[&[program.to_str().unwrap()], args].concat());
    let called = service(&["called", &called_port.to_string()]);
    let caller = service(&["caller", &caller_port.to_string(), &new.to_string(), &kept.to_string()]);
    let _proxy = nginx(dir.path(), new, kept, called_port);
    for port in [new, kept, caller_port, called_port] {
        eventually("it listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    }
    let place = Place::new(dir.path());
    let exported = dir.path().join("spans.jsonl");
    let server = place.serve(&[Path::new("--otlp-file"), &exported]);
    let agents = [place.trace(caller.pid(), &[]), place.trace(called.pid(), &[])];
    ask_all(caller_port);
    let served = |spans: &[Span]| -> Vec<Span> {
        let of = |s: &&Span| {
            s.attr("server.port") == called_port.to_string() && s.attr("url.path").matches('/').count() == 2
        };
        spans.iter().filter(of).cloned().collect()
    };
    eventually("the server has exported all", || (served(&otlp(&exported)).len() == 5 * REQUESTS).then_some(()));
    agents.into_iter().for_each(|agent| drop(agent.end()));
    server.end();
    let spans = otlp(&exported);
    for s in served(&spans) {
        let path = s.attr("url.path");
        if path.starts_with("/twice") {
            continue;
        }
        let parent = spans.iter().find(|p| p.id == s.parent).unwrap_or_else(|| panic!("no caller: {s:?}"));
        assert_eq!((parent.attr("url.path"), parent.attr("wirespan.tap_side")), (path, "client-process"));
        assert_eq!((s.attr("wirespan.evidence"), &s.trace), ("forwarded", &parent.trace));
        assert!(s.attr("wirespan.confidence").parse::<f64>().unwrap() > 0.8, "{s:?}");
        let asked = spans.iter().find(|p| p.id == parent.parent).unwrap();
        assert_eq!(asked.attr("url.path").rsplit('/').next(), path.rsplit('/').next(), "{asked:?}");
    }
    // Two calls with the same id, method and path at the same time: only their times may tell them apart.
    for i in 0..REQUESTS {
        let served = served(&spans);
        let twice: Vec<&Span> = served.iter().filter(|s| s.attr("url.path") == format!("/twice/{i}")).collect();
        assert!(twice[0].parent != twice[1].parent || twice[0].parent.is_empty(), "{twice:?}");
        for s in twice.into_iter().filter(|s| !s.parent.is_empty()) {
            let parent = spans.iter().find(|p| p.id == s.parent).unwrap();
            assert_eq!(parent.attr("url.path"), s.attr("url.path"));
        }
    }
}
