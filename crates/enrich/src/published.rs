//! What a process publishes of itself: the resource attributes of its OpenTelemetry SDK, as
//! [`wirespan_model::process_context`] has it. It is read whole between two equal times, or not at all. Only attributes
//! that name the service are kept.

use crate::proc::clean;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};
use wirespan_model::process_context::{Header, HEADER};

/// Names of the mapping: of a memory file, the same with a name, of private memory.
const NAMES: [&str; 3] = ["/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"];
/// Longest payload, as the SDK for Go and OpenTelemetry's profiler have it.
const LONGEST: usize = 64 * 1024;
/// So often a context is read that changes meanwhile.
const TRIES: u32 = 3;
/// Most attributes that are kept, and most bytes of a list of mappings.
const MOST: usize = 16;
/// A process is asked again after this time, then after twice that time, and so on.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What a process publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// When, by its clock.
    pub(crate) at_ns: u64,
    /// `service.name`.
    pub(crate) service: Option<String>,
    /// Further attributes that name the service, by their keys.
    pub(crate) extra: Vec<(String, String)>,
}

/// Why a context was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is none.
    Absent,
    /// Its header or its payload is not as it should be.
    Malformed,
    /// It changed each time that it was read.
    Changing,
}

/// When a process is asked for its context: an SDK publishes some time after the program has begun, and may change it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) at_ns: Option<u64>,
    next: Instant,
    pause: Duration,
}

impl Asked {
    /// It was asked for the first time.
    pub(crate) fn first(at_ns: Option<u64>, now: Instant) -> Self {
        Asked { at_ns, next: now + FIRST_PAUSE, pause: FIRST_PAUSE }
    }

    /// It is to be asked at once: a child of a process that publishes this.
    pub(crate) fn inherited(at_ns: Option<u64>, now: Instant) -> Self {
        Asked { next: now, ..Asked::first(at_ns, now) }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// It was asked again.
    pub(crate) fn again(&mut self, at_ns: Option<u64>, now: Instant) {
        self.pause = if self.at_ns == at_ns { (self.pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        (self.at_ns, self.next) = (at_ns, now + self.pause);
    }
}

/// Reads what the process of this folder (`/proc/PID`) publishes.
pub(crate) fn read(dir: &Path) -> Result<Published, Refused> {
    let maps = fs::read_to_string(dir.join("maps")).map_err(|_| Refused::Absent)?;
    let mut found = Err(Refused::Absent);
    let mut memory = None;
    for address in maps.lines().filter_map(mapping) {
        let memory = match &memory {
            Some(memory) => memory,
            None => memory.insert(File::open(dir.join("mem")).map_err(|_| Refused::Absent)?),
        };
        found = read_at(&|at, into| memory.read_exact_at(into, at).ok(), address);
        if found.is_ok() {
            break;
        }
    }
    found
}

/// The address of the mapping of this line of `/proc/PID/maps`, if it is one of a context.
fn mapping(line: &str) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (range, name) = (fields.next()?, fields.nth(4)?);
    let (from, _) = range.split_once('-').filter(|_| NAMES.contains(&name))?;
    u64::from_str_radix(from, 16).ok()
}

/// Fills the buffer with the memory of a process; `None` if not all of it can be read.
type Memory<'a> = dyn Fn(u64, &mut [u8]) -> Option<()> + 'a;

fn read_at(memory: &Memory<'_>, address: u64) -> Result<Published, Refused> {
    let header = || {
        let mut bytes = [0; HEADER];
        memory(address, &mut bytes).ok_or(Refused::Malformed).map(|()| bytes)
    };
    for _ in 0..TRIES {
        let before = header()?;
        let Header { length, at_ns, payload } = Header::read(&before).ok_or(Refused::Malformed)?;
        if at_ns == 0 {
            continue;
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST).ok_or(Refused::Malformed)?;
        let mut bytes = vec![0; length];
        let is_read = memory(payload, &mut bytes).is_some();
        if header()? != before {
            continue;
        }
        return is_read.then(|| context(&bytes, at_ns)).flatten().ok_or(Refused::Malformed);
    }
    Err(Refused::Changing)
}

/// A message of `ProcessContext`: field 1 is a `Resource`, whose fields 1 are `KeyValue`.
fn context(message: &[u8], at_ns: u64) -> Option<Published> {
    let mut published = Published { at_ns, ..Published::default() };
    each(message, &mut |field, resource| {
        if field != 1 {
            return Some(());
        }
        each(resource, &mut |field, attribute| {
            if field == 1 {
                published.add(attribute)?;
            }
            Some(())
        })
    })?;
    published.extra.sort_unstable();
    Some(published)
}

impl Published {
    fn add(&mut self, attribute: &[u8]) -> Option<()> {
        let (mut key, mut value): (&[u8], Option<String>) = (&[], None);
        each(attribute, &mut |field, bytes| {
            match field {
                1 => key = bytes,
                2 => each(bytes, &mut |field, text| {
                    if field == 1 {
                        value = clean(&String::from_utf8_lossy(text));
                    }
                    Some(())
                })?,
                _ => {}
            }
            Some(())
        })?;
        let (Ok(key), Some(value)) = (std::str::from_utf8(key), value) else { return Some(()) };
        match key {
            "service.name" => self.service = Some(value),
            "service.instance.id" | "service.version" | "service.namespace" | "deployment.environment.name"
                if self.extra.len() < MOST =>
            {
                self.extra.retain(|(known, _)| known != key);
                self.extra.push((key.to_owned(), value));
            }
            _ => {}
        }
        Some(())
    }
}

/// Calls `take` with the number and the bytes of each field of a message that has a length. `None`: it is no message.
fn each<'a>(mut message: &'a [u8], take: &mut dyn FnMut(u64, &'a [u8]) -> Option<()>) -> Option<()> {
    const FIXED: [(u64, usize); 2] = [(1, 8), (5, 4)];
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match tag & 7 {
            0 => drop(varint(&mut message)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                take(tag >> 3, message.get(..length)?)?;
                message = message.get(length..)?;
            }
            kind => {
                let (_, size) = FIXED.iter().find(|(of, _)| *of == kind)?;
                message = message.get(*size..)?;
            }
        }
    }
    Some(())
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
