//! Lengths of the tokens of SQL.

pub(super) fn bare_len(text: &str) -> usize {
    text.trim_end_matches(' ').len()
}

pub(super) fn is_name_end(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '"' | '`' | ']' | '$')
}

pub(super) fn byte_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// The byte there, or 0.
pub(super) fn byte(bytes: &[u8], at: usize) -> u8 {
    byte_at(bytes, at).unwrap_or(0)
}

/// How many bytes from `at` on are of a class.
pub(super) fn while_in(bytes: &[u8], at: usize, class: impl Fn(u8) -> bool) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|b| class(**b)).count()
}

/// Length of a UUID without quotes (Cassandra writes them so), also of one that was cut off behind its first group.
pub(super) fn uuid(rest: &[u8]) -> Option<usize> {
    const LEN: usize = 36;
    let shown = rest.get(..LEN).unwrap_or(rest);
    let fits = shown.iter().enumerate().all(|(i, b)| match i {
        8 | 13 | 18 | 23 => *b == b'-',
        _ => b.is_ascii_hexdigit(),
    });
    (fits && shown.len() > 8).then_some(shown.len())
}

/// Length of a comment to the end of its line.
pub(super) fn line(rest: &[u8]) -> usize {
    memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())
}

/// Length of a comment in slashes and stars.
pub(super) fn comment(rest: &[u8], nested: bool) -> usize {
    let (mut depth, mut at) = (0u32, 0usize);
    while at < rest.len() {
        match (byte(rest, at), byte(rest, at.saturating_add(1))) {
            (b'/', b'*') if nested || depth == 0 => {
                depth = depth.saturating_add(1);
                at = at.saturating_add(2);
            }
            (b'*', b'/') => {
                depth = depth.saturating_sub(1);
                at = at.saturating_add(2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at = at.saturating_add(1),
        }
    }
    rest.len()
}
