//! TLS in clear text: which functions of which library are probed, so that plaintext is seen before it is encrypted and
//! after it is decrypted.
//!
//! | module | concern |
//! |---|---|
//! | [`library`] | OpenSSL and GnuTLS, by their exported functions |
//! | [`go`] | Go's `crypto/tls` |
//! | [`rust`] | rustls in a Rust program |
//! | [`unread`] | files that hold TLS which cannot be probed |

mod go;
mod library;
mod rust;
mod unread;

use crate::features::Program;
use crate::runtime::{Learn, Process};
use crate::uprobe::elf::Image;
use crate::uprobe::points::{Exits, Points};
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::WS_GO_TLS;
use std::path::{Path, PathBuf};

pub(crate) use unread::{kind as unread, KINDS as UNREAD};

pub(crate) const LOST: &str =
    "connections that speak TLS are seen with their times and byte counts, not their messages";

/// The kernel programs.
pub(crate) const PROGRAMS: &[Program] = &[
    Program::uprobe("tls_enter", "TLS in clear text: calls of OpenSSL, GnuTLS", LOST),
    Program::uprobe("tls_exit", "TLS in clear text: what they gave", LOST),
    Program::uprobe("tls_go_enter", "TLS in clear text: calls of Go's crypto/tls", LOST),
    Program::uprobe("tls_go_exit", "TLS in clear text: what Go gave", LOST),
    Program::uprobe("tls_rust_enter", "TLS in clear text: calls of rustls", LOST),
    Program::uprobe("tls_rust_exit", "TLS in clear text: what rustls gave", LOST),
];

/// Longest function that is disassembled; those of TLS libraries that are probed have a few hundred bytes.
const MAX_FUNCTION: u64 = 64 << 10;

/// Where distributions keep the libraries that most programs use.
const USUAL: [&str; 3] = ["libssl.so.3", "libssl.so.1.1", "libgnutls.so.30"];
const FOLDERS: [&str; 6] =
    ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib"];

/// Libraries that a new process is likely to load; `root` is its root folder.
pub(crate) fn expected(root: &Path) -> Vec<PathBuf> {
    FOLDERS.iter().flat_map(|folder| USUAL.iter().map(move |name| root.join(folder).join(name))).collect()
}

/// Where to probe a file; nothing if it holds no TLS that can be read.
pub(crate) fn plan(image: &Image<'_>) -> Vec<ProbeSet> {
    let go = || Some(go::plan(image)?.sets("tls_go_enter", "tls_go_exit"));
    let library = || Some(library::plan(image)?.sets("tls_enter", "tls_exit"));
    let rust = || Some(rust::plan(image)?.sets("tls_rust_enter", "tls_rust_exit"));
    go().or_else(library).or_else(rust).unwrap_or_default()
}

/// Large tables that the kernel programs need for these probes.
pub(crate) fn tables(sets: &[ProbeSet]) -> &'static [&'static str] {
    match sets.first() {
        None => &[],
        Some(_) if sets.iter().any(|set| set.program == "tls_go_enter") => &["go_calls", "tls_conns"],
        Some(_) => &["tls_conns"],
    }
}

/// The fact for the kernel programs that a process's `crypto/tls` is probed. Any goroutine may call it on any thread,
/// so no state of a single thread could show this.
pub(crate) fn facts(probes: &[ProbeSet]) -> Option<Learn> {
    let is_go = probes.iter().any(|set| set.program == "tls_go_exit");
    let is_probed = |process: &Process<'_>| (process.is_probed)("tls_go_exit");
    is_go.then(|| Learn::bit("go_tls", WS_GO_TLS, is_probed))
}

/// Where the functions of one library are probed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Calls {
    enter: Vec<Probe>,
    exit: Vec<Probe>,
    /// Return probes.
    returns: Vec<Probe>,
}

impl Calls {
    fn add(&mut self, image: &Image<'_>, points: &Points, cookie: u32) {
        let probe = |address| image.offset(address).map(|offset| Probe { offset, cookie });
        self.enter.extend(probe(points.enter));
        match &points.exits {
            Exits::At(exits) => self.exit.extend(exits.iter().filter_map(|e| probe(*e))),
            Exits::Return(at) => self.returns.extend(probe(*at)),
            Exits::None => {}
        }
    }

    /// The sets of both programs. Neither program is of use without the other.
    fn sets(self, enter: &'static str, exit: &'static str) -> Vec<ProbeSet> {
        let sets = [
            ProbeSet::new(enter, self.enter).with(exit),
            ProbeSet::new(exit, self.exit).with(enter),
            ProbeSet::at_return(exit, self.returns).with(enter),
        ];
        sets.into_iter().filter(|set| !set.probes.is_empty()).collect()
    }
}
