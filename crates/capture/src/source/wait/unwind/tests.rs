#![allow(clippy::unwrap_used)]

use super::*;

fn head(ip: u64, sp: u64, fp: u64) -> StackCopy {
    StackCopy { first: 1, ip, sp, fp, ..StackCopy::default() }
}

#[test]
fn a_stack_goes_on_by_frame_pointers_where_they_meet_it() {
    let joined = |stack: &[u64], pointers: &[u64]| {
        let mut stack = stack.to_vec();
        go_on(&mut stack, pointers);
        stack
    };
    assert_eq!(joined(&[1, 2, 3], &[1, 3, 4, 5]), [1, 2, 3, 4, 5]);
    assert_eq!(joined(&[1, 2, 3], &[1, 4, 5]), [1, 2, 3], "they do not meet");
    assert_eq!(joined(&[1], &[1, 4, 5]), [1], "nothing was followed");
    assert_eq!(joined(&[], &[]), [0; 0]);
    let long: Vec<u64> = (1..1_000).collect();
    assert_eq!(joined(&[1, 2], &long).len(), MOST_FRAMES);
}

#[test]
fn a_copy_that_leads_nowhere_gives_no_stack() {
    let unwinding = Unwinding::start().unwrap();
    let job = |pid: u32, ip: u64| {
        let memory = Memory { start: 0x1000, bytes: vec![0xff; 4_096] };
        Job { pid, head: head(ip, 0x1000, 0x1ff8), memory, by_pointers: vec![ip] }
    };
    let own = std::process::id();
    // A process that has ended, and an address that is no code.
    for (pid, ip) in [(u32::MAX, 0x1000), (own, 8), (own, u64::MAX)] {
        assert_eq!(unwinding.ask(job(pid, ip)).unwrap().wait().unwrap().stack.len(), 0);
    }
    // Code of this program, with a stack of which nothing makes sense.
    let at = a_copy_that_leads_nowhere_gives_no_stack as fn() as usize as u64;
    assert_eq!(unwinding.ask(job(own, at)).unwrap().wait().unwrap().stack, [at]);
    assert_eq!(unwinding.counts(), [0, 0, 4, 0]);
}

#[test]
fn copies_beyond_those_that_wait_are_counted() {
    let (to, _from) = sync_channel(1);
    let unwinding = Unwinding { to, counts: Arc::default() };
    let job =
        || Job { pid: 1, head: head(1, 1, 1), memory: Memory { start: 0, bytes: Vec::new() }, by_pointers: Vec::new() };
    let first = unwinding.ask(job()).unwrap();
    assert!(unwinding.ask(job()).is_none());
    assert_eq!(unwinding.counts(), [0, 0, 0, 1]);
    drop(_from);
    let since = Instant::now();
    assert!(first.wait().is_none() && since.elapsed() < PATIENCE, "nobody is left to answer");
}

#[cfg(target_arch = "x86_64")]
mod own_stack {
    use super::*;
    use std::hint::black_box;

    /// A copy of this thread's stack, as the kernel programs would make it at this place.
    #[inline(never)]
    fn copy(bytes: usize) -> (StackCopy, Memory) {
        let (ip, sp, fp): (u64, u64, u64);
        #[allow(unsafe_code)]
        // SAFETY: the registers are read, and nothing is changed.
        unsafe {
            std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) fp,
                options(nomem, nostack, preserves_flags));
        }
        let own = crate::memory::of(std::process::id()).unwrap();
        let start = sp & !511;
        let mut memory = Vec::new();
        while memory.len() < bytes {
            let Some(block) = crate::memory::Memory::bytes(&own, start + memory.len() as u64, 512) else { break };
            memory.extend(block);
        }
        (head(ip, sp, fp), Memory { start, bytes: memory })
    }

    #[inline(never)]
    fn deep(levels: u32, bytes: usize) -> (StackCopy, Memory) {
        let found = if levels == 0 { copy(bytes) } else { deep(levels - 1, bytes) };
        black_box(found)
    }

    fn found(levels: u32, bytes: usize) -> (Followed, bool) {
        let (head, memory) = deep(levels, bytes);
        Callers::default().find(&Job { pid: std::process::id(), head, memory, by_pointers: Vec::new() })
    }

    /// How often the most frequent address stands there: that of the call of `deep` in itself.
    fn levels(stack: &[u64]) -> usize {
        stack.iter().map(|at| stack.iter().filter(|other| *other == at).count()).max().unwrap_or(0)
    }

    #[test]
    fn all_callers_of_a_function_are_found_to_the_begin_of_its_thread() {
        let (found, is_whole) = found(20, 64 << 10);
        assert!(is_whole);
        assert_eq!(levels(&found.stack), 20, "{:x?}", found.stack);
    }

    #[test]
    fn a_copy_that_is_cut_off_gives_the_innermost_callers() {
        let (found, is_whole) = found(10_000, 16 << 10);
        assert!(!is_whole);
        let (innermost, all) = (levels(&found.stack), found.stack.len());
        assert!(innermost > 20 && innermost + 2 == all && all <= MOST_FRAMES, "{innermost} of {all}");
    }
}

#[test]
fn damaged_tables_end_nothing() {
    let image = std::fs::read("/proc/self/exe").unwrap();
    let whole = tables::Tables::read(&*image).unwrap();
    assert!(whole.size() > 1_000);
    let memory = || Memory { start: 0x1000, bytes: (0..16_384_u32).map(|n| n as u8).collect() };
    // No part of the file, however it is cut or changed, may end the program.
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..40 {
        let cut = (random() as usize) % image.len();
        let _ = tables::Tables::read(&image[..cut]);
    }
    let mut cache = CacheNative::<MayAllocateDuringUnwind>::default();
    for _ in 0..60 {
        let mut unwinder = process::Unwinder::new();
        let damaged = whole.damaged(&mut random);
        let ips: Vec<u64> = (0..200).map(|_| random() % image.len() as u64).collect();
        // gimli may panic, which serve() catches; it may not hang or read beyond the copy.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            unwinder.add_module(framehop::Module::new(String::new(), 0..1 << 31, 0, damaged.sections()));
            for ip in ips {
                let (stack, mut steps) = (memory(), 0);
                let mut read = |at: u64| stack.word(at).ok_or(());
                let mut frames = unwinder.iter_frames(ip, registers(&head(ip, 0x1000, 0x1010)), &mut cache, &mut read);
                while steps < MOST_FRAMES && matches!(frames.next(), Ok(Some(_))) {
                    steps += 1;
                }
            }
        }));
    }
}
