//! Counters of the joiner.

use rustc_hash::FxHashMap;

/// Numbers of events in and spans out, and of what was dropped, by reason. All counters only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinStats {
    /// Data events in.
    pub data_in: u64,
    /// Socket events in.
    pub socket_in: u64,
    /// Task events in.
    pub task_in: u64,
    /// Trace contexts that travel beside the bytes of a request, in.
    pub contexts_in: u64,
    /// Retransmissions and resets in.
    pub trouble_in: u64,
    /// Spans that waited for news of the loss of their last bytes.
    pub settled_spans: u64,
    /// Spans out.
    pub spans_out: u64,
    /// Spans out that describe a connection whose protocol was not recognised.
    pub flow_spans_out: u64,
    /// Connections observed.
    pub connections: u64,
    /// Connections ended because there were too many.
    pub evicted_connections: u64,
    /// Calls dropped because all their bytes had passed before.
    pub duplicates: u64,
    /// Calls that were put back in order.
    pub reordered: u64,
    /// Gaps in streams that were never filled.
    pub gaps: u64,
    /// Bytes in those gaps.
    pub gap_bytes: u64,
    /// Streams that jumped too far for a gap.
    pub resyncs: u64,
    /// Requests reported early because too many waited on one connection.
    pub pending_overflow: u64,
    /// Buffered calls given up because too many bytes were kept.
    pub buffer_overflow: u64,
    /// Requests that got no response within the window.
    pub no_response: u64,
    /// Responses whose request was not observed.
    pub no_request: u64,
    /// Responses that came after the window.
    pub late_responses: u64,
    /// Requests repeated over a datagram socket while the first was waiting.
    pub datagram_retries: u64,
    /// Calls whose bytes belong to no observed message (pipelining under
    /// [`CopyRule::FirstCallOnly`](crate::CopyRule)).
    pub unseen_calls: u64,
    /// Calls that failed or moved nothing.
    pub empty_calls: u64,
    /// Pieces of TLS plaintext in.
    pub plaintext_in: u64,
    /// Connections whose messages were read from TLS plaintext.
    pub plaintext_connections: u64,
    /// Pieces of plaintext that were dropped because no ciphertext fitted: they may belong to another connection.
    pub plaintext_without_record: u64,
    /// Spans of an end whose TLS is not read, told by the other end.
    pub told_spans: u64,
    /// Spans that the other end told and whose bytes this end was not seen to move.
    pub untold_spans: u64,
    /// Connections whose protocol was not recognised.
    pub unknown_protocol: u64,
    /// Provisional causes that were resolved to a real cause.
    pub resolved_causes: u64,
    /// Spans out without a cause because their provisional cause was never resolved.
    pub unresolved_causes: u64,
    /// Authoritative causes of streams, in.
    pub stream_causes_in: u64,
    /// Authoritative causes of streams on unknown connections: dropped.
    pub stream_causes_lost: u64,
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
            ("told_spans", self.told_spans),
            ("untold_spans", self.untold_spans),
            ("unknown_protocol", self.unknown_protocol),
            ("resolved_causes", self.resolved_causes),
            ("unresolved_causes", self.unresolved_causes),
            ("stream_causes_in", self.stream_causes_in),
            ("stream_causes_lost", self.stream_causes_lost),
        ];
        let mut malformed: Vec<_> = self.malformed.iter().map(|(k, v)| (*k, *v)).collect();
        malformed.sort_unstable();
        all.extend(malformed);
        all
    }
}
