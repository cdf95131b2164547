//! How a connection is used, as far as the kernel must know.

use crate::conn::Ctx;
use wirespan_model::broker::{takes_elements, Delivers};
use wirespan_model::{AttrVal, Kind, Message, Side};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Several requests waited at once, and the protocol answers them in any order.
    pub(crate) shared: bool,
    /// The connection brings its client messages that the client then works on.
    pub(crate) delivers: Option<Delivers>,
    /// The client sends messages that are not answered, so that one may follow another's without a turn.
    pub(crate) one_way: bool,
    /// Several requests waited at once, and the protocol answers them in order.
    pub(crate) pipelined: bool,
    /// One send may carry what several requests have given the client.
    pub(crate) gathers: bool,
}

impl Usage {
    /// Learns from a message whether the connection delivers work to the observed process.
    pub(super) fn learn(&mut self, m: &Message<'_>, ctx: &Ctx<'_>) {
        if !ctx.is_local(Side::Client) {
            return;
        }
        let attr = |name: &str| {
            m.attrs.iter().find_map(|(key, value)| match value {
                AttrVal::Str(text) if *key == name => Some(&**text),
                _ => None,
            })
        };
        // Of AMQP, before the first message that is published: another may follow it at once.
        let publishes = m.kind == Kind::OneWay && attr("messaging.operation.type").is_some() || m.protocol == "amqp";
        self.one_way |= m.side == Side::Client && publishes;
        self.gathers |= m.protocol == "kafka" && m.operation == "Produce" && m.side == Side::Client;
        if self.delivers.is_some() {
            return;
        }
        self.delivers = match (m.side, m.kind) {
            // A consumer of Kafka has connections of its own.
            (Side::Client, Kind::Request) if m.protocol == "kafka" && m.operation == "Fetch" => Some(Delivers::Pulled),
            (Side::Client, Kind::Request) if m.protocol == "redis" && takes_elements(m.operation) => {
                Some(Delivers::Taken)
            }
            // Before the first message, so that the reader of that one is known, too.
            (Side::Client, _) if m.protocol == "amqp" && m.operation.starts_with("basic.consume") => {
                Some(Delivers::Pushed)
            }
            (Side::Server, Kind::OneWay | Kind::Request) if attr("messaging.operation.type") == Some("process") => {
                Some(Delivers::Pushed)
            }
            _ => None,
        };
    }
}
