//! Traces one command and prints the events of the kernel plane: `cargo run -p wirespan-capture --example dump --
//! CMD…`.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use wirespan_capture::{Capture, Options, Targets};
use wirespan_model::Event;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let options = Options { rung: std::env::var("WIRESPAN_RUNG").ok(), ..Options::default() };
    let mut capture = Capture::open(&options, &Targets::default()).unwrap_or_else(|e| panic!("{e}"));
    for f in capture.features() {
        eprintln!("{f:?}");
    }
    // The child waits on a pipe until it is a target.
    let (read, write) = rustix::pipe::pipe().unwrap();
    let mut command = Command::new(&args[0]);
    command.args(&args[1..]);
    let gate = std::os::fd::AsRawFd::as_raw_fd(&read);
    // SAFETY: read(2) on an inherited descriptor is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            let fd = std::os::fd::BorrowedFd::borrow_raw(gate);
            let _ = rustix::io::read(fd, &mut [0u8; 1]);
            Ok(())
        });
    }
    let handle = std::thread::spawn(move || command.spawn().unwrap().wait().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(200));
    for pid in wirespan_capture::targets::descendants(std::process::id()).into_iter().skip(1) {
        capture.add_pid(pid).unwrap();
    }
    rustix::io::write(&write, b"x").unwrap();
    let mut events = Vec::new();
    while !handle.is_finished() {
        capture.drain(&mut events);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    capture.drain(&mut events);
    for e in &events {
        match e {
            Event::Data(d) => println!(
                "{:?} {:?} {}→{} role={:?} sock={} seq={:?} len={} enter+{} ex={:x} cause={:x} {:?} tid={} {:?}",
                d.direction,
                d.transport,
                d.local,
                d.remote,
                d.role,
                d.socket.0,
                d.seq,
                d.len,
                d.exit_ns - d.enter_ns,
                d.exchange,
                d.cause,
                d.cause_evidence,
                d.actor.tid,
                String::from_utf8_lossy(&d.payload[..d.payload.len().min(40)])
            ),
            other => println!("{other:?}"),
        }
    }
    eprintln!("{:?}", capture.counters());
}
