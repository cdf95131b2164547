//! Values as small integers.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Gives each distinct value a number, in order of appearance.
pub(crate) struct Pool<T> {
    ids: FxHashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { ids: FxHashMap::default(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Pool<T> {
    /// The number of a value. After about four thousand million values, all further ones share the last number.
    pub(crate) fn id(&mut self, value: &T) -> u32 {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.ids.insert(value.clone(), id);
        id
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.values.get(id as usize)
    }

    pub(crate) fn into_values(self) -> Vec<T> {
        self.values
    }
}

impl Pool<Box<str>> {
    /// The number of a text, which is copied only if it is new.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        match self.ids.get(text) {
            Some(id) => *id,
            None => self.id(&Box::from(text)),
        }
    }
}
