//! The generated loader of the kernel programs.
#![allow(clippy::all, clippy::unwrap_used, clippy::wildcard_imports, missing_docs, unreachable_pub, dead_code)]

include!(concat!(env!("OUT_DIR"), "/wirespan.skel.rs"));

/// The programs of packets, in an object of their own.
pub(crate) mod packet {
    include!(concat!(env!("OUT_DIR"), "/packet.skel.rs"));
}
