//! Node's HTTP/2: the functions at which a stream is made, and a frame is given to the program. Every build of Node exports
//! them, as addons are linked against it.

use super::elf::Image;
use super::library::Probe;

/// Mangled names, and cookies as in `bpf/node_http2.h`.
const FUNCTIONS: [(&str, u64); 6] = [
    ("_ZN4node5http212Http2Session12OnStreamReadElRK8uv_buf_t", 1),
    ("_ZN4node5http211Http2StreamC1EPNS0_12Http2SessionEN2v85LocalINS4_6ObjectEEEi24nghttp2_headers_categoryi", 2),
    ("_ZN4node5http212Http2Session14OnFrameReceiveEP15nghttp2_sessionPK13nghttp2_framePv", 3),
    ("_ZN4node5http212Http2Session19OnDataChunkReceivedEP15nghttp2_sessionhiPKhmPv", 4),
    ("_ZN4node5http212Http2Session13OnStreamCloseEP15nghttp2_sessionijPv", 5),
    ("_ZN4node5http212Http2Session18OnStreamAfterWriteEPNS_9WriteWrapEi", 6),
];

/// Where to probe: at their first instructions, which save a register, so that the kernel emulates them. Nothing unless all
/// are there: who does not see every frame would take one stream for another.
pub(crate) fn plan(image: &Image<'_>) -> Vec<Probe> {
    let found = image.functions(&FUNCTIONS.map(|f| f.0));
    let probe = |(name, cookie): &(&str, u64)| {
        let offset = image.offset(found.get(name)?.address)?;
        Some(Probe { offset, cookie: *cookie })
    };
    FUNCTIONS.iter().map(probe).collect::<Option<Vec<_>>>().unwrap_or_default()
}
