//! Domain names (RFC 1035, 3.1 and 4.1.4).

/// Longest name, bytes on the wire.
pub const MAX_NAME: usize = 255;
/// Most pointers that are followed in one name.
const MAX_POINTERS: usize = 32;

/// Why a name cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It goes on behind the bytes.
    More,
    /// It breaks the format.
    Bad,
}

/// Appends the name at `at` to `text` (lower case, `.` for the root) and returns the position behind it.
///
/// Pointers have to point before the name or pointer that they stand in, so that no loop is possible.
///
/// # Errors
/// The name is cut or breaks the format; `text` may hold the beginning.
pub fn read(message: &[u8], at: usize, text: &mut String) -> Result<usize, BadName> {
    walk(message, at, |label| push_label(label, text)).inspect(|_| {
        if text.is_empty() {
            text.push('.');
        }
    })
}

/// Position behind the name at `at`, without reading it: a pointer ends it.
///
/// # Errors
/// The name is cut or breaks the format.
pub fn skip(message: &[u8], mut at: usize) -> Result<usize, BadName> {
    for _ in 0..=MAX_NAME {
        let len = *message.get(at).ok_or(BadName::More)?;
        let step: usize = match len {
            0 => 1,
            1..=63 => usize::from(len).saturating_add(1),
            0xc0.. => 2,
            _ => return Err(BadName::Bad),
        };
        at = at.saturating_add(step);
        if len == 0 || len >= 0xc0 {
            return if at <= message.len() { Ok(at) } else { Err(BadName::More) };
        }
    }
    Err(BadName::Bad)
}

fn walk(message: &[u8], at: usize, mut label: impl FnMut(&[u8])) -> Result<usize, BadName> {
    let mut pos = at;
    let mut behind = None;
    // Everything from here on was read already or lies ahead: pointers must stay before it.
    let mut floor = at;
    let (mut pointers, mut total) = (0usize, 0usize);
    loop {
        let len = *message.get(pos).ok_or(BadName::More)?;
        let next = pos.saturating_add(1);
        match len {
            0 => return Ok(behind.unwrap_or(next)),
            1..=63 => {
                let end = next.saturating_add(usize::from(len));
                label(message.get(next..end).ok_or(BadName::More)?);
                total = total.saturating_add(usize::from(len)).saturating_add(1);
                pos = end;
            }
            0xc0.. => {
                let low = *message.get(next).ok_or(BadName::More)?;
                let target = usize::from(u16::from_be_bytes([len & 0x3f, low]));
                behind = behind.or(Some(next.saturating_add(1)));
                pointers = pointers.saturating_add(1);
                if target >= floor {
                    return Err(BadName::Bad);
                }
                (pos, floor) = (target, target);
            }
            _ => return Err(BadName::Bad),
        }
        if pointers > MAX_POINTERS || total > MAX_NAME {
            return Err(BadName::Bad);
        }
    }
}

fn push_label(label: &[u8], text: &mut String) {
    if !text.is_empty() {
        text.push('.');
    }
    for b in label {
        if b.is_ascii_graphic() && !matches!(b, b'.' | b'\\') {
            text.push(char::from(b.to_ascii_lowercase()));
        } else {
            // RFC 1035, 5.1.
            text.push('\\');
            for (unit, digits) in [(100u8, 10u8), (10, 10), (1, 10)] {
                let digit = b.checked_div(unit).and_then(|d| d.checked_rem(digits)).unwrap_or(0);
                text.push(char::from(b'0'.saturating_add(digit)));
            }
        }
    }
}
