//! The two tables of bundles, of which the kernel writes one while user space reads the other; and how user space runs
//! a kernel program.

use crate::boxes;
use crate::wire::contract::{FlowCounts, FlowKey};
use libbpf_rs::libbpf_sys::{
    bpf_map_batch_opts, bpf_map_lookup_and_delete_batch, bpf_prog_test_run_opts, bpf_test_run_opts,
};
use libbpf_rs::{MapCore as _, MapHandle};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

/// Elements per call.
const BATCH: usize = 4096;

/// Two tables that take turns.
pub(super) struct Tables {
    current: MapHandle,
    /// The first is idle, the second in use.
    tables: [MapHandle; 2],
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Tables {
    pub(super) fn new(current: MapHandle, tables: [MapHandle; 2]) -> libbpf_rs::Result<Self> {
        let (key, value) = (tables[0].key_size() as usize, tables[0].value_size() as usize);
        if (key, value) != (FlowKey::SIZE, FlowCounts::SIZE) {
            return Err(libbpf_rs::Error::from(io::Error::other("the table of bundles does not match the contract")));
        }
        Ok(Tables { current, tables, keys: vec![0; BATCH * key], values: vec![0; BATCH * value] })
    }

    /// Switches the tables, and empties the one that was in use. The update of the map of maps returns when no program
    /// works with the old table any more.
    pub(super) fn take(&mut self, visit: &mut dyn FnMut(&FlowKey, &FlowCounts)) -> io::Result<()> {
        boxes::put(&self.tables[0], &self.current).map_err(io::Error::other)?;
        self.tables.swap(0, 1);
        self.empty(visit)
    }

    fn empty(&mut self, visit: &mut dyn FnMut(&FlowKey, &FlowCounts)) -> io::Result<()> {
        let fd = self.tables[0].as_fd().as_raw_fd();
        let (key, value) = (FlowKey::SIZE, FlowCounts::SIZE);
        let opts = bpf_map_batch_opts { sz: size_of::<bpf_map_batch_opts>() as _, ..Default::default() };
        let (mut place, mut first) = (0u32, true);
        loop {
            let mut count = BATCH as u32;
            let from = if first { std::ptr::null_mut() } else { (&raw mut place).cast() };
            let mut next = 0u32;
            // SAFETY: both buffers hold `count` elements of the sizes that the map has (checked when they were made);
            // `place` and `next` are the four bytes that a hash map keeps its place in.
            let done = unsafe {
                bpf_map_lookup_and_delete_batch(
                    fd,
                    from,
                    (&raw mut next).cast(),
                    self.keys.as_mut_ptr().cast(),
                    self.values.as_mut_ptr().cast(),
                    &mut count,
                    &opts,
                )
            };
            let error = io::Error::last_os_error();
            let end = done < 0 && error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error());
            if done < 0 && !end {
                return Err(error);
            }
            let n = count as usize;
            let pairs = self.keys.chunks_exact(key).zip(self.values.chunks_exact(value));
            pairs
                .take(n)
                .filter_map(|(k, v)| Some((FlowKey::read(k)?, FlowCounts::read(v)?)))
                .for_each(|(k, v)| visit(&k, &v));
            if end {
                return Ok(());
            }
            (place, first) = (next, false);
        }
    }
}

/// Runs a program of type syscall. Returns the program's own result.
pub(crate) fn run(program: BorrowedFd<'_>, context: &mut [u8]) -> io::Result<u32> {
    let mut opts = bpf_test_run_opts { sz: size_of::<bpf_test_run_opts>() as _, ..Default::default() };
    if !context.is_empty() {
        opts.ctx_in = context.as_ptr().cast();
        opts.ctx_size_in = context.len() as u32;
    }
    // SAFETY: `opts` points to `context`, which outlives the call and is as long as said.
    match unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut opts) } {
        0 => Ok(opts.retval),
        _ => Err(io::Error::last_os_error()),
    }
}
