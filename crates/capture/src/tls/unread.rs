//! Files with TLS that cannot be probed. They are logged and counted, so that users know why they see ciphertext.
//!
//! | sign | meaning |
//! |---|---|
//! | functions that the file defines | a library whose functions wirespan does not know, or a Java machine, which compiles its code at run time |
//! | words in its constants | OpenSSL, BoringSSL or rustls in a program without symbols: their error messages still name their source files |

use crate::uprobe::elf::Image;
use memchr::memmem::Finder;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Kinds, by the names of their counters.
pub(crate) const KINDS: [&str; 7] = [
    "tls_unread_java",
    "tls_unread_nss",
    "tls_unread_wolfssl",
    "tls_unread_mbedtls",
    "tls_unread_s2n",
    "tls_unread_openssl",
    "tls_unread_rustls",
];
const OPENSSL: usize = 5;
const RUSTLS: usize = 6;

/// Functions that identify the first of [`KINDS`], in the same order.
const FUNCTIONS: [&str; OPENSSL] = ["JNI_CreateJavaVM", "SSL_ImportFD", "wolfSSL_read", "mbedtls_ssl_read", "s2n_recv"];

/// Words that identify the other kinds. They are written backwards, or this program would hold them, too.
const SDROW: [(usize, &[u8]); 2] = [(OPENSSL, b"c.bil_lss/lss"), (RUSTLS, b".0-sltsur/")];

/// Bytes that are searched at a time. The words are shorter than [`OVERLAP`].
const WINDOW: usize = 256 << 10;
const OVERLAP: usize = 32;
/// Most bytes of a file's constants that are searched.
const MAX_CONSTANTS: u64 = 256 << 20;

/// Index into [`KINDS`] of the TLS in a file of which nothing can be probed.
pub(crate) fn kind(image: &Image<'_>, path: &Path) -> Option<usize> {
    let defined = image.functions(&FUNCTIONS);
    let by_function = FUNCTIONS.iter().position(|f| defined.contains_key(f));
    by_function.or_else(|| by_word(path, image.file_range(".rodata")?))
}

fn by_word(path: &Path, (start, size): (u64, u64)) -> Option<usize> {
    let words = SDROW.map(|(kind, word)| (kind, word.iter().rev().copied().collect::<Vec<u8>>()));
    let finders = words.each_ref().map(|(kind, word)| (*kind, Finder::new(word)));
    let file = File::open(path).ok()?;
    let end = start.saturating_add(size.min(MAX_CONSTANTS));
    let (mut at, mut window) = (start, vec![0; WINDOW]);
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(WINDOW).min(WINDOW);
        let got = file.read_at(window.get_mut(..want)?, at).ok().filter(|n| *n > 0)?;
        let shown = window.get(..got)?;
        if let Some((kind, _)) = finders.iter().find(|(_, finder)| finder.find(shown).is_some()) {
            return Some(*kind);
        }
        if at + got as u64 >= end {
            return None;
        }
        at += got.saturating_sub(OVERLAP).max(1) as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn words_are_found_wherever_they_lie() {
        let name = std::env::temp_dir().join(format!("wirespan-unread-{}", std::process::id()));
        for (kind, word) in SDROW {
            let word: Vec<u8> = word.iter().rev().copied().collect();
            // Across the border of two windows, at the very end, and outside of what is asked about.
            for at in [0, WINDOW - 5, 2 * WINDOW - OVERLAP - 3, 3 * WINDOW - word.len()] {
                let mut bytes = vec![b'.'; 3 * WINDOW];
                bytes[at..at + word.len()].copy_from_slice(&word);
                File::create(&name).and_then(|mut f| f.write_all(&bytes)).expect("a file");
                assert_eq!(by_word(&name, (0, bytes.len() as u64)), Some(kind), "{at}");
                assert_eq!(by_word(&name, (at as u64 + 1, (bytes.len() - at - 1) as u64)), None, "{at}");
            }
        }
        let _ = std::fs::remove_file(&name);
    }

    #[test]
    fn this_program_holds_no_tls() {
        let exe = Path::new("/proc/self/exe");
        assert_eq!(crate::uprobe::elf::with(exe, |image| Some(kind(image, exe))), Some(None));
    }
}
