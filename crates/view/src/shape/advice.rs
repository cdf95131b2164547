//! What can be done about a loss, by the name of its counter.

/// Parts of names, with what to do. The first part that a name contains counts.
const ADVICE: [(&str, &str); 20] = [
    ("ring_full", "the agent is behind: give it more processor time, a larger capture.ring_mib, or fewer processes"),
    ("lost_no_state", "the kernel had no memory for a table: trace fewer processes, or give the machine more memory"),
    ("lost_flows", "more peers at once than the tables hold: raise the limits of flows in the configuration"),
    ("lost_waits", "record for a shorter time or fewer services; capture.ring_mib gives more room"),
    ("lost_samples", "record for a shorter time or fewer services; capture.ring_mib gives more room"),
    ("lost_calls", "record fewer system calls or fewer services; capture.ring_mib gives more room"),
    (
        "stack_copies_lost",
        "stacks of waits came faster than they are read: raise --threshold, or record fewer services",
    ),
    ("queue_full", "the agent is behind: give it more processor time, or trace fewer processes"),
    ("backlog", "the server takes spans too slowly, or was away too long: look at its status"),
    ("too_big", "a single batch is larger than the link allows: leave out long texts (docs/privacy.md)"),
    ("probes_refused", "run `wirespan check`, which says what this kernel refuses, and why"),
    ("evicted", "more connections at once than are kept: the longest idle go first; trace fewer processes"),
    ("pending_overflow", "one connection has more open requests than are kept; its oldest have no answer"),
    ("gap", "bytes were not copied (capture.payload_bytes), or their records were lost: see the capture stage"),
    ("resync", "a conversation was found again behind a gap: requests within it have no span"),
    ("unseen_calls", "calls that the kernel counted and nothing recorded: see the capture stage"),
    (
        "_bad_",
        "bytes that are not as the protocol says have no span: if it grows, a capture helps us (docs/protocols.md)",
    ),
    ("malformed", "what cannot be read is left out: look at the program that sends it"),
    ("otel_metric_overflow", "more combinations of labels than metrics.max_edges: those beyond are told together"),
    ("forgotten", "--store DIR keeps spans on disk, --memory-mib N gives more memory"),
];

/// What can be done about the loss that a counter of this name counts; empty if there is nothing to say.
pub fn what_to_do(name: &str) -> &'static str {
    ADVICE.iter().find(|(part, _)| name.contains(part)).map_or("", |(_, todo)| todo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_advice_is_given() {
        assert!(what_to_do("lost_ring_full").contains("capture.ring_mib"));
        assert!(what_to_do("spans_dropped_queue_full").contains("processor time"));
        assert!(what_to_do("kafka_bad_frame").contains("capture"));
        assert!(what_to_do("forgotten: memory is full").contains("--store"));
        assert!(what_to_do("capture stack_copies_lost").contains("--threshold"));
        assert_eq!(what_to_do("dropped_for_fun"), "");
    }
}
