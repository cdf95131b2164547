//! Protocols that a user adds as WebAssembly: [`Plugin`] is a [`Protocol`](wirespan_decode::Protocol) like those that
//! are built in. The interface is described in `docs/plugins.md`; why `wasmi` runs it, in
//! `docs/decisions/0004-plugins.md`.
//!
//! | file | what |
//! |---|---|
//! | `load` | a file → a plug-in, or an error that names the missing part |
//! | `instance` | calls into the module, each with its fuel |
//! | `host` | the functions that the module may call: they describe messages, and reach nothing else |
//! | `description` | the messages that a call described: checked, then turned into items of the parser |
//! | `protocol`, `parser` | the two traits of `decode` |
//! | `fault`, `limits` | the faults of a plug-in with their consequences, and its limits |
//!
//! Bias: the agent before the plug-in. A module gets only the bytes of connections that no built-in protocol claimed,
//! and its answers are checked. A module that loops, traps, grows or gives impossible answers loses that connection.
//! With its third fault it loses all connections.
#![forbid(unsafe_code)]

mod description;
mod fault;
mod host;
mod instance;
mod limits;
mod load;
mod parser;
mod protocol;

pub use limits::Limits;
pub use load::{LoadError, Settings};
pub use protocol::Plugin;
