//! Node: the function that runs timers, and of its HTTP/2 those at which a stream is made and answered, and a frame is
//! given to the program. Every build of Node exports them, because addons are linked against the program.

pub(crate) mod functions;

use super::{Learn, Runtime};
use crate::features::Program;
use crate::uprobe::elf::{Image, Place};
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{
    Trust, NODE_ANSWER, NODE_CLOSE, NODE_DATA, NODE_FRAME, NODE_READ, NODE_STREAM, NODE_WRITTEN, NODE_WRITTEN_END,
};
use std::collections::HashMap;

/// Programs that contain Node.
pub(super) struct Node;

const PROGRAM: &str = "node_http2";
const TIMER: &str = "node_timer";
const PROGRAMS: &[Program] = &[
    Program::uprobe(
        PROGRAM,
        "Node: for which stream its HTTP/2 acts",
        "calls of Node's HTTP/2 servers, and over HTTP/2, are joined by guess if several streams were read together",
    ),
    Program::uprobe(
        TIMER,
        "Node: when its timers run",
        "calls of Node's timers are taken for calls of the request that was read last",
    ),
];
/// What is believed about a process (`bpf/cause/trust.h`).
const TRUST: &str = "trust";

impl Runtime for Node {
    fn tables(&self) -> &'static [&'static str] {
        &["carriers", "node_rounds"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let names: Vec<&str> = FUNCTIONS.iter().chain([&ANSWER, &RUN_TIMERS]).map(|f| f.0).collect();
        let found = image.functions(&names);
        let timer = probe(image, &found, RUN_TIMERS);
        let (end, enter) = http2(image, &found).into_iter().partition(|probe| probe.cookie == NODE_WRITTEN_END);
        vec![
            ProbeSet::new(PROGRAM, enter),
            ProbeSet::at_return(PROGRAM, end),
            ProbeSet::new(TIMER, timer.into_iter().collect()),
        ]
    }

    fn maps(&self) -> &'static [&'static str] {
        &[TRUST]
    }

    /// Node is known to deal with one event after the other. This need not be learnt about the process, only unlearnt:
    /// what was learnt before its frames were seen means nothing.
    fn facts(&self, _: &Image<'_>, probes: &[ProbeSet]) -> Option<Learn> {
        (!probes.is_empty()).then(|| Learn::value(TRUST, |_| Some(Trust { distrust: 0 })))
    }
}

const RUN_TIMERS: (&str, u32) = ("_ZN4node11Environment9RunTimersEP10uv_timer_s", 0);
/// Mangled names, and cookies.
const FUNCTIONS: [(&str, u32); 7] = [
    ("_ZN4node5http212Http2Session12OnStreamReadElRK8uv_buf_t", NODE_READ),
    (
        "_ZN4node5http211Http2StreamC1EPNS0_12Http2SessionEN2v85LocalINS4_6ObjectEEEi24nghttp2_headers_categoryi",
        NODE_STREAM,
    ),
    ("_ZN4node5http212Http2Session14OnFrameReceiveEP15nghttp2_sessionPK13nghttp2_framePv", NODE_FRAME),
    ("_ZN4node5http212Http2Session19OnDataChunkReceivedEP15nghttp2_sessionhiPKhmPv", NODE_DATA),
    ("_ZN4node5http212Http2Session13OnStreamCloseEP15nghttp2_sessionijPv", NODE_CLOSE),
    ("_ZN4node5http212Http2Session18OnStreamAfterWriteEPNS_9WriteWrapEi", NODE_WRITTEN),
    ("_ZN4node5http212Http2Session18OnStreamAfterWriteEPNS_9WriteWrapEi", NODE_WRITTEN_END),
];
/// Optional: without it, fewer requests are known that are answered together. Before Node 14 the function had another
/// name.
const ANSWER: (&str, u32) =
    ("_ZN4node5http211Http2Stream14SubmitResponseERKNS_9NgHeadersINS0_18Http2HeadersTraitsEEEi", NODE_ANSWER);

/// A probe of a function's first instruction, which saves a register, so that the kernel emulates it.
fn probe(image: &Image<'_>, found: &HashMap<&'static str, Place>, (name, cookie): (&str, u32)) -> Option<Probe> {
    let offset = image.offset(found.get(name)?.address)?;
    Some(Probe { offset, cookie })
}

/// Probes of HTTP/2. Nothing unless all are found: if one kind of frame is not seen, one stream is taken for another.
fn http2(image: &Image<'_>, found: &HashMap<&'static str, Place>) -> Vec<Probe> {
    let all = FUNCTIONS.iter().map(|f| probe(image, found, *f)).collect::<Option<Vec<_>>>().unwrap_or_default();
    let answer = probe(image, found, ANSWER).filter(|_| !all.is_empty());
    all.into_iter().chain(answer).collect()
}
