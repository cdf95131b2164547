//! Causes that belong to the connection and not to one call.

use std::collections::VecDeque;
use wirespan_model::event::{StreamCause, STREAM_BITS};

/// Streams whose cause is kept. A peer allows 100 concurrent streams in most programs.
const MAX_STREAMS: usize = 512;

/// Causes known for the connection: of its connecting thread, and of single streams.
#[derive(Default)]
pub(crate) struct Causes {
    /// Cause of the thread that connected the socket; 0 after the first message, and if there is none.
    pub(crate) connect: u64,
    /// Authoritative causes: the program itself named the request on whose behalf it sends on a stream. Newest last.
    streams: VecDeque<StreamCause>,
}

impl Causes {
    /// Takes the cause of a stream whose bytes come later. Beyond [`MAX_STREAMS`] the oldest is dropped.
    pub(crate) fn add_stream(&mut self, c: &StreamCause) {
        if self.streams.len() >= MAX_STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back(*c);
    }

    /// The newest cause of this stream.
    pub(crate) fn of_stream(&self, stream_id: u64) -> Option<&StreamCause> {
        self.streams.iter().rev().find(|c| c.stream == stream_id & STREAM_BITS)
    }
}
