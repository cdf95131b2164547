//! What wirespan publishes of its own process, so that a profiler of the machine names it as its spans are named
//! ([`wirespan_model::process_context`]). `wirespan-enrich` reads those of other processes.

use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use rustix::mm::{madvise, mmap, Advice, MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use wirespan_model::process_context::{Header, HEADER, SIGNATURE};

/// Bytes of the mapping: the header, and the payload behind it.
const SIZE: usize = 4096;

/// Publishes attributes of this process for as long as it lives. Call it once.
///
/// # Errors
///
/// The memory cannot be had, or the attributes need more than a page.
pub fn publish(attributes: &[(&str, &str)]) -> io::Result<()> {
    let payload = encode(attributes);
    let length = u32::try_from(payload.len()).ok().filter(|_| HEADER + payload.len() <= SIZE);
    let length = length.ok_or_else(|| io::Error::other("the attributes are longer than a page"))?;
    let memory = memfd_create("OTEL_CTX", MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, SIZE as u64)?;
    let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: the kernel chooses a place that is free. Nothing in this program reads or writes there, and it stays
    // mapped until the end of the process: all is written by way of the file.
    let address = unsafe { mmap(std::ptr::null_mut(), SIZE, protection, flags, &memory, 0) }?;
    // SAFETY: this is the mapping of the line above; a child shall not have it.
    unsafe { madvise(address, SIZE, Advice::LinuxDontFork) }?;
    let (memory, address) = (File::from(memory), address as u64);
    memory.write_all_at(&payload, HEADER as u64)?;
    let header = Header { length, at_ns: monotonic_ns(), payload: address + HEADER as u64 };
    memory.write_all_at(&header.behind_signature(), SIGNATURE.len() as u64)?;
    // The last: from now on it is whole.
    memory.write_all_at(SIGNATURE, 0)
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `ProcessContext` with a `Resource` of these attributes, in protobuf.
fn encode(attributes: &[(&str, &str)]) -> Vec<u8> {
    let pair = |(key, value): &(&str, &str)| {
        let value = field(1, value.as_bytes());
        field(1, &[field(1, key.as_bytes()), field(2, &value)].concat())
    };
    field(1, &attributes.iter().flat_map(pair).collect::<Vec<u8>>())
}

/// A field with a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::process_context::VERSION;

    #[test]
    fn what_is_published_is_in_the_memory_of_this_process() {
        let long = "v".repeat(300);
        publish(&[("service.name", "wirespan"), ("service.version", &long)]).expect("there is memory");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let line = maps.lines().find(|line| line.contains("/memfd:OTEL_CTX")).expect("the mapping");
        let start = line.split_once('-').and_then(|(from, _)| u64::from_str_radix(from, 16).ok()).expect("an address");
        let memory = crate::memory::of(std::process::id()).expect("memory");
        let mut bytes = [0; SIZE];
        memory.read_exact_at(&mut bytes, start).expect("it is mapped");
        let payload = encode(&[("service.name", "wirespan"), ("service.version", &long)]);
        assert_eq!((&bytes[..8], &bytes[8..12]), (&SIGNATURE[..], &VERSION.to_ne_bytes()[..]));
        assert_eq!(bytes[12..16], (payload.len() as u32).to_ne_bytes());
        assert!(bytes[16..24] != [0; 8] && bytes[24..32] == (start + HEADER as u64).to_ne_bytes());
        assert_eq!(bytes[HEADER..HEADER + payload.len()], payload);
        let inner = payload.len() - 3;
        assert_eq!(payload[..3], [0x0a, (inner as u8) | 0x80, (inner >> 7) as u8]);
        assert!(publish(&[("service.name", &"v".repeat(SIZE))]).is_err());
    }
}
