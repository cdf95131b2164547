//! What our parsers say of a capture: by inference, never by a protocol that was given.

use super::{ends, Reading, Said};
use std::collections::HashMap;
use std::path::Path;
use wirespan_decode::{infer, Handover, Parser, Probe, Protocol, Verdict, REGISTRY};
use wirespan_model::{
    Chunk, DataEvent, Direction, Endpoint, Event, Item, Message, Role, Side, SocketId, Transport, L7,
};
use wirespan_pcap::Replay;

/// Calls of one connection that inference looks at before it gives up, as the joiner does for captures.
const PROBED_CALLS: usize = 32;
/// Bytes per end that inference is shown.
const SHOWN: usize = 4096;

/// The results of our parsers for one capture.
#[derive(Default)]
pub struct Ours {
    /// Messages by pair of ends, of the protocol that was asked for.
    pub said: Reading,
    /// What every connection was taken for: ends (client, server as far as known), protocol (`""` if none).
    pub verdicts: Vec<((Endpoint, Endpoint), L7)>,
    /// Complaints of the parsers, of all protocols.
    pub malformed: Vec<&'static str>,
}

/// Reads a capture. `protocol` is the name whose messages are wanted; `copy` cuts what is seen of each event (a
/// segment) to this many bytes, as live capture does; `say` turns a message into what is compared, or drops it.
pub fn read(capture: &Path, protocol: &str, copy: usize, say: &dyn Fn(&Message<'_>, Endpoint) -> Option<Said>) -> Ours {
    let mut ours = Ours::default();
    let mut conns: Vec<Conn> = Vec::new();
    let mut places: HashMap<(SocketId, Option<(Endpoint, Endpoint)>), usize> = HashMap::new();
    Replay::default()
        .read_path(capture, &mut |event| {
            let Event::Data(mut d) = event else { return };
            d.payload.truncate(copy);
            let datagram = d.transport == Transport::Udp;
            let place = *places.entry((d.socket, datagram.then_some((d.local, d.remote)))).or_insert_with(|| {
                conns.push(Conn::new(&d));
                conns.len() - 1
            });
            conns[place].take(d, protocol, say, &mut ours);
        })
        .unwrap_or_else(|e| panic!("{e}"));
    for mut conn in conns {
        conn.finish(protocol, say, &mut ours);
    }
    ours
}

/// Operation, target and status as the message has them.
pub fn plain(m: &Message<'_>, from: Endpoint) -> Option<Said> {
    let status = m.attrs.iter().find(|(k, _)| *k == "db.response.status_code").map(|(_, v)| v.to_value().to_string());
    Some(Said {
        from,
        kind: m.kind,
        operation: m.operation.to_owned(),
        target: m.target.to_string(),
        status: m.status_code.map(|n| n.to_string()).or(status).unwrap_or_default(),
    })
}

enum Mode {
    Probing(Vec<DataEvent>, usize),
    Reading(Box<dyn Parser>, L7),
    Unknown,
}

struct Conn {
    local: Endpoint,
    remote: Endpoint,
    role: Role,
    mode: Mode,
    /// Bytes given to the parser, by side.
    fed: [u64; 2],
}

type Say<'a> = &'a dyn Fn(&Message<'_>, Endpoint) -> Option<Said>;

impl Conn {
    fn new(d: &DataEvent) -> Self {
        Conn { local: d.local, remote: d.remote, role: d.role, mode: Mode::Probing(Vec::new(), 0), fed: [0, 0] }
    }

    fn take(&mut self, d: DataEvent, wanted: &str, say: Say<'_>, ours: &mut Ours) {
        match &mut self.mode {
            Mode::Probing(calls, seen) => {
                *seen += 1;
                if !(calls.is_empty() && d.payload.is_empty()) {
                    calls.push(d);
                }
                self.probe(wanted, say, ours);
            }
            Mode::Reading(..) => self.feed(&d, wanted, say, ours),
            Mode::Unknown => {}
        }
    }

    fn probe(&mut self, wanted: &str, say: Say<'_>, ours: &mut Ours) {
        let Mode::Probing(calls, seen) = &mut self.mode else { return };
        let over = *seen >= PROBED_CALLS;
        match guess(calls, self.role) {
            Verdict::Known { protocol, first_is_client } => {
                let calls = std::mem::take(calls);
                self.understood(protocol, first_is_client, &calls);
                for d in calls {
                    self.take(d, wanted, say, ours);
                }
            }
            Verdict::NeedMore if !over => {}
            _ if over => self.mode = Mode::Unknown,
            _ => calls.clear(),
        }
    }

    fn understood(&mut self, protocol: &'static dyn Protocol, first_is_client: bool, calls: &[DataEvent]) {
        if self.role == Role::Unknown {
            let egress = calls[0].direction == Direction::Egress;
            self.role = if egress == first_is_client { Role::Client } else { Role::Server };
        }
        self.mode = Mode::Reading(protocol.parser(calls[0].transport), protocol.name());
    }

    fn feed(&mut self, d: &DataEvent, wanted: &str, say: Say<'_>, ours: &mut Ours) {
        let local_is_client = self.role != Role::Server;
        let from_local = d.direction == Direction::Egress;
        let side = if from_local == local_is_client { Side::Client } else { Side::Server };
        let chunk = Chunk { side, bytes: &d.payload, missing: d.len.saturating_sub(d.payload.len() as u64) };
        let fed = &mut self.fed[side as usize];
        *fed += d.len;
        let fed = *fed;
        let Some((to, handover)) = self.run(wanted, say, ours, |parser, out| parser.feed(chunk, out)) else { return };
        // As the joiner does: what the call holds behind the old protocol belongs to the next.
        let at = handover.at.map_or(fed, |at| at[side as usize]);
        let rest = fed.saturating_sub(at).min(d.len);
        self.fed = [0, 0];
        let own = matches!(self.mode, Mode::Reading(_, name) if name == to);
        match REGISTRY.iter().find(|p| p.name() == to && !own) {
            Some(protocol) => self.mode = Mode::Reading(protocol.parser(d.transport), protocol.name()),
            None if to.is_empty() => self.mode = Mode::Probing(Vec::new(), 0),
            None => self.mode = Mode::Unknown,
        }
        if rest > 0 {
            let mut d = d.clone();
            let seen = usize::try_from(d.len - rest).unwrap().min(d.payload.len());
            d.payload.drain(..seen);
            d.len = rest;
            self.take(d, wanted, say, ours);
        }
    }

    fn run(
        &mut self,
        wanted: &str,
        say: Say<'_>,
        ours: &mut Ours,
        act: impl FnOnce(&mut dyn Parser, &mut dyn FnMut(Item<'_, '_>)),
    ) -> Option<(L7, Handover)> {
        let (client, server) =
            if self.role == Role::Server { (self.remote, self.local) } else { (self.local, self.remote) };
        let key = ends(client, server);
        let Mode::Reading(parser, name) = &mut self.mode else { return None };
        let mut upgraded = None;
        act(&mut **parser, &mut |item| match item {
            Item::Message(m) => {
                let from = if m.side == Side::Client { client } else { server };
                if *name == wanted {
                    ours.said.entry(key).or_default().extend(say(m, from));
                }
            }
            Item::Malformed { reason, .. } => ours.malformed.push(reason),
            Item::Upgrade(to) => upgraded = Some(to),
            Item::End { .. } => {}
        });
        upgraded.map(|to| (to, parser.handover()))
    }

    fn finish(&mut self, wanted: &str, say: Say<'_>, ours: &mut Ours) {
        self.run(wanted, say, ours, |parser, out| parser.finish(out));
        let name = if let Mode::Reading(_, name) = self.mode { name } else { "" };
        let (client, server) =
            if self.role == Role::Server { (self.remote, self.local) } else { (self.local, self.remote) };
        ours.verdicts.push(((client, server), name));
    }
}

/// Asks the registry as the joiner does.
fn guess(calls: &[DataEvent], role: Role) -> Verdict {
    let Some(first) = calls.first() else { return Verdict::NeedMore };
    let datagrams = first.transport == Transport::Udp;
    let mut shown: [Vec<u8>; 2] = Default::default();
    let (mut whole, mut turns, mut last) = ([true; 2], [0; 2], None);
    for call in calls {
        let i = usize::from(call.direction != first.direction);
        if last.replace(i) != Some(i) {
            turns[i] += 1;
        }
        if whole[i] {
            let room = SHOWN.saturating_sub(shown[i].len()).min(call.payload.len());
            shown[i].extend_from_slice(&call.payload[..room]);
            whole[i] = !datagrams && call.payload.len() as u64 == call.len && room == call.payload.len();
        }
    }
    let egress = first.direction == Direction::Egress;
    let (first_is_client, server_port) = match role {
        Role::Client => (Some(egress), Some(first.remote.port)),
        Role::Server => (Some(!egress), Some(first.local.port)),
        Role::Unknown => (None, None),
    };
    let probe = Probe { transport: first.transport, first: &shown[0], second: &shown[1], first_is_client, server_port };
    infer(&probe, (turns[0], turns[1]))
}
