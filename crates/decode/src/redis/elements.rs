//! Elements of lists, sorted sets and streams, by which a taker finds who has put them there. Redis gives an element no
//! number, so its content is its name: a hash is made as its bytes pass, and the bytes are not kept
//! ([`ElementHash`] says what a hash may reveal).

use crate::ids::Ids;
use crate::text::len64;
use std::borrow::Cow;
use std::fmt::Write;
use wirespan_model::broker::{
    is_script, takes_elements, ElementHash, ELEMENTS_PUT, ELEMENTS_STRUCK, ELEMENTS_TAKEN, ELEMENT_IDS, ENTRY_PUT,
};
use wirespan_model::message::AttrList;
use wirespan_model::AttrVal;

/// Shortest element that is known again by its content alone, bytes.
const MIN_LEN: u64 = 8;
/// Bytes of an element that are hashed, with its length.
const MAX_HASHED: u64 = 4096;
/// Most elements of a message.
const MAX_ELEMENTS: usize = 64;

/// Which strings of a message are elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those behind the key: `LPUSH key element …`.
    BehindKey,
    /// The last, and every other one before it, behind the key: `ZADD key score member …`, `XADD key * field value …`.
    EveryOther,
    /// Those behind the keys of a script: `EVALSHA script number key … argument …`.
    Script,
    /// All of a reply.
    Reply,
    /// All of the reply to a script.
    ScriptReply,
    /// The reply to `XADD`: the id of the entry.
    Entry,
    /// Those behind the key of a command that strikes an element off: `ZREM key member …`.
    Struck,
}

/// What a command puts into Redis.
pub(super) fn puts(name: &str) -> Option<Which> {
    match name {
        "LPUSH" | "LPUSHX" | "RPUSH" | "RPUSHX" => Some(Which::BehindKey),
        "XADD" | "ZADD" => Some(Which::EveryOther),
        name if is_script(name) => Some(Which::Script),
        _ => None,
    }
}

/// What a command strikes off once its client works on it, or has done so. It names an element or the id of one.
pub(super) fn strikes(name: &str) -> Option<Which> {
    matches!(name, "HDEL" | "LREM" | "XACK" | "XACKDEL" | "XDEL" | "ZREM").then_some(Which::Struck)
}

/// Whether the reply to a command takes elements out of Redis, or shows elements of a sorted set that are due.
pub(super) fn takes(name: &str) -> bool {
    takes_elements(name) || matches!(name, "ZRANGE" | "ZRANGEBYSCORE")
}

/// The elements of the message that passes.
#[derive(Debug)]
pub(super) struct Elements {
    which: Which,
    /// Arguments of the command.
    arguments: u64,
    /// Bytes of the present string that are still to be hashed; `None` if the string is no element.
    left: Option<u64>,
    /// Length of the present string.
    len: u64,
    hash: ElementHash,
    /// The present string has had digits only.
    number: bool,
    strings: u64,
    /// The present string is the number of keys of a script, which is this as far as it is read.
    counts_keys: bool,
    keys: u64,
    found: Vec<u64>,
    /// Ids inside of elements that are taken or struck off.
    ids: Ids,
}

impl Elements {
    pub(super) fn new(which: Which, arguments: u64) -> Self {
        Elements {
            which,
            arguments,
            left: None,
            len: 0,
            hash: ElementHash::default(),
            number: true,
            strings: 0,
            counts_keys: false,
            keys: 0,
            found: Vec::new(),
            ids: Ids::default(),
        }
    }

    /// A string of this length begins, behind which so many others follow in its array.
    pub(super) fn begin(&mut self, len: u64, behind: u64) {
        let index = self.arguments.saturating_sub(1).saturating_sub(behind);
        self.counts_keys = self.which == Which::Script && index == 1;
        let wanted = match self.which {
            Which::BehindKey | Which::Struck => index > 0,
            Which::EveryOther => index > 1 && behind.is_multiple_of(2),
            Which::Script => index > self.keys.saturating_add(1),
            Which::Reply | Which::ScriptReply | Which::Entry => true,
        };
        self.strings = self.strings.saturating_add(u64::from(wanted));
        let wanted = wanted && len >= MIN_LEN && self.found.len() < MAX_ELEMENTS;
        self.left = wanted.then_some(len.min(MAX_HASHED));
        self.ids.any = false;
        (self.len, self.hash, self.number) = (len, ElementHash::default(), true);
    }

    /// Bytes of the present string, its line end included.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        if self.counts_keys {
            let digits = bytes.iter().filter(|b| b.is_ascii_digit()).map(|b| u64::from(b.saturating_sub(b'0')));
            self.keys = digits.fold(self.keys, |n, digit| n.saturating_mul(10).saturating_add(digit));
        }
        let Some(left) = self.left else { return };
        let own = bytes.get(..crate::text::at_most(left, bytes.len())).unwrap_or(bytes);
        self.hash.add(own);
        self.ids.add(own);
        self.number &= own.iter().all(u8::is_ascii_digit);
        self.left = Some(left.saturating_sub(len64(own.len())));
    }

    /// Bytes of the present string that were not captured.
    pub(super) fn lose(&mut self) {
        self.ids.end_word();
        if self.left != Some(0) {
            self.left = None;
        }
    }

    /// The present string is over.
    pub(super) fn end(&mut self) {
        self.ids.end_word();
        // Scripts are told the time, and write it down with what they put. Others may be told the same time.
        let may_be_time = self.number && matches!(self.which, Which::Script | Which::ScriptReply);
        if self.left.take() == Some(0) && !may_be_time {
            let hash = if self.ids.any { self.hash.of_length(self.len) } else { self.hash.of_guessable(self.len) };
            self.found.push(hash);
        }
    }

    /// Writes the attribute, also if no element can be known again: its taker works on it all the same.
    pub(super) fn tell(&self, attrs: &mut AttrList<'_>) {
        if self.strings == 0 {
            return;
        }
        let key = match self.which {
            Which::BehindKey | Which::EveryOther | Which::Script => ELEMENTS_PUT,
            Which::Reply | Which::ScriptReply => ELEMENTS_TAKEN,
            Which::Entry => ENTRY_PUT,
            Which::Struck => ELEMENTS_STRUCK,
        };
        attrs.push((key, listed(&self.found)));
        if matches!(self.which, Which::Reply | Which::ScriptReply | Which::Struck) && !self.ids.found().is_empty() {
            attrs.push((ELEMENT_IDS, listed(self.ids.found())));
        }
    }
}

fn listed(hashes: &[u64]) -> AttrVal<'static> {
    let mut list = String::with_capacity(hashes.len().saturating_mul(17));
    for hash in hashes {
        // Writing to a string cannot fail.
        let _ = write!(list, "{hash:016x} ");
    }
    list.truncate(list.trim_end().len());
    AttrVal::Str(Cow::Owned(list))
}
