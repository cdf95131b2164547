//! Node's HTTP/2: the functions at which a stream is made and answered, and a frame is given to the program. Every
//! build of Node exports them, as addons are linked against it.

use super::elf::Image;
use super::library::Probe;

/// Mangled names, and cookies as in `bpf/node_http2.h`.
const FUNCTIONS: [(&str, u64); 7] = [
    ("_ZN4node5http212Http2Session12OnStreamReadElRK8uv_buf_t", 1),
    ("_ZN4node5http211Http2StreamC1EPNS0_12Http2SessionEN2v85LocalINS4_6ObjectEEEi24nghttp2_headers_categoryi", 2),
    ("_ZN4node5http212Http2Session14OnFrameReceiveEP15nghttp2_sessionPK13nghttp2_framePv", 3),
    ("_ZN4node5http212Http2Session19OnDataChunkReceivedEP15nghttp2_sessionhiPKhmPv", 4),
    ("_ZN4node5http212Http2Session13OnStreamCloseEP15nghttp2_sessionijPv", 5),
    ("_ZN4node5http212Http2Session18OnStreamAfterWriteEPNS_9WriteWrapEi", 6),
    ("_ZN4node5http212Http2Session18OnStreamAfterWriteEPNS_9WriteWrapEi", WRITTEN_END),
];
/// Without it, fewer of the requests are known that several go on to at once. Before Node 14 it was another.
const ANSWER: (&str, u64) =
    ("_ZN4node5http211Http2Stream14SubmitResponseERKNS_9NgHeadersINS0_18Http2HeadersTraitsEEEi", 8);
/// The return of the same function.
const WRITTEN_END: u64 = 7;

/// Where to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frames {
    pub(crate) enter: Vec<Probe>,
    /// Functions whose return is of interest.
    pub(crate) end: Vec<Probe>,
}

/// Looks into a file: at their first instructions, which save a register, so that the kernel emulates them. Nothing
/// unless all are there: who does not see every frame would take one stream for another.
pub(crate) fn plan(image: &Image<'_>) -> Frames {
    let names: Vec<&str> = FUNCTIONS.iter().chain([&ANSWER]).map(|f| f.0).collect();
    let found = image.functions(&names);
    let probe = |(name, cookie): &(&str, u64)| {
        let offset = image.offset(found.get(name)?.address)?;
        Some(Probe { offset, cookie: *cookie })
    };
    let all = FUNCTIONS.iter().map(probe).collect::<Option<Vec<_>>>().unwrap_or_default();
    let answer = probe(&ANSWER).filter(|_| !all.is_empty());
    let (end, enter) = all.into_iter().chain(answer).partition(|probe| probe.cookie == WRITTEN_END);
    Frames { enter, end }
}
