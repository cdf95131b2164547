//! Recognises Pulsar by a whole command: two lengths that agree, a known type, the field of that type behind it, and a
//! message that Protocol Buffers can read to its last byte.
//!
//! Bias: against. No other protocol writes such a command, so one end is enough, also in the middle of a connection.
//! For commands that both ends send (ping, close), the capture source must know the connecting end, or the other end
//! must send a command, too.

use super::commands::{self, Start, BEFORE};
use super::emit::from_client;
use super::fields::Fields;
use crate::{Detect, Probe};

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug)]
enum Looks {
    Silent,
    Command(Start),
    /// Too short to tell.
    Short,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    match commands::start(bytes) {
        Ok(start) => {
            let size = usize::try_from(start.size).unwrap_or(usize::MAX);
            match bytes.get(BEFORE..BEFORE.saturating_add(size)) {
                Some(command) if Fields::is_message(command) => Looks::Command(start),
                Some(_) => Looks::Other,
                None => Looks::Short,
            }
        }
        Err(true) => Looks::Short,
        Err(false) => Looks::Other,
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let (first, second) = (looks(probe.first), looks(probe.second));
    let says = |looks: Looks| match looks {
        Looks::Command(start) => from_client(&start),
        _ => None,
    };
    let from = says(first).or(says(second).map(|client| !client));
    if let Some(client) = from {
        // Both have to agree with each other, and with the capture source.
        let disagree = says(first).zip(says(second)).is_some_and(|(a, b)| a == b);
        if disagree || probe.first_is_client.is_some_and(|known| known != client) {
            return Detect::No;
        }
        return Detect::Yes { first_is_client: client };
    }
    match (first, second, probe.first_is_client) {
        (Looks::Command(_), _, Some(known)) => Detect::Yes { first_is_client: known },
        (Looks::Command(_), ..) => Detect::Maybe,
        (Looks::Short, Looks::Silent | Looks::Short, _) => Detect::Maybe,
        _ => Detect::No,
    }
}
