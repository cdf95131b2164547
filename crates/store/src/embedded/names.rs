//! Names as integers: each distinct text of a memory segment once.

use arrow_array::StringArray;
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Stands for a text that two damaged frames of the log had.
const LOST: &str = "(lost)";

/// Texts of one memory segment and their integers, in the order of their first use.
#[derive(Default)]
pub(crate) struct Names {
    ids: FxHashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
    /// Integers of addresses. Every span has addresses, and formatting one costs more than this look-up.
    addresses: FxHashMap<IpAddr, u32>,
    bytes: usize,
    array: Option<Arc<StringArray>>,
}

impl Names {
    /// Integer of a text.
    pub(crate) fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.bytes += text.len() + 64;
        self.texts.push(text.clone());
        self.ids.insert(text, id);
        self.array = None;
        id
    }

    /// Integer of an address.
    pub(crate) fn address(&mut self, ip: IpAddr) -> u32 {
        if let Some(id) = self.addresses.get(&ip) {
            return *id;
        }
        let id = self.id(&ip.to_string());
        self.bytes += 32;
        self.addresses.insert(ip, id);
        id
    }

    /// Adds texts at their own places, as a log has them; those that are known already are skipped. Places that no
    /// frame filled get a text that says so.
    pub(crate) fn replay(&mut self, base: usize, texts: Vec<String>) {
        while self.texts.len() < base {
            self.bytes += 64;
            self.texts.push(LOST.into());
        }
        let known = self.texts.len() - base;
        for text in texts.into_iter().skip(known) {
            let text: Arc<str> = text.into();
            self.bytes += text.len() + 64;
            self.ids.insert(text.clone(), self.texts.len() as u32);
            self.texts.push(text);
            self.array = None;
        }
    }

    /// Number of texts.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Memory in use, bytes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Texts from a place on.
    pub(crate) fn since(&self, from: usize) -> &[Arc<str>] {
        &self.texts[from.min(self.texts.len())..]
    }

    /// Forgets the texts from a place on, because they did not reach the log.
    pub(crate) fn truncate(&mut self, len: usize) {
        for text in self.texts.drain(len.min(self.texts.len())..) {
            self.ids.remove(&text);
        }
        self.addresses.retain(|_, id| (*id as usize) < len);
        self.array = None;
    }

    /// All texts, for dictionaries.
    pub(crate) fn array(&mut self) -> Arc<StringArray> {
        let texts = &self.texts;
        self.array.get_or_insert_with(|| Arc::new(StringArray::from_iter_values(texts.iter().map(|t| &**t)))).clone()
    }
}
