//! Shared readers: they find the messages of a connection in its bytes.
//!
//! A protocol implements one trait and gets a [`Parser`](crate::Parser) for it. The readers put pieces of a message
//! together, skip its body by its length, and find the next message after bytes that were not captured.
//!
//! Which reader to take:
//!
//! | the messages | take | implement | used by |
//! |---|---|---|---|
//! | have a header with a length | [`frames`] | [`frames::Reader`] | AMQP, MQTT, NATS, OpenWire, ZMTP |
//! | the same, and only a reader of the whole head knows where it ends: lines, records, nested lengths | [`units`] | [`units::Reader`] | LDAP, Memcached, MongoDB, PROXY, SMTP, SOCKS, TLS, ZooKeeper |
//! | have a header with a length; client and server share one state (a request tells how to find the response) | [`exchange`] | [`exchange::Session`] | Cassandra, MySQL, PostgreSQL, SQL Server |
//! | have a header with a length, or end where a walk over their fields ends; on TCP or in datagrams | [`calls`] | [`calls::Format`] | RPC: bRPC, Dubbo, krpc, SOFARPC, SOME/IP, Tars, Thrift, and the user's own |
//! | have a length prefix, and go on behind a hole in their middle (records that a broker sends without a copy) | [`prefixed`] | [`prefixed::Framing`] | Kafka, Pulsar, RocketMQ |
//! | end with a delimiter, come in chunks, or have no length at all | none: a parser of its own | [`Parser`](crate::Parser) | HTTP/1, HTTP/2, FastCGI, WebSocket, Redis, ClickHouse, DNS |
//!
//! [`frames`] is built on [`units`]. [`Cursor`] reads the fields of a message for all of them, and [`decide`] is the
//! detection that most binary protocols share.
//!
//! All readers treat losses in the same way:
//!
//! | event | what the reader does |
//! |---|---|
//! | bytes are missing inside a message whose length is known | it skips exactly so many |
//! | bytes are missing beyond that message | it reports `…_gap`, and reads on at the next chunk that starts with a message |
//! | no message starts where one has to | it reports the protocol's reason, and reads on in the same way |
//! | missing bytes cut a head | it hands the head on as far as it was captured |
//!
//! Inside a chunk no reader looks for a message after a loss: any bytes of a payload could look like one.

pub mod calls;
mod cursor;
mod decide;
pub(crate) mod exchange;
pub(crate) mod frames;
pub(crate) mod prefixed;
pub(crate) mod protobuf;
pub(crate) mod units;

#[cfg(test)]
pub(crate) mod tests;

pub use cursor::Cursor;
pub(crate) use decide::{decide, Looks};

use wirespan_model::{Item, Side};

/// Receives the items that a parser reads.
pub type Out<'o> = &'o mut dyn FnMut(Item<'_, '_>);

/// One value for each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerSide<T> {
    pub(crate) client: T,
    pub(crate) server: T,
}

impl<T> PerSide<T> {
    /// The value of a side.
    pub(crate) fn of(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}
