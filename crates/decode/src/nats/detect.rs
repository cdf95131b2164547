//! Recognises NATS by INFO or CONNECT, or from the middle by a message whose payload ends where its line says.
//!
//! Bias: against. PING, PONG, +OK and -ERR are lines of Redis, IRC and POP3 too; alone they decide nothing. There is
//! one exception: no other protocol answers the exact line PING, or a subscription, with the exact line PONG. Then the
//! capture source must know which end is the server.

use super::line::{json_value, line, Verb};
use crate::text::{at_most, decimal};
use crate::{Detect, Probe};
use wirespan_model::Side;

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// NATS, and which end.
    Sure(Side),
    /// Lines that NATS has, of one end if that can be told.
    Lines,
    /// Subscriptions, and nothing that other protocols have.
    Subscribes,
    /// Nothing but these two lines.
    Beats {
        ping: bool,
        pong: bool,
    },
    Other,
}

impl Looks {
    fn may_subscribe(self) -> bool {
        matches!(self, Looks::Silent | Looks::Beats { .. } | Looks::Subscribes)
    }

    fn beat(self, asks: bool) -> Looks {
        match self {
            Looks::Silent => Looks::Beats { ping: asks, pong: !asks },
            Looks::Beats { ping, pong } => Looks::Beats { ping: ping || asks, pong: pong || !asks },
            _ => Looks::Lines,
        }
    }
}

fn looks(bytes: &[u8]) -> Looks {
    let mut rest = bytes;
    let mut seen = Looks::Silent;
    while !rest.is_empty() {
        let line = match line(rest) {
            Ok(line) => line,
            // Only INFO is so long that it is cut; its first member is the id of the server.
            Err(true) if rest.starts_with(b"INFO {\"server_id\":\"") => return Looks::Sure(Side::Server),
            Err(true) if rest.starts_with(b"CONNECT {\"") => return Looks::Lines,
            Err(true) => return if seen == Looks::Silent { Looks::Lines } else { seen },
            Err(false) => return Looks::Other,
        };
        let side = if line.verb.allowed(Side::Client) { Side::Client } else { Side::Server };
        let behind = rest.get(line.len..).unwrap_or_default();
        match line.verb {
            Verb::Info if json_value(line.text, "server_id").is_some() => return Looks::Sure(side),
            Verb::Connect if json_value(line.text, "verbose").or(json_value(line.text, "lang")).is_some() => {
                return Looks::Sure(side)
            }
            Verb::Info | Verb::Connect => return Looks::Other,
            Verb::Hpub | Verb::Hmsg if behind.starts_with(b"NATS/1.") => return Looks::Sure(side),
            Verb::Hpub | Verb::Hmsg if behind.len() >= 7 => return Looks::Other,
            Verb::Pub | Verb::Msg => {
                let total = at_most(line.total.unwrap_or_default(), usize::MAX);
                match behind.get(total..).and_then(|end| end.get(..2)) {
                    Some(b"\r\n") => return Looks::Sure(side),
                    Some(_) => return Looks::Other,
                    // Cut off: it has to be enough that the line is one.
                    None => return Looks::Lines,
                }
            }
            Verb::Sub if seen.may_subscribe() && decimal(line.sid).is_some() => seen = Looks::Subscribes,
            Verb::Ping | Verb::Pong if seen == Looks::Subscribes => {}
            Verb::Ping if rest.starts_with(b"PING\r\n") => seen = seen.beat(true),
            Verb::Pong if rest.starts_with(b"PONG\r\n") => seen = seen.beat(false),
            _ => seen = Looks::Lines,
        }
        rest = behind;
    }
    seen
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    match (looks(probe.first), looks(probe.second)) {
        (Looks::Sure(side), _) => Detect::Yes { first_is_client: side == Side::Client },
        (_, Looks::Sure(side)) => Detect::Yes { first_is_client: side == Side::Server },
        (Looks::Other, _) | (_, Looks::Other) => Detect::No,
        (Looks::Subscribes, Looks::Beats { .. }) => Detect::Yes { first_is_client: true },
        (Looks::Beats { .. }, Looks::Subscribes) => Detect::Yes { first_is_client: false },
        (Looks::Beats { ping: true, .. }, Looks::Beats { pong: true, .. }) => {
            probe.first_is_client.map_or(Detect::Maybe, |first_is_client| Detect::Yes { first_is_client })
        }
        _ => Detect::Maybe,
    }
}
