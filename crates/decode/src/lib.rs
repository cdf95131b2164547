//! Bytes of one connection → messages. One folder per protocol; pure: no I/O, no async, no clock.
//!
//! Adding a protocol is one folder (detect, parse, tests) and one line in [`REGISTRY`]; users add their own with
//! [`Registry`].
//!
//! A parser never panics, never loops without consuming, and keeps at most [`MAX_BUFFERED`] bytes per side (Kafka's
//! keeps four times as many). It reports unreadable bytes as [`Item::Malformed`](wirespan_model::Item) with a reason,
//! and finds the next message.
//!
//! A message is emitted as soon as its head is complete. Its body is skipped and never kept. Cutting the same bytes
//! into other chunks does not change the emitted items.
//!
//! A [`Malformed`](Item::Malformed) whose reason ends in `_gap` says that messages of that side may have been lost, so
//! pairing by order has to start afresh with the next message.
#![forbid(unsafe_code)]

pub mod amqp;
pub mod amqp1;
pub mod brpc;
pub mod carried;
pub mod cassandra;
pub mod clickhouse;
pub mod custom;
pub mod dns;
pub mod dubbo;
pub mod fastcgi;
pub mod http1;
pub mod http2;
pub mod ids;
pub mod infer;
pub mod kafka;
pub mod krpc;
pub mod ldap;
pub mod mask;
pub mod memcached;
pub mod mongodb;
pub mod mqtt;
pub mod mysql;
pub mod nats;
pub mod openwire;
pub mod postgresql;
pub mod proxy;
pub mod pulsar;
pub mod quic;
pub mod redis;
pub mod rocketmq;
pub mod smtp;
pub mod socks;
pub mod sofarpc;
pub mod someip;
pub mod tars;
pub mod tds;
pub mod thrift;
pub mod tls;
pub mod websocket;
pub mod zmtp;
pub mod zookeeper;

mod ber;
mod compression;
pub mod framing;
mod registry;
mod rpc;
mod semantics;
mod text;
mod url;

#[cfg(test)]
mod testing;

pub use infer::{infer, Verdict, PATIENCE};
pub use mask::{Keep, KeepKey, Mask};
pub use registry::Registry;

use wirespan_model::{Attr, Chunk, Item, Side, Transport, L7};

/// Most bytes that a parser keeps per side while a message head is incomplete.
pub const MAX_BUFFERED: usize = 16 * 1024;

/// The start of a connection (or where we joined it), as far as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// Transport.
    pub transport: Transport,
    /// Captured bytes of the end that spoke first.
    pub first: &'a [u8],
    /// Captured bytes of the other end; empty if it has not spoken.
    pub second: &'a [u8],
    /// Whether the first speaker is the client, if the capture source knows (it connected, or it accepted).
    pub first_is_client: Option<bool>,
    /// Server port, if known.
    pub server_port: Option<u16>,
}

impl Probe<'_> {
    /// *Yes*, if the capture source knows no other client.
    pub(crate) fn agrees(&self, first_is_client: bool) -> Detect {
        match self.first_is_client {
            Some(known) if known != first_is_client => Detect::No,
            _ => Detect::Yes { first_is_client },
        }
    }
}

/// Answer of a protocol to a [`Probe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// Not this protocol.
    No,
    /// Could be; needs more bytes or the other side.
    Maybe,
    /// This protocol.
    Yes {
        /// Whether the first speaker is the client.
        first_is_client: bool,
    },
}

/// How requests and responses find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// The n-th response answers the n-th request.
    InOrder,
    /// By [`Message::id`](wirespan_model::Message::id).
    ById,
}

/// How much of the calls of a connection a parser must see. The kernel copies no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The start of the first call of each run of calls in one direction; of the others, their lengths.
    FirstCall,
    /// The start of every call, as long as the user configured for a call. Bytes that are missing behind it hide no
    /// request.
    Starts,
    /// This many bytes of every call, at most 4096; 0 means as many as the user configured for a call.
    EveryCall(u32),
    /// This many bytes, at most 4096, of every datagram with a long header of QUIC (RFC 8999): that of a handshake. The
    /// other datagrams are only counted, in a span of the connection itself.
    LongHeaders(u32),
    /// Every call to its end, because one call holds many messages. The kernel copies 32 KiB of a call until it has
    /// copied 128 KiB of a run of calls in one direction, and 4 KiB of each later call of that run.
    WholeCalls,
}

/// The end of the message that a side is sending, if no length tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenEnd {
    /// The parser will find it, however long the message pauses.
    Comes,
    /// Bytes are missing: the end may have been among them.
    Lost,
    /// There is no such message, or the protocol does not say.
    Other,
}

/// A protocol: how to recognise it and how to read it.
pub trait Protocol: Sync {
    /// Name, lower case, as OpenTelemetry writes it where it has one.
    fn name(&self) -> L7;
    /// Recognises the start of a connection. States its bias in its documentation: a wrong *yes* costs more than a late
    /// one.
    fn detect(&self, probe: &Probe<'_>) -> Detect;
    /// How its messages pair.
    fn pairing(&self) -> Pairing;
    /// Whether its clients usually send several requests in one call, also those that wait for an answer each time.
    fn pipelines(&self) -> bool {
        false
    }
    /// How much of its calls the parser has to see.
    fn need(&self) -> Need {
        match self.pairing() {
            Pairing::InOrder => Need::FirstCall,
            Pairing::ById => Need::EveryCall(0),
        }
    }
    /// Its counters, if it has any: for `/metrics` and `wirespan status`.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
    /// A fresh parser for one connection (for UDP: for one pair of ends).
    fn parser(&self, transport: Transport) -> Box<dyn Parser>;
    /// The same, for a parser that shows the values that the user lets through. [`Registry::parser`] leaves out the
    /// attributes that the user hides.
    fn parser_with(&self, transport: Transport, _keep: &Keep) -> Box<dyn Parser> {
        self.parser(transport)
    }
    /// The keys of `[mask.PROTOCOL]` that its parser reads; every protocol has `hide` besides.
    fn keepable(&self) -> &'static [KeepKey] {
        &[]
    }
}

/// Reads the bytes of one connection.
pub trait Parser: Send {
    /// Takes the next bytes of one side and emits what became clear. For UDP one call is one datagram.
    ///
    /// Offsets in the items count all bytes of the side since the parser was made, `missing` ones included.
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>));
    /// The connection ended: emits incomplete heads as far as they were read. Nothing may be fed afterwards.
    fn finish(&mut self, _out: &mut dyn FnMut(Item<'_, '_>)) {}
    /// Bytes currently buffered, both sides; for the memory account.
    fn buffered(&self) -> usize;
    /// Asked once, after an [`Item::Upgrade`]: where the next protocol begins, and what holds for it.
    fn handover(&mut self) -> Handover {
        Handover::default()
    }
    /// What is known of the end of the message that a side is sending.
    fn open_end(&self, _side: Side) -> OpenEnd {
        OpenEnd::Other
    }
    /// Whether the parser has found that it must see whole calls of this connection, although [`Protocol::need`] asks
    /// for less.
    fn needs_whole(&self) -> bool {
        false
    }
}

/// How a connection goes on after an [`Item::Upgrade`].
///
/// An upgrade to the empty name means that any protocol may follow: it is inferred afresh. An upgrade to the parser's
/// own name means that nothing more can be read (ciphertext): the bytes are only counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handover {
    /// Offsets (client, server) behind the last byte of this protocol; `None` means behind everything that was fed.
    ///
    /// Bytes of the last chunk behind its side's offset go to the next protocol. Earlier bytes of the other side are
    /// not shown again.
    pub at: Option<[u64; 2]>,
    /// Attributes that every later span of the connection gets, unless its own messages say otherwise.
    pub attrs: Vec<Attr>,
}

/// Every protocol, in the order in which they are asked.
///
/// A *yes* of any of them wins over a *maybe* of an earlier one.
pub const REGISTRY: &[&dyn Protocol] = &[
    &http1::Http1,
    &http2::Http2,
    &fastcgi::FastCgi,
    &websocket::WebSocket,
    &redis::Redis,
    &dns::Dns,
    &dubbo::Dubbo,
    &brpc::Brpc,
    &sofarpc::SofaRpc,
    &tars::Tars,
    &krpc::Krpc,
    &thrift::Thrift,
    &someip::SomeIp,
    &amqp::Amqp,
    &amqp1::Amqp1,
    &mqtt::Mqtt,
    &nats::Nats,
    &kafka::Kafka,
    &pulsar::Pulsar,
    &rocketmq::RocketMq,
    &postgresql::Postgresql,
    &mysql::Mysql,
    &tds::Tds,
    &clickhouse::ClickHouse,
    &cassandra::Cassandra,
    &openwire::OpenWire,
    &zmtp::Zmtp,
    &mongodb::MongoDb,
    &memcached::Memcached,
    &memcached::MemcachedBinary,
    &ldap::Ldap,
    &proxy::Proxy,
    &smtp::Smtp,
    &socks::Socks,
    &tls::Tls,
    &quic::Quic,
    &zookeeper::ZooKeeper,
];
