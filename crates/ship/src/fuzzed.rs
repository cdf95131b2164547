//! Readers of what strangers send, for the fuzz targets (`fuzz/`). Only with the feature `fuzzed`.

use crate::link::frame::{self, Frame, FrameError, MAX_BATCH};
use crate::otlp::receive;
use rustc_hash::FxHashSet;

/// The agents' port: preamble and frames, and the batches in them. What was read once is read again from its own
/// encoding.
pub fn link(mut data: &[u8]) {
    let _ = frame::read_preamble(&mut data);
    let mut resources = FxHashSet::default();
    while let Ok(read) = Frame::read(&mut data) {
        match &read {
            Frame::Spans(_, batch) => spans(batch, &mut resources),
            Frame::Flows(_, batch) => drop(frame::decode_flows(batch).map(|flows| assert!(flows.len() <= MAX_BATCH))),
            _ => {
                let mut again = Vec::new();
                assert!(read.write(&mut again).is_ok(), "{read:?}");
                assert!(Frame::read(&mut &again[..]).is_ok_and(|again| again == read), "{read:?}");
            }
        }
    }
}

/// Batches as they are before compression, which a fuzzer does not get through by itself.
pub fn batch(raw: &[u8]) {
    let packed = lz4_flex::block::compress_prepend_size(raw);
    spans(&packed, &mut FxHashSet::default());
    let _ = frame::decode_flows(&packed);
}

fn spans(batch: &[u8], resources: &mut FxHashSet<std::sync::Arc<wirespan_model::Resource>>) {
    let Ok(spans) = frame::decode_batch(batch, resources) else { return };
    assert!(spans.len() <= MAX_BATCH);
    let (batches, too_big) = frame::encode_batches(&spans);
    let read: Result<Vec<_>, FrameError> = batches.iter().map(|(_, b)| frame::decode_batch(b, resources)).collect();
    let read = read.unwrap_or_default().concat();
    assert_eq!(read.len() + too_big as usize, spans.len());
}

/// A body of OTLP in each encoding, with and without compression.
pub fn otlp(data: &[u8]) {
    let Some((how, body)) = data.split_first() else { return };
    receive::fuzzed(*how, body);
}
