//! The memory of a connection: the topics of its producers and consumers.

use std::collections::HashMap;

/// Most producers, and most consumers, that are remembered.
pub(super) const MAX_NAMES: usize = 1024;
/// Longest name that is remembered, bytes.
pub(super) const MAX_TEXT: usize = 256;

/// Topic and subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) subscription: Option<String>,
}

/// Places by id.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) producers: HashMap<u64, Place>,
    pub(super) consumers: HashMap<u64, Place>,
}

/// Remembers a place; beyond the limit new ones stay unknown.
pub(super) fn remember(places: &mut HashMap<u64, Place>, id: u64, place: Place) {
    if places.len() < MAX_NAMES || places.contains_key(&id) {
        places.insert(id, place);
    }
}
