//! Capture files → frames. The first four bytes tell the format, after decompression if they are gzip's.

mod classic;
mod ng;

use crate::error::{looks_like, PcapError};
use crate::packet::Link;
use crate::stats::Stats;
use flate2::read::MultiGzDecoder;
use std::io::{BufReader, Read};

/// Largest credible record, bytes: more than any interface's MTU with offloading, and small enough to allocate.
const MAX_RECORD: u32 = 1 << 20;

/// One captured frame.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// When it was captured, Unix ns.
    pub(crate) time_ns: u64,
    /// Link layer with which the frame begins.
    pub(crate) link: Link,
    /// Length on the wire, bytes. It exceeds that of `data` if the snapshot length cut the frame.
    pub(crate) wire_len: usize,
    /// Captured bytes.
    pub(crate) data: Vec<u8>,
}

/// An open capture.
pub(crate) struct Source<'a> {
    input: Input<'a>,
    format: Format,
}

enum Format {
    Classic(classic::Classic),
    Ng(ng::Ng),
}

impl<'a> Source<'a> {
    pub(crate) fn open(name: &str, raw: impl Read + 'a) -> Result<Self, PcapError> {
        let mut input = Input {
            name: name.to_string(),
            inner: Box::new(BufReader::with_capacity(1 << 16, raw)),
            offset: 0,
            packets: 0,
        };
        let mut first = input.first_bytes()?;
        if first.starts_with(&[0x1f, 0x8b]) {
            let packed = std::io::Cursor::new(first.clone()).chain(input.inner);
            input.inner = Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(packed)));
            // Broken gzip data is no capture. The file's own first bytes tell more than a decoder's error.
            if let Ok(inside) = input.first_bytes() {
                first = if inside.is_empty() { first } else { inside };
            }
        }
        let magic: [u8; 4] = first.get(..4).and_then(|b| b.try_into().ok()).unwrap_or_default();
        let not_a_capture =
            PcapError::NotACapture { file: name.to_string(), looks_like: looks_like(&first), first: first.clone() };
        let rest = std::mem::replace(&mut input.inner, Box::new(std::io::empty()));
        input.inner = Box::new(std::io::Cursor::new(first).chain(rest));
        let format = if magic == ng::SECTION_HEADER {
            Format::Ng(ng::Ng::default())
        } else if let Some(classic) = classic::Classic::open(magic, &mut input)? {
            Format::Classic(classic)
        } else {
            return Err(not_a_capture);
        };
        Ok(Source { input, format })
    }

    /// Reads the next frame; false at the end. A file that is cut in the middle of a record ends there, and is counted.
    pub(crate) fn next(&mut self, frame: &mut Frame, stats: &mut Stats) -> Result<bool, PcapError> {
        let more = match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.input, frame, stats),
            Format::Ng(ng) => ng.next(&mut self.input, frame, stats),
        }?;
        self.input.packets += u64::from(more);
        Ok(more)
    }
}

/// Bytes of the (uncompressed) file, with their position for errors.
struct Input<'a> {
    name: String,
    inner: Box<dyn Read + 'a>,
    offset: u64,
    packets: u64,
}

/// Part of a record that could be read.
#[derive(PartialEq, Eq)]
enum Got {
    All,
    /// Nothing: the file ended between two records.
    Nothing,
    /// A part: the file ends inside the record.
    Part,
}

impl Input<'_> {
    fn first_bytes(&mut self) -> Result<Vec<u8>, PcapError> {
        let mut first = Vec::new();
        let name = &self.name;
        (&mut self.inner)
            .take(16)
            .read_to_end(&mut first)
            .map_err(|source| PcapError::Io { file: name.clone(), source })?;
        Ok(first)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<Got, PcapError> {
        let mut have = 0;
        while let Some(room) = buffer.get_mut(have..).filter(|r| !r.is_empty()) {
            match self.inner.read(room) {
                Ok(0) if have == 0 => return Ok(Got::Nothing),
                Ok(0) => return Ok(Got::Part),
                Ok(n) => {
                    have += n;
                    self.offset += n as u64;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                // A gzip stream that ends early comes from a file that was cut.
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(Got::Part),
                Err(source) => return Err(PcapError::Io { file: self.name.clone(), source }),
            }
        }
        Ok(Got::All)
    }

    /// Fills a vector with exactly `len` bytes.
    fn fill_vec(&mut self, buffer: &mut Vec<u8>, len: usize) -> Result<Got, PcapError> {
        buffer.clear();
        buffer.resize(len, 0);
        self.fill(buffer)
    }

    fn damaged(&self, back: u64, what: impl Into<String>) -> PcapError {
        PcapError::Damaged {
            file: self.name.clone(),
            offset: self.offset.saturating_sub(back),
            what: what.into(),
            packets: self.packets,
        }
    }

    fn link(&self, number: u16) -> Result<Link, PcapError> {
        Link::from_number(number).ok_or(PcapError::LinkType { file: self.name.clone(), link: number })
    }
}

/// Integers of a file, in the byte order of its writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let b: [u8; 2] = bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).unwrap_or_default();
        if self == Order::Big {
            u16::from_be_bytes(b)
        } else {
            u16::from_le_bytes(b)
        }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let b: [u8; 4] = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or_default();
        if self == Order::Big {
            u32::from_be_bytes(b)
        } else {
            u32::from_le_bytes(b)
        }
    }
}
