//! A connection that speaks TLS: its messages come from the plaintext.

use super::{Conn, Mode};
use crate::flow::Flow;
use crate::joiner::Env;
use crate::session::{Ending, Session};
use crate::stream::Stream;
use crate::tls::starts_record;
use wirespan_decode::Pairing;
use wirespan_model::{DataEvent, Span, Transport};

/// First calls of a connection that are looked at for the start of a record.
const LOOKED: u8 = 4;

impl Conn {
    /// Whether the messages are read from plaintext.
    pub(super) fn is_plaintext(&self) -> bool {
        self.tls.as_ref().is_some_and(|t| t.plaintext)
    }

    /// Takes a call of a connection with TLS. False if its bytes are to be read as they are.
    pub(super) fn secure(&mut self, d: &mut DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) -> bool {
        if d.plaintext {
            if !self.is_plaintext() {
                self.begin_plaintext(env, sink);
            }
        } else if self.tls.is_none() {
            self.looked = self.looked.saturating_add(1);
            if self.looked > LOOKED || self.transport != Transport::Tcp || !starts_record(&d.payload) {
                return false;
            }
        }
        let tls = self.tls.get_or_insert_default();
        let mut ready = Vec::new();
        if d.plaintext {
            env.stats.plaintext_in += 1;
            let d = std::mem::replace(d, DataEvent { payload: Vec::new(), ..*d });
            tls.plaintext(d, &mut ready);
        } else {
            tls.ciphertext(d, &mut ready);
        }
        let plaintext = tls.plaintext;
        for d in ready {
            self.next(d, env, sink);
        }
        plaintext
    }

    /// The first plaintext: what the ciphertext was taken for does not matter any more.
    fn begin_plaintext(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        if matches!(self.mode, Mode::Reading { .. }) {
            self.wind_up(Ending::Closed, env, sink);
        }
        env.stats.plaintext_connections += 1;
        self.streams = [Stream::default(), Stream::default()];
        self.base = [0, 0];
        self.mode = Mode::Probing { calls: Vec::new(), seen: 0, guesses: 0 };
        self.session = Session::new(Pairing::InOrder);
        self.flow = Flow::default();
        self.copy = None;
    }

    /// Gives up plaintext whose ciphertext does not come: by `now_ns`, or at the end.
    pub(super) fn release_plaintext(&mut self, now_ns: Option<u64>, env: &mut Env) {
        let Some(tls) = &mut self.tls else { return };
        let Some(since) = tls.waits_since() else { return };
        if now_ns.is_some_and(|now| now.saturating_sub(since) < env.config.reorder_ns) {
            return;
        }
        env.stats.plaintext_without_record += tls.release() as u64;
    }
}
