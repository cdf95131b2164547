//! Where in the kernel packets were dropped.

use compact_str::CompactString;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_journey::Place;
use wirespan_model::packet::{Point, Sighting};

/// Different stacks of one place and reason at most. There are few, if one place is one function.
const MOST: usize = 256;

type Counted = FxHashMap<Arc<[CompactString]>, u64>;

/// Stacks of drops, by place and reason.
#[derive(Default)]
pub(super) struct DropStacks(FxHashMap<(Place, u32), (Counted, u64)>);

impl DropStacks {
    /// Takes a sighting, if it is a drop with a stack.
    pub(super) fn see(&mut self, s: &Sighting) {
        if s.point != Point::Drop || s.stack.is_empty() {
            return;
        }
        let (counted, all) = self.0.entry((Place::of(s), s.reason)).or_default();
        *all += 1;
        if let Some(n) = counted.get_mut(&s.stack) {
            *n += 1;
        } else if counted.len() < MOST {
            counted.insert(Arc::clone(&s.stack), 1);
        }
    }

    /// The stack of most of these drops, how many had it, and how many had any.
    pub(super) fn commonest(&self, place: &Place, reason: u32) -> Option<(&[CompactString], u64, u64)> {
        let (counted, all) = self.0.get(&(place.clone(), reason))?;
        let (stack, n) = counted.iter().max_by(|a, b| a.1.cmp(b.1).then_with(|| b.0.cmp(a.0)))?;
        Some((stack, *n, *all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::packet::TCP;
    use wirespan_model::test_support::sighting;

    #[test]
    fn the_commonest_stack_is_told_for_each_reason() {
        let mut stacks = DropStacks::default();
        let drop = |reason, function: &str| {
            let stack = [function.into(), "tcp_v4_rcv".into()].into();
            Sighting { point: Point::Drop, reason, stack, ..sighting(TCP, 1, 1) }
        };
        for s in [drop(7, "a"), drop(7, "b"), drop(7, "b"), drop(8, "c"), sighting(TCP, 1, 1)] {
            stacks.see(&s);
        }
        let place = Place::of(&drop(7, "a"));
        let told = |reason| stacks.commonest(&place, reason).map(|(stack, n, all)| (stack[0].to_string(), n, all));
        assert_eq!(told(7), Some(("b".into(), 2, 3)));
        assert_eq!((told(8), told(9)), (Some(("c".into(), 1, 1)), None));
    }
}
