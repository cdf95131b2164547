//! `wirespan packet`: a program that a person can read → packets, and what became of them.

mod names;
mod pcapng;
mod program;
mod recorded;
mod report;

pub(crate) use names::Names;
pub(crate) use pcapng::Pcapng;
pub(crate) use program::{duration, Action, Program};
pub(crate) use recorded::Recorded;
pub(crate) use report::Report;
