//! TLS that begins in the middle of a conversation, behind a command that asks for it (STARTTLS of IMAP, POP, FTP,
//! XMPP, or of a protocol that no parser reads).
//!
//! A parser that reads such a command hands over by itself. Here are the connections that no parser reads: the hello of
//! a client is looked for in their calls. Nothing else looks like one, so that a single call decides. Of a connection
//! that was given up, the kernel copies nothing more. Therefore the connections that were given up are watched only if
//! they talked in lines of text, and only for some calls.

use super::protocol::Mode;
use super::Conn;
use crate::direction::index;
use crate::env::Env;
use crate::tls::begins_handshake;
use crate::verdict::CopyRule;
use wirespan_decode::{Detect, Probe, Protocol};
use wirespan_model::{DataEvent, Direction, Role, Span, Transport};

/// Calls of a connection that was given up in which a hello is looked for.
const WATCHED_CALLS: u32 = 64;

/// What a connection that is not understood has said so far, and for how long it is watched.
#[derive(Default)]
pub(super) struct Midway {
    text: bool,
    binary: bool,
    watched: u32,
}

impl Midway {
    /// Takes a call that was not understood.
    pub(super) fn said(&mut self, d: &DataEvent) {
        if d.payload.is_empty() {
            return;
        }
        let visible = |b: &u8| *b >= b' ' && *b != 0x7f || b.is_ascii_whitespace();
        let text = d.payload.iter().all(visible) && std::str::from_utf8(head(&d.payload)).is_ok();
        self.text |= text;
        self.binary |= !text;
    }

    fn is_text(&self) -> bool {
        self.text && !self.binary
    }
}

/// The bytes up to the last that ends a character for certain.
fn head(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(u8::is_ascii).map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or_default()
}

impl Conn {
    /// Gives up on the connection's bytes, but watches a conversation in text for a hello.
    pub(super) fn watch_or_give_up(&mut self, env: &mut Env) {
        self.not_understood(env);
        if self.facts.transport == Transport::Tcp && self.protocol.midway.is_text() {
            self.protocol.midway.watched = WATCHED_CALLS;
            self.decide("", CopyRule::EveryCall(env.config.copy_bytes), env);
        }
    }

    /// Takes a call with which TLS begins. False if it is none.
    pub(super) fn begins_tls(&mut self, d: &DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) -> bool {
        match &mut self.protocol.mode {
            // A call that comes first is guessed with all others.
            Mode::Probing { calls, .. } if calls.is_empty() => return false,
            Mode::Opaque(None) if self.protocol.midway.watched > 0 => self.protocol.midway.watched -= 1,
            Mode::Probing { .. } => {}
            _ => return false,
        }
        let Some((tls, first_is_client)) = self.hello(d, env) else {
            self.keep_watching(d, env);
            return false;
        };
        if let Mode::Probing { calls, .. } = &mut self.protocol.mode {
            for d in std::mem::take(calls) {
                self.pass(&d);
            }
        }
        // What was said in clear is a span of its own.
        self.flow_span(None, d.enter_ns, env, sink);
        self.protocol.midway = Midway::default();
        self.understood(tls, first_is_client, std::slice::from_ref(d), env);
        self.flow.data(d);
        self.facts.bytes.streams[index(d.direction)].expect_after(d);
        self.read(d, env, sink);
        true
    }

    fn hello(&self, d: &DataEvent, env: &Env) -> Option<(&'static dyn Protocol, bool)> {
        if self.facts.transport != Transport::Tcp || !begins_handshake(&d.payload) {
            return None;
        }
        let tls = env.config.protocols.find("tls")?;
        let first_is_client = match self.facts.role {
            Role::Client => Some(d.direction == Direction::Egress),
            Role::Server => Some(d.direction == Direction::Ingress),
            Role::Unknown => None,
        };
        let probe =
            Probe { transport: Transport::Tcp, first: &d.payload, second: &[], first_is_client, server_port: None };
        match tls.detect(&probe) {
            Detect::Yes { first_is_client } => Some((tls, first_is_client)),
            _ => None,
        }
    }

    /// Ends the watch of a connection that says something else than text, or has been watched for long enough.
    fn keep_watching(&mut self, d: &DataEvent, env: &mut Env) {
        if !matches!(self.protocol.mode, Mode::Opaque(None)) {
            return;
        }
        self.protocol.midway.said(d);
        if self.protocol.midway.binary || self.protocol.midway.watched == 0 {
            self.protocol.midway.watched = 0;
            self.decide("", CopyRule::EveryCall(0), env);
        }
    }
}
