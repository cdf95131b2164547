//! rustls in a Rust program, versions 0.20 to 0.23. Symbols carry a hash of the build, so functions are recognised by
//! their names without the hash. A program whose symbols were stripped cannot be probed.
//!
//! The probed functions are not generic, or stand in a table of virtual functions. So the compiler does not inline them
//! into callers in another crate.

use super::{Calls, MAX_FUNCTION};
use crate::uprobe::elf::{Image, Place};
use crate::uprobe::points::Function;
use crate::wire::contract::{
    RUST_CHUNK as CHUNK, RUST_CONSUME as CONSUME, RUST_COOKIE_VECTOR as VECTOR, RUST_FEED as FEED, TLS_COOKIE_OP,
    TLS_READ as READ, TLS_WRITE as WRITE,
};
use std::collections::HashSet;

/// Where to probe; `None` if this is no Rust program that uses the library and has kept its symbols.
pub(super) fn plan(image: &Image<'_>) -> Option<Calls> {
    if !image.is_x86_64() {
        return None;
    }
    let mut calls = Calls::default();
    for (place, cookie) in functions(image) {
        let function = Function::new(image.bytes(place.address, place.size.min(MAX_FUNCTION))?, place.address);
        let points = if has_result(cookie) { function.rust_points() } else { function.points(false) };
        calls.add(image, &points, cookie);
    }
    (!calls.enter.is_empty()).then_some(calls)
}

/// Whether the result of a function with this cookie is of interest.
fn has_result(cookie: u32) -> bool {
    !matches!(cookie, FEED | CONSUME)
}

/// The functions of all versions of rustls that the program holds, by their cookies; empty if they do not suffice.
fn functions(image: &Image<'_>) -> Vec<(Place, u32)> {
    let mut found = image.named(cookie);
    let mut seen = HashSet::new();
    found.retain(|(place, _)| seen.insert(place.address)); // equal code has several names
    let reads = found.iter().any(|f| matches!(f.1, READ | CHUNK));
    if !reads || !found.iter().any(|f| f.1 & TLS_COOKIE_OP == WRITE) {
        found.clear();
    }
    found
}

/// Cookie of a function, by its mangled name; `None` if it is not probed.
fn cookie(mangled: &[u8]) -> Option<u32> {
    const CRATE: &[u8] = b"rustls";
    if !mangled.starts_with(b"_") || !mangled.windows(CRATE.len()).any(|w| w == CRATE) {
        return None;
    }
    let name = rustc_demangle::try_demangle(std::str::from_utf8(mangled).ok()?).ok()?;
    operation(&format!("{name:#}"))
}

/// The same by its demangled name without hashes.
fn operation(name: &str) -> Option<u32> {
    let (of, method) = name.rsplit_once("::")?;
    let of = of.strip_prefix('<').map_or(of, |of| of.strip_suffix('>').unwrap_or(of));
    if !of.starts_with("rustls::") {
        return None;
    }
    let (own, of_trait) = of.rsplit_once(" as ").map_or((of, ""), |(own, t)| (own, t));
    let own = own.split('<').next()?;
    let is = |kind: &str| own.rsplit("::").next() == Some(kind);
    match (of_trait.rsplit("::").next()?, method) {
        ("Read", "read") if is("Reader") => Some(READ),
        ("BufRead", "fill_buf") | ("", "into_first_chunk") if is("Reader") => Some(CHUNK),
        ("BufRead", "consume") if is("Reader") => Some(CONSUME),
        ("PlaintextSink", "write") if is("ConnectionCommon") => Some(WRITE),
        ("PlaintextSink", "write_vectored") if is("ConnectionCommon") => Some(WRITE | VECTOR),
        ("", "read") if is("DeframerVecBuffer") || is("MessageDeframer") => Some(FEED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_names_in_every_form() {
        for (name, expected) in [
            ("<rustls::conn::connection::Reader as std::io::Read>::read", Some(READ)),
            ("<rustls::conn::Reader<'_> as std::io::Read>::read", Some(READ)),
            ("<rustls::conn::connection::Reader as std::io::BufRead>::consume", Some(CONSUME)),
            ("rustls::conn::connection::Reader::into_first_chunk", Some(CHUNK)),
            ("<rustls::conn::connection::Reader>::into_first_chunk", Some(CHUNK)),
            ("<rustls::conn::ConnectionCommon<T> as rustls::conn::connection::PlaintextSink>::write", Some(WRITE)),
            (
                "<rustls::conn::ConnectionCommon<rustls::server::server_conn::ServerConnectionData> as \
                 rustls::conn::connection::PlaintextSink>::write_vectored",
                Some(WRITE | VECTOR),
            ),
            ("<rustls::conn::connection::Connection as rustls::conn::connection::PlaintextSink>::write", None),
            ("rustls::msgs::deframer::buffers::DeframerVecBuffer::read", Some(FEED)),
            ("<rustls::stream::Stream<C, T> as std::io::Read>::read", None),
            ("<mine::Reader as std::io::Read>::read", None),
            ("rustls", None),
        ] {
            assert_eq!(operation(name), expected, "{name}");
        }
    }

    #[test]
    fn mangled_names_of_both_kinds_are_read() {
        let legacy =
            b"_ZN66_$LT$rustls..conn..connection..Reader$u20$as$u20$std..io..Read$GT$4read17h0123456789abcdefE";
        assert_eq!(cookie(legacy), Some(READ));
        assert_eq!(cookie(b"_ZN6rustls4conn10connection6Reader16into_first_chunk17h0123456789abcdefE"), Some(CHUNK));
        assert_eq!(cookie(b"_RNvMNtNtCsabc_6rustls4conn10connectionNtB2_6Reader16into_first_chunk"), Some(CHUNK));
        assert_eq!(cookie(b"SSL_read"), None);
    }
}
