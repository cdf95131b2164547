//! A service of tokio with one worker whose requests await, compute, and are kept from running by other tasks. Each
//! says for how long: one JSON line for each request on standard output, times in seconds.
//!
//! usage: `ready_tokio` COUNT
//!
//! Each request of /mix/N sleeps 40 ms, computes 40 ms, waits 30 ms for a lock, lets a task go first that keeps the
//! worker for 100 ms, and waits for a value whose sender keeps the worker for 50 ms after it has sent it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::future::poll_fn;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, Mutex};

/// How long this thread has run.
fn ran() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

fn keep(ms: u64) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(ms) {}
}

/// Lets others go first.
async fn let_others_go() {
    let mut let_go = false;
    poll_fn(|context| {
        if std::mem::replace(&mut let_go, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Says what the request did.
async fn work(path: &str) -> String {
    let began = Instant::now();
    tokio::time::sleep(Duration::from_millis(40)).await;
    let mut awaited = began.elapsed();
    let before = ran();
    while ran() - before < Duration::from_millis(40) {}
    let computed = ran() - before;
    let lock = Arc::new(Mutex::new(()));
    let held = Arc::clone(&lock).lock_owned().await;
    let asked = Instant::now();
    let holder = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        drop(held);
    });
    drop(lock.lock().await);
    awaited += asked.elapsed();
    let (asked, other) = (Instant::now(), tokio::spawn(async { keep(100) }));
    let_others_go().await;
    let mut kept = asked.elapsed();
    let (sender, value) = oneshot::channel();
    let asked = Instant::now();
    let last = tokio::spawn(async move {
        sender.send(Instant::now()).unwrap();
        keep(50);
    });
    let sent = value.await.unwrap();
    awaited += sent - asked;
    kept += sent.elapsed();
    drop((holder, other, last));
    let [ran, awaited, kept, took] = [computed, awaited, kept, began.elapsed()].map(|time| time.as_secs_f64());
    format!("{{\"path\": \"{path}\", \"ran\": {ran}, \"awaited\": {awaited}, \"kept\": {kept}, \"took\": {took}}}")
}

async fn serve(stream: TcpStream) {
    let mut caller = tokio::io::BufReader::new(stream);
    let mut path = String::new();
    loop {
        let mut line = String::new();
        if caller.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if let Some(target) = line.strip_prefix("GET ") {
            path = target.split(' ').next().unwrap().to_string();
        }
        if line.trim().is_empty() {
            let told = work(&path).await;
            caller.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").await.unwrap();
            println!("{told}");
        }
    }
}

/// A client that asks for one path after the other.
fn ask(count: usize, to: std::net::SocketAddr) {
    let connect = || BufReader::new(std::net::TcpStream::connect(to).unwrap());
    let mut kept = connect();
    for n in 0..count {
        let mut fresh = (n % 2 == 0).then(connect);
        let client = fresh.as_mut().unwrap_or(&mut kept);
        let request = format!("GET /mix/{n} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        while line.trim() != "Content-Length: 4" {
            line.clear();
            client.read_line(&mut line).unwrap();
        }
        client.read_exact(&mut [0; 6]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let count = std::env::args().nth(1).unwrap().parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1)); // until the program is probed
        ask(count, to);
    });
    let served = tokio::spawn(async move {
        loop {
            tokio::spawn(serve(listener.accept().await.unwrap().0));
        }
    });
    while !client.is_finished() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    served.abort();
}
