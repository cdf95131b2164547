//! Bytes from the wire → text that is safe to show, and numbers that cannot overflow.

use std::borrow::Cow;

/// Text of at most `max` bytes. Borrowed when it is clean UTF-8; otherwise control characters become spaces and invalid
/// UTF-8 becomes U+FFFD.
pub(crate) fn clean(bytes: &[u8], max: usize) -> Cow<'_, str> {
    let cut = bytes.get(..max).unwrap_or(bytes);
    let whole = match std::str::from_utf8(cut) {
        Ok(s) => Some(s),
        // A character that the limit cut in two is dropped.
        Err(e) if e.error_len().is_none() && cut.len() < bytes.len() => {
            cut.get(..e.valid_up_to()).and_then(|c| std::str::from_utf8(c).ok())
        }
        Err(_) => None,
    };
    match whole {
        Some(s) if !has_control(cut) => Cow::Borrowed(s),
        _ => Cow::Owned(
            String::from_utf8_lossy(cut)
                .chars()
                .map(|c| if c.is_ascii_control() { ' ' } else { c })
                .collect::<String>(),
        ),
    }
}

/// Whether there are ASCII control characters. Looks at every byte, which the compiler does many at a time.
pub(crate) fn has_control(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, b| found | b.is_ascii_control())
}

/// Visible ASCII of at most `max` bytes, or nothing: for identifiers.
pub(crate) fn visible(bytes: &[u8], max: usize) -> Option<&str> {
    let ok = !bytes.is_empty() && bytes.len() <= max && bytes.iter().all(u8::is_ascii_graphic);
    ok.then(|| std::str::from_utf8(bytes).ok()).flatten()
}

/// A decimal number: digits only, at least one, no overflow.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |n, b| {
        let digit = b.checked_sub(b'0').filter(|d| *d < 10)?;
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Length as `u64`.
pub(crate) fn len64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// `n` as a length in memory, at most `max`.
pub(crate) fn at_most(n: u64, max: usize) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX).min(max)
}

/// An error text without the values that servers write into it. Texts in quotation marks or brackets, numbers, and
/// words with an `@` become `?`. An unclosed quotation or bracket hides the rest.
pub(crate) fn hide_values(text: Cow<'_, str>) -> Cow<'_, str> {
    const RISKY: [char; 8] = ['\'', '"', '`', '{', '[', '(', '<', '@'];
    if !text.contains(RISKY) && !text.bytes().any(|b| b.is_ascii_digit()) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut closing: Option<(char, char, u32)> = None;
    // Start of the word in `out`, and whether it is to be hidden.
    let (mut word, mut hide) = (0, false);
    for c in text.chars() {
        if let Some((open, close, depth)) = closing {
            // Of equal marks the second closes; brackets nest.
            let depth = match c {
                c if c == close => depth.saturating_sub(1),
                c if c == open => depth.saturating_add(1),
                _ => depth,
            };
            closing = (depth > 0).then_some((open, close, depth));
            if depth == 0 {
                out.push(c);
                (word, hide) = (out.len(), false);
            }
            continue;
        }
        let bracket = match c {
            '\'' | '"' | '`' => Some(c),
            '{' => Some('}'),
            '[' => Some(']'),
            '(' => Some(')'),
            '<' => Some('>'),
            _ => None,
        };
        if bracket.is_some() || c.is_whitespace() || matches!(c, ':' | ',' | ';') {
            if hide {
                out.truncate(word);
                out.push('?');
            }
            out.push(c);
            if let Some(close) = bracket {
                out.push('?');
                closing = Some((c, close, 1));
            }
            (word, hide) = (out.len(), false);
            continue;
        }
        hide |= c == '@' || c.is_ascii_digit();
        out.push(c);
    }
    if hide {
        out.truncate(word);
        out.push('?');
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_error_texts_are_hidden() {
        let hidden = |text: &str| hide_values(Cow::Borrowed(text)).into_owned();
        assert_eq!(hidden("nothing to hide"), "nothing to hide");
        assert_eq!(hidden("dup key: { a: {b: 1} } in shop.cart"), "dup key: {?} in shop.cart");
        assert_eq!(hidden("user 'bob' at bob@x.org, port 25, E11000: x"), "user '?' at ?, port ?, ?: x");
        assert_eq!(hidden("it's open"), "it'?");
        assert_eq!(hidden("<a@b> (1) [2] \"3\" x4"), "<?> (?) [?] \"?\" ?");
    }
}
