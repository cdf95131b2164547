//! The out thread of an agent: takes batches from the capture thread and the flows thread into the pipeline.

use super::Pipeline;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use wirespan_model::event::{ClockMark, Wake};
use wirespan_model::sdk::SdkSpan;
use wirespan_model::syscalls::ThreadCall;
use wirespan_model::wait::ThreadWaits;
use wirespan_model::{Flow, Span};
use wirespan_ship::SinkError;

/// What the other threads send to the out thread.
pub(crate) enum Batch {
    /// Finished spans.
    Spans(Vec<Arc<Span>>),
    /// Spans of SDKs, and where to say whether they were taken. They say nothing about what the kernel had written at
    /// that time.
    Reported(Vec<Arc<Span>>, Sender<Result<(), SinkError>>),
    /// Which threads of this host were woken by which answers.
    Wakes(u64, Vec<Wake>),
    /// In which spans of SDKs threads of this host were, and for which requests they acted. They come before the spans
    /// of these requests.
    SdkSpans(u64, Vec<SdkSpan>),
    /// Where the clocks of threads stood at their messages. They come before the spans of these messages.
    Clocks(Vec<ClockMark>),
    /// What threads waited for. They come before the spans of their requests.
    Waits(Vec<ThreadWaits>),
    /// System calls of threads. They come before the spans of their requests, but for the last of a request.
    Calls(Vec<ThreadCall>),
    /// Flows of a window.
    Flows(Vec<Flow>),
    /// Devices on the way of requests. Their parents are known by the bytes.
    Hops(Vec<Arc<Span>>),
    /// Everything that the kernel had written was read, and no span was finished.
    CaughtUp,
}

/// Feeds the pipeline until no sender is left, then ends it.
pub(crate) fn feed(mut pipeline: Pipeline, batches: &Receiver<Batch>) {
    let mut pause = pipeline.run_due(batches.len());
    loop {
        match batches.recv_timeout(pause) {
            Ok(Batch::Spans(spans)) => {
                pipeline.caught_up();
                pipeline.take(spans);
            }
            // Nobody waits any longer if the answer took too long.
            Ok(Batch::Reported(spans, answer)) => drop(answer.try_send(pipeline.offer(spans))),
            Ok(Batch::Wakes(host_id, wakes)) => pipeline.take_wakes(host_id, &wakes),
            Ok(Batch::SdkSpans(host_id, spans)) => pipeline.explainer().sdk_spans(host_id, &spans),
            Ok(Batch::Clocks(marks)) => pipeline.explainer().marks(&marks),
            Ok(Batch::Waits(waits)) => pipeline.explainer().waits(waits),
            Ok(Batch::Calls(calls)) => pipeline.explainer().system_calls(calls),
            Ok(Batch::Hops(spans)) => pipeline.hand_on(spans),
            Ok(Batch::CaughtUp) => pipeline.caught_up(),
            Ok(Batch::Flows(flows)) => pipeline.take_flows(flows),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        pause = pipeline.run_due(batches.len());
    }
    pipeline.finish();
}
