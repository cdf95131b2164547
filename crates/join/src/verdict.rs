//! What the joiner tells the kernel about a connection: the one back edge of the data flow.

use wirespan_model::broker::Delivers;
use wirespan_model::L7;

/// How much the kernel should copy of the calls of a connection from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRule {
    /// This many bytes of the first call of each run of one direction; later calls of the run come with their length
    /// only.
    FirstCallOnly(u32),
    /// This many bytes of every call; 0 means lengths only.
    EveryCall(u32),
    /// No events at all.
    Ignore,
    /// Request and response in one record.
    PairInKernel,
}

/// Verdict about one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Protocol; empty if not understood.
    pub protocol: L7,
    /// What to copy.
    pub copy: CopyRule,
    /// The connection speaks TLS, and the protocol is that of its plaintext.
    pub plaintext: bool,
    /// The connection carries many requests at a time, answered in any order (HTTP/2): what it receives is for one of
    /// them.
    pub shared: bool,
    /// What a client reads on the connection is work that it begins then.
    pub delivers: Option<Delivers>,
}
