//! Servers and clients that speak HTTP over rustls, once by tasks of tokio and once by threads that block.
//!
//! `tls_rustls CERT KEY`. Prints each request whose answer was as it should be, as `PATH STATUS`. A request for
//! `/hop/N` makes the server of tasks ask the server of threads for `/leaf/N`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use rustls::pki_types::{pem::PemObject as _, CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufReader, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const CONNECTIONS: usize = 6;

fn configs(cert: &str, key: &str) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let certificate = CertificateDer::from_pem_file(cert).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![certificate], PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

fn name() -> ServerName<'static> {
    "localhost".try_into().unwrap()
}

fn ask(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// What a path asks for: the last part is the length of the answer.
fn answer(head: &str) -> (String, Vec<u8>) {
    let size = head.split(' ').nth(1).and_then(|p| p.rsplit('/').next()?.parse().ok()).unwrap_or(0);
    (format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n"), vec![b'r'; size])
}

/// Length of the body that a head announces, if the head is whole.
fn announced(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head.strip_suffix(b"\r\n\r\n")?).unwrap();
    let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: "));
    Some(length.map_or(0, |l| l.parse().unwrap()))
}

/// A head and its body; `None` at the end.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    let length = loop {
        head.push(stream.read_u8().await.ok()?);
        if let Some(length) = announced(&head) {
            break length;
        }
    };
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(String::from_utf8(head).unwrap())
}

fn blocking_message(stream: impl Read) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    let length = loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
        if let Some(length) = announced(&head) {
            break length;
        }
    };
    stream.read_exact(&mut vec![0; length]).ok()?;
    Some(String::from_utf8(head).unwrap())
}

fn done(path: &str, head: &str) {
    println!("{path} {}", head.split(' ').nth(1).unwrap());
}

/// Asks for these paths over a connection of its own.
async fn client(to: SocketAddr, config: Arc<ClientConfig>, paths: Vec<String>) {
    let stream = tokio::net::TcpStream::connect(to).await.unwrap();
    let mut stream = TlsConnector::from(config).connect(name(), stream).await.unwrap();
    // Another task, so that it may go on by another thread than that of the handshake.
    tokio::spawn(async move {
        for path in paths {
            stream.write_all(ask(&path).as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            done(&path, &message(&mut tokio::io::BufReader::new(&mut stream)).await.unwrap());
        }
    })
    .await
    .unwrap();
}

async fn serve(stream: tokio::net::TcpStream, server: TlsAcceptor, leaf: SocketAddr, config: Arc<ClientConfig>) {
    let stream = server.accept(stream).await.unwrap();
    let mut stream = tokio::io::BufReader::new(stream);
    while let Some(head) = message(&mut stream).await {
        let path = head.split(' ').nth(1).unwrap();
        if let Some(number) = path.strip_prefix("/hop/") {
            client(leaf, Arc::clone(&config), vec![format!("/leaf/{number}")]).await;
        }
        let (head, body) = answer(&head);
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        stream.flush().await.unwrap();
    }
}

fn serve_blocking(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream.unwrap());
            std::thread::spawn(move || {
                while let Some(head) = blocking_message(&mut stream) {
                    let (head, body) = answer(&head);
                    let written = stream.write_vectored(&[IoSlice::new(head.as_bytes()), IoSlice::new(&body)]).unwrap();
                    let all = [head.as_bytes(), &body].concat();
                    stream.write_all(&all[written..]).unwrap();
                }
            });
        }
    });
    at
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (server, config) = configs(&arguments[1], &arguments[2]);
    std::thread::sleep(Duration::from_secs(1));
    let leaf = serve_blocking(Arc::clone(&server));
    let connection = ClientConnection::new(Arc::clone(&config), name()).unwrap();
    let mut stream = StreamOwned::new(connection, std::net::TcpStream::connect(leaf).unwrap());
    for size in [0, 100, 40_000] {
        let path = format!("/blocking/{size}");
        stream.write_all(ask(&path).as_bytes()).unwrap();
        done(&path, &blocking_message(&mut stream).unwrap());
    }
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let leafs = Arc::clone(&config);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, TlsAcceptor::from(Arc::clone(&server)), leaf, Arc::clone(&leafs)));
            }
        });
        let hops = (0..3).map(|n| format!("/hop/{n}")).collect();
        client(at, Arc::clone(&config), hops).await;
        let paths =
            |c| [0, 100, 40_000, 5].iter().enumerate().map(move |(i, size)| format!("/tasks/{c}-{i}/{size}")).collect();
        let clients: Vec<_> =
            (0..CONNECTIONS).map(|c| tokio::spawn(client(at, Arc::clone(&config), paths(c)))).collect();
        for client in clients {
            client.await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await; // the servers' last writes are still to return
    });
}
