//! Names of topic ids, shared by all connections of this process.
//!
//! A client learns the id of a topic on one connection and uses it on others, so that a memory per connection would
//! hardly ever know a name. Ids are random 128-bit numbers that a cluster gives once: what one connection says of an id
//! holds for all. The first name wins, and nothing depends on the memory but whether a name or an id is shown.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Most names that are kept.
pub const MAX_NAMES: usize = 8192;
/// Longest name of a topic (Kafka's limit), bytes.
pub(super) const MAX_NAME: usize = 249;

static NAMES: RwLock<Option<HashMap<[u8; 16], Arc<str>>>> = RwLock::new(None);

/// The name of a topic id, if a metadata response told it.
pub(super) fn name(id: &[u8; 16]) -> Option<Arc<str>> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    names.as_ref()?.get(id).cloned()
}

/// Remembers a name that a metadata response told. When there are too many, all are forgotten: the next response of
/// each client brings the living ones back.
pub(super) fn learn(id: [u8; 16], topic: &[u8]) {
    if id == [0; 16] || topic.len() > MAX_NAME || name(&id).is_some() {
        return;
    }
    let Ok(topic) = std::str::from_utf8(topic) else { return };
    if !topic.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        return;
    }
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if names.len() >= MAX_NAMES {
        names.clear();
    }
    names.insert(id, topic.into());
}

/// An id as Kafka writes it: 22 letters of URL-safe base64.
pub(super) fn id_text(id: &[u8; 16]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(22);
    for group in id.chunks(3) {
        let mut bits = 0u32;
        for i in 0..3 {
            bits = bits << 8 | u32::from(group.get(i).copied().unwrap_or(0));
        }
        for shift in [18u32, 12, 6, 0].iter().take(group.len().saturating_add(1)) {
            let six = usize::try_from(bits >> shift & 63).unwrap_or(0);
            text.push(char::from(LETTERS.get(six).copied().unwrap_or(b'A')));
        }
    }
    text
}
