//! Go's goroutines: where the runtime keeps their ids, and where one hands over to another.
//!
//! Offsets in the runtime's structures come from a table by version, which a Go program names itself (`.go.buildinfo`);
//! they were read from the debug information of one release of each version. A version that the table does not know is
//! left alone: its threads stand for its goroutines, as in any other program.

use super::elf::{Image, Place};
use super::go;
use super::go_http::FUNCTIONS;
use super::library::Probe;
use super::points::Function;
use std::collections::HashMap;

/// Offsets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    goid: u16,
    parent: u16,
    curg: u16,
}

impl Layout {
    /// `struct go_runtime`, as the kernel side reads it.
    pub(crate) fn bytes(self, births: bool) -> [u8; 8] {
        let mut out = [0; 8];
        out[..2].copy_from_slice(&self.goid.to_ne_bytes());
        out[2..4].copy_from_slice(&self.parent.to_ne_bytes());
        out[4..6].copy_from_slice(&self.curg.to_ne_bytes());
        out[6] = u8::from(births);
        out
    }

    fn of(minor: u32) -> Option<Self> {
        let (goid, parent, curg) = match minor {
            17..=20 => (152, 0, 192),
            21 | 22 => (152, 272, 192),
            23 | 24 => (160, 280, 192),
            25 => (152, 272, 184),
            26 => (152, 280, 184),
            _ => return None,
        };
        Some(Layout { goid, parent, curg })
    }
}

/// What is probed in a Go program. Each may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goroutines {
    pub(crate) layout: Layout,
    pub(crate) birth: Vec<Probe>,
    pub(crate) send: Vec<Probe>,
    pub(crate) recv: Vec<Probe>,
    /// Of HTTP libraries, with their cookies.
    pub(crate) http: Vec<Probe>,
}

const BIRTH: &str = "runtime.newproc.func1";
const QUEUE: &str = "runtime.runqput";
const SEND: &str = "runtime.send";
const RECV: &str = "runtime.recv";
/// Longest of these functions.
const MAX_FUNCTION: u64 = 4096;

/// Looks into a program; `None` if it is no Go program that is known.
pub(crate) fn plan(image: &Image<'_>) -> Option<Goroutines> {
    let layout = Layout::of(version(image)?)?;
    let wanted: Vec<&'static str> = [BIRTH, QUEUE, SEND, RECV].into_iter().chain(FUNCTIONS.map(|f| f.0)).collect();
    let found: HashMap<_, _> = go::functions(image, &wanted).into_iter().collect();
    let body = |place: &Place| {
        let bytes = image.bytes(place.address, place.size.min(MAX_FUNCTION))?;
        Some(Function::new(bytes, place.address))
    };
    let probe = |address: u64| image.offset(address).map(|offset| Probe { offset, cookie: 0 });
    let entry = |name| found.get(name).and_then(body).and_then(|f| f.go_entry()).and_then(probe).into_iter().collect();
    let birth = found.get(BIRTH).zip(found.get(QUEUE)).and_then(|(birth, queue)| {
        let calls = body(birth)?.calls_of(queue.address);
        Some(calls.into_iter().filter_map(probe).collect())
    });
    let http = FUNCTIONS.iter().filter_map(|(name, cookie)| {
        let offset = image.offset(body(found.get(name)?)?.go_entry()?)?;
        Some(Probe { offset, cookie: *cookie })
    });
    let http = http.collect();
    Some(Goroutines { layout, birth: birth.unwrap_or_default(), send: entry(SEND), recv: entry(RECV), http })
}

/// The minor version of Go that built it, 17 for what does not say it in line (`src/debug/buildinfo`).
fn version(image: &Image<'_>) -> Option<u32> {
    let (_, bytes) = image.section(".go.buildinfo")?;
    minor(bytes)
}

fn minor(bytes: &[u8]) -> Option<u32> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const IN_LINE: u8 = 2;
    let at = bytes.windows(MAGIC.len()).step_by(16).position(|w| w == MAGIC)? * 16;
    let info = bytes.get(at..)?;
    if info.get(15)? & IN_LINE == 0 {
        return Some(17);
    }
    let length = usize::from(*info.get(32)?); // a varint; versions are shorter than 128 bytes
    let text = std::str::from_utf8(info.get(33..33 + length)?).ok()?;
    let rest = text.strip_prefix("go1.").or_else(|| text.split("go1.").nth(1))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str) -> Vec<u8> {
        let mut bytes = b"\xff Go buildinf:".to_vec();
        bytes.extend([8, 2]);
        bytes.resize(32, 0);
        bytes.push(version.len() as u8);
        bytes.extend(version.as_bytes());
        bytes
    }

    #[test]
    fn a_program_names_its_version() {
        for (text, expected) in
            [("go1.26.8", Some(26)), ("go1.21rc2", Some(21)), ("devel go1.24-abc", Some(24)), ("devel +12", None)]
        {
            assert_eq!(minor(&info(text)), expected, "{text}");
        }
        for cut in 0..info("go1.26.8").len() - 1 {
            assert!(minor(&info("go1.26.8")[..cut]).is_none_or(|m| m == 17 || m == 26), "{cut}");
        }
    }

    #[test]
    fn an_unknown_version_is_left_alone() {
        assert!(Layout::of(16).is_none() && Layout::of(99).is_none() && Layout::of(26).is_some());
    }
}
