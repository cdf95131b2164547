//! What the kernel is told of the way in which a connection is used, as far as it has shown.

use crate::spans::Ctx;
use wirespan_model::broker::Delivers;
use wirespan_model::{AttrVal, Kind, Message, Side};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Requests waited together on a stream, and are answered in any order.
    pub(crate) shared: bool,
    /// What a client reads is work that it begins then.
    pub(crate) delivers: Option<Delivers>,
}

impl Manner {
    /// Learns from a message whether the process that was observed is brought work.
    pub(super) fn learn(&mut self, m: &Message<'_>, ctx: &Ctx<'_>) {
        if self.delivers.is_some() || !ctx.is_local(Side::Client) {
            return;
        }
        let attr = |name: &str| {
            m.attrs.iter().find_map(|(key, value)| match value {
                AttrVal::Str(text) if *key == name => Some(&**text),
                _ => None,
            })
        };
        self.delivers = match (m.side, m.kind) {
            // Consumers of Kafka have connections of their own.
            (Side::Client, Kind::Request) if m.protocol == "kafka" && m.operation == "Fetch" => Some(Delivers::Pulled),
            (Side::Server, Kind::OneWay | Kind::Request) if attr("messaging.operation.type") == Some("process") => {
                Some(Delivers::Pushed)
            }
            _ => None,
        };
    }
}
