//! Protocols that a user adds as WebAssembly: [`Plugin`] is a [`Protocol`](wirespan_decode::Protocol) like those that
//! are built in. The interface is described in `docs/plugins.md`; why `wasmi` runs it, in
//! `docs/decisions/0004-plugins.md`.
//!
//! | file | what |
//! |---|---|
//! | `load` | a file → a plug-in, or an error that says what it lacks |
//! | `instance` | calls into the module, each with its fuel |
//! | `host` | what the module may call: it describes messages, and reaches nothing else |
//! | `said` | what a call described, checked, and as items of the parser |
//! | `protocol`, `parser` | the two traits of `decode` |
//! | `fault`, `limits` | what a plug-in may not do, and what becomes of it |
//!
//! Bias: the agent before the plug-in. A module gets the bytes of connections that no built-in protocol wanted and
//! answers in words that are checked; one that loops, traps, grows or lies loses that connection, and with its third
//! fault all of them.
#![forbid(unsafe_code)]

mod fault;
mod host;
mod instance;
mod limits;
mod load;
mod parser;
mod protocol;
mod said;

pub use limits::Limits;
pub use load::{LoadError, Settings};
pub use protocol::Plugin;
