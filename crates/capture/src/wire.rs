//! The kernel/user contract, user side: the only reader of `bpf/wire.h`, with `flow/wire.rs` for bundles.
//!
//! Records are plain C structs in host byte order; they are read field by field at the offsets that the header's
//! `_Static_assert`s fix, so nothing here depends on Rust's layout and nothing is `unsafe`.

use crate::clock::Clock;
use std::net::{IpAddr, Ipv6Addr};
use wirespan_model::event::{
    Actor, AliasKind, CauseAlias, ContextEvent, SocketChange, StreamCause, TaskChange, TcpTotals, TcpTrouble,
    TroubleKind, PROVISIONAL, STREAM_BITS,
};
use wirespan_model::{
    DataEvent, Direction, Endpoint, Event, Evidence, Role, SocketEvent, SocketId, SpanId, TaskEvent, TraceId, Transport,
};

/// Sizes of the structs in `wire.h`.
const ACTOR: usize = 48;
const TUPLE: usize = 40;
const DATA: usize = 152;
const SOCKET: usize = 152;
const TASK: usize = 64;
const ALIAS: usize = 32;
const TROUBLE: usize = 32;
const CONTEXT: usize = 56;

const F_HAS_SEQ: u16 = 1;
const F_PLAINTEXT: u16 = 16;
const F_ARRIVED: u16 = 32;

/// Why a record was not understood: the kernel side is of another version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of kind {kind} and {len} bytes does not match the contract")]
pub struct BadRecord {
    /// First byte.
    pub kind: u8,
    /// Length.
    pub len: usize,
}

/// Reads integers at fixed offsets of a slice whose length was checked.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.0[at..at + N]);
        out
    }
    pub(crate) fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }
    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }
    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }
    fn i32(&self, at: usize) -> i32 {
        i32::from_ne_bytes(self.array(at))
    }
    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    fn actor(&self, at: usize) -> Actor {
        let f = Fields(&self.0[at..at + ACTOR]);
        Actor {
            pid: f.u32(0),
            tid: f.u32(4),
            cgroup_id: f.u64(8),
            coroutine: f.u64(16),
            netns: f.u32(24),
            comm: f.array(32),
        }
    }

    fn tuple(&self, at: usize) -> (Endpoint, Endpoint, Transport, Role) {
        let f = Fields(&self.0[at..at + TUPLE]);
        let ip = |at| IpAddr::V6(Ipv6Addr::from(f.array::<16>(at)));
        let transport = match f.u8(36) {
            2 => Transport::Udp,
            3 => Transport::UnixStream,
            4 => Transport::UnixDgram,
            _ => Transport::Tcp,
        };
        let role = match f.u8(37) {
            1 => Role::Client,
            2 => Role::Server,
            _ => Role::Unknown,
        };
        (Endpoint::new(ip(0), f.u16(32)), Endpoint::new(ip(16), f.u16(34)), transport, role)
    }
}

fn evidence(n: u8) -> Option<Evidence> {
    Some(match n {
        4 => Evidence::Thread,
        5 => Evidence::Coroutine,
        6 => Evidence::ChildTask,
        7 => Evidence::Connect,
        8 => Evidence::WakeUp,
        9 => Evidence::EventLoop,
        11 => Evidence::Inferred,
        _ => return None,
    })
}

fn data(f: &Fields<'_>, clock: &Clock) -> Option<Event> {
    let payload = f.0.get(DATA..DATA + usize::from(f.u16(6)))?;
    let (local, remote, transport, role) = f.tuple(64);
    Some(Event::Data(DataEvent {
        direction: if f.u8(1) == 0 { Direction::Ingress } else { Direction::Egress },
        cause_evidence: evidence(f.u8(3)),
        errno: f.i32(8),
        seq: (f.u16(4) & F_HAS_SEQ != 0).then(|| f.u32(12)),
        socket: SocketId(f.u64(16)),
        enter_ns: clock.to_unix(f.u64(24)),
        exit_ns: clock.to_unix(f.u64(32)),
        waited_ns: if f.u16(4) & F_ARRIVED == 0 { 0 } else { f.u64(32).saturating_sub(f.u64(24)) },
        srtt_ns: u64::from(f.u32(44)) * 1000,
        len: u64::from(f.u32(40)),
        exchange: f.u64(48),
        cause: f.u64(56),
        role,
        transport,
        local,
        remote,
        actor: f.actor(104),
        plaintext: f.u16(4) & F_PLAINTEXT != 0,
        payload: payload.to_vec(),
    }))
}

fn socket(f: &Fields<'_>, clock: &Clock) -> Event {
    let (local, remote, transport, role) = f.tuple(64);
    let errno = f.i32(4);
    Event::Socket(SocketEvent {
        change: match f.u8(1) {
            1 => SocketChange::Open,
            3 => SocketChange::ConnectFailed(errno),
            4 => SocketChange::Reset(errno),
            _ => SocketChange::Close,
        },
        cause_evidence: evidence(f.u8(2)),
        socket: SocketId(f.u64(8)),
        time_ns: clock.to_unix(f.u64(16)),
        cause: f.u64(24),
        totals: TcpTotals {
            bytes_sent: f.u64(32),
            bytes_received: f.u64(40),
            connect_ns: f.u64(48),
            srtt_ns: u64::from(f.u32(56)) * 1000,
            retransmits: f.u32(60),
        },
        role,
        transport,
        local,
        remote,
        actor: f.actor(104),
    })
}

fn task(f: &Fields<'_>, clock: &Clock) -> Event {
    Event::Task(TaskEvent {
        change: match f.u8(1) {
            1 => TaskChange::Fork,
            2 => TaskChange::Exec,
            _ => TaskChange::Exit,
        },
        parent_pid: f.u32(4),
        time_ns: clock.to_unix(f.u64(8)),
        actor: f.actor(16),
    })
}

fn alias(f: &Fields<'_>, clock: &Clock) -> Event {
    const STREAM: u8 = 3;
    if f.u8(1) == STREAM {
        let name = f.u64(16);
        return Event::Stream(StreamCause {
            socket: SocketId((name & !PROVISIONAL) >> 24),
            stream: name & STREAM_BITS,
            cause: f.u64(24),
            evidence: evidence(f.u8(2)),
            time_ns: clock.to_unix(f.u64(8)),
        });
    }
    Event::Alias(CauseAlias {
        kind: match f.u8(1) {
            0 => AliasKind::Name,
            2 => AliasKind::Woken,
            _ => AliasKind::Guess,
        },
        time_ns: clock.to_unix(f.u64(8)),
        provisional: f.u64(16),
        cause: f.u64(24),
    })
}

fn trouble(f: &Fields<'_>, clock: &Clock) -> Event {
    Event::Trouble(TcpTrouble {
        kind: match f.u8(1) {
            1 => TroubleKind::Retransmit { segments: f.u16(2), from: f.u32(4), to: f.u32(24) },
            2 => TroubleKind::ResetSent,
            _ => TroubleKind::ResetReceived,
        },
        direction: Direction::Egress,
        socket: SocketId(f.u64(8)),
        time_ns: clock.to_unix(f.u64(16)),
    })
}

fn context(f: &Fields<'_>, clock: &Clock) -> Event {
    Event::Context(ContextEvent {
        direction: if f.u8(1) == 0 { Direction::Ingress } else { Direction::Egress },
        flags: f.u8(2),
        added_at: f.u16(4),
        added: f.u16(6),
        seq: f.u32(8),
        socket: SocketId(f.u64(16)),
        time_ns: clock.to_unix(f.u64(24)),
        trace_id: TraceId(f.array(32)),
        span_id: SpanId(u64::from_be_bytes(f.array(48))),
    })
}

/// Reads a record of `lives`: a process, and what became of it.
pub fn read_life(record: &[u8]) -> Option<(u32, TaskChange)> {
    let f = Fields(record.get(..8)?);
    let change = match f.u32(4) {
        1 => TaskChange::Fork,
        2 => TaskChange::Exec,
        _ => TaskChange::Exit,
    };
    Some((f.u32(0), change))
}

/// Reads one record of the ring buffer. A request that the kernel held stands behind the record that released it, and
/// comes out first. Behind plaintext is nothing but room.
pub fn read(record: &[u8], clock: &Clock, out: &mut Vec<Event>) -> Result<(), BadRecord> {
    let is_plaintext = || Fields(record).u16(4) & F_PLAINTEXT != 0;
    let held = match record {
        [1, ..] if record.len() >= DATA && !is_plaintext() => DATA + usize::from(Fields(record).u16(6)),
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
    let f = Fields(record);
    let event = match (record.first(), record.len()) {
        (Some(1), n) if n >= DATA => data(&f, clock),
        (Some(2), n) if n >= SOCKET => Some(socket(&f, clock)),
        (Some(3), n) if n >= TASK => Some(task(&f, clock)),
        (Some(4), n) if n >= ALIAS => Some(alias(&f, clock)),
        (Some(5), n) if n >= TROUBLE => Some(trouble(&f, clock)),
        (Some(8), n) if n >= CONTEXT => Some(context(&f, clock)),
        _ => None,
    };
    event.ok_or(BadRecord { kind: record.first().copied().unwrap_or(0), len: record.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_unknown_records_are_errors() {
        let clock = Clock::now();
        for kind in 0..=255u8 {
            for len in [0usize, 1, 8, 31, 32, 63, 64, 151, 152, 200] {
                let mut record = vec![0xffu8; len];
                if let Some(first) = record.first_mut() {
                    *first = kind;
                }
                let read = read(&record, &clock, &mut Vec::new());
                let long_enough = matches!((kind, len), (2, 152..) | (3, 64..) | (4 | 5, 32..) | (8, 63..));
                // A data record full of 0xff claims 65535 payload bytes that are not there.
                assert_eq!(read.is_ok(), long_enough, "kind {kind}, {len} bytes");
            }
        }
    }

    #[test]
    fn what_was_held_stands_behind_a_record_and_nothing_behind_plaintext() {
        let clock = Clock::now();
        for (flags, told) in [(0u16, 2), (F_PLAINTEXT, 1)] {
            let mut record = vec![0u8; DATA + 4];
            record[0] = 1;
            record[4..6].copy_from_slice(&flags.to_ne_bytes());
            record[6..8].copy_from_slice(&4u16.to_ne_bytes());
            let twice = [record.clone(), record].concat();
            let mut out = Vec::new();
            assert_eq!(read(&twice, &clock, &mut out), Ok(()));
            assert_eq!(out.len(), told);
            for event in out {
                assert!(matches!(event, Event::Data(d) if d.payload.len() == 4));
            }
        }
    }
}
