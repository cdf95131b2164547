//! TLS libraries of C, known by their exported functions.

use super::{Calls, MAX_FUNCTION};
use crate::uprobe::elf::{Image, Place};
use crate::uprobe::points::{Exits, Function, Points, STEPPED};
use crate::wire::contract::{
    TLS_COOKIE_EX as LENGTH_BY_POINTER, TLS_FREE as FREE, TLS_HANDSHAKE as HANDSHAKE, TLS_READ as READ,
    TLS_WRITE as WRITE,
};
use std::collections::HashMap;

/// Assumed size of a function that was found by a call and has no symbol, bytes.
const UNKNOWN_SIZE: u64 = 64;

/// A library.
struct Api {
    /// Functions that every version of the library exports.
    required: [&'static str; 2],
    functions: &'static [(&'static str, u32)],
}

const APIS: [Api; 2] = [
    Api {
        required: ["SSL_read", "SSL_write"],
        functions: &[
            ("SSL_read", READ),
            ("SSL_write", WRITE),
            ("SSL_read_ex", READ | LENGTH_BY_POINTER),
            ("SSL_write_ex", WRITE | LENGTH_BY_POINTER),
            ("SSL_do_handshake", HANDSHAKE),
            ("SSL_free", FREE),
        ],
    },
    Api {
        required: ["gnutls_record_recv", "gnutls_record_send"],
        functions: &[
            ("gnutls_record_recv", READ),
            ("gnutls_record_send", WRITE),
            ("gnutls_record_send2", WRITE),
            ("gnutls_handshake", HANDSHAKE),
            ("gnutls_deinit", FREE),
        ],
    },
];

/// Where to probe; `None` if the file is none of these libraries.
pub(super) fn plan(image: &Image<'_>) -> Option<Calls> {
    APIS.iter().find_map(|api| calls_of(image, api))
}

fn calls_of(image: &Image<'_>, api: &Api) -> Option<Calls> {
    let names: Vec<&'static str> = api.functions.iter().map(|f| f.0).collect();
    let found = image.functions(&names);
    if !api.required.iter().all(|name| found.contains_key(name)) {
        return None;
    }
    let mut calls = Calls::default();
    let body = |name: &str| {
        let place = found.get(name)?;
        let size = if place.size == 0 { UNKNOWN_SIZE } else { place.size.min(MAX_FUNCTION) };
        image.is_x86_64().then(|| Some(Function::new(image.bytes(place.address, size)?, place.address)))?
    };
    for (name, cookie) in api.functions {
        let Some(place) = found.get(name).filter(|_| !is_covered(name, &found, &body)) else { continue };
        let exit = *cookie != FREE;
        let points = match body(name) {
            Some(function) => behind(image, &function, exit).unwrap_or_else(|| function.points(exit)),
            None => everywhere(place.address, exit),
        };
        calls.add(image, &points, *cookie);
    }
    Some(calls)
}

/// Whether every call of this function is seen at another function that is probed: at the function to which both pass
/// their work, or at the one to which this one passes its arguments.
fn is_covered(name: &str, found: &HashMap<&'static str, Place>, body: &impl Fn(&str) -> Option<Function>) -> bool {
    match name {
        "SSL_read" | "SSL_write" => {
            let Some(ex) = body(&format!("{name}_ex")) else { return false };
            let inner = ex.forwards_to().filter(|_| is_dear(&ex));
            inner.is_some_and(|inner| body(name).is_some_and(|f| f.calls(inner)))
        }
        "gnutls_record_send" => found.contains_key("gnutls_record_send2"),
        _ => false,
    }
}

/// Whether the probes of this function cost a single-step.
fn is_dear(function: &Function) -> bool {
    function.points(true).cost >= STEPPED
}

/// Points in the function to which a wrapper passes its arguments, if they cost less than those in the wrapper. Both
/// functions have the same arguments and the same result.
fn behind(image: &Image<'_>, wrapper: &Function, exit: bool) -> Option<Points> {
    let inner = wrapper.forwards_to().filter(|_| exit && is_dear(wrapper))?;
    let points = Function::new(image.bytes(inner, UNKNOWN_SIZE)?, inner).return_points();
    (points.cost < STEPPED).then_some(points)
}

/// Points for code of an architecture that is not disassembled.
fn everywhere(address: u64, exit: bool) -> Points {
    Points { enter: address, exits: if exit { Exits::Return(address) } else { Exits::None }, cost: 0 }
}
