//! A request under way, and the bytes that are kept of it.

/// A request under way.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) id: u16,
    /// Offset of its first record.
    pub(super) start: u64,
    /// Parameters, then the CGI header of the output.
    pub(super) kept: Vec<u8>,
    pub(super) cut: bool,
    pub(super) asked: bool,
    pub(super) answered: bool,
    /// Offset of the first record of output.
    pub(super) output: Option<u64>,
    pub(super) stderr: bool,
}

/// Length of a CGI header with the empty line behind it.
pub(super) fn header_end(kept: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', kept).find_map(|at| {
        let behind = kept.get(at.saturating_add(1)..).unwrap_or_default();
        match behind {
            [b'\n', ..] => at.checked_add(2),
            [b'\r', b'\n', ..] => at.checked_add(3),
            _ => None,
        }
    })
}
