//! Requests and calls for the tests of this folder. A test changes what it is about.

use super::answerers::Actor;
use super::timeline::{Call, Class, Maker, Request};
use wirespan_model::{ExchangeRange, SpanId};

/// A request that one thread reads and answers. Its exchange and its span have its number.
pub(super) fn request(id: u32, class: Class, (start_ns, end_ns): (u64, u64)) -> Request {
    Request {
        id,
        class,
        start_ns,
        end_ns,
        until_ns: end_ns,
        exchange: ExchangeRange { first: id.into(), last: id.into() },
        tid: 1,
        answerer: Actor::of(1, 0),
        stream: None,
        span: SpanId(id.into()),
        is_shared: false,
    }
}

/// A call of the same thread for some request.
pub(super) fn call(id: u32, class: Class, (start_ns, end_ns): (u64, u64)) -> Call {
    Call {
        id,
        class,
        start_ns,
        end_ns,
        maker: Maker::Unknown(None),
        tid: 1,
        actor: Actor::of(1, 0),
        for_request: true,
        socket: 5,
        peer: 1,
    }
}
