//! Events of a capture source: bytes on sockets, and changes of sockets and tasks.

pub use crate::clocks::{ClockMark, Clocks};
use crate::net::{Endpoint, Transport};
use crate::sdk::SdkSpan;
use crate::span::{SpanId, TraceId};
use crate::syscalls::ThreadCall;
use crate::trace::Evidence;
use crate::wait::ThreadWaits;
use serde::{Deserialize, Serialize};

/// Id of a socket, unique within one boot of a host (the kernel's socket cookie).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SocketId(pub u64);

/// Direction of bytes, from the view of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// Received by the process.
    Ingress,
    /// Sent by the process.
    Egress,
}

/// Part of the process on a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Not known. The first request decides.
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
    /// The real cause behind a provisional one, or a guess at it.
    Alias(CauseAlias),
    /// A worker has read a job from a pipe.
    Handed(Handed),
    /// The cause of a request on one stream of a shared connection, named by the program itself.
    Stream(StreamCause),
    /// A trace context that travels beside a request's bytes. The event comes before the bytes.
    Context(ContextEvent),
    /// A retransmission or a reset of a TCP connection.
    Trouble(TcpTrouble),
    /// An event loop that had read an answer woke a thread.
    Wake(Wake),
    /// What a thread waited for.
    Waits(Box<ThreadWaits>),
    /// System calls of threads; those of each thread in the order of their end.
    Calls(Vec<ThreadCall>),
    /// In which span the SDK of a thread is.
    SdkSpan(SdkSpan),
}

/// The process and thread behind an event. All fields are zero for a capture file.
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
    /// Goroutine or coroutine id; 0 if there is none.
    pub coroutine: u64,
}

/// First bytes of a call that a source copies, unless the user chooses otherwise.
pub const DEFAULT_PAYLOAD_BYTES: u32 = 512;

/// Most first bytes of a call that the user, or a protocol, may choose.
pub const MAX_PAYLOAD_BYTES: u32 = 4096;

/// Most bytes of one call that a source copies, where a protocol needs calls to their end.
pub const MAX_CALL_BYTES: u32 = 32_768;

/// One call that moved bytes on one socket, in one direction.
#[derive(Clone, Debug)]
pub struct DataEvent {
    /// Socket.
    pub socket: SocketId,
    /// Sent or received.
    pub direction: Direction,
    /// Client or server, if the source knows it.
    pub role: Role,
    /// Transport.
    pub transport: Transport,
    /// Own end.
    pub local: Endpoint,
    /// Other end (for unconnected UDP: of this datagram).
    pub remote: Endpoint,
    /// The process and thread.
    pub actor: Actor,
    /// TCP sequence number of the first byte, if the transport is TCP. Of a further [part](DataEvent::part): that of
    /// the call, plus the distance.
    pub seq: Option<u32>,
    /// Distance of the first byte from that of its call: a long call is told in parts. Bytes that injection added do
    /// not count.
    pub part: u32,
    /// When bytes began to move, Unix ns. Of a send: when it was entered, or its first bytes left. Of a receive over
    /// TCP: when the last packet before it arrived (so that `exit_ns` minus this is the wait for the reader). Equal to
    /// `exit_ns` if not known.
    pub enter_ns: u64,
    /// When the call returned, Unix ns.
    pub exit_ns: u64,
    /// Of a receive over TCP: how long the last packet in the socket had waited to be read, ns; 0 if not known.
    pub waited_ns: u64,
    /// Smoothed RTT of TCP, ns; 0 if not known.
    pub srtt_ns: u64,
    /// Clocks of the thread at `exit_ns`, if the source knows them.
    pub clocks: Option<Clocks>,
    /// Number of bytes moved. It may exceed `payload.len()`.
    pub len: u64,
    /// Errno of a failed call; 0 if it succeeded.
    pub errno: i32,
    /// Id of the exchange of this socket to which the bytes belong: the cookie of the socket above [`NUMBER_BITS`] of
    /// the number of the exchange. 0 if not known.
    pub exchange: u64,
    /// Cause: id of the exchange on whose behalf the thread acted, or a [provisional](PROVISIONAL) id. 0 if there is
    /// none.
    pub cause: u64,
    /// Evidence for the cause.
    pub cause_evidence: Option<Evidence>,
    /// True if the bytes are the plaintext of a TLS library, which `len` counts. Socket, ids, times and `seq` are those
    /// of the ciphertext; `exchange` is 0 if the ciphertext has not moved yet.
    pub plaintext: bool,
    /// First bytes of the call; empty if only the length was captured.
    pub payload: Vec<u8>,
}

/// Bits of an exchange id that count the exchanges of its socket; above them stands the cookie of the socket.
pub const NUMBER_BITS: u32 = 24;

/// Bits of a socket's cookie in a cause that names a stream ([`by_stream`]).
pub const SOCKET_BITS: u32 = 38;

/// Cookie of the socket on which an exchange took place.
pub fn exchange_socket(exchange: u64) -> u64 {
    exchange >> NUMBER_BITS
}

/// Bits of a provisional cause, which no exchange id has. A worker took work from a queue that was not empty, so that
/// no thread woke it. Its real cause shows when it hands its result back ([`CauseAlias`]), or never.
pub const PROVISIONAL: u64 = 3 << (NUMBER_BITS + SOCKET_BITS);

/// True if a cause is provisional.
pub fn is_provisional(cause: u64) -> bool {
    cause & PROVISIONAL == PROVISIONAL
}

/// How the cause behind a provisional one is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasKind {
    /// For certain: the worker handed its result back to the thread that waited for it.
    Name,
    /// Its handler woke the worker, which may have found the work of another request in the queue. It counts if no
    /// [`AliasKind::Name`] comes.
    Woken,
    /// Its handler woke the worker by a call that also passes locks on. It is a guess, if no [`AliasKind::Name`] comes.
    Guess,
    /// An actor was made for the next request of a connection. Its maker has read since the exchange `cause`.
    Born,
}

/// The real cause behind a provisional one, or a guess at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseAlias {
    /// The provisional cause of earlier events.
    pub provisional: u64,
    /// Exchange id of the real cause; 0 with [`AliasKind::Name`] if it will never be known.
    pub cause: u64,
    /// How it is known.
    pub kind: AliasKind,
    /// When it was observed, Unix ns.
    pub time_ns: u64,
}

/// A worker has read a job from a pipe of the process that takes messages from a queue, and acts for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The provisional cause for which it acts.
    pub provisional: u64,
    /// When it had read the job, Unix ns.
    pub time_ns: u64,
    /// First bytes of the job, among which the id of its message may be.
    pub bytes: Vec<u8>,
}

/// Bit of a cause that names a request by its HTTP/2 stream, if the other bit of [`PROVISIONAL`] is clear. The rest is
/// the cookie of the socket, and the last bits of the stream's id. Several requests may share an exchange, but not a
/// stream.
pub const BY_STREAM: u64 = 1 << (NUMBER_BITS + SOCKET_BITS);

/// Bits of a stream's id that stand in such a cause.
pub const STREAM_BITS: u64 = (1 << NUMBER_BITS) - 1;

/// Cause that names a request by its stream; `None` if the socket's cookie is 0 or too long, or the stream is 0.
pub fn by_stream(socket: u64, stream: u64) -> Option<u64> {
    let fits = socket != 0 && socket >> SOCKET_BITS == 0 && stream != 0;
    fits.then_some(BY_STREAM | socket << NUMBER_BITS | (stream & STREAM_BITS))
}

/// Bit of a cause that names one message of several that came together, if the other bit of [`PROVISIONAL`] is clear.
/// The rest is a hash of the exchange and the message's place there.
pub const BY_MESSAGE: u64 = 2 << (NUMBER_BITS + SOCKET_BITS);

/// Cause that names one message of an exchange, by its place there.
pub fn by_message(exchange: u64, place: u64, number: u64) -> u64 {
    let hash = crate::key::hash64(&[&exchange.to_le_bytes(), &place.to_le_bytes(), &number.to_le_bytes()]);
    BY_MESSAGE | (hash & !PROVISIONAL)
}

/// Authoritative cause of a request that a program is about to write together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCause {
    /// Socket of the connection.
    pub socket: SocketId,
    /// Last bits of the stream's id ([`STREAM_BITS`]).
    pub stream: u64,
    /// As in [`DataEvent`].
    pub cause: u64,
    /// As in [`DataEvent`].
    pub evidence: Option<Evidence>,
    /// When it was observed, Unix ns.
    pub time_ns: u64,
}

/// An event loop that reads answers for others woke a thread that acts for a request: probably with the answer that it
/// had read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// Process id (thread group) in the root pid namespace.
    pub pid: u32,
    /// Id of the woken thread; 0 in records of older versions.
    #[serde(default)]
    pub tid: u32,
    /// The socket that the loop had read last.
    pub socket: SocketId,
    /// When that read returned ([`DataEvent::exit_ns`]), Unix ns.
    pub read_ns: u64,
    /// Cause of the woken thread, as in [`DataEvent::cause`]; never 0.
    pub cause: u64,
    /// The woken thread may be done with that request: it has answered, or has the cause from another thread.
    #[serde(default)]
    pub unsure: bool,
    /// When it was observed, Unix ns.
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

/// Kind of a [`TcpTrouble`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// Segments with these sequence numbers were retransmitted.
    Retransmit {
        /// First sequence number.
        from: u32,
        /// Sequence number behind the last.
        to: u32,
        /// Number of segments.
        segments: u16,
    },
    /// The process's end reset the connection.
    ResetSent,
    /// The other end reset the connection.
    ResetReceived,
}

/// A retransmission or a reset of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpTrouble {
    /// Socket.
    pub socket: SocketId,
    /// What happened.
    pub kind: TroubleKind,
    /// Direction of the segments. A kernel source observes those that the process sent.
    pub direction: Direction,
    /// When it happened, Unix ns.
    pub time_ns: u64,
}

/// A change of a socket's state.
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
    /// When it happened, Unix ns.
    pub time_ns: u64,
    /// Cause of the connecting thread (see [`DataEvent::cause`]).
    pub cause: u64,
    /// Evidence for the cause.
    pub cause_evidence: Option<Evidence>,
    /// TCP facts so far.
    pub totals: TcpTotals,
}

/// A change of a target's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskChange {
    /// `fork` or `clone`; `parent_pid` is the creator.
    Fork,
    /// `execve`.
    Exec,
    /// The process (its last thread) ended.
    Exit,
}

/// A task was born, changed its program, or ended.
#[derive(Clone, Debug)]
pub struct TaskEvent {
    /// What happened.
    pub change: TaskChange,
    /// The task.
    pub actor: Actor,
    /// Process id of the parent.
    pub parent_pid: u32,
    /// When it happened, Unix ns.
    pub time_ns: u64,
}

/// Trace context of a request over TCP. The captured bytes do not show it. One of several requests in one call is named
/// by its `stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextEvent {
    /// Socket.
    pub socket: SocketId,
    /// Egress: wirespan added the context to the request, and `span_id` is the request's own span. Ingress: the context
    /// came with the request, and `span_id` is the caller's span.
    pub direction: Direction,
    /// TCP sequence number of the first byte of the request.
    pub seq: u32,
    /// Stream of HTTP/2; 0 if the connection carries one request at a time.
    pub stream: u32,
    /// Distance from `seq` to the bytes that injection added on the wire, bytes.
    pub added_at: u16,
    /// Number of added bytes.
    pub added: u16,
    /// Trace id.
    pub trace_id: TraceId,
    /// Span id.
    pub span_id: SpanId,
    /// Flags of the W3C trace context; 1 is sampled.
    pub flags: u8,
    /// When it happened, Unix ns.
    pub time_ns: u64,
}
