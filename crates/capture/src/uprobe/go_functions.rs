//! Finds Go functions by name in the table `.gopclntab`. The Go runtime needs that table for its stack traces, so a
//! stripped binary has it, too.
//!
//! The forms of the table since Go 1.16 are read (`src/debug/gosym`, `src/runtime/symtab.go`). Since Go 1.26 the table
//! does not contain the start of the code. The start is then the symbol `runtime.text` or, in a stripped binary, the
//! start of `.text`. The latter is wrong if C code was linked in front, so the caller accepts a function only if it
//! begins as a Go function does.

use super::elf::{Image, Place};

const GO_1_16: u32 = 0xffff_fffa;
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;

/// Reads integers of a table, in the byte order of the machine.
#[derive(Clone, Copy)]
struct Table<'a>(&'a [u8]);

impl<'a> Table<'a> {
    fn u32(self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?).into())
    }

    fn u64(self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }

    /// A name, with what follows its end (a zero).
    fn name(self, at: u64) -> Option<&'a [u8]> {
        self.0.get(usize::try_from(at).ok()?..)
    }
}

/// The table with its parts.
struct Functions<'a> {
    table: Table<'a>,
    count: u64,
    text: u64,
    names: u64,
    functions: u64,
    /// Whether entries are offsets from `text` (since Go 1.18), not addresses.
    relative: bool,
}

impl<'a> Functions<'a> {
    fn read(bytes: &'a [u8], text: u64) -> Option<Self> {
        let table = Table(bytes);
        let magic = u32::try_from(table.u32(0)?).ok()?;
        if bytes.get(7) != Some(&8) {
            return None; // pointers of another size
        }
        let relative = match magic {
            GO_1_16 => false,
            GO_1_18 | GO_1_20 => true,
            _ => return None,
        };
        let word = |n: u64| table.u64(8 + n * 8);
        let shift = u64::from(relative); // the word that tells the start of the code
        let start = if relative { word(2)? } else { 0 };
        Some(Functions {
            table,
            count: word(0)?.min(bytes.len() as u64 / 8),
            text: if start == 0 { text } else { start },
            names: word(2 + shift)?,
            functions: word(6 + shift)?,
            relative,
        })
    }

    /// Entry and end of the function of this index, and its name with what follows the name's end.
    fn get(&self, i: u64) -> Option<(u64, u64, &'a [u8])> {
        let (entry, next, data) = if self.relative {
            let at = self.functions + i * 8;
            (self.text + self.table.u32(at)?, self.text + self.table.u32(at + 8)?, self.table.u32(at + 4)?)
        } else {
            let at = self.functions + i * 16;
            (self.table.u64(at)?, self.table.u64(at + 16)?, self.table.u64(at + 8)?)
        };
        // The function's record begins with its entry, of the same width as here, and the offset of its name.
        let name = self.functions + data + if self.relative { 4 } else { 8 };
        Some((entry, next, self.table.name(self.names + self.table.u32(name)?)?))
    }
}

/// Whether a name that ends with a zero is this one.
fn is_name(name: &[u8], wanted: &str) -> bool {
    name.starts_with(wanted.as_bytes()) && name.get(wanted.len()) == Some(&0)
}

/// The wanted functions that a Go program holds.
pub(crate) fn functions(image: &Image<'_>, wanted: &[&'static str]) -> Vec<(&'static str, Place)> {
    let found = [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|name| image.section(name));
    let Some((_, bytes)) = found else { return Vec::new() };
    let text = image.functions(&["runtime.text"]).get("runtime.text").map(|p| p.address);
    let text = text.or_else(|| image.section(".text").map(|s| s.0)).unwrap_or(0);
    let Some(functions) = Functions::read(bytes, text) else { return Vec::new() };
    (0..functions.count)
        .filter_map(|i| functions.get(i))
        .filter_map(|(entry, end, name)| {
            let wanted = wanted.iter().find(|w| is_name(name, w))?;
            Some((*wanted, Place { address: entry, size: end.checked_sub(entry)? }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two functions, `a` and `crypto/tls.(*Conn).Read`.
    fn table(magic: u32, start: Option<u64>) -> Vec<u8> {
        let relative = magic != GO_1_16;
        let header = if relative { 72u64 } else { 64 };
        let names: &[u8] = b"a\0crypto/tls.(*Conn).Read\0";
        let functions = header + 32;
        let mut t = magic.to_le_bytes().to_vec();
        t.extend([0, 0, 1, 8]);
        let mut words = vec![2, 1];
        words.extend(start);
        words.extend([header, 0, 0, 0, functions]);
        t.extend(words.iter().flat_map(|w: &u64| w.to_le_bytes()));
        assert_eq!(t.len() as u64, header);
        t.extend(names);
        t.resize(functions as usize, 0);
        let base = if relative { 0 } else { 0x1000 };
        let width = if relative { 4 } else { 8 };
        let records = (2 * 2 + 1) * width;
        let mut int = |n: u64| t.extend(&n.to_le_bytes()[..width as usize]);
        for n in [base + 0x20, records, base + 0x60, records + width + 4, base + 0x90] {
            int(n);
        }
        for (entry, name) in [(0x20u64, 0u32), (0x60, 2)] {
            t.extend(&(base + entry).to_le_bytes()[..width as usize]);
            t.extend(name.to_le_bytes());
        }
        t
    }

    #[test]
    fn every_form_of_the_table_is_read() {
        for (magic, start) in [(GO_1_16, None), (GO_1_18, Some(0x1000)), (GO_1_20, Some(0))] {
            let bytes = table(magic, start);
            let functions = Functions::read(&bytes, 0x1000).expect("a table");
            let (entry, end, name) = functions.get(1).expect("two functions");
            assert_eq!((entry, end), (0x1060, 0x1090), "{magic:x}");
            assert!(is_name(name, "crypto/tls.(*Conn).Read") && !is_name(name, "crypto/tls.(*Conn).Rea"));
        }
    }

    #[test]
    fn a_broken_table_gives_nothing() {
        let bytes = table(GO_1_20, Some(0));
        for cut in 0..bytes.len() {
            let Some(functions) = Functions::read(&bytes[..cut], 0) else { continue };
            for i in 0..functions.count {
                let _ = functions.get(i);
            }
        }
        assert!(Functions::read(&[0xff; 100], 0).is_none());
    }
}
