//! Counters of the joiner.

use rustc_hash::FxHashMap;

/// What went in, what came out, what was dropped and why. All counters only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinStats {
    /// Data events in.
    pub data_in: u64,
    /// Socket events in.
    pub socket_in: u64,
    /// Task events in.
    pub task_in: u64,
    /// Contexts that travel beside the bytes of a request, in.
    pub contexts_in: u64,
    /// Retransmissions and resets in.
    pub trouble_in: u64,
    /// Spans that waited for news of the loss of their last bytes.
    pub settled_spans: u64,
    /// Spans out.
    pub spans_out: u64,
    /// Spans out that describe a connection that was not understood.
    pub flow_spans_out: u64,
    /// Connections seen.
    pub connections: u64,
    /// Connections ended because there were too many.
    pub evicted_connections: u64,
    /// Calls dropped because all their bytes had been seen.
    pub duplicates: u64,
    /// Calls that were put back in order.
    pub reordered: u64,
    /// Holes in streams that were never filled.
    pub gaps: u64,
    /// Bytes in those holes.
    pub gap_bytes: u64,
    /// Streams that jumped too far to be a hole.
    pub resyncs: u64,
    /// Requests reported early because too many waited on one connection.
    pub pending_overflow: u64,
    /// Buffered calls given up because too many bytes were kept.
    pub buffer_overflow: u64,
    /// Requests that got no response within the window.
    pub no_response: u64,
    /// Responses whose request was not seen.
    pub no_request: u64,
    /// Responses that came after the window.
    pub late_responses: u64,
    /// Requests sent again over a datagram socket while the first was waiting.
    pub datagram_retries: u64,
    /// Calls with bytes that belong to no message that was seen (pipelining under
    /// [`CopyRule::FirstCallOnly`](crate::CopyRule)).
    pub unseen_calls: u64,
    /// Calls that failed or moved nothing.
    pub empty_calls: u64,
    /// Pieces of TLS plaintext in.
    pub plaintext_in: u64,
    /// Connections whose messages were read from TLS plaintext.
    pub plaintext_connections: u64,
    /// Pieces of plaintext whose ciphertext did not come, or did not fit: dropped, they may belong elsewhere.
    pub plaintext_without_record: u64,
    /// Connections whose protocol was not recognised.
    pub unknown_protocol: u64,
    /// Provisional causes that were given their name.
    pub named_causes: u64,
    /// Spans out without a cause because theirs was never named.
    pub unnamed_causes: u64,
    /// Requests whose program told for whom it sends them, by their stream.
    pub told_streams: u64,
    /// …on connections that are not known.
    pub told_streams_lost: u64,
    /// Bytes that their protocol forbids, by the parser's reason.
    pub malformed: FxHashMap<&'static str, u64>,
}

impl JoinStats {
    /// All counters with their names, for `/metrics` and `wirespan status`.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = vec![
            ("data_in", self.data_in),
            ("socket_in", self.socket_in),
            ("task_in", self.task_in),
            ("contexts_in", self.contexts_in),
            ("trouble_in", self.trouble_in),
            ("settled_spans", self.settled_spans),
            ("spans_out", self.spans_out),
            ("flow_spans_out", self.flow_spans_out),
            ("connections", self.connections),
            ("evicted_connections", self.evicted_connections),
            ("duplicates", self.duplicates),
            ("reordered", self.reordered),
            ("gaps", self.gaps),
            ("gap_bytes", self.gap_bytes),
            ("resyncs", self.resyncs),
            ("pending_overflow", self.pending_overflow),
            ("buffer_overflow", self.buffer_overflow),
            ("no_response", self.no_response),
            ("no_request", self.no_request),
            ("late_responses", self.late_responses),
            ("datagram_retries", self.datagram_retries),
            ("unseen_calls", self.unseen_calls),
            ("empty_calls", self.empty_calls),
            ("plaintext_in", self.plaintext_in),
            ("plaintext_connections", self.plaintext_connections),
            ("plaintext_without_record", self.plaintext_without_record),
            ("unknown_protocol", self.unknown_protocol),
            ("named_causes", self.named_causes),
            ("unnamed_causes", self.unnamed_causes),
            ("told_streams", self.told_streams),
            ("told_streams_lost", self.told_streams_lost),
        ];
        let mut malformed: Vec<_> = self.malformed.iter().map(|(k, v)| (*k, *v)).collect();
        malformed.sort_unstable();
        all.extend(malformed);
        all
    }
}
