//! Causes that name a request by its order on a connection.

use crate::event::{exchange_socket, BY_STREAM, PROVISIONAL, STREAM_BITS};

/// Parts of a cause that names a request by its order on its connection: the n-th of those that came from an exchange
/// on. It has the form of [`crate::event::by_stream`], with an even number, as no request's stream has. Returns the
/// socket, the last bits of the exchange ([`ORDER_BITS`]), and n; `None` for any other cause.
pub fn ordered(cause: u64) -> Option<(u64, u64, usize)> {
    let (named, number) = (cause & PROVISIONAL == BY_STREAM, cause & STREAM_BITS);
    let socket = exchange_socket(cause & !PROVISIONAL);
    (named && number & 1 == 0).then_some((socket, number >> 9, (number >> 1 & 0xff) as usize))
}

/// Bits of an exchange's number in a cause that names a request by its order ([`ordered`]).
pub const ORDER_BITS: u64 = (1 << 15) - 1;
