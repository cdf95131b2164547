//! Shared readers: they find the messages of a connection in its bytes.
//!
//! A protocol implements one trait and gets a [`Parser`](crate::Parser) for it. The readers put pieces of a message
//! together, skip its body by its length, and find the next message after bytes that were not captured.
//!
//! Which reader to take:
//!
//! | kind of protocol | reader | trait to implement |
//! |---|---|---|
//! | A: fixed header with a length | [`frames`] | [`frames::Reader`] |
//! | B: lines, records or nested lengths: only reading a head finds its end | [`units`] | [`units::Reader`] |
//! | C: fixed header with a length; requests tell how to read their responses | [`exchange`] | [`exchange::Session`] |
//! | D: RPC: a header with a length, or a walk to the end; TCP or datagrams | [`calls`] | [`calls::Format`] |
//! | E: length prefix; a message may have holes | [`prefixed`] | [`prefixed::Framing`] |
//! | F: chunks, interleaved streams, or no length at all | none | [`Parser`](crate::Parser) |
//!
//! - A: AMQP, AMQP 1.0, MQTT, NATS, OpenWire, ZMTP
//! - B: LDAP, Memcached, MongoDB, PROXY, SMTP, SOCKS, TLS, ZooKeeper
//! - C: Cassandra, MySQL, PostgreSQL, SQL Server
//! - D: bRPC, Dubbo, krpc, SOFARPC, SOME/IP, Tars, Thrift, and the protocols that users describe (a length or a
//!   delimiter)
//! - E: Kafka, Pulsar, RocketMQ. A broker may send records without copying them through a call; these are the holes
//! - F: ClickHouse, DNS, FastCGI, HTTP/1, HTTP/2, QUIC, Redis, WebSocket
//!
//! [`frames`] is built on [`units`]. [`Cursor`] reads the fields of a message for all of them, and [`decide`] is the
//! detection that most binary protocols share.
//!
//! All readers treat losses in the same way:
//!
//! - **bytes are missing inside a message whose length is known**: it skips exactly so many
//! - **bytes are missing beyond that message**: it reports `…_gap`, and reads on at the next chunk that starts with a
//!   message
//! - **no message starts where one has to**: it reports the protocol's reason, and reads on in the same way
//! - **missing bytes cut a head**: it hands the head on as far as it was captured
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
