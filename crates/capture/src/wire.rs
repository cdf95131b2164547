//! The kernel/user contract, user side: what the structs and numbers of `bpf/wire.h` mean, with `flow/wire.rs` for
//! bundles.
//!
//! [`contract`] is made of the headers by `build/contract.rs`. Records are plain C structs in host byte order; they are
//! read field by field, so that nothing depends on Rust's layout and nothing is `unsafe`.

use crate::clock::Clock;
use crate::{Copy, Verdict};
#[allow(clippy::wildcard_imports)] // the whole contract is this file's subject
use contract::*;
use libbpf_rs::{MapCore, MapFlags};
use std::net::{IpAddr, Ipv6Addr};
use wirespan_model::broker::Delivers;
use wirespan_model::event::{
    exchange_socket, Actor, AliasKind, CauseAlias, Clocks, ContextEvent, Handed, SocketChange, StreamCause, TaskChange,
    TcpTotals, TcpTrouble, TroubleKind, Wake, MAX_CALL_BYTES, MAX_PAYLOAD_BYTES, NUMBER_BITS, PROVISIONAL, SOCKET_BITS,
    STREAM_BITS,
};
use wirespan_model::sdk::SdkSpan;
use wirespan_model::{
    DataEvent, Direction, Endpoint, Event, Evidence, Role, SocketEvent, SocketId, SpanId, TaskEvent, TraceId, Transport,
};

/// The structs and numbers of `bpf/wire.h` and of the runtimes' `contract.h`.
pub(crate) mod contract {
    #![allow(dead_code, missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/contract.rs"));
}

/// A struct of the contract, which user space may write into a map of the kernel programs.
pub(crate) trait WireStruct {
    /// Its bytes.
    fn to_vec(&self) -> Vec<u8>;
}

// What `wirespan_model` says of causes and of the bytes of calls is what the kernel programs do.
const _: () = assert!(NUMBER_BITS == WS_NUMBER_BITS && SOCKET_BITS == WS_SOCKET_BITS);
const _: () = assert!(MAX_PAYLOAD_BYTES == WS_MAX_PLAINTEXT && MAX_CALL_BYTES == WS_MAX_PAYLOAD);

/// Why a record was not understood: the kernel side is of another version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of kind {kind} and {len} bytes does not match the contract")]
pub struct BadRecord {
    /// First byte.
    pub kind: u8,
    /// Length.
    pub len: usize,
}

fn endpoints(t: &contract::Tuple) -> (Endpoint, Endpoint, Transport, Role) {
    let ip = |octets| IpAddr::V6(Ipv6Addr::from(octets));
    let transport = match t.transport.into() {
        WS_UDP => Transport::Udp,
        WS_UNIX_STREAM => Transport::UnixStream,
        WS_UNIX_DGRAM => Transport::UnixDgram,
        _ => Transport::Tcp,
    };
    let ends = (Endpoint::new(ip(t.local), t.local_port), Endpoint::new(ip(t.remote), t.remote_port));
    (ends.0, ends.1, transport, role(t.role))
}

/// `enum ws_role`.
pub(crate) fn role(n: u8) -> Role {
    match n.into() {
        WS_CLIENT => Role::Client,
        WS_SERVER => Role::Server,
        _ => Role::Unknown,
    }
}

fn actor(a: &contract::Actor) -> Actor {
    Actor { pid: a.pid, tid: a.tid, cgroup_id: a.cgroup_id, coroutine: a.coroutine, netns: a.netns, comm: a.comm }
}

/// `None` if the kernel does not keep them.
fn clocks(c: &contract::Clocks) -> Option<Clocks> {
    (c.on_cpu_ns != 0).then_some(Clocks { on_cpu_ns: c.on_cpu_ns, queued_ns: c.queued_ns, limited_ns: c.limited_ns })
}

fn direction(n: u8) -> Direction {
    if u32::from(n) == WS_INGRESS {
        Direction::Ingress
    } else {
        Direction::Egress
    }
}

fn evidence(n: u8) -> Option<Evidence> {
    Some(match n.into() {
        WS_EV_THREAD => Evidence::Thread,
        WS_EV_COROUTINE => Evidence::Coroutine,
        WS_EV_CHILD => Evidence::ChildTask,
        WS_EV_CONNECT => Evidence::Connect,
        WS_EV_WAKE_UP => Evidence::WakeUp,
        WS_EV_EVENT_LOOP => Evidence::EventLoop,
        WS_EV_BROKER => Evidence::Broker,
        WS_EV_INFERRED => Evidence::Inferred,
        _ => return None,
    })
}

/// `enum ws_task_change`.
fn change(n: u32) -> TaskChange {
    match n {
        WS_FORK => TaskChange::Fork,
        WS_EXEC => TaskChange::Exec,
        _ => TaskChange::Exit,
    }
}

fn has(d: &Data, flag: u32) -> bool {
    u32::from(d.flags) & flag != 0
}

fn data(record: &[u8], clock: &Clock) -> Option<Event> {
    let d = Data::read(record)?;
    let payload = record.get(Data::SIZE..Data::SIZE + usize::from(d.payload_len))?;
    #[cfg(feature = "checked-records")]
    crate::checked::verify(record, payload, d.checksum);
    let (local, remote, transport, role) = endpoints(&d.tuple);
    Some(Event::Data(DataEvent {
        direction: direction(d.direction),
        cause_evidence: evidence(d.evidence),
        errno: d.error,
        seq: has(&d, WS_F_HAS_SEQ).then_some(d.seq),
        part: u32::from(d.flags) / WS_F_PART * WS_MAX_PAYLOAD,
        socket: SocketId(d.socket),
        enter_ns: clock.to_unix(d.enter_ns),
        exit_ns: clock.to_unix(d.exit_ns),
        waited_ns: if has(&d, WS_F_ARRIVED) { d.exit_ns.saturating_sub(d.enter_ns) } else { 0 },
        srtt_ns: u64::from(d.srtt_us) * 1000,
        clocks: clocks(&d.clocks),
        len: u64::from(d.len),
        exchange: d.exchange,
        cause: d.cause,
        role,
        transport,
        local,
        remote,
        actor: actor(&d.actor),
        plaintext: has(&d, WS_F_PLAINTEXT),
        payload: payload.to_vec(),
    }))
}

fn socket(record: &[u8], clock: &Clock) -> Option<Event> {
    let s = Socket::read(record)?;
    let (local, remote, transport, role) = endpoints(&s.tuple);
    Some(Event::Socket(SocketEvent {
        change: match s.change.into() {
            WS_OPEN => SocketChange::Open,
            WS_CONNECT_FAILED => SocketChange::ConnectFailed(s.error),
            WS_RESET => SocketChange::Reset(s.error),
            _ => SocketChange::Close,
        },
        cause_evidence: evidence(s.evidence),
        socket: SocketId(s.socket),
        time_ns: clock.to_unix(s.time_ns),
        cause: s.cause,
        totals: TcpTotals {
            bytes_sent: s.bytes_sent,
            bytes_received: s.bytes_received,
            connect_ns: s.connect_ns,
            srtt_ns: u64::from(s.srtt_us) * 1000,
            retransmits: s.retransmits,
        },
        role,
        transport,
        local,
        remote,
        actor: actor(&s.actor),
    }))
}

fn task(record: &[u8], clock: &Clock) -> Option<Event> {
    let t = Task::read(record)?;
    Some(Event::Task(TaskEvent {
        change: change(t.change.into()),
        parent_pid: t.parent_pid,
        time_ns: clock.to_unix(t.time_ns),
        actor: actor(&t.actor),
    }))
}

fn alias(record: &[u8], clock: &Clock) -> Option<Event> {
    let a = Alias::read(record)?;
    let time_ns = clock.to_unix(a.time_ns);
    let kind = match a.what.into() {
        WS_ALIAS_STREAM => {
            return Some(Event::Stream(StreamCause {
                socket: SocketId(exchange_socket(a.provisional & !PROVISIONAL)),
                stream: a.provisional & STREAM_BITS,
                cause: a.cause,
                evidence: evidence(a.evidence),
                time_ns,
            }))
        }
        WS_ALIAS_NAME => AliasKind::Name,
        WS_ALIAS_WAKE_UP => AliasKind::Woken,
        WS_ALIAS_BORN => AliasKind::Born,
        _ => AliasKind::Guess,
    };
    Some(Event::Alias(CauseAlias { kind, time_ns, provisional: a.provisional, cause: a.cause }))
}

fn handed(record: &[u8], clock: &Clock) -> Option<Event> {
    let h = contract::Handed::read(record)?;
    let bytes = record.get(contract::Handed::SIZE..)?.get(..usize::from(h.length))?.to_vec();
    Some(Event::Handed(Handed { provisional: h.provisional, time_ns: clock.to_unix(h.time_ns), bytes }))
}

fn trouble(record: &[u8], clock: &Clock) -> Option<Event> {
    let t = Trouble::read(record)?;
    Some(Event::Trouble(TcpTrouble {
        kind: match t.what.into() {
            WS_RETRANSMIT => TroubleKind::Retransmit { segments: t.segments, from: t.from, to: t.to },
            WS_RESET_SENT => TroubleKind::ResetSent,
            _ => TroubleKind::ResetReceived,
        },
        direction: Direction::Egress,
        socket: SocketId(t.socket),
        time_ns: clock.to_unix(t.time_ns),
    }))
}

fn wake(record: &[u8], clock: &Clock) -> Option<Event> {
    let w = contract::Wake::read(record)?;
    let (read_ns, time_ns) = (clock.to_unix(w.read_ns), clock.to_unix(w.time_ns));
    Some(Event::Wake(Wake {
        pid: w.pid,
        tid: w.tid,
        socket: SocketId(w.socket),
        read_ns,
        cause: w.cause,
        unsure: w.unsure != 0,
        time_ns,
    }))
}

fn sdk_span(record: &[u8], clock: &Clock) -> Option<Event> {
    let s = contract::SdkSpan::read(record)?;
    let (trace_id, span_id) = (TraceId(s.trace), SpanId(u64::from_be_bytes(s.span)));
    let time_ns = clock.to_unix(s.time_ns);
    Some(Event::SdkSpan(SdkSpan { pid: s.pid, tid: s.tid, cause: s.cause, trace_id, span_id, time_ns }))
}

fn context(record: &[u8], clock: &Clock) -> Option<Event> {
    let c = Context::read(record)?;
    Some(Event::Context(ContextEvent {
        direction: direction(c.direction),
        flags: c.flags,
        added_at: c.at,
        added: c.added,
        seq: c.seq,
        stream: c.stream,
        socket: SocketId(c.socket),
        time_ns: clock.to_unix(c.time_ns),
        trace_id: TraceId(c.trace),
        span_id: SpanId(u64::from_be_bytes(c.span)),
    }))
}

/// Reads a record of the ring `lives`: a process, and what became of it; `None` for that if it now does what some of
/// its probes wait for.
pub fn read_life(record: &[u8]) -> Option<(u32, Option<TaskChange>)> {
    let life = contract::Life::read(record)?;
    Some((life.pid, (life.change != WS_NEEDS).then(|| change(life.change))))
}

/// A decision about a connection, as the kernel programs read it.
pub(crate) fn verdict(verdict: &Verdict) -> contract::Verdict {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags = flag(verdict.plaintext, WS_V_PLAINTEXT)
        | flag(verdict.shared, WS_V_SHARED)
        | flag(verdict.delivers.is_some(), WS_V_DELIVERS)
        | flag(matches!(verdict.delivers, Some(Delivers::Pulled | Delivers::Taken)), WS_V_PULLS)
        | flag(verdict.delivers == Some(Delivers::Taken), WS_V_TAKES)
        | flag(verdict.one_way, WS_V_ONE_WAY)
        | flag(verdict.pipelined, WS_V_PIPELINED)
        | flag(verdict.gathers, WS_V_GATHERS);
    let copy = match verdict.copy {
        Copy::Default => WS_COPY_DEFAULT,
        Copy::First => WS_COPY_FIRST,
        Copy::Every => WS_COPY_EVERY,
        Copy::Ignore => WS_COPY_IGNORE,
        Copy::Pair => WS_COPY_PAIR,
        Copy::Lengths => WS_COPY_LENGTHS,
        Copy::LongHeaders => WS_COPY_LONG_HEADERS,
    };
    contract::Verdict { bytes: verdict.bytes, copy: copy as u8, flags: flags as u8 }
}

/// Sum of a counter over all processors; `counters` is a per-CPU array of them.
pub(crate) fn counter(counters: &impl MapCore, which: u32) -> u64 {
    let per_cpu = counters.lookup_percpu(&which.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
    let values = per_cpu.iter().filter_map(|v| Some(u64::from_ne_bytes(*v.first_chunk()?)));
    values.sum()
}

/// Reads one record of the ring buffer. A request that the kernel held stands behind the record that released it, and
/// comes out first. Behind plaintext there is only unused room.
pub fn read(record: &[u8], clock: &Clock, out: &mut Vec<Event>) -> Result<(), BadRecord> {
    let held = match Data::read(record) {
        Some(d) if u32::from(d.kind) == WS_DATA && !has(&d, WS_F_PLAINTEXT) => Data::SIZE + usize::from(d.payload_len),
        _ => record.len(),
    };
    match record.split_at_checked(held) {
        Some((released, held)) if !held.is_empty() => {
            out.push(read_one(held, clock)?);
            out.push(read_one(released, clock)?);
        }
        _ => out.push(read_one(record, clock)?),
    }
    Ok(())
}

fn read_one(record: &[u8], clock: &Clock) -> Result<Event, BadRecord> {
    let kind = record.first().copied().unwrap_or(0);
    let event = match kind.into() {
        WS_DATA => data(record, clock),
        WS_SOCKET => socket(record, clock),
        WS_TASK => task(record, clock),
        WS_ALIAS => alias(record, clock),
        WS_TROUBLE => trouble(record, clock),
        WS_WAKE => wake(record, clock),
        WS_SDK_SPAN => sdk_span(record, clock),
        WS_CONTEXT => context(record, clock),
        WS_HANDED => handed(record, clock),
        _ => None,
    };
    event.ok_or(BadRecord { kind, len: record.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_unknown_records_are_errors() {
        let clock = Clock::now();
        for kind in 0..=255u8 {
            for len in [0usize, 1, 8, 31, 32, 47, 48, 63, 64, 151, 152, 200] {
                let mut record = vec![0xffu8; len];
                if let Some(first) = record.first_mut() {
                    *first = kind;
                }
                let read = read(&record, &clock, &mut Vec::new());
                let long_enough =
                    matches!((kind, len), (2, 152..) | (3, 64..) | (4 | 5, 32..) | (7, 48..) | (8 | 11, 63..));
                // A data record full of 0xff claims 65535 payload bytes that are not there.
                assert_eq!(read.is_ok(), long_enough, "kind {kind}, {len} bytes");
            }
        }
    }

    #[test]
    fn what_was_held_stands_behind_a_record_and_nothing_behind_plaintext() {
        let clock = Clock::now();
        for (flags, told) in [(0, 2), (WS_F_PLAINTEXT, 1)] {
            let head = Data { kind: WS_DATA as u8, flags: flags as u16, payload_len: 4, ..Data::default() };
            let record = [&head.to_bytes()[..], &[0; 4]].concat();
            let twice = [record.clone(), record].concat();
            let mut out = Vec::new();
            assert_eq!(read(&twice, &clock, &mut out), Ok(()));
            assert_eq!(out.len(), told);
            for event in out {
                assert!(matches!(event, Event::Data(d) if d.payload.len() == 4));
            }
        }
    }

    #[test]
    fn a_struct_is_read_as_it_is_written() {
        let bytes: Vec<u8> = (0..Data::SIZE as u32).map(|n| n as u8).collect();
        let data = Data::read(&bytes).expect("long enough");
        assert_eq!((data.kind, data.payload_len, data.tuple.local_port), (0, 0x0706, 0x6160));
        assert_eq!(data.to_bytes()[..], bytes[..]);
        assert_eq!(Data::read(&bytes[1..]), None);
    }

    #[test]
    fn every_counter_has_its_own_name() {
        let all: Vec<_> = contract::WS_COUNTERS.iter().chain(&contract::WS_INJECT_COUNTERS).collect();
        assert_eq!(all.len() as u32, WS_C_MAX + contract::WS_I_MAX);
        for (_, name) in &all {
            assert_eq!(all.iter().filter(|c| c.1 == *name).count(), 1, "{name}");
        }
        assert!(all.contains(&&(contract::WS_C_LOST_RING_FULL, "lost_ring_full")), "as docs and users know it");
    }
}
