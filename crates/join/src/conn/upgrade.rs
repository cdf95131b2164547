//! A connection that changes its protocol.

use super::protocol::Mode;
use super::{index, Conn};
use crate::env::Env;
use crate::flow::Flow;
use crate::session::{Ending, Session};
use crate::verdict::CopyRule;
use wirespan_decode::{Handover, Need, Pairing};
use wirespan_model::{DataEvent, Side, Span};

/// Changes of the protocol after which a connection counts as not understood.
const MAX_UPGRADES: u32 = 8;

impl Conn {
    /// Changes to the protocol `name`. An empty name asks for a new guess; an unknown name makes the connection opaque.
    /// `last` is the call that announced the change: its bytes behind the old protocol's last byte begin the new one.
    pub(super) fn upgrade(
        &mut self,
        name: &'static str,
        last: Option<&DataEvent>,
        env: &mut Env,
        sink: &mut dyn FnMut(Span),
    ) {
        let (old, handover) = match &mut self.protocol.mode {
            Mode::Reading { protocol, parser } => (protocol.name(), parser.handover()),
            _ => ("", Handover::default()),
        };
        let next = env.config.protocols.find(name).filter(|_| name != old);
        let rest = last.and_then(|d| self.behind(d, &handover, next.is_some()));
        // The request that asked for HTTP/2 is its stream 1 (RFC 7540, section 3.2).
        let first = if name == "http2" { self.session.take_waiting(Side::Client) } else { None };
        self.wind_up(Ending::Closed, env, sink);
        self.flow = Flow::default();
        self.protocol.upgrades += 1;
        for (key, value) in handover.attrs {
            self.facts.attrs.retain(|(k, _)| *k != key);
            self.facts.attrs.push((key, value));
        }
        if let Some(rest) = &rest {
            self.facts.stream_mut(rest.direction).rewind(rest.len);
        }
        match next {
            _ if self.protocol.upgrades > MAX_UPGRADES => self.not_understood(env),
            Some(protocol) => {
                self.start(protocol, env);
                if let Some(first) = first {
                    self.session.wait(1, first);
                }
                let bytes = match protocol.need() {
                    Need::FirstCall | Need::Starts => 0,
                    Need::EveryCall(bytes) | Need::LongHeaders(bytes) => bytes,
                    Need::WholeCalls => env.config.whole_bytes,
                };
                self.decide(protocol.name(), CopyRule::EveryCall(bytes.max(env.config.copy_bytes)), env);
            }
            None if name.is_empty() => {
                self.session = Session::new(Pairing::InOrder);
                self.protocol.mode = Mode::undecided();
                self.decide("", CopyRule::EveryCall(env.config.copy_bytes), env);
            }
            None => {
                self.protocol.mode = Mode::Opaque(Some(name));
                self.decide(name, CopyRule::EveryCall(0), env);
            }
        }
        if let Some(rest) = rest {
            self.next(rest, env, sink);
        }
    }

    /// The part of a call behind the last byte of the old protocol, as a call of its own.
    fn behind(&self, d: &DataEvent, handover: &Handover, readable: bool) -> Option<DataEvent> {
        let side = self.facts.sender(d.direction) as usize;
        let end = self.facts.stream(d.direction).offset;
        let begin = match handover.at {
            Some(at) => self.facts.bytes.parser_base[index(d.direction)].saturating_add(at[side]),
            // If the parser does not say where it ended, it ended with its last head.
            None if readable => self.session.head_end[side],
            None => end,
        };
        let begin = begin.max(end.saturating_sub(d.len));
        let len = end.checked_sub(begin).filter(|len| *len > 0)?;
        let seen = d.len - len;
        let payload = d.payload.get(usize::try_from(seen).ok()?..).unwrap_or_default().to_vec();
        Some(DataEvent { len, seq: d.seq.map(|s| s.wrapping_add(seen as u32)), payload, ..d.clone() })
    }
}
