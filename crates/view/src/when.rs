//! Times and durations in the notation that people use.

use std::time::{SystemTime, UNIX_EPOCH};

const SECOND: u64 = 1_000_000_000;

/// Units of a duration. If one spelling begins with another, the longer one comes first.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
    ("d", 86_400e9),
];

/// Now, Unix ns.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Reads `10ms`, `1.5s`, `2m30s`; returns ns. The error names the accepted form.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let hint = || format!("`{text}` is not a duration; write a number with a unit: 250us, 10ms, 1.5s, 2m");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(hint());
    }
    let mut total = 0.0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(hint)?;
        let number: f64 = rest[..digits].parse().map_err(|_| hint())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == &rest[..end]).ok_or_else(hint)?;
        total += number * scale;
        rest = &rest[end..];
    }
    // Float to integer casts saturate; 2^53 ns are 104 days, beyond which the last digits do not matter.
    Ok(total.round() as u64)
}

/// Reads a point in time: Unix ns, RFC 3339, `now`, or a duration before now (`-15m`). Returns Unix ns.
pub fn parse_time(text: &str, now_ns: u64) -> Result<u64, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now_ns);
    }
    if let Some(ago) = text.strip_prefix("now-").or_else(|| text.strip_prefix('-')) {
        return Ok(now_ns.saturating_sub(parse_duration(ago)?));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| format!("`{text}` is beyond the range of Unix nanoseconds"));
    }
    parse_rfc3339(text).ok_or_else(|| {
        format!("`{text}` is not a time; write Unix nanoseconds, RFC 3339 (2026-01-31T12:00:00Z), or -15m")
    })
}

fn parse_rfc3339(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let part = text.get(range)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let sep = |at: usize, allowed: &[u8]| text.as_bytes().get(at).is_some_and(|b| allowed.contains(b));
    if !(sep(4, b"-") && sep(7, b"-") && sep(10, b"Tt ") && sep(13, b":") && sep(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let month_days = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=month_days).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut fraction = 0u64;
    if let Some(after) = rest.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        for i in 0..9 {
            fraction = fraction * 10 + after.as_bytes()[..digits].get(i).map_or(0, |b| u64::from(b - b'0'));
        }
        rest = &after[digits..];
    }
    let offset = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let at = text.len() - rest.len();
            if rest.len() != 6 || !sep(at + 3, b":") {
                return None;
            }
            sign * (number(at + 1..at + 3)? * 3600 + number(at + 4..at + 6)? * 60)
        }
    };
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    u64::try_from(seconds).ok()?.checked_mul(SECOND)?.checked_add(fraction)
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar; years begin in March, so that leap days come
/// last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let shifted = (month + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("7ns", 7),
            ("2m30s", 150 * SECOND),
            ("1h", 3600 * SECOND),
            ("1d", 86_400 * SECOND),
        ] {
            assert_eq!(parse_duration(text).unwrap(), ns, "{text}");
        }
        for bad in ["", "10", "ms", "10 parsecs", "1.2.3s", "-5s", "10msx"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times() {
        let now = 1_800_000_000 * SECOND;
        for (text, ns) in [
            ("now", now),
            ("-15m", now - 900 * SECOND),
            ("now-1s", now - SECOND),
            ("1700000000000000001", 1_700_000_000_000_000_001),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:34:56Z", 951_827_696 * SECOND),
            ("2026-11-21T21:48:02.5Z", 1_795_297_682_500_000_000),
            ("2026-11-21T23:48:02.500000001+02:00", 1_795_297_682_500_000_001),
        ] {
            assert_eq!(parse_time(text, now).unwrap(), ns, "{text}");
        }
        for bad in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-01-01T00:00:00",
            "-15",
            "99999999999999999999",
        ] {
            assert!(parse_time(bad, now).is_err(), "{bad}");
        }
    }
}
