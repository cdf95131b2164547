//! Uprobes: finds the files that target processes have mapped, and attaches kernel programs to functions in them.
//!
//! | module | concern |
//! |---|---|
//! | [`watcher`] | a thread that watches the processes of targets, because reading files and detaching take time |
//! | [`search`] | which processes are looked at when, and which probes each one has |
//! | [`plan`] | what [TLS](crate::tls) and [runtimes](crate::runtime) want of one file |
//! | [`programs`] | the kernel programs of probes, loaded when they are needed |
//! | [`facts`] | what the kernel programs are told about a process |
//! | [`tables`] | large tables that are made when a process needs them |
//! | [`maps`] | which files a process has mapped |
//! | [`elf`], [`go_functions`] | symbols and code of a file |
//! | [`points`] | the cheapest places in a function for its probes |
//! | [`link`], [`detach`] | the probes of one process in one file, and their end |

mod detach;
pub(crate) mod elf;
mod facts;
pub(crate) mod go_functions;
mod link;
pub(crate) mod maps;
mod plan;
pub(crate) mod points;
mod programs;
mod search;
mod tables;
mod watcher;

pub(crate) use facts::FactMaps;
pub(crate) use plan::{Mapped, Probe, ProbeSet, When};
pub(crate) use programs::Programs;
pub(crate) use tables::{shapes, Shapes, Tables};
pub(crate) use watcher::Watcher;
