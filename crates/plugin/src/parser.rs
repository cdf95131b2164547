//! One connection that a plug-in reads. Bytes that the plug-in has not consumed are kept and shown again; bytes that it
//! skips are passed. After a loss the next message is looked for at the start of a chunk only, as built-in protocols
//! do.

use crate::limits::WINDOW;
use crate::protocol::{Answer, Shared};
use std::sync::Arc;
use wirespan_decode::Parser;
use wirespan_model::{Chunk, Item, Side, Transport};

/// Bytes before these were lost: the plug-in must answer only if it is certain.
const LOST: i32 = 1;
/// The bytes behind these were not captured.
const CUT: i32 = 2;
/// No bytes come behind these: the connection ended, or they are a datagram.
const LAST: i32 = 4;

/// One direction.
#[derive(Debug, Default)]
struct Stream {
    /// Offset of the first byte that was not consumed; kept bytes start here.
    offset: u64,
    kept: Vec<u8>,
    skip: u64,
    lost: bool,
}

pub(crate) struct PluginParser {
    plugin: Arc<Shared>,
    datagrams: bool,
    state: Vec<u8>,
    sides: [Stream; 2],
    over: bool,
}

fn len64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl PluginParser {
    pub(crate) fn new(plugin: Arc<Shared>, transport: Transport) -> Self {
        let state = vec![0; plugin.nature.state];
        let datagrams = matches!(transport, Transport::Udp | Transport::UnixDgram);
        PluginParser { plugin, datagrams, state, sides: Default::default(), over: false }
    }

    /// Shows the bytes from `at`, `new` of them for the first time. Returns the place that the plug-in reached; `None`
    /// if it will read no further.
    fn walk(
        &mut self,
        side: Side,
        bytes: &[u8],
        mut new: usize,
        last: i32,
        out: &mut dyn FnMut(Item<'_, '_>),
    ) -> Option<usize> {
        let PluginParser { plugin, state, sides, .. } = self;
        let stream = &mut sides[side as usize];
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if stream.skip > 0 {
                let passed = usize::try_from(stream.skip).unwrap_or(usize::MAX).min(rest.len());
                stream.skip -= len64(passed);
                stream.offset = stream.offset.saturating_add(len64(passed));
                at += passed;
                continue;
            }
            let window = &rest[..rest.len().min(WINDOW)];
            let flags = if stream.lost { LOST } else { 0 } | if window.len() == rest.len() { last } else { 0 };
            let answer = plugin.read(state, side, (window, new.min(window.len())), flags, stream.offset, out);
            new = new.saturating_sub(window.len());
            let stuck = window.len() == WINDOW || last & (CUT | LAST) != 0;
            let reason = match answer {
                Answer::Over => return None,
                Answer::Consumed(0, _) if !stuck => return Some(at),
                // Its rest will not come; the missing bytes are counted as a gap later.
                Answer::Consumed(0, _) if last != 0 && window.len() == rest.len() => return Some(at),
                Answer::Consumed(0, _) => plugin.gap,
                Answer::Consumed(n, skip) => {
                    stream.lost = false;
                    stream.skip = skip;
                    stream.offset = stream.offset.saturating_add(len64(n));
                    at += n;
                    continue;
                }
                Answer::Bad => plugin.bad,
            };
            if !stream.lost {
                out(Item::Malformed { side, reason });
            }
            stream.lost = true;
            // Inside of a chunk, any bytes could look like a message.
            stream.offset = stream.offset.saturating_add(len64(rest.len()));
            return Some(bytes.len());
        }
        Some(at)
    }

    /// Reads no more of this connection.
    fn give_up(&mut self, unread: u64, out: &mut dyn FnMut(Item<'_, '_>)) {
        self.over = true;
        self.sides = Default::default();
        self.state = Vec::new();
        self.plugin.unread(unread);
        out(Item::Upgrade(self.plugin.name));
    }

    fn datagram(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let last = if chunk.missing > 0 { CUT } else { LAST };
        let Some(at) = self.walk(chunk.side, chunk.bytes, chunk.bytes.len(), last, out) else {
            return self.give_up(len64(chunk.bytes.len()), out);
        };
        let unread = len64(chunk.bytes.len().saturating_sub(at));
        if unread > 0 {
            out(Item::Malformed { side: chunk.side, reason: self.plugin.bad });
        }
        let stream = &mut self.sides[chunk.side as usize];
        // Each datagram is its own beginning.
        (stream.skip, stream.lost) = (0, false);
        stream.offset = stream.offset.saturating_add(unread).saturating_add(chunk.missing);
    }
}

impl Parser for PluginParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        if self.over {
            return;
        }
        if self.datagrams {
            return self.datagram(chunk, out);
        }
        let side = chunk.side;
        let mut kept = std::mem::take(&mut self.sides[side as usize].kept);
        let joined = !kept.is_empty();
        if joined {
            kept.extend_from_slice(chunk.bytes);
        }
        let bytes = if joined { kept.as_slice() } else { chunk.bytes };
        let last = if chunk.missing > 0 { CUT } else { 0 };
        let Some(at) = self.walk(side, bytes, chunk.bytes.len(), last, out) else {
            return self.give_up(len64(chunk.bytes.len()), out);
        };
        let stream = &mut self.sides[side as usize];
        let rest = bytes.get(at..).unwrap_or_default();
        if chunk.missing == 0 {
            stream.kept = rest.to_vec();
            return;
        }
        stream.offset = stream.offset.saturating_add(len64(rest.len())).saturating_add(chunk.missing);
        match stream.skip.checked_sub(chunk.missing) {
            Some(left) if stream.skip > 0 && rest.is_empty() => stream.skip = left,
            _ => {
                stream.skip = 0;
                if !stream.lost {
                    out(Item::Malformed { side, reason: self.plugin.gap });
                }
                stream.lost = true;
            }
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            let kept = std::mem::take(&mut self.sides[side as usize].kept);
            if !self.over && !kept.is_empty() && self.walk(side, &kept, 0, LAST, out).is_none() {
                self.give_up(0, out);
            }
        }
    }

    fn buffered(&self) -> usize {
        self.state.len() + self.sides.iter().map(|s| s.kept.len()).sum::<usize>()
    }
}
