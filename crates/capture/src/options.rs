//! What can be chosen, with the defaults that users see: `src/config` takes them from here.

use crate::inject::Propagate;
use crate::source::flow::FlowOptions;
use crate::source::wait::WaitOptions;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wirespan_model::event::DEFAULT_PAYLOAD_BYTES;

/// What to capture, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Payload bytes per call by default; at most [`MAX_PAYLOAD_BYTES`](wirespan_model::event::MAX_PAYLOAD_BYTES).
    pub payload_bytes: u32,
    /// Bytes of records of a new connection that carry all their payload, until a verdict says what to copy.
    pub young_bytes: u32,
    /// Size of the ring buffer, bytes; a power of two.
    pub ring_bytes: u32,
    /// Force a rung of [`MessageRung`] by name.
    pub rung: Option<String>,
    /// Leave out these optional programs.
    pub without: Vec<String>,
    /// See messages; without them only flows are bundled.
    pub messages: bool,
    /// Bundle flows.
    pub flows: Option<FlowOptions>,
    /// Put trace context into what targets send.
    pub propagate: Propagate,
    /// Attach at once what is attached when a target first needs it (io_uring, splice(), the begin of long sends).
    pub hooks_from_start: bool,
    /// Load all programs before tracing begins, so that all that the kernel refuses is known.
    pub programs_from_start: bool,
    /// Put trace context into an option of TCP where no header of HTTP/1 carries it.
    pub propagate_options: bool,
    /// Look into the runtimes of targets: which goroutine, virtual thread, task or stream acts.
    pub runtimes: bool,
    /// Load an agent into the Java machines of targets, which tells which task runs.
    pub attach_java: bool,
    /// Goroutines, virtual threads, greenlets, tasks and streams that are remembered.
    pub actors: u32,
    /// Tell what slow requests waited for.
    pub waits: Option<WaitOptions>,
    /// The table of ends whose packets are watched ([`Packets::ends`](crate::packet::Packets::ends)).
    pub watched_ends: Option<Arc<OwnedFd>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            payload_bytes: DEFAULT_PAYLOAD_BYTES,
            young_bytes: 256 << 10,
            ring_bytes: 8 << 20,
            rung: None,
            without: Vec::new(),
            messages: true,
            flows: Some(FlowOptions::default()),
            propagate: Propagate::Off,
            hooks_from_start: false,
            programs_from_start: false,
            propagate_options: false,
            runtimes: true,
            attach_java: false,
            actors: 65536,
            waits: None,
            watched_ends: None,
        }
    }
}
