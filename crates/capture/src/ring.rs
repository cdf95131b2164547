//! Reads a ring buffer of the kernel (`BPF_MAP_TYPE_RINGBUF`).
//!
//! libbpf maps the data of the ring twice in a row, so that a record which wraps around the end can be read in one
//! piece. But then the resident memory of the process counts the data twice. Here the data is mapped once, and the rare
//! record that wraps around is copied into one piece.

// Bits beside the length in a record's header: the kernel still writes the record, or has taken it back.
use libbpf_rs::libbpf_sys::{BPF_RINGBUF_BUSY_BIT as BUSY, BPF_RINGBUF_DISCARD_BIT as DISCARDED};
use libbpf_rs::MapCore;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use rustix::param::page_size;
use rustix::time::Timespec;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const HEADER: usize = 8;

pub(crate) struct Ring {
    map: OwnedFd,
    /// A page with the position up to which we have read. We write it.
    read: Mapping,
    /// A page with the position up to which the kernel has written, and behind that page the data.
    written: Mapping,
    length: usize,
    together: Vec<u8>,
}

impl Ring {
    /// Maps the ring buffer `map`.
    pub(crate) fn open(map: &impl MapCore) -> io::Result<Ring> {
        Ring::new(map.as_fd().try_clone_to_owned()?, map.max_entries() as usize)
    }

    /// `length` is the size of the ring's data, a power of two.
    fn new(map: OwnedFd, length: usize) -> io::Result<Ring> {
        let page = page_size();
        let read = Mapping::new(map.as_fd(), ProtFlags::READ | ProtFlags::WRITE, 0, page)?;
        let written = Mapping::new(map.as_fd(), ProtFlags::READ, page as u64, page + length)?;
        Ok(Ring { map, read, written, length, together: Vec::new() })
    }

    /// Waits until the kernel wakes up the reader, at most so long. A signal may end the wait early.
    pub(crate) fn wait(&self, at_most: Duration) {
        let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], Timespec::try_from(at_most).ok().as_ref());
    }

    /// Passes at most `most` records to `show`. Returns how many were read. Records that the kernel has taken back
    /// count, too, but are not shown.
    pub(crate) fn take(&mut self, most: usize, show: &mut dyn FnMut(&[u8])) -> usize {
        let mut taken = 0;
        let mut at = self.read.position(0).load(Ordering::Relaxed);
        while taken < most {
            let end = self.written.position(0).load(Ordering::Acquire);
            let begun = taken;
            while at < end && taken < most {
                let place = (at as usize) & (self.length - 1);
                let header = self.written.word(page_size() + place).load(Ordering::Acquire);
                if header & BUSY != 0 {
                    break;
                }
                let length = (header & !DISCARDED) as usize;
                if header & DISCARDED == 0 {
                    show(self.record(place + HEADER, length));
                }
                at += (HEADER + length).next_multiple_of(8) as u64;
                taken += 1;
            }
            if taken == begun {
                break;
            }
            self.read.position(0).store(at, Ordering::Release);
            // With this fence no record is missed: either the kernel sees our position and wakes us for its next
            // record, or we see that record now.
            fence(Ordering::SeqCst);
        }
        taken
    }

    fn record(&mut self, from: usize, length: usize) -> &[u8] {
        let from = from & (self.length - 1);
        let before_end = self.length - from;
        let data = page_size();
        if length <= before_end {
            return self.written.bytes(data + from, length);
        }
        self.together.clear();
        self.together.extend_from_slice(self.written.bytes(data + from, before_end));
        self.together.extend_from_slice(self.written.bytes(data, (length - before_end).min(self.length)));
        &self.together
    }
}

/// Readable when the kernel wakes up its reader.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

pub(crate) struct Mapping {
    address: NonNull<c_void>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached by reference only.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(crate) fn new(of: BorrowedFd<'_>, may: ProtFlags, from: u64, length: usize) -> io::Result<Mapping> {
        // SAFETY: a mapping at an address of the kernel's choice replaces no other.
        let address = unsafe { mmap(std::ptr::null_mut(), length, may, MapFlags::SHARED, of, from)? };
        let address = NonNull::new(address).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { address, length })
    }

    fn at(&self, offset: usize, length: usize) -> *const u8 {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.length), "beyond the ring");
        // SAFETY: the address lies within the mapping, as was just checked.
        unsafe { self.address.as_ptr().cast::<u8>().add(offset) }
    }

    /// A number that the kernel writes as one word; `offset` is a multiple of eight.
    pub(crate) fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the word is mapped as long as `self` lives, it is aligned (mappings begin with a page), and the
        // kernel writes it as one word.
        unsafe { &*self.at(offset, 8).cast() }
    }

    /// A word that the kernel writes, too: the length and flags of a record, the status of a block. It is aligned to
    /// eight bytes.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as in `position`.
        unsafe { &*self.at(offset & !7, 4).cast() }
    }

    /// Appends bytes that the kernel may change meanwhile: they are worth something only if a number beside them says
    /// that it did not.
    pub(crate) fn copy(&self, offset: usize, length: usize, into: &mut Vec<u8>) {
        into.reserve(length);
        let (from, at) = (self.at(offset, length), into.len());
        // SAFETY: `from` has so many bytes, and so has the room that was just reserved. Any byte is a valid one.
        unsafe {
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(at), length);
            into.set_len(at + length);
        }
    }

    pub(crate) fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        // SAFETY: the bytes are mapped as long as `self` lives. The kernel does not write to a finished record before
        // we have moved our position past it.
        unsafe { std::slice::from_raw_parts(self.at(offset, length), length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing that was borrowed from the mapping outlives it.
        let _ = unsafe { munmap(self.address.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// Writes as the kernel does, into a file with the layout of a ring buffer.
    struct Kernel {
        file: File,
        length: usize,
        end: u64,
    }

    impl Kernel {
        fn new(length: usize) -> (Kernel, Ring) {
            let file = File::from(rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
            file.set_len((2 * page_size() + length) as u64).unwrap();
            let ring = Ring::new(file.try_clone().unwrap().into(), length).unwrap();
            (Kernel { file, length, end: 0 }, ring)
        }

        fn put(&self, at: u64, bytes: &[u8]) {
            for (i, byte) in bytes.iter().enumerate() {
                let place = (at as usize + i) & (self.length - 1);
                self.file.write_all_at(&[*byte], (2 * page_size() + place) as u64).unwrap();
            }
        }

        fn write(&mut self, record: &[u8], flags: u32) -> u64 {
            let at = self.end;
            self.put(at, &(record.len() as u32 | flags).to_ne_bytes());
            self.put(at + HEADER as u64, record);
            self.end += (HEADER + record.len()).next_multiple_of(8) as u64;
            self.file.write_all_at(&self.end.to_ne_bytes(), page_size() as u64).unwrap();
            at
        }

        fn read_up_to(&self) -> u64 {
            let mut word = [0; 8];
            self.file.read_exact_at(&mut word, 0).unwrap();
            u64::from_ne_bytes(word)
        }
    }

    fn take(ring: &mut Ring, most: usize) -> (usize, Vec<Vec<u8>>) {
        let mut seen = Vec::new();
        let taken = ring.take(most, &mut |record| seen.push(record.to_vec()));
        (taken, seen)
    }

    #[test]
    fn records_come_whole_and_in_order_also_around_the_end() {
        let (mut kernel, mut ring) = Kernel::new(4096);
        for n in 0..1000usize {
            let record: Vec<u8> = (0..n % 700).map(|i| (i + n) as u8).collect();
            kernel.write(&record, 0);
            assert_eq!(take(&mut ring, 64), (1, vec![record]), "record {n}");
            assert_eq!(kernel.read_up_to(), kernel.end);
        }
        assert_eq!(take(&mut ring, 64), (0, vec![]));
    }

    #[test]
    fn discarded_records_are_skipped_and_unfinished_ones_are_waited_for() {
        let (mut kernel, mut ring) = Kernel::new(4096);
        kernel.write(b"one", 0);
        kernel.write(b"none", DISCARDED);
        let at = kernel.write(b"two", BUSY);
        kernel.write(b"three", 0);
        assert_eq!(take(&mut ring, 64), (2, vec![b"one".to_vec()]));
        assert_eq!(take(&mut ring, 64), (0, vec![]));
        kernel.put(at, &3u32.to_ne_bytes());
        assert_eq!(take(&mut ring, 1), (1, vec![b"two".to_vec()]));
        assert_eq!(take(&mut ring, 64), (1, vec![b"three".to_vec()]));
        assert_eq!(kernel.read_up_to(), kernel.end);
    }
}
