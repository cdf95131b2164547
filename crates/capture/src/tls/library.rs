//! Which functions of which TLS library are probed, and at which offsets of its file.

use super::asyncio::{self, Tasks};
use super::elf::{self, Image, Place};
use super::go;
use super::goroutines::{self, Goroutines};
use super::greenlet;
use super::haproxy::{self, HaProxy};
use super::java::{self, Java};
use super::node;
use super::points::{Exits, Function, Points, STEPPED};
use super::python::{self, Queue};
use super::rust;
use super::tokio;
use super::unread;
use std::collections::HashMap;
use std::path::Path;

/// Cookies, as in `bpf/tls/library.h`.
pub(super) const READ: u64 = 1;
pub(super) const WRITE: u64 = 2;
const HANDSHAKE: u64 = 3;
const FREE: u64 = 4;
const LENGTH_BY_POINTER: u64 = 0x100;

/// Longest function that is disassembled; those of TLS libraries that are probed have a few hundred bytes.
const MAX_FUNCTION: u64 = 64 << 10;
/// Assumed where no symbol tells (a function found by a call).
const UNKNOWN_SIZE: u64 = 64;

/// A place to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// What the program is told.
    pub(crate) cookie: u64,
}

/// How a library's functions take their arguments and give their results, which decides what programs look at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Convention {
    #[default]
    C,
    Go,
    /// Like C's, with results of two words.
    Rust,
}

/// What to attach to a process that has the file mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Name of the library's kind.
    pub(crate) library: &'static str,
    pub(crate) convention: Convention,
    pub(crate) enter: Vec<Probe>,
    pub(crate) exit: Vec<Probe>,
    /// Return probes.
    pub(crate) returns: Vec<Probe>,
    /// Of a Go program.
    pub(crate) goroutines: Option<Goroutines>,
    /// Of Node's HTTP/2.
    pub(crate) node: node::Frames,
    /// Of Python's greenlets.
    pub(crate) greenlet: Vec<Probe>,
    /// Of HAProxy.
    pub(crate) haproxy: Option<HaProxy>,
    /// Of Python's asyncio.
    pub(crate) asyncio: Tasks,
    /// Of tokio's tasks.
    pub(crate) tokio: Vec<Probe>,
    /// Of CPython's module of that name.
    pub(crate) queue: Option<Queue>,
    /// Of CPython: where its own locks lie, in the file's addresses.
    pub(crate) locks: Option<Locks>,
    /// Of Java's virtual machine.
    pub(crate) java: Option<Java>,
    /// TLS that cannot be probed, as a place in [`unread::KINDS`].
    pub(crate) unread: Option<usize>,
}

impl Plan {
    /// Only what TLS needs: nothing that tells who acts.
    pub(crate) fn without_runtimes(self) -> Plan {
        Plan {
            goroutines: None,
            node: node::Frames::default(),
            greenlet: Vec::new(),
            haproxy: None,
            asyncio: Tasks::default(),
            tokio: Vec::new(),
            queue: None,
            java: None,
            ..self
        }
    }
}

/// CPython's `_PyRuntime` holds the lock of the interpreter, which wakes threads that are handed no work. It is
/// exported by every build. `bias` turns the file's addresses into those of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Locks {
    place: Place,
    segment: (u64, u64),
}

impl Locks {
    fn of(image: &Image<'_>) -> Option<Self> {
        let place = *image.functions(&["_PyRuntime"]).get("_PyRuntime")?;
        Some(Locks { place, segment: image.code()? })
    }

    /// First and last address in a process that has mapped the code here; `mapping` is memory address and file offset.
    pub(crate) fn range(&self, (start, offset): (u64, u64)) -> (u64, u64) {
        let (at, address) = self.segment;
        let bias = start.wrapping_add(at.wrapping_sub(offset)).wrapping_sub(address);
        let from = self.place.address.wrapping_add(bias);
        (from, from.wrapping_add(self.place.size))
    }
}

struct Api {
    library: &'static str,
    /// Without these it is not that library.
    required: [&'static str; 2],
    functions: &'static [(&'static str, u64)],
}

const APIS: [Api; 2] = [
    Api {
        library: "openssl",
        required: ["SSL_read", "SSL_write"],
        functions: &[
            ("SSL_read", READ),
            ("SSL_write", WRITE),
            ("SSL_read_ex", READ | LENGTH_BY_POINTER),
            ("SSL_write_ex", WRITE | LENGTH_BY_POINTER),
            ("SSL_do_handshake", HANDSHAKE),
            ("SSL_free", FREE),
        ],
    },
    Api {
        library: "gnutls",
        required: ["gnutls_record_recv", "gnutls_record_send"],
        functions: &[
            ("gnutls_record_recv", READ),
            ("gnutls_record_send", WRITE),
            ("gnutls_record_send2", WRITE),
            ("gnutls_handshake", HANDSHAKE),
            ("gnutls_deinit", FREE),
        ],
    },
];

/// Looks into a file; `None` if it holds nothing to probe.
pub(crate) fn plan(path: &Path) -> Option<Plan> {
    elf::with(path, |image| {
        let plan = plan_go(image).or_else(|| APIS.iter().find_map(|api| plan_api(image, api)));
        let plan = plan.or_else(|| plan_rust(image));
        let unread = if plan.is_none() { unread::kind(image, path) } else { None };
        let (locks, node, queue) = (Locks::of(image), node::plan(image), python::plan(image));
        let (greenlet, asyncio, java) = (greenlet::plan(image), asyncio::plan(image), java::plan(image));
        let python = queue.is_some() || !greenlet.is_empty() || !asyncio.enter.is_empty();
        let (tokio, haproxy) = (tokio::plan(image), haproxy::plan(image));
        let other =
            locks.is_some() || java.is_some() || haproxy.is_some() || !node.enter.is_empty() || !tokio.is_empty();
        if !python && !other && unread.is_none() {
            return plan;
        }
        Some(Plan { locks, node, queue, greenlet, asyncio, tokio, java, haproxy, unread, ..plan.unwrap_or_default() })
    })
}

const GO: [(&str, u64); 2] = [("crypto/tls.(*Conn).Read", READ), ("crypto/tls.(*Conn).Write", WRITE)];

/// Whether a file is a Go program.
pub(crate) fn is_go(path: &Path) -> bool {
    elf::with(path, |image| image.section(".go.buildinfo").map(|_| ())).is_some()
}

fn plan_go(image: &Image<'_>) -> Option<Plan> {
    if !image.is_x86_64() {
        return None;
    }
    let mut plan =
        Plan { library: "go", convention: Convention::Go, goroutines: goroutines::plan(image), ..Plan::default() };
    for (name, place) in go::functions(image, &GO.map(|f| f.0)) {
        let bytes = image.bytes(place.address, place.size.min(MAX_FUNCTION))?;
        let Some(points) = Function::new(bytes, place.address).go_points() else { continue };
        let cookie = GO.iter().find(|f| f.0 == name)?.1;
        add(&mut plan, image, &points, cookie);
    }
    (!plan.exit.is_empty() || plan.goroutines.is_some()).then_some(plan)
}

fn plan_rust(image: &Image<'_>) -> Option<Plan> {
    if !image.is_x86_64() {
        return None;
    }
    let mut plan = Plan { library: "rustls", convention: Convention::Rust, ..Plan::default() };
    for (place, cookie) in rust::functions(image) {
        let function = Function::new(image.bytes(place.address, place.size.min(MAX_FUNCTION))?, place.address);
        let points = if rust::has_result(cookie) { function.rust_points() } else { function.points(false) };
        add(&mut plan, image, &points, cookie);
    }
    (!plan.enter.is_empty()).then_some(plan)
}

fn plan_api(image: &Image<'_>, api: &Api) -> Option<Plan> {
    let names: Vec<&'static str> = api.functions.iter().map(|f| f.0).collect();
    let found = image.functions(&names);
    if !api.required.iter().all(|name| found.contains_key(name)) {
        return None;
    }
    let mut plan = Plan { library: api.library, ..Plan::default() };
    let body = |name: &str| {
        let place = found.get(name)?;
        let size = if place.size == 0 { UNKNOWN_SIZE } else { place.size.min(MAX_FUNCTION) };
        image.is_x86_64().then(|| Some(Function::new(image.bytes(place.address, size)?, place.address)))?
    };
    for (name, cookie) in api.functions {
        let Some(place) = found.get(name).filter(|_| !is_covered(name, &found, &body)) else { continue };
        let exit = *cookie != FREE;
        let points = match body(name) {
            Some(function) => behind(image, &function, exit).unwrap_or_else(|| function.points(exit)),
            None => everywhere(place.address, exit),
        };
        add(&mut plan, image, &points, *cookie);
    }
    Some(plan)
}

/// Whether every call of this function is seen at another one: at the function that both hand their work to, or at the
/// one that it hands its arguments to.
fn is_covered(name: &str, found: &HashMap<&'static str, Place>, body: &impl Fn(&str) -> Option<Function>) -> bool {
    match name {
        "SSL_read" | "SSL_write" => {
            let Some(ex) = body(&format!("{name}_ex")) else { return false };
            let inner = ex.forwards_to().filter(|_| is_dear(&ex));
            inner.is_some_and(|inner| body(name).is_some_and(|f| f.calls(inner)))
        }
        "gnutls_record_send" => found.contains_key("gnutls_record_send2"),
        _ => false,
    }
}

/// Whether its points cost a single-step.
fn is_dear(function: &Function) -> bool {
    function.points(true).cost >= STEPPED
}

/// Points in the function to which a wrapper hands its arguments, if they cost less than its own. Both have the same
/// arguments and the same result.
fn behind(image: &Image<'_>, wrapper: &Function, exit: bool) -> Option<Points> {
    let inner = wrapper.forwards_to().filter(|_| exit && is_dear(wrapper))?;
    let points = Function::new(image.bytes(inner, UNKNOWN_SIZE)?, inner).return_points();
    (points.cost < STEPPED).then_some(points)
}

/// Points for code that is not disassembled.
fn everywhere(address: u64, exit: bool) -> Points {
    Points { enter: address, exits: if exit { Exits::Return(address) } else { Exits::None }, cost: 0 }
}

fn add(plan: &mut Plan, image: &Image<'_>, points: &Points, cookie: u64) {
    let probe = |address| image.offset(address).map(|offset| Probe { offset, cookie });
    plan.enter.extend(probe(points.enter));
    match &points.exits {
        Exits::At(exits) => plan.exit.extend(exits.iter().filter_map(|e| probe(*e))),
        Exits::Return(at) => plan.returns.extend(probe(*at)),
        Exits::None => {}
    }
}
