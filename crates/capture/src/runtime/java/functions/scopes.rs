//! Which methods a place in a compiled method belongs to: the compiler puts methods into their callers.

use super::code::{resolve, Blob};
use super::layout::Layout;
use super::numbers::Numbers;
use super::Object;
use crate::memory::Memory;

/// Bytes of the description of a place: its offset in the code, and that of its scope.
const PLACE: u64 = 16;
/// Most places of a method; most methods in it at one place.
const MAX_PLACES: u64 = 1 << 20;
const MAX_DEPTH: usize = 64;
/// Three numbers.
const SCOPE: usize = 15;
/// Behind the last place stands this offset.
const LAST: i32 = i32::MAX;

/// A method at a place, and the number of its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) method: u64,
    pub(super) instruction: u32,
}

/// The methods at this address, innermost first. The compiler describes the addresses only at which the machine may
/// stop. If `is_exact`, it must be one of them; else the next one is taken.
pub(super) fn scopes(
    memory: &impl Memory,
    layout: &Layout,
    blob: &Blob,
    at: u64,
    is_exact: bool,
) -> Option<Vec<Scope>> {
    let wanted = i32::try_from(at.checked_sub(blob.code.0)?).ok()?;
    let begin = resolve(layout.places_begin, blob.at, &blob.fields)?;
    let end = resolve(layout.places_end, blob.at, &blob.fields)?;
    let table = resolve(layout.scopes, blob.at, &blob.fields)?;
    // The scopes stand before the places or behind them.
    let end = if table > begin { end.min(table) } else { end };
    let read = |n: u64| {
        let place = Object::read(memory, begin.checked_add(n * PLACE)?, PLACE)?;
        Some((place.half(0)? as i32, place.half(4)?))
    };
    // The first place that is not before the wanted one.
    let (mut low, mut high) = (0, (end.checked_sub(begin)? / PLACE).min(MAX_PLACES));
    while low < high {
        let middle = low + (high - low) / 2;
        if read(middle)?.0 < wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let (offset, mut scope) = read(low)?;
    if offset == LAST || (is_exact && offset != wanted) {
        return None;
    }
    let methods = resolve(layout.metadata, blob.at, &blob.fields)?;
    let mut found = Vec::new();
    while scope != 0 && found.len() < MAX_DEPTH {
        let bytes = memory.bytes(table.checked_add(scope.into())?, SCOPE)?;
        let mut numbers = Numbers::new(&bytes, layout.numbers_without_zero);
        let outer = numbers.unsigned()?;
        let method = u64::from(numbers.unsigned()?).checked_sub(1)?;
        // Counted from -1 on, which is the begin of a method.
        let instruction = numbers.unsigned()?.saturating_sub(1);
        let method = memory.word(methods.checked_add(8 * method)?)?;
        found.push(Scope { method, instruction });
        // A caller is described before what was put into it.
        (outer < scope).then_some(())?;
        scope = outer;
    }
    (!found.is_empty()).then_some(found)
}
