//! A connection that speaks TLS: its messages are read from the plaintext.

use super::facts::Bytes;
use super::protocol::Mode;
use super::told::Told;
use super::Conn;
use crate::env::Env;
use crate::flow::Flow;
use crate::session::{Ending, Session};
use crate::tls::{starts_record, Tls};
use wirespan_decode::Pairing;
use wirespan_model::{DataEvent, Direction, Role, Side, Span, Transport};

/// First calls of a connection that are examined for the start of a TLS record.
const MAX_EXAMINED: u8 = 4;

/// TLS state of a connection.
#[derive(Default)]
pub(super) struct Secure {
    /// Records and plaintext; `None` until TLS is recognised.
    tls: Option<Box<Tls>>,
    /// Calls examined for the start of a record.
    examined: u8,
    /// What the other end tells of the bytes; `None` if it is no connection of this host, or this end is read itself.
    pub(super) told: Option<Box<Told>>,
}

impl Secure {
    /// True if the connection speaks TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// True if a span that the other end told waits for its bytes.
    pub(super) fn is_told(&self) -> bool {
        self.told.as_ref().is_some_and(|t| t.waits())
    }

    /// True if messages are read from plaintext.
    pub(super) fn is_plaintext(&self) -> bool {
        self.tls.as_ref().is_some_and(|t| t.plaintext)
    }

    /// Since when plaintext waits for its ciphertext, Unix ns.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.tls.as_ref().and_then(|t| t.waits_since())
    }

    /// Captured bytes held here.
    pub(super) fn buffered(&self) -> usize {
        self.tls.as_ref().map_or(0, |t| t.buffered())
    }
}

impl Conn {
    /// Takes a call of a connection that may speak TLS. False if the call's own bytes are to be read.
    pub(super) fn secure(&mut self, d: &mut DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) -> bool {
        if d.plaintext {
            if !self.secure.is_plaintext() {
                self.begin_plaintext(d.direction, env, sink);
            }
        } else if self.secure.tls.is_none() {
            let examined = &mut self.secure.examined;
            *examined = examined.saturating_add(1);
            if *examined > MAX_EXAMINED || self.facts.transport != Transport::Tcp || !starts_record(&d.payload) {
                return false;
            }
        }
        let tls = self.secure.tls.get_or_insert_default();
        let mut ready = Vec::new();
        if d.plaintext {
            env.stats.plaintext_in += 1;
            let d = std::mem::replace(d, DataEvent { payload: Vec::new(), ..*d });
            // Clients of HTTP send one request after the other: the unread bytes have answered the one before.
            let in_turn = self.facts.role == Role::Client && self.protocol.is("http");
            let asks = d.direction == Direction::Egress;
            if let Some(lost_ns) = tls.missed_before(d.enter_ns).filter(|_| asks && in_turn) {
                self.session.lost(Side::Server, lost_ns);
            }
            if let Some(d) = if in_turn { tls.hold(d) } else { Some(d) } {
                tls.plaintext(d, &mut ready);
            }
        } else {
            tls.ciphertext(d, &mut ready);
            if let Some(told) = &mut self.secure.told {
                told.call(d);
                let waits = told.waits();
                if waits {
                    self.tell(0, env, sink);
                }
            }
        }
        let plaintext = self.secure.is_plaintext();
        self.reads_all(ready, env, sink);
        plaintext
    }

    /// Starts anew with the first plaintext: anything read from the ciphertext no longer matters.
    fn begin_plaintext(&mut self, direction: Direction, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        if self.protocol.is_reading() {
            self.wind_up(Ending::Closed, env, sink);
        }
        env.stats.plaintext_connections += 1;
        self.begins_to_read(direction);
        self.facts.bytes = Bytes::default();
        self.protocol.mode = Mode::undecided();
        self.protocol.copy = None;
        self.session = Session::new(Pairing::InOrder);
        self.flow = Flow::default();
    }

    /// Drops plaintext whose ciphertext does not come, and reads answers whose request does not come: after the time
    /// for reordering, or at once without `now_ns`.
    pub(super) fn release_plaintext(&mut self, now_ns: Option<u64>, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let Some(tls) = &mut self.secure.tls else { return };
        let Some(since) = tls.waits_since() else { return };
        if now_ns.is_some_and(|now| now.saturating_sub(since) < env.config.reorder_ns) {
            return;
        }
        let mut ready = Vec::new();
        env.stats.plaintext_without_record += tls.release(&mut ready) as u64;
        self.reads_all(ready, env, sink);
    }

    fn reads_all(&mut self, ready: Vec<DataEvent>, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        for d in ready {
            self.reads(&d);
            self.next(d, env, sink);
        }
    }
}
