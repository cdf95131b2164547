//! Return codes (MQTT 3.1.1, tables 3.1 and 3.8.4) and reason codes (MQTT 5, table 2-6), by their names in the
//! standard.

use wirespan_model::Outcome;

/// Name of a CONNACK return code of MQTT 3.
pub(super) fn connect_name(code: u8) -> &'static str {
    match code {
        0 => "",
        1 => "unacceptable protocol version",
        2 => "identifier rejected",
        3 => "server unavailable",
        4 => "bad user name or password",
        5 => "not authorized",
        _ => "unknown return code",
    }
}

/// Verdict of a CONNACK return code of MQTT 3.
pub(super) fn connect_outcome(code: u8) -> Outcome {
    match code {
        0 => Outcome::Ok,
        3 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}

/// Name of a failure; empty below 0x80.
pub(super) fn reason_name(code: u8) -> &'static str {
    match code {
        0..=0x7f => "",
        0x80 => "unspecified error",
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x83 => "implementation specific error",
        0x84 => "unsupported protocol version",
        0x85 => "client identifier not valid",
        0x86 => "bad user name or password",
        0x87 => "not authorized",
        0x88 => "server unavailable",
        0x89 => "server busy",
        0x8a => "banned",
        0x8b => "server shutting down",
        0x8c => "bad authentication method",
        0x8d => "keep alive timeout",
        0x8e => "session taken over",
        0x8f => "topic filter invalid",
        0x90 => "topic name invalid",
        0x91 => "packet identifier in use",
        0x92 => "packet identifier not found",
        0x93 => "receive maximum exceeded",
        0x94 => "topic alias invalid",
        0x95 => "packet too large",
        0x96 => "message rate too high",
        0x97 => "quota exceeded",
        0x98 => "administrative action",
        0x99 => "payload format invalid",
        0x9a => "retain not supported",
        0x9b => "QoS not supported",
        0x9c => "use another server",
        0x9d => "server moved",
        0x9e => "shared subscriptions not supported",
        0x9f => "connection rate exceeded",
        0xa0 => "maximum connect time",
        0xa1 => "subscription identifiers not supported",
        0xa2 => "wildcard subscriptions not supported",
        _ => "unknown reason code",
    }
}

/// Whose fault a reason code is.
pub(super) fn reason_outcome(code: u8) -> Outcome {
    match code {
        0..=0x7f => Outcome::Ok,
        0x80 | 0x83 | 0x88 | 0x89 | 0x8b | 0x97 | 0x98 | 0x9c | 0x9d | 0x9f => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}
