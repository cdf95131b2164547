//! One host's part of a packet's way.

use crate::{Journey, Place, Step};
use wirespan_model::packet::{Route, ACKNOWLEDGEMENT, TCP};

/// A packet at the first or the last place of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Number of the place.
    pub place: u32,
    /// Addresses and ports at this place.
    pub route: Route,
    /// Unix ns, by the clock of this host.
    pub time_ns: u64,
}

/// A packet's way at one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Where it was seen first.
    pub entry: Sight,
    /// Where it was seen last.
    pub exit: Sight,
    /// See [`Journey::seq`].
    pub seq: u32,
    /// See [`Journey::len`].
    pub len: u32,
    /// See [`Journey::number`].
    pub number: u64,
    /// These bytes were sent before.
    pub again: bool,
    /// It came from outside: it was seen first when it came out of a device.
    pub came_in: bool,
    /// It went away: it was seen last when it was given to a device, and was not dropped.
    pub went_out: bool,
    /// The kernel dropped it here.
    pub dropped: bool,
}

impl Stay {
    /// The part of a host, from its journey. `None` if all that was seen is the drop.
    pub fn of(journey: &Journey, mut place: impl FnMut(&Place) -> u32) -> Option<Self> {
        let mut sight = |step: &Step| Sight { place: place(&step.place), route: step.route, time_ns: step.time_ns };
        let (first, last) = (journey.steps.first()?, journey.steps.last()?);
        let dropped = journey.dropped.is_some();
        Some(Stay {
            entry: sight(first),
            exit: sight(last),
            seq: journey.seq,
            len: journey.len,
            number: journey.number,
            again: journey.attempt > 1,
            came_in: first.place.point.is_arrival(),
            went_out: last.place.point.is_departure() && !dropped,
            dropped,
        })
    }

    /// Whether it says something about clocks only.
    pub(super) fn is_acknowledgement(&self) -> bool {
        self.entry.route.protocol == ACKNOWLEDGEMENT
    }

    /// Whether its bytes have sequence numbers.
    pub(super) fn is_stream(&self) -> bool {
        self.entry.route.protocol == TCP
    }
}
