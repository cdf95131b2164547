//! End to end: the real binary, the real kernel, real programs. Each test traces only processes that it started.
//!
//! A machine without root, BTF or the shop's programs skips with the reason (see `scripts/test`).
#![allow(clippy::unwrap_used, missing_docs)]

mod abi;
mod brokers;
mod bystander;
mod captures;
mod causes;
mod causes_python;
mod cli;
mod datagrams;
mod existing;
mod explain;
mod field;
mod flow_edges;
mod flows;
mod harness;
mod housekeeping;
mod io_uring;
mod map;
mod masks;
mod nat;
mod on_demand;
mod otlp;
mod packets;
mod patience;
mod plugin;
mod privileges;
mod propagate;
mod propagate_option;
mod service_graph;
mod shapes;
mod shop;
mod siege;
mod silence;
mod spaces;
mod split;
mod tcp;
mod tls;
mod trace_why;
mod unseen;
mod verdicts;
mod waits;
mod woken;
