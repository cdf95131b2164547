//! What a capture source saw: bytes on sockets, sockets and tasks that come and go.

use crate::net::{Endpoint, Transport};
use crate::span::{SpanId, TraceId};
use crate::trace::Evidence;
use serde::{Deserialize, Serialize};

/// Socket identity, unique over the boot of one host (the kernel's socket cookie).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SocketId(pub u64);

/// Direction of bytes as the process sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// Received by the process.
    Ingress,
    /// Sent by the process.
    Egress,
}

/// Which part the process plays on a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Not known; decided by the first request seen.
    #[default]
    Unknown,
    /// The process connected.
    Client,
    /// The process accepted.
    Server,
}

/// Everything a capture source emits.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes moved on a socket.
    Data(DataEvent),
    /// A socket changed its state.
    Socket(SocketEvent),
    /// A task was born, changed its program, or ended.
    Task(TaskEvent),
    /// For which request a provisional cause stood.
    Alias(CauseAlias),
    /// A program told for whom it sends a request on a stream of a connection that many share.
    Stream(StreamCause),
    /// A request got or brought a trace context beside its bytes. Comes before the bytes.
    Context(ContextEvent),
    /// Something went wrong below the bytes of a TCP connection.
    Trouble(TcpTrouble),
}

/// The process and thread behind an event. All zero for a capture file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Actor {
    /// Process id (thread group) in the root pid namespace.
    pub pid: u32,
    /// Thread id in the root pid namespace.
    pub tid: u32,
    /// Thread name (`task_struct.comm`), NUL-padded.
    pub comm: [u8; 16],
    /// Cgroup v2 id.
    pub cgroup_id: u64,
    /// Inode of the network namespace of the socket.
    pub netns: u32,
    /// Goroutine or coroutine id, 0 if there is none.
    pub coroutine: u64,
}

/// One call's worth of bytes on one socket, in one direction.
#[derive(Clone, Debug)]
pub struct DataEvent {
    /// Socket.
    pub socket: SocketId,
    /// Sent or received.
    pub direction: Direction,
    /// Client or server, as far as the source knows.
    pub role: Role,
    /// Transport.
    pub transport: Transport,
    /// Own end.
    pub local: Endpoint,
    /// Other end (for unconnected UDP: of this datagram).
    pub remote: Endpoint,
    /// Who did it.
    pub actor: Actor,
    /// TCP sequence number of the first byte, if the transport is TCP.
    pub seq: Option<u32>,
    /// When bytes began to move, Unix ns: of a send, when it was entered or its first bytes left; of a receive over
    /// TCP, when the last packet before it arrived (how long its bytes waited for the reader). `exit_ns` if not known.
    pub enter_ns: u64,
    /// When the call returned, Unix ns.
    pub exit_ns: u64,
    /// Received over TCP: how long the last packet that was there had waited to be read, ns; 0 if not known.
    pub waited_ns: u64,
    /// Smoothed RTT of TCP, ns; 0 if not known.
    pub srtt_ns: u64,
    /// Total bytes moved (may exceed `payload.len()`).
    pub len: u64,
    /// 0, or the errno of a call that failed.
    pub errno: i32,
    /// Id of the exchange of this socket to which the bytes belong: `cookie << 24 | n`. 0 if not known.
    pub exchange: u64,
    /// Exchange id of the request for which the thread acted (the causal id), or a [provisional](PROVISIONAL) one. 0 if
    /// there is none.
    pub cause: u64,
    /// How the source knows the cause.
    pub cause_evidence: Option<Evidence>,
    /// The bytes are what a TLS library took or gave in clear text; `len` counts them. Socket, ids, times and `seq` are
    /// those of the ciphertext; `exchange` is 0 while it has not moved yet.
    pub plaintext: bool,
    /// First bytes of the call; empty where only lengths were captured.
    pub payload: Vec<u8>,
}

/// Bits that no exchange id has: a cause with them is provisional. A worker took something from a queue that was not
/// empty, so that nobody woke it; for whom it acted is seen when it hands its result back ([`CauseAlias`]), or never.
pub const PROVISIONAL: u64 = 3 << 62;

/// Whether a cause stands for a request that is not known yet.
pub fn is_provisional(cause: u64) -> bool {
    cause & PROVISIONAL == PROVISIONAL
}

/// How it is known for which request a provisional cause stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasKind {
    /// The result was handed back to who waited for it.
    Name,
    /// Its handler woke the worker, which may have found another's work in the queue: believed if no name comes.
    Woken,
    /// It woke the worker in a way in which locks are passed on, too: a guess, if no name comes.
    Guess,
}

/// For which request a provisional cause stood, or may have stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseAlias {
    /// The cause as written into earlier events.
    pub provisional: u64,
    /// The exchange id for which it stood; 0, of a [`AliasKind::Name`], if that will not be known.
    pub cause: u64,
    /// How that is known.
    pub kind: AliasKind,
    /// When that was seen, Unix ns.
    pub time_ns: u64,
}

/// A cause with this bit, and not both of [`PROVISIONAL`], names a request by its HTTP/2 stream: `cookie << 24`, and
/// the last 24 bits of the stream's id. Several requests may share an exchange, but not this.
pub const BY_STREAM: u64 = 1 << 62;

/// Bits of a stream's id that stand in the name of its request.
pub const STREAM_BITS: u64 = 0xff_ffff;

/// The name of a request by its stream; `None` for sockets that have no number that fits.
pub fn by_stream(socket: u64, stream: u64) -> Option<u64> {
    (socket != 0 && socket >> 38 == 0 && stream != 0).then_some(BY_STREAM | socket << 24 | (stream & STREAM_BITS))
}

/// For whom a request is sent that a program is about to write together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCause {
    /// Its connection.
    pub socket: SocketId,
    /// Last bits of the stream's id ([`STREAM_BITS`]).
    pub stream: u64,
    /// As in [`DataEvent`].
    pub cause: u64,
    /// As in [`DataEvent`].
    pub evidence: Option<Evidence>,
    /// When that was seen, Unix ns.
    pub time_ns: u64,
}

/// TCP facts of a connection, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpTotals {
    /// Bytes acknowledged by the peer.
    pub bytes_sent: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Smoothed round-trip time, ns.
    pub srtt_ns: u64,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Handshake time, ns; 0 if not seen.
    pub connect_ns: u64,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// Segments of these sequence numbers were sent again.
    Retransmit {
        /// First.
        from: u32,
        /// First behind them.
        to: u32,
        /// How many segments.
        segments: u16,
    },
    /// This end reset the connection.
    ResetSent,
    /// The other end did.
    ResetReceived,
}

/// Something went wrong below the bytes of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpTrouble {
    /// Socket.
    pub socket: SocketId,
    /// What.
    pub kind: TroubleKind,
    /// Who sent the segments (of a process that is observed: itself).
    pub direction: Direction,
    /// When, Unix ns.
    pub time_ns: u64,
}

/// What happened to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketChange {
    /// Handshake finished.
    Open,
    /// Closed in order.
    Close,
    /// A connection attempt failed, with this errno.
    ConnectFailed(i32),
    /// Ended by a reset or an error, with this errno.
    Reset(i32),
}

/// A socket changed its state.
#[derive(Clone, Debug)]
pub struct SocketEvent {
    /// Socket.
    pub socket: SocketId,
    /// What happened.
    pub change: SocketChange,
    /// Client or server.
    pub role: Role,
    /// Transport.
    pub transport: Transport,
    /// Own end.
    pub local: Endpoint,
    /// Other end.
    pub remote: Endpoint,
    /// Last known owner.
    pub actor: Actor,
    /// When, Unix ns.
    pub time_ns: u64,
    /// Causal id of the connecting thread (see [`DataEvent::cause`]).
    pub cause: u64,
    /// How the source knows the cause.
    pub cause_evidence: Option<Evidence>,
    /// Totals so far.
    pub totals: TcpTotals,
}

/// A task of a target was born, changed its program, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskChange {
    /// `fork` or `clone`; `parent_pid` is the creator.
    Fork,
    /// `execve`.
    Exec,
    /// The process (its last thread) ended.
    Exit,
}

/// A change of a task.
#[derive(Clone, Debug)]
pub struct TaskEvent {
    /// What happened.
    pub change: TaskChange,
    /// The task.
    pub actor: Actor,
    /// Process id of the parent.
    pub parent_pid: u32,
    /// When, Unix ns.
    pub time_ns: u64,
}

/// A trace context of the request over TCP that begins at `seq`, which its captured bytes do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextEvent {
    /// Socket.
    pub socket: SocketId,
    /// Sent: the context was given to the request by us, and `span_id` is that of the request itself. Received: it came
    /// with the request, and `span_id` is the caller's.
    pub direction: Direction,
    /// TCP sequence number of the first byte of the request.
    pub seq: u32,
    /// Bytes that stand on the wire and that the process did not send: so many bytes behind `seq`, ...
    pub added_at: u16,
    /// ... and how many they are.
    pub added: u16,
    /// Trace.
    pub trace_id: TraceId,
    /// Span.
    pub span_id: SpanId,
    /// Flags of the W3C trace context; 1 is sampled.
    pub flags: u8,
    /// When, Unix ns.
    pub time_ns: u64,
}
