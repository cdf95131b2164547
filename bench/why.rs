//! A server of bench/why: as bench/why.c, in Rust with tokio and two workers. Each request runs for a while, then waits
//! for a task that runs for half of that. Prints its port.
//!
//! usage: `why_tokio` MICROSECONDS
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

type Lines = mpsc::Sender<oneshot::Sender<()>>;

fn work(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {}
}

async fn handle(mut connection: TcpStream, lines: Lines, each: Duration) {
    let mut bytes = [0; 4096];
    while connection.read(&mut bytes).await.is_ok_and(|read| read > 0) {
        work(each);
        let (written, is_written) = oneshot::channel();
        lines.send(written).await.unwrap();
        is_written.await.unwrap();
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let each = Duration::from_micros(std::env::args().nth(1).unwrap().parse().unwrap());
    let (lines, mut to_write) = mpsc::channel::<oneshot::Sender<()>>(64);
    tokio::spawn(async move {
        while let Some(written) = to_write.recv().await {
            work(each / 2);
            let _ = written.send(());
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        tokio::spawn(handle(connection, lines.clone(), each));
    }
}
