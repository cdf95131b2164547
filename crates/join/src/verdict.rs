//! Verdicts of the joiner about connections, for the kernel: the one back edge of the data flow.

use wirespan_model::broker::Delivers;
use wirespan_model::L7;

/// How many bytes of a connection's calls the kernel copies from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRule {
    /// This many bytes of the first call of each run of calls in one direction. Later calls of the run come with their
    /// length only.
    FirstCallOnly(u32),
    /// This many bytes of every call. 0 means lengths only.
    EveryCall(u32),
    /// This many bytes of each datagram with a long header of QUIC; of others, the length.
    LongHeaders(u32),
    /// No events at all.
    Ignore,
    /// Request and response in one record.
    PairInKernel,
}

/// Verdict about one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Name of the protocol; empty if it was not recognised.
    pub protocol: L7,
    /// How many bytes to copy.
    pub copy: CopyRule,
    /// True if the connection speaks TLS, and the protocol is that of its plaintext.
    pub plaintext: bool,
    /// True if the connection carries several requests at once, answered in any order (HTTP/2). Received bytes then
    /// belong to one of them.
    pub shared: bool,
    /// How the connection delivers work to its client; `None` if it does not.
    pub delivers: Option<Delivers>,
    /// True if the client sends messages to a broker that are not answered.
    pub one_way: bool,
    /// True if several requests wait at once, and are answered in order: each send is a request then.
    pub pipelined: bool,
    /// True if one send may carry what several requests have given the client: a producer of Kafka.
    pub gathers: bool,
}
