//! Recognises a described protocol: the port, the magic, a valid frame, and a kind that the definition names.
//!
//! Bias: the user's. If a definition gives ports alone, every connection to them is this protocol, unless its bytes
//! contradict the frame.

use super::parse::Kinds;
use super::Rules;
use crate::framing::calls::Start;
use crate::{Detect, Probe};
use wirespan_model::{Kind, Transport};

/// Bytes at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

impl Pattern {
    pub(super) fn end(&self) -> usize {
        self.offset.saturating_add(self.bytes.len())
    }

    /// Whether it is there; `None` if too few bytes are.
    pub(super) fn is_in(&self, frame: &[u8]) -> Option<bool> {
        let seen = frame.get(self.offset..).unwrap_or_default();
        let same = seen.iter().zip(&self.bytes).all(|(a, b)| a == b);
        match (same, seen.len() >= self.bytes.len()) {
            (false, _) => Some(false),
            (true, true) => Some(true),
            (true, false) => None,
        }
    }
}

enum Looks {
    Other,
    More,
    /// A frame, and whether the asking end sent it if it says so.
    Frame(Option<bool>),
}

fn looks(custom: &Rules, bytes: &[u8]) -> Looks {
    match custom.start(bytes) {
        Start::Bad => Looks::Other,
        Start::More => Looks::More,
        Start::Frame { .. } | Start::Walk { .. } => match custom.kind(bytes) {
            Kinds::By(Kind::Response) => Looks::Frame(Some(false)),
            Kinds::By(Kind::Request) => Looks::Frame(Some(true)),
            Kinds::By(_) | Kinds::BySide => Looks::Frame(None),
            Kinds::Unknown => Looks::Other,
            Kinds::More => Looks::More,
        },
    }
}

pub(super) fn detect(custom: &Rules, probe: &Probe<'_>) -> Detect {
    let d = &custom.definition;
    let transport = match probe.transport {
        Transport::Udp => matches!(d.transport.as_str(), "udp" | "both"),
        Transport::Tcp => matches!(d.transport.as_str(), "" | "tcp" | "both"),
        _ => false,
    };
    let port = match probe.server_port {
        _ if d.ports.is_empty() => true,
        Some(port) => d.ports.contains(&port),
        // A capture that begins in the middle does not know the ports' roles; magic decides there.
        None => custom.magic.iter().map(|p| p.bytes.len()).fold(0, usize::saturating_add) >= 2,
    };
    if !transport || !port {
        return Detect::No;
    }
    let (first, second) = match (looks(custom, probe.first), looks(custom, probe.second)) {
        (Looks::Frame(a), Looks::Frame(b)) => (a, b),
        // The first end's frame is enough unless the other end says something else from its start.
        (Looks::Frame(a), Looks::More) => (a, None),
        (Looks::More, Looks::Frame(b)) => (None, b),
        (Looks::More, Looks::More) => return Detect::Maybe,
        (Looks::Other, _) | (_, Looks::Other) => return Detect::No,
    };
    let known = probe.first_is_client.or(first).or(second.map(|client| !client));
    Detect::Yes { first_is_client: known.unwrap_or(true) }
}
