//! Errors of capture files, in words for users.

use crate::packet::KNOWN;

/// Reason for which a capture could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The operating system refused to read it.
    #[error("{file}: {source}")]
    Io {
        /// File.
        file: String,
        /// The error.
        source: std::io::Error,
    },
    /// It is no capture.
    #[error("{file}: not a capture file (pcap, pcapng, or one of these gzipped): {looks_like}{}", first_bytes(.first))]
    NotACapture {
        /// File.
        file: String,
        /// Its first bytes, at most 16.
        first: Vec<u8>,
        /// The kind of file that it seems to be.
        looks_like: &'static str,
    },
    /// A capture of packets with an unknown link type.
    #[error("{file}: link type {link} cannot be read; known are {KNOWN}")]
    LinkType {
        /// File.
        file: String,
        /// The number of the link type (`LINKTYPE_…`).
        link: u16,
    },
    /// A record contradicts the format, so that no later record can be found.
    #[error("{file}: damaged at byte {offset}: {what}; the {packets} packets before it were read")]
    Damaged {
        /// File.
        file: String,
        /// Offset of the record in the (uncompressed) file.
        offset: u64,
        /// The fault, in words.
        what: String,
        /// Packets read before.
        packets: u64,
    },
}

fn first_bytes(first: &[u8]) -> String {
    if first.is_empty() {
        return String::new();
    }
    let hex: Vec<String> = first.iter().map(|b| format!("{b:02x}")).collect();
    format!("; its first bytes are {}", hex.join(" "))
}

/// A guess at the kind of a file that is no capture, from its first bytes.
pub(crate) fn looks_like(first: &[u8]) -> &'static str {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"\x7fELF", "it looks like a program (ELF)"),
        (b"PK\x03\x04", "it looks like a zip archive"),
        (b"\x28\xb5\x2f\xfd", "it looks zstd-compressed; decompress it first"),
        (b"\xfd7zXZ", "it looks xz-compressed; decompress it first"),
        (b"BZh", "it looks bzip2-compressed; decompress it first"),
        (b"\x1f\x8b", "it looks gzipped, and what is inside is no capture either"),
        (b"snoop\0\0\0", "it looks like a Solaris snoop capture; convert it with editcap"),
        (b"GMBU", "it looks like a Microsoft Network Monitor capture; convert it with editcap"),
        (b"\x89PNG", "it looks like a PNG image"),
        (b"%PDF", "it looks like a PDF document"),
    ];
    if first.is_empty() {
        return "it is empty";
    }
    if let Some((_, what)) = KNOWN.iter().find(|(magic, _)| first.starts_with(magic)) {
        return what;
    }
    let text = first.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    match (text, first.first()) {
        (true, Some(b'{' | b'[')) => "it looks like JSON",
        (true, Some(b'<')) => "it looks like XML or HTML",
        (true, _) => "it looks like text",
        (false, _) if first.iter().all(|b| *b == 0) => "it is full of zeros",
        (false, _) => "it is of an unknown kind",
    }
}
