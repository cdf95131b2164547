//! SDKs of OpenTelemetry that publish in which span each thread is (OTEP 4947): a thread-local variable of the program,
//! or of a library, has the address of a record.
//!
//! The kernel programs read it (`bpf/sdk/span.h`). Where the variable lies depends on how the file that has it was
//! compiled and loaded. A program's own lies at a known distance from the structure of the thread. Of a library, the
//! dynamic linker leaves in its data what the code needs to find it: the distance, the number of its block, or, with
//! TLS descriptors, either.

use super::{Learn, Process, Runtime};
use crate::memory::{self, Memory};
use crate::uprobe::elf::{Image, ThreadLocal};
use crate::wire::contract::{SdkPlace, WS_SDK_CONTEXT};

/// What an SDK publishes.
pub(super) struct Context;

const PLACES: &str = "sdk_places";
/// The variable: its name is that of the version of the record.
const VARIABLE: &str = "otel_thread_ctx_v1";

impl Runtime for Context {
    fn maps(&self) -> &'static [&'static str] {
        &[PLACES]
    }

    fn facts(&self, image: &Image<'_>, _: &[crate::uprobe::ProbeSet]) -> Option<Learn> {
        let segment = image.code().filter(|_| image.is_x86_64())?;
        let offset = image.in_thread_block(VARIABLE)?;
        let variable = image.thread_local_place(VARIABLE, offset)?;
        let place = move |process: &Process<'_>| {
            let bias = process.mapped?.bias(segment);
            let place = place(&memory::of(process.pid).ok()?, variable, offset, bias)?;
            (place.module == 0 || uses_glibc(process.pid)).then_some(place)
        };
        Some(Learn { bit: WS_SDK_CONTEXT, ..Learn::value(PLACES, place) })
    }
}

/// Whether blocks are kept as by the GNU C library; how others keep theirs is not known.
fn uses_glibc(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("/libc.so.6"))
}

/// Where the variable lies in this process; `None` if the dynamic linker has not filled in its place yet.
fn place(memory: &impl Memory, variable: ThreadLocal, offset: u64, bias: u64) -> Option<SdkPlace> {
    let word = |at: u64| memory.word(at.wrapping_add(bias)).filter(|word| *word != 0);
    let place = match variable {
        ThreadLocal::Below(offset) => SdkPlace { module: 0, offset },
        ThreadLocal::DistanceAt(at) => SdkPlace { module: 0, offset: word(at)? },
        ThreadLocal::NumberAt(at) => SdkPlace { module: word(at)?, offset },
        ThreadLocal::DescriptorAt(at) => {
            // The function that the code calls, and what it is given: the distance, or the address of a block's number
            // and the place there. Thread-local variables that are there from the start lie below the thread.
            word(at)?;
            let given = word(at.wrapping_add(8))?;
            match given.cast_signed() < 0 {
                true => SdkPlace { module: 0, offset: given },
                false => SdkPlace { module: memory.word(given)?, offset: memory.word(given.checked_add(8)?)? },
            }
        }
    };
    // A process has few blocks; anything else is no number of one.
    (place.module < 1 << 16).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words, by address.
    struct Words(Vec<(u64, u64)>);

    impl Memory for Words {
        fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
            let word = self.0.iter().find(|(address, _)| *address == at)?.1;
            into.copy_from_slice(&word.to_ne_bytes());
            Some(())
        }
    }

    fn found(words: &[(u64, u64)], variable: ThreadLocal) -> Option<(u64, i64)> {
        let place = place(&Words(words.to_vec()), variable, 24, 0x1000)?;
        Some((place.module, place.offset.cast_signed()))
    }

    #[test]
    fn each_way_to_reach_the_variable_is_understood() {
        let below = 0u64.wrapping_sub(16);
        assert_eq!(found(&[], ThreadLocal::Below(below)), Some((0, -16)));
        assert_eq!(found(&[(0x1100, below)], ThreadLocal::DistanceAt(0x100)), Some((0, -16)));
        assert_eq!(found(&[(0x1100, 3)], ThreadLocal::NumberAt(0x100)), Some((3, 24)));
        let descriptor = ThreadLocal::DescriptorAt(0x100);
        assert_eq!(found(&[(0x1100, 7), (0x1108, below)], descriptor), Some((0, -16)));
        let dynamic = [(0x1100, 7), (0x1108, 0x9000), (0x9000, 4), (0x9008, 40)];
        assert_eq!(found(&dynamic, descriptor), Some((4, 40)));
    }

    #[test]
    fn what_the_linker_has_not_filled_in_is_asked_for_again() {
        assert_eq!(found(&[(0x1100, 0)], ThreadLocal::NumberAt(0x100)), None);
        assert_eq!(found(&[(0x1100, 0), (0x1108, 5)], ThreadLocal::DescriptorAt(0x100)), None);
        assert_eq!(found(&[], ThreadLocal::DistanceAt(0x100)), None);
        assert_eq!(found(&[(0x1100, 1 << 40)], ThreadLocal::NumberAt(0x100)), None, "no number of a block");
    }
}
