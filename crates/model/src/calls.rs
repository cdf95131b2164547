//! What a call between two services says about them: whether it failed, and whether its duration tells a speed.

use crate::broker::takes_elements;
use crate::span::{Span, SpanKind, Status};

impl Status {
    /// True if a call counts as failed between two services. Both ends give the answer of the client, which takes a
    /// client error (404) for a failure, too.
    pub fn fails_call(self) -> bool {
        self.is_error(SpanKind::Client)
    }
}

/// Whether the call is one by which a client waits until there is something to do, so that its duration says when work
/// came: a fetch from Kafka or RocketMQ, a command of Redis that blocks or reads a stream, a pull of JetStream, a
/// connection of WebSocket. The operation decides: a call that waits by its nature may still be answered at once.
pub fn waits_for_work(span: &Span) -> bool {
    match &*span.protocol {
        "kafka" => matches!(&*span.operation, "Fetch" | "ShareFetch" | "JoinGroup" | "SyncGroup"),
        "rocketmq" => matches!(&*span.operation, "PULL_MESSAGE" | "LITE_PULL_MESSAGE" | "POP_MESSAGE"),
        "redis" => redis(&span.operation),
        "nats" => span.target.starts_with("$JS.API.CONSUMER.MSG.NEXT"),
        "websocket" => true,
        _ => false,
    }
}

fn redis(command: &str) -> bool {
    let blocks = command.starts_with('B') || command.starts_with("XREAD");
    blocks && takes_elements(command) || matches!(command, "MONITOR" | "PSUBSCRIBE" | "SSUBSCRIBE" | "SUBSCRIBE")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::SpanBuilder;

    #[test]
    fn what_waits_is_told_from_what_is_slow() {
        let waits =
            |protocol, operation| waits_for_work(&SpanBuilder::client(1).request(protocol, operation, "").build());
        assert!(waits("kafka", "Fetch") && waits("redis", "BLPOP") && waits("redis", "XREADGROUP"));
        assert!(!waits("kafka", "Produce") && !waits("redis", "LPOP") && !waits("http", "Fetch"));
    }
}
