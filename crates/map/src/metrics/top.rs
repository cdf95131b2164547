//! A limited number of named sums, for the keys with most of the recent traffic; all other keys share one sum.
//!
//! Sums only grow, as counters must. A key that gains a place starts at zero; its earlier traffic stays in the rest. A
//! key that loses its place disappears; its later traffic goes to the rest.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A new key takes a place if it brought this many times the traffic of the key that has it, so that equal keys do not
/// swap for ever.
const ADVANTAGE: u64 = 2;
/// New keys that are watched per place.
const WATCHED: usize = 4;

pub(crate) struct Top<K, V> {
    max: usize,
    /// Sums, each with its traffic since the last [`Top::turn`].
    named: FxHashMap<K, (V, u64)>,
    rest: V,
    waiting: FxHashMap<K, u64>,
    folded: u64,
}

impl<K: Clone + Eq + Hash + Ord, V: Default> Top<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Top { max, named: FxHashMap::default(), rest: V::default(), waiting: FxHashMap::default(), folded: 0 }
    }

    /// The sum to which `weight` more of this key is added.
    pub(crate) fn at(&mut self, key: K, weight: u64) -> &mut V {
        if self.named.len() < self.max || self.named.contains_key(&key) {
            let (sum, recent) = self.named.entry(key).or_default();
            *recent = recent.saturating_add(weight);
            return sum;
        }
        self.folded = self.folded.saturating_add(weight);
        if self.waiting.len() < self.max.saturating_mul(WATCHED) || self.waiting.contains_key(&key) {
            let recent = self.waiting.entry(key).or_default();
            *recent = recent.saturating_add(weight);
        }
        &mut self.rest
    }

    /// Gives places to the keys with more recent traffic. Call it about once a minute.
    pub(crate) fn turn(&mut self) {
        let mut waiting: Vec<(u64, K)> = std::mem::take(&mut self.waiting).into_iter().map(|(k, n)| (n, k)).collect();
        let mut named: Vec<(u64, K)> = self.named.iter().map(|(k, (_, n))| (*n, k.clone())).collect();
        waiting.sort_unstable_by(|a, b| b.cmp(a));
        named.sort_unstable();
        for ((new, key), (old, place)) in waiting.into_iter().zip(named) {
            if new <= old.saturating_mul(ADVANTAGE) {
                break;
            }
            self.named.remove(&place);
            self.named.insert(key, (V::default(), 0));
        }
        self.named.values_mut().for_each(|(_, recent)| *recent = 0);
    }

    /// The sums with a name, sorted.
    pub(crate) fn named(&self) -> Vec<(&K, &V)> {
        let mut all: Vec<(&K, &V)> = self.named.iter().map(|(k, (v, _))| (k, v)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }

    /// The shared sum, if it is not empty, and its weight.
    pub(crate) fn rest(&self) -> Option<(&V, u64)> {
        (self.folded > 0).then_some((&self.rest, self.folded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_have_names_and_nothing_is_lost() {
        let mut top: Top<u32, u64> = Top::new(2);
        for (key, n) in [(1, 5), (2, 50), (3, 40), (4, 1)] {
            *top.at(key, n) += n;
        }
        assert_eq!((top.named(), top.rest()), (vec![(&1, &5), (&2, &50)], Some((&41, 41))));
        top.turn();
        // 3 has taken the place of 1, and starts anew.
        *top.at(3, 7) += 7;
        *top.at(1, 2) += 2;
        assert_eq!((top.named(), top.rest()), (vec![(&2, &50), (&3, &7)], Some((&43, 43))));
        // 1 and 3 are alike: no swap.
        *top.at(2, 9) += 9;
        *top.at(1, 10) += 10;
        top.turn();
        assert_eq!(top.named(), [(&2, &59), (&3, &7)]);
    }

    #[test]
    fn what_is_watched_is_bounded() {
        let mut top: Top<u32, u64> = Top::new(3);
        (0..10_000).for_each(|key| *top.at(key, 1) += 1);
        assert_eq!(top.waiting.len(), 12);
        assert_eq!(top.rest(), Some((&9997, 9997)));
    }
}
