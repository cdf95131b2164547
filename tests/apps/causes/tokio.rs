//! A program on tokio whose requests all give their calls to one task, by a channel. That task sends them on one
//! connection, as many at once as there are, and does not wait for the answers: as clients of Redis do.
//!
//! Its argument is the port of the back end. It prints `listening PORT`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::VecDeque;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

struct Call {
    path: String,
    done: oneshot::Sender<()>,
}

/// First line of the next message; its body is thrown away. Nothing at the end of the connection.
async fn message(connection: &mut BufReader<TcpStream>) -> Option<String> {
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

/// Sends what the others ask for, and reads the answers.
async fn drive(back: u16, mut asked: mpsc::Receiver<Call>) {
    let stream = TcpStream::connect(("127.0.0.1", back)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut connection, mut waiting) = (BufReader::new(stream), VecDeque::new());
    loop {
        let mut calls = Vec::new();
        if waiting.is_empty() {
            calls.extend(asked.recv().await);
        } else {
            // An answer that has begun is read to its end.
            tokio::select! {
                call = asked.recv() => calls.extend(call),
                begun = connection.fill_buf() => {
                    begun.unwrap();
                    message(&mut connection).await.unwrap();
                    let done: oneshot::Sender<()> = waiting.pop_front().unwrap();
                    done.send(()).unwrap();
                }
            }
        }
        while let Ok(call) = asked.try_recv() {
            calls.push(call);
        }
        let ask = |call: &Call| format!("GET /u/{} HTTP/1.1\r\nHost: back\r\n\r\n", call.path);
        let bytes: String = calls.iter().map(ask).collect();
        waiting.extend(calls.into_iter().map(|call| call.done));
        if !bytes.is_empty() {
            connection.write_all(bytes.as_bytes()).await.unwrap();
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let back = std::env::args().nth(1).unwrap().parse().unwrap();
    let (calls, asked) = mpsc::channel(64);
    let mut asked = Some(asked);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening {}", listener.local_addr().unwrap().port());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // Not before tracing has begun.
        if let Some(asked) = asked.take() {
            tokio::spawn(drive(back, asked));
        }
        let calls = calls.clone();
        tokio::spawn(async move {
            stream.set_nodelay(true).unwrap();
            let mut caller = BufReader::new(stream);
            while let Some(line) = message(&mut caller).await {
                let path = line.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap().to_string();
                let (done, answered) = oneshot::channel();
                calls.send(Call { path, done }).await.unwrap();
                answered.await.unwrap();
                caller.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
            }
        });
    }
}
