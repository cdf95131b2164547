//! Copies of stacks, as the kernel programs make them. They hold what the program had there, secrets included: they are
//! dropped as soon as the callers are found, and nothing prints them.

use crate::boxes::{self, Shown};
use crate::object::WirespanSkel;
use crate::wire::contract::{StackCopy, WS_COPIES_KEPT, WS_COPY_BLOCK, WS_COPY_BLOCKS};
use libbpf_rs::MapCore as _;
use std::os::fd::AsFd as _;

const BLOCK: usize = WS_COPY_BLOCK as usize;
/// Bytes of an entry: a block behind its number.
const ENTRY: usize = 8 + BLOCK;

/// The kernel's table of blocks.
pub(in super::super) struct Copies {
    table: Shown,
}

impl Copies {
    /// Makes the table and puts it where the kernel programs find it.
    pub(in super::super) fn keep(skel: &WirespanSkel<'static>) -> Option<Copies> {
        let table = boxes::make_array(&skel.maps.stack_copies, "stack_copies", ENTRY as u32, WS_COPIES_KEPT);
        let table = table.inspect_err(|error| tracing::warn!(%error, "no memory for copies of stacks")).ok()?;
        let table = Shown::of(table.as_fd(), ENTRY as u32, WS_COPIES_KEPT);
        let table = table.inspect_err(|error| tracing::warn!(%error, "copies of stacks cannot be read"));
        Some(Copies { table: table.ok()? })
    }

    /// Takes the table away.
    pub(in super::super) fn end(skel: &WirespanSkel<'static>) {
        let _ = skel.maps.stack_copies.delete(&boxes::PLACE);
    }

    /// The memory of a copy; `None` if a block of it was given to another copy meanwhile.
    pub(in super::super) fn read(&self, copy: &StackCopy) -> Option<Memory> {
        let blocks = copy.blocks.min(WS_COPY_BLOCKS) as usize;
        let mut bytes = Vec::with_capacity(blocks * BLOCK);
        let is_whole = (copy.first..).take(blocks).all(|number| self.table.read(number, 8..ENTRY, &mut bytes));
        is_whole.then_some(Memory { start: copy.sp & !(BLOCK as u64 - 1), bytes })
    }
}

/// Memory of a stack.
pub(in super::super) struct Memory {
    /// Address of the first byte.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Memory {
    /// The word at this address.
    pub(super) fn word(&self, at: u64) -> Option<u64> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let word = self.bytes.get(from..from.checked_add(8)?)?;
        word.first_chunk().copied().map(u64::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_within_the_copy_only() {
        let bytes: Vec<u8> = [7_u64, 8].into_iter().flat_map(u64::to_ne_bytes).collect();
        let memory = Memory { start: 0x1000, bytes };
        assert_eq!([0x1000, 0x1008].map(|at| memory.word(at)), [Some(7), Some(8)]);
        assert!([0, 0xfff, 0x1009, 0x1010, u64::MAX].iter().all(|at| memory.word(*at).is_none()));
    }
}
