//! Tests on the loopback interface, with sockets of our own, whether a socket in the socket map behaves as any other.
//!
//! Each check stands for programs that hung or lost bytes under another tool: FIONREAD (nginx, Java, .NET), epoll,
//! splice (HAProxy, Go), sendfile, half-closed connections, a server that speaks first.

mod http2;

use rustix::event::{epoll, poll, PollFd, PollFlags, Timespec};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

/// How long a socket may take to become readable when bytes are due.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the whole test may take. A test that takes longer has failed: a call hangs.
const LIMIT: Duration = Duration::from_secs(10);
const LARGE: usize = 1 << 20;
const REQUEST: &[u8] = b"GET /wirespan-self-test HTTP/1.1\r\nHost: self.test\r\nAccept: */*\r\n\r\n";
const BODY: &[u8] = b"GET / HTTP/1.1\r\nHost: in a body\r\n\r\n";
const OWN: &[u8] = b"GET / HTTP/1.1\r\nHost: self.test\r\n\
    TraceParent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n";

/// Which requests must arrive with a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    Nothing,
    First,
    Every,
}

type Check = Result<(), String>;

/// Runs all checks, those of FIONREAD only with `counted`. The error describes the first check that fails.
pub(super) fn run(expect: Expect, counted: bool) -> Check {
    let (done, outcome) = mpsc::channel();
    let test = move || {
        // First, as this thread has not read a request yet: one that has acts for it.
        let all = http2::talk(expect)
            .and_then(|()| talk(expect, counted))
            .and_then(|()| server_first(expect, counted))
            .and_then(|()| body_apart(expect))
            .and_then(|()| untouched());
        let _ = done.send(all);
    };
    std::thread::Builder::new().name("self-test".into()).spawn(test).map_err(|e| e.to_string())?;
    outcome.recv_timeout(LIMIT).unwrap_or_else(|_| Err("a call on an enrolled socket never returned".into()))
}

fn said(what: &'static str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

fn errno(what: &'static str) -> impl Fn(rustix::io::Errno) -> String {
    move |error| format!("{what}: {error}")
}

fn ensure(fact: bool, otherwise: impl FnOnce() -> String) -> Check {
    if fact {
        Ok(())
    } else {
        Err(otherwise())
    }
}

fn connect() -> Result<(TcpStream, TcpStream), String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(said("listening"))?;
    let address = listener.local_addr().map_err(said("listening"))?;
    let client = TcpStream::connect(address).map_err(said("connecting"))?;
    let (server, _) = listener.accept().map_err(said("accepting"))?;
    for end in [&client, &server] {
        end.set_read_timeout(Some(PATIENCE)).map_err(said("setting a timeout"))?;
        end.set_write_timeout(Some(PATIENCE)).map_err(said("setting a timeout"))?;
    }
    Ok((client, server))
}

fn read_exactly(from: &mut TcpStream, length: usize, what: &'static str) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).map_err(said(what))?;
    Ok(bytes)
}

/// Sends a request, and reads it at the other end. It must be unchanged, but for one added `traceparent` if `context`.
fn request(client: &mut TcpStream, server: &mut TcpStream, sent: &[u8], context: bool) -> Check {
    let came = pass(client, server, sent)?;
    if !context {
        return ensure(came == sent, || "a request that must stay as it is was changed".into());
    }
    has_context(sent, &came)
}

fn pass(client: &mut TcpStream, server: &mut TcpStream, sent: &[u8]) -> Result<Vec<u8>, String> {
    client.write_all(sent).map_err(said("sending a request"))?;
    let mut came = Vec::new();
    let mut piece = [0; 4096];
    while !came.ends_with(b"\r\n\r\n") {
        let n = server.read(&mut piece).map_err(said("receiving a request"))?;
        ensure(n > 0, || "a request ended early".into())?;
        came.extend(piece.iter().take(n));
    }
    Ok(came)
}

fn has_context(sent: &[u8], came: &[u8]) -> Check {
    let line = sent.iter().position(|b| *b == b'\n').map_or(0, |n| n + 1);
    let added = came.len().saturating_sub(sent.len());
    let (head, rest) = came.split_at(line.min(came.len()));
    let (header, rest) = rest.split_at(added.min(rest.len()));
    let whole = [head, rest].concat() == sent;
    let good = header.starts_with(b"traceparent: 00-") && header.ends_with(b"\r\n") && header.len() == 70;
    ensure(whole && good, || format!("{} bytes arrived of {} with a context", came.len(), sent.len()))
}

fn readable(socket: &TcpStream) -> Check {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let n = poll(&mut fds, Some(&patience)).map_err(errno("poll"))?;
    ensure(n == 1, || "poll does not report bytes that arrived".into())
}

fn fionread(socket: &TcpStream, expected: u64, counted: bool) -> Check {
    if !counted {
        return Ok(());
    }
    let n = rustix::io::ioctl_fionread(socket).map_err(errno("FIONREAD"))?;
    ensure(n == expected, || format!("FIONREAD answers {n} with {expected} bytes queued"))
}

/// Waits on an epoll instance. Returns the number of events.
fn events(ep: &impl std::os::fd::AsFd, patience: Duration) -> Result<usize, String> {
    let mut list = Vec::with_capacity(4);
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: 0 };
    epoll::wait(ep, rustix::buffer::spare_capacity(&mut list), Some(&timeout)).map_err(errno("epoll_wait"))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends while the other end reads. The bytes that arrive must be those that were sent.
fn carry(to: &mut TcpStream, send: impl FnOnce() -> Check, expected: &[u8], what: &'static str) -> Check {
    let mut reader = to.try_clone().map_err(said("cloning"))?;
    let length = expected.len();
    let reading = std::thread::spawn(move || read_exactly(&mut reader, length, what));
    send()?;
    let came = reading.join().map_err(|_| "the reader panicked".to_string())??;
    ensure(came == expected, || format!("{what}: other bytes arrived than were sent"))
}

/// Exchanges requests and answers of every size, with every kind of call.
fn talk(expect: Expect, counted: bool) -> Check {
    let (mut client, mut server) = connect()?;
    let flags = epoll::CreateFlags::CLOEXEC;
    let level = epoll::create(flags).map_err(errno("epoll_create"))?;
    let edge = epoll::create(flags).map_err(errno("epoll_create"))?;
    let data = epoll::EventData::new_u64(1);
    epoll::add(&level, &client, data, epoll::EventFlags::IN).map_err(errno("epoll_ctl"))?;
    epoll::add(&edge, &client, data, epoll::EventFlags::IN | epoll::EventFlags::ET).map_err(errno("epoll_ctl"))?;
    fionread(&client, 0, counted)?;

    request(&mut client, &mut server, REQUEST, expect != Expect::Nothing)?;
    server.write_all(&pattern(1000)).map_err(said("answering"))?;
    readable(&client)?;
    ensure(events(&level, PATIENCE)? == 1, || "epoll does not report bytes that arrived".into())?;
    ensure(events(&edge, PATIENCE)? == 1, || "edge-triggered epoll does not report bytes that arrived".into())?;
    fionread(&client, 1000, counted)?;
    let first = read_exactly(&mut client, 400, "receiving")?;
    fionread(&client, 600, counted)?;
    ensure(events(&level, Duration::ZERO)? == 1, || "epoll does not report bytes that were left unread".into())?;
    ensure(events(&edge, Duration::ZERO)? == 0, || "edge-triggered epoll reports bytes twice".into())?;
    let (out, into) = rustix::pipe::pipe().map_err(errno("pipe"))?;
    let how = rustix::pipe::SpliceFlags::NONBLOCK;
    let moved = rustix::pipe::splice(&client, None, &into, None, 600, how).map_err(errno("splice from the socket"))?;
    let mut rest = vec![0; moved];
    rustix::io::read(&out, &mut rest).map_err(errno("reading the pipe"))?;
    let came = [first, rest].concat();
    ensure(came == pattern(1000), || format!("splice moved {moved} of 600 bytes"))?;

    request(&mut client, &mut server, REQUEST, expect == Expect::Every)?;
    let large = pattern(LARGE);
    server.write_all(b"ok").map_err(said("answering"))?;
    read_exactly(&mut client, 2, "receiving the second answer")?;
    let mut sender = client.try_clone().map_err(said("cloning"))?;
    carry(&mut server, || sender.write_all(&large).map_err(said("sending much")), &large, "receiving much")?;
    carry(&mut server, || send_file(&client, &large), &large, "receiving what sendfile sent")?;
    carry(&mut server, || send_splice(&client, &into, &out), &pattern(4096), "receiving what splice sent")?;
    let mut answerer = server.try_clone().map_err(said("cloning"))?;
    carry(
        &mut client,
        || answerer.write_all(&large).map_err(said("answering much")),
        &large,
        "receiving a large answer",
    )?;

    client.shutdown(Shutdown::Write).map_err(said("shutdown"))?;
    let n = server.read(&mut [0; 16]).map_err(said("waiting for the end"))?;
    ensure(n == 0, || format!("{n} bytes come behind the end"))?;
    server.write_all(b"tail").map_err(said("sending on a half-closed connection"))?;
    drop((server, answerer));
    let mut tail = Vec::new();
    client.read_to_end(&mut tail).map_err(said("reading a half-closed connection"))?;
    ensure(tail == b"tail", || "a half-closed connection loses bytes".into())
}

/// A body that comes in a write of its own, and looks like a request, stays as it is.
fn body_apart(expect: Expect) -> Check {
    let (mut client, mut server) = connect()?;
    let head = format!("POST / HTTP/1.1\r\nHost: self.test\r\nContent-Length: {}\r\n\r\n", BODY.len());
    request(&mut client, &mut server, head.as_bytes(), expect != Expect::Nothing)?;
    client.write_all(BODY).map_err(said("sending a body"))?;
    let came = read_exactly(&mut server, BODY.len(), "receiving a body")?;
    ensure(came == BODY, || "a body that looks like a request was changed".into())?;
    server.write_all(b"ok").map_err(said("answering"))?;
    read_exactly(&mut client, 2, "receiving an answer")?;
    request(&mut client, &mut server, OWN, false)
}

fn send_file(to: &TcpStream, bytes: &[u8]) -> Check {
    let memory =
        rustix::fs::memfd_create("wirespan-self-test", rustix::fs::MemfdFlags::CLOEXEC).map_err(errno("memfd"))?;
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes).and_then(|()| file.rewind()).map_err(said("writing a file"))?;
    let mut left = bytes.len();
    while left > 0 {
        let n = rustix::fs::sendfile(to, &file, None, left).map_err(errno("sendfile"))?;
        ensure(n > 0, || "sendfile stands still".into())?;
        left -= n;
    }
    Ok(())
}

fn send_splice(to: &TcpStream, into: &impl std::os::fd::AsFd, out: &impl std::os::fd::AsFd) -> Check {
    let bytes = pattern(4096);
    rustix::io::write(into, &bytes).map_err(errno("filling the pipe"))?;
    let mut left = bytes.len();
    while left > 0 {
        let flags = rustix::pipe::SpliceFlags::empty();
        let n =
            rustix::pipe::splice(out.as_fd(), None, to, None, left, flags).map_err(errno("splice to the socket"))?;
        ensure(n > 0, || "splice stands still".into())?;
        left -= n;
    }
    Ok(())
}

/// A server that greets: FIONREAD must count its bytes before the client has sent any.
fn server_first(expect: Expect, counted: bool) -> Check {
    let (mut client, mut server) = connect()?;
    for round in 1..=2u64 {
        server.write_all(b"hello").map_err(said("greeting"))?;
        readable(&client)?;
        let told = fionread(&client, 5 * round, counted);
        // In the second round the socket was readable before: the new bytes may still be on their way.
        if round == 1 {
            told.map_err(|why| format!("{why}, of a server that speaks first"))?;
        }
    }
    read_exactly(&mut client, 10, "receiving a greeting")?;
    // The one thread that plays both ends may act for more than one request by now: a context is not certain.
    let came = pass(&mut client, &mut server, REQUEST)?;
    if expect == Expect::Every && came != REQUEST {
        return has_context(REQUEST, &came);
    }
    ensure(came == REQUEST, || "a request that must stay as it is was changed".into())
}

/// A request that has a context already must arrive unchanged, and so must bytes that are no complete HTTP/1 request.
fn untouched() -> Check {
    let (mut client, mut server) = connect()?;
    request(&mut client, &mut server, OWN, false)?;
    for bytes in [
        &b"\x16\x03\x01\x00\x05hello"[..],
        b"GET / HTTP/1.1\r\nHost: unfinished\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let (mut client, mut server) = connect()?;
        client.write_all(bytes).map_err(said("sending"))?;
        let came = read_exactly(&mut server, bytes.len(), "receiving")?;
        ensure(came == bytes, || "bytes that are not an HTTP/1 request were changed".into())?;
    }
    Ok(())
}
