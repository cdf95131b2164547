//! Directions as array indices.

use wirespan_model::Direction;

/// Index of a direction in arrays of two: 0 for received bytes, 1 for sent bytes.
pub(crate) fn index(direction: Direction) -> usize {
    match direction {
        Direction::Ingress => 0,
        Direction::Egress => 1,
    }
}

/// The other direction.
pub(crate) fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Ingress => Direction::Egress,
        Direction::Egress => Direction::Ingress,
    }
}
