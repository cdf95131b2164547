//! The facts that are remembered of open streams.

use crate::semantics::Peek;
use std::collections::VecDeque;

/// Streams that are remembered; the oldest are forgotten beyond it.
pub(super) const MAX_STREAMS: usize = 1024;

/// Whether a stream carries gRPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rpc {
    /// Its content type was not seen.
    #[default]
    Unknown,
    /// gRPC, or gRPC-Web in binary or text.
    Grpc,
    Web,
    WebText,
    /// Something else.
    No,
}

impl Rpc {
    /// From a content type.
    pub(super) fn of(content_type: &[u8]) -> Rpc {
        let Some(rest) = content_type.strip_prefix(b"application/grpc") else { return Rpc::No };
        let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';' | b' '));
        if let Some(rest) = rest.strip_prefix(b"-web-text") {
            return if ends(rest) { Rpc::WebText } else { Rpc::No };
        }
        if let Some(rest) = rest.strip_prefix(b"-web") {
            return if ends(rest) { Rpc::Web } else { Rpc::No };
        }
        if ends(rest) {
            Rpc::Grpc
        } else {
            Rpc::No
        }
    }

    pub(super) fn is_rpc(self) -> bool {
        matches!(self, Rpc::Grpc | Rpc::Web | Rpc::WebText)
    }
}

/// One stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) rpc: Rpc,
    /// Its request was emitted.
    pub(super) asked: bool,
    /// Its response was emitted.
    pub(super) answered: bool,
    /// The client reset it before it was answered.
    pub(super) cancelled: bool,
    /// An end will send no more, by side.
    pub(super) ended: [bool; 2],
    /// The beginnings of bodies that may tell more.
    pub(super) peek: Option<Box<Peek>>,
}

/// The open streams, by rising number.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: VecDeque<Stream>,
}

impl Streams {
    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.open.binary_search_by_key(&id, |s| s.id).ok()?;
        self.open.get_mut(at)
    }

    /// The stream of this number, new if need be.
    pub(super) fn open(&mut self, id: u32) -> Option<&mut Stream> {
        let at = match self.open.binary_search_by_key(&id, |s| s.id) {
            Ok(at) => at,
            Err(_) => {
                if self.open.len() >= MAX_STREAMS {
                    self.open.pop_front();
                }
                let at = self.open.partition_point(|s| s.id < id);
                self.open.insert(at, Stream { id, ..Stream::default() });
                at
            }
        };
        self.open.get_mut(at)
    }

    pub(super) fn remove(&mut self, id: u32) {
        if let Ok(at) = self.open.binary_search_by_key(&id, |s| s.id) {
            self.open.remove(at);
        }
    }

    pub(super) fn clear(&mut self) {
        self.open = VecDeque::new();
    }

    /// Streams above `last` whose request waits.
    pub(super) fn above(&mut self, last: u32) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut().filter(move |s| s.id > last && s.asked && !s.answered && !s.cancelled)
    }

    pub(super) fn forget_ended(&mut self) {
        self.open.retain(|s| s.ended != [true, true]);
    }
}
