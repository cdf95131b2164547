//! Go's `crypto/tls`, which every Go program links statically.

use super::{Calls, MAX_FUNCTION};
use crate::uprobe::elf::Image;
use crate::uprobe::go_functions;
use crate::uprobe::points::Function;
use crate::wire::contract::{TLS_READ, TLS_WRITE};

const FUNCTIONS: [(&str, u32); 2] = [("crypto/tls.(*Conn).Read", TLS_READ), ("crypto/tls.(*Conn).Write", TLS_WRITE)];

/// Where to probe; `None` if this is no Go program that uses the library.
pub(super) fn plan(image: &Image<'_>) -> Option<Calls> {
    if !image.is_x86_64() {
        return None;
    }
    let mut calls = Calls::default();
    for (name, place) in go_functions::functions(image, &FUNCTIONS.map(|f| f.0)) {
        let bytes = image.bytes(place.address, place.size.min(MAX_FUNCTION))?;
        let Some(points) = Function::new(bytes, place.address).go_points() else { continue };
        let cookie = FUNCTIONS.iter().find(|f| f.0 == name)?.1;
        calls.add(image, &points, cookie);
    }
    (!calls.exit.is_empty()).then_some(calls)
}
