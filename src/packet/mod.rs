//! `wirespan packet`: a program that a person can read → packets, and what became of them.

mod names;
mod program;
mod report;

pub(crate) use names::Names;
pub(crate) use program::{duration, Action, Program};
pub(crate) use report::Report;
