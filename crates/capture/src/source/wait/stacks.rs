//! Stacks on which threads stopped: the kernel's table of them, made while waits are asked for.

use super::names::{Asked, Names};
use crate::boxes;
use crate::object::WirespanSkel;
use crate::runtime::Functions;
use crate::wire::contract::{Stack, WS_STACKS_KEPT, WS_STACK_KERNEL, WS_STACK_NATIVE, WS_STACK_USER};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};
use wirespan_model::stack::NamedLater;

/// Flag of a table in a box, whose size may differ from that of the pattern.
const BPF_F_INNER_MAP: u32 = 1 << 12;
/// Bytes of an entry.
const ENTRY: u32 = Stack::SIZE as u32 + 8 * (WS_STACK_KERNEL + WS_STACK_USER);

/// The table, and who names what is in it.
#[derive(Default)]
pub(crate) struct Stacks {
    table: Option<(MapHandle, Names)>,
    /// Stacks that gave way to newer ones before they were read.
    overwritten: u64,
    /// Counters of former tables.
    before: [u64; 3],
}

impl Stacks {
    /// Makes the table and puts it where the kernel programs find it, or takes it away.
    pub(super) fn keep(&mut self, skel: &WirespanSkel<'static>, wanted: bool) {
        if wanted == self.table.is_some() {
            return;
        }
        let place = &skel.maps.wait_stacks;
        if let Some((_, names)) = self.table.take() {
            let _ = place.delete(&boxes::PLACE);
            for (sum, n) in self.before.iter_mut().zip(names.counts()) {
                *sum += n;
            }
            return;
        }
        let Some(names) = Names::start(Functions::open(skel)) else { return };
        match boxes::make(place, MapType::Array, "wait_stacks", (4, ENTRY), WS_STACKS_KEPT, BPF_F_INNER_MAP) {
            Ok(table) => self.table = Some((table, names)),
            Err(error) => tracing::warn!(%error, "no memory for stacks: where requests waited is not told"),
        }
    }

    /// The stack with this number of a thread of this process. Its names come later.
    pub(super) fn find(&mut self, pid: u32, number: u64) -> Option<NamedLater> {
        let (table, names) = self.table.as_ref().filter(|_| number != 0)?;
        let at = (number % u64::from(WS_STACKS_KEPT)) as u32;
        let read = || table.lookup(&at.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let is =
            |bytes: &[u8]| Stack::read(bytes).is_some_and(|head| head.number == number && head.pid == u64::from(pid));
        // The kernel may write the next stack there while this one is copied: then the number changes meanwhile.
        let copied = read().filter(|bytes| is(bytes)).filter(|_| read().is_some_and(|bytes| is(&bytes)));
        let Some(stack) = copied.and_then(|bytes| read_stack(&bytes)) else {
            self.overwritten += 1;
            return None;
        };
        Some(names.ask(stack))
    }

    /// Asks for the names of a stack that a sample brought.
    pub(super) fn name(&self, stack: Asked) -> Option<NamedLater> {
        self.table.as_ref().map(|(_, names)| names.ask(stack))
    }

    /// Counters since the start.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 4] {
        let now = self.table.as_ref().map_or([0; 3], |(_, names)| names.counts());
        let [named, unnamed, lost] = std::array::from_fn(|n| now[n] + self.before[n]);
        [
            ("stack_frames_named", named),
            ("stack_frames_without_name", unnamed),
            ("stacks_not_named", lost),
            ("stacks_overwritten", self.overwritten),
        ]
    }
}

/// A stack as the kernel programs take it; `None` if it is cut off.
pub(super) fn read_stack(bytes: &[u8]) -> Option<Asked> {
    let head = Stack::read(bytes)?;
    let frames = bytes.get(Stack::SIZE..)?;
    let words = |from: u32, n: u16| -> Option<Vec<u64>> {
        let words = match n {
            0 => &[],
            _ => frames.get(from as usize * 8..)?.get(..usize::from(n) * 8)?,
        };
        Some(words.chunks_exact(8).filter_map(|word| word.first_chunk().copied().map(u64::from_ne_bytes)).collect())
    };
    Some(Asked {
        pid: u32::try_from(head.pid).ok()?,
        kernel: words(0, head.kernel)?,
        user: words(WS_STACK_KERNEL, head.user)?,
        interpreted: words(WS_STACK_KERNEL + WS_STACK_NATIVE, head.interpreted)?,
    })
}
