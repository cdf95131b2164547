//! How much was seen at each place.

use std::collections::BTreeMap;
use wirespan_journey::Place;
use wirespan_model::packet::{Point, Sighting};

/// Packets and bytes by place.
#[derive(Default)]
pub(super) struct Places(BTreeMap<Place, (u64, u64)>);

impl Places {
    /// Counts a packet.
    pub(super) fn add(&mut self, s: &Sighting) {
        let (packets, bytes) = self.0.entry(Place::of(s)).or_default();
        *packets += 1;
        *bytes += if s.point == Point::Mark { 0 } else { u64::from(s.len) };
    }

    /// Each place with its packets and bytes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, u64, u64)> {
        self.0.iter().map(|(place, (packets, bytes))| (place, *packets, *bytes))
    }
}
