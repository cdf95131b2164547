//! A service of a shape, on tokio's multi-threaded runtime; README.md has the environment.
//!
//! HOW: `tokio` one call after the other over connections that all tasks share, `tokio-fanout` a task for each, all at
//! once.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Connection = BufReader<TcpStream>;

struct Service {
    name: String,
    fanout: bool,
    port: u16,
    upstreams: Vec<SocketAddr>,
    /// Connections that nobody uses; the last used is the next.
    idle: Vec<Mutex<Vec<Connection>>>,
    truth: File,
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// What a request makes its service call, by its path alone: upstream and load.
fn calls(path: &str, upstreams: usize) -> Vec<(usize, u32)> {
    let load: u32 = path.split('/').nth(2).and_then(|n| n.parse().ok()).unwrap_or(0);
    (0..upstreams).flat_map(|u| (0..=load >> u & 1).map(move |i| (u, (load + i + 1) % 4))).collect()
}

fn new_path(load: u32) -> String {
    let mut number = [0; 6];
    File::open("/dev/urandom").unwrap().read_exact(&mut number).unwrap();
    let hex: String = number.iter().map(|b| format!("{b:02x}")).collect();
    format!("/work/{load}/{hex}")
}

/// First line of the next message; its body is thrown away. Nothing at the end of the connection.
async fn message(connection: &mut Connection) -> Option<String> {
    let (mut first, mut length) = (String::new(), 0);
    if connection.read_line(&mut first).await.ok()? == 0 {
        return None;
    }
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.ok()?;
        match line.trim_end().to_ascii_lowercase() {
            line if line.is_empty() => break,
            line => length = line.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap()),
        }
    }
    connection.read_exact(&mut vec![0; length]).await.ok()?;
    Some(first)
}

impl Service {
    /// One line in one write: nothing is lost when the process is ended.
    fn note(&self, kind: &str, path: &str, inside: &str, port: u16, start: u128, status: u32) {
        let (name, end) = (&self.name, now());
        let line = format!(
            "{{\"service\":\"{name}\",\"kind\":\"{kind}\",\"target\":\"{path}\",{inside}\"port\":{port},\"start\":\
             {start},\"end\":{end},\"status\":{status}}}\n"
        );
        (&self.truth).write_all(line.as_bytes()).unwrap();
    }

    async fn call(&self, upstream: usize, load: u32, inside: &str) -> bool {
        let (path, start, to) = (new_path(load), now(), self.upstreams[upstream]);
        let kept = self.idle[upstream].lock().unwrap().pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(to).await.unwrap();
                stream.set_nodelay(true).unwrap();
                BufReader::new(stream)
            }
        };
        connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: shapes\r\n\r\n").as_bytes()).await.unwrap();
        let line = message(&mut connection).await.expect("an answer");
        self.idle[upstream].lock().unwrap().push(connection);
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        self.note("client", &path, &format!("\"in\":\"{inside}\","), to.port(), start, status);
        status == 200
    }

    async fn work(self: &Arc<Self>, path: &str) -> bool {
        let mut good = true;
        let mut tasks = Vec::new();
        for (upstream, load) in calls(path, self.upstreams.len()) {
            if self.fanout {
                let (service, path) = (Arc::clone(self), path.to_string());
                tasks.push(tokio::spawn(async move { service.call(upstream, load, &path).await }));
            } else {
                good &= self.call(upstream, load, path).await;
            }
        }
        for task in tasks {
            good &= task.await.unwrap();
        }
        good
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut caller = BufReader::new(stream);
        while let Some(line) = message(&mut caller).await {
            let start = now();
            let path = line.split(' ').nth(1).unwrap().to_string();
            let status = if self.work(&path).await { 200 } else { 502 };
            self.note("server", &path, "", self.port, start, status);
            let answer = format!("HTTP/1.1 {status} Status\r\nContent-Length: 2\r\n\r\nok");
            if caller.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let listen: SocketAddr = var("LISTEN").parse().expect("LISTEN");
    let name = var("SERVICE");
    let truth = format!("{}/{name}.jsonl", var("GROUND_TRUTH_DIR"));
    let upstreams: Vec<SocketAddr> =
        var("CALLS").split(',').filter(|a| !a.is_empty()).map(|a| a.parse().expect("CALLS")).collect();
    let service = Arc::new(Service {
        name,
        fanout: var("HOW").ends_with("fanout"),
        port: listen.port(),
        idle: upstreams.iter().map(|_| Mutex::default()).collect(),
        upstreams,
        truth: File::options().append(true).create(true).open(truth).expect("GROUND_TRUTH_DIR"),
    });
    let listener = TcpListener::bind(listen).await.expect("LISTEN");
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(Arc::clone(&service).serve(stream));
    }
}
