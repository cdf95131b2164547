//! The guess of a protocol from the first bytes of both ends.

use crate::direction::{index, opposite};
use wirespan_decode::{Probe, Registry, Verdict};
use wirespan_model::{DataEvent, Direction, Role, Transport};

/// Captured bytes per direction that the protocols see.
const SHOWN: usize = 4096;

/// Asks every protocol about the calls so far. `scratch` is memory for their bytes, by direction.
pub(crate) fn guess(protocols: &Registry, calls: &[DataEvent], role: Role, scratch: &mut [Vec<u8>; 2]) -> Verdict {
    let Some(first) = calls.first() else { return Verdict::NeedMore };
    let turns = gather(calls, scratch);
    let (a, b) = (index(first.direction), index(opposite(first.direction)));
    let first_is_client = match role {
        Role::Client => Some(first.direction == Direction::Egress),
        Role::Server => Some(first.direction == Direction::Ingress),
        Role::Unknown => None,
    };
    let server_port = match role {
        Role::Client => Some(first.remote.port),
        Role::Server => Some(first.local.port),
        Role::Unknown => None,
    };
    let transport = first.transport;
    let probe = Probe { transport, first: &scratch[a], second: &scratch[b], first_is_client, server_port };
    protocols.infer(&probe, (turns[a], turns[b]))
}

/// Writes the contiguous captured bytes of each direction into `scratch`, up to the first gap; of datagrams, the first
/// of each direction. Returns the number of runs of each direction.
fn gather(calls: &[DataEvent], scratch: &mut [Vec<u8>; 2]) -> [u32; 2] {
    let datagrams = calls.first().is_some_and(|c| matches!(c.transport, Transport::Udp | Transport::UnixDgram));
    scratch.iter_mut().for_each(Vec::clear);
    let (mut whole, mut turns, mut last) = ([true, true], [0, 0], None);
    for call in calls {
        let i = index(call.direction);
        if last != Some(call.direction) {
            turns[i] += 1;
            last = Some(call.direction);
        }
        if whole[i] {
            let room = SHOWN.saturating_sub(scratch[i].len()).min(call.payload.len());
            scratch[i].extend_from_slice(&call.payload[..room]);
            whole[i] = !datagrams && call.payload.len() as u64 == call.len && room == call.payload.len();
        }
    }
    turns
}
