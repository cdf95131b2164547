//! Frame headers (RFC 9113, section 4.1), and how much of a header is a coincidence.

/// Bytes of a frame header.
pub(super) const HEADER: usize = 9;
/// Longest frame that both ends accept unless they agreed otherwise (RFC 9113, 6.5.2).
const USUAL_FRAME: u32 = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags; `ACK` of SETTINGS and PING is the same bit as `END_STREAM`.
pub(super) const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) len: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Frame {
    /// Reads a header; the reserved bit is passed over, as receivers do.
    pub(super) fn read(bytes: &[u8]) -> Option<Frame> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<HEADER>()?;
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        Some(Frame { len: u32::from_be_bytes([0, a, b, c]), kind, flags, stream })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether a peer would take it: the rules of section 6 on lengths and streams. Unknown types are extensions.
    pub(super) fn is_valid(self) -> bool {
        let (on_stream, on_connection) = (self.stream != 0, self.stream == 0);
        match self.kind {
            DATA | CONTINUATION => on_stream,
            HEADERS => on_stream && self.len > 0,
            PRIORITY => on_stream && self.len == 5,
            RST_STREAM => on_stream && self.len == 4,
            SETTINGS => on_connection && self.len.is_multiple_of(6) && (!self.has(ACK) || self.len == 0),
            PUSH_PROMISE => on_stream && self.len >= 4,
            PING => on_connection && self.len == 8,
            GOAWAY => on_connection && self.len >= 8,
            WINDOW_UPDATE => self.len == 4,
            _ => true,
        }
    }

    /// Whether it is also one that is really sent: known type, no undefined flag, usual length. For guesses.
    pub(super) fn is_usual(self) -> bool {
        let flags = match self.kind {
            DATA => END_STREAM | PADDED,
            HEADERS => END_STREAM | END_HEADERS | PADDED | WITH_PRIORITY,
            PUSH_PROMISE => END_HEADERS | PADDED,
            CONTINUATION => END_HEADERS,
            SETTINGS | PING => ACK,
            PRIORITY | RST_STREAM | GOAWAY | WINDOW_UPDATE => 0,
            _ => return false,
        };
        self.is_valid() && self.flags & !flags == 0 && self.len <= USUAL_FRAME && self.shape_ok()
    }

    /// Bounds of payloads that hardly ever are large.
    fn shape_ok(self) -> bool {
        match self.kind {
            SETTINGS => self.len <= 120,
            GOAWAY => self.len <= 1024,
            // A stream begins at the client's end with an odd number; CONTINUATION and the others refer to one.
            PUSH_PROMISE => self.stream % 2 == 1,
            _ => true,
        }
    }
}

/// The header block in the payload of a HEADERS or PUSH_PROMISE frame, without padding, priority and promised stream;
/// and the number of the promised stream. `None` if the payload contradicts itself. `whole` says that `payload` is not
/// cut.
pub(super) fn block(frame: Frame, payload: &[u8], whole: bool) -> Option<(&[u8], u32)> {
    let mut rest = payload;
    let mut left = usize::try_from(frame.len).ok()?;
    if frame.has(PADDED) && frame.kind != CONTINUATION {
        let (pad, behind) = rest.split_first()?;
        rest = behind;
        left = left.checked_sub(1)?.checked_sub(usize::from(*pad))?;
    }
    if frame.kind == HEADERS && frame.has(WITH_PRIORITY) {
        rest = rest.get(5..)?;
        left = left.checked_sub(5)?;
    }
    let mut promised = 0;
    if frame.kind == PUSH_PROMISE {
        promised = u32::from_be_bytes(*rest.first_chunk()?) & 0x7fff_ffff;
        rest = rest.get(4..)?;
        left = left.checked_sub(4)?;
    }
    match rest.get(..left) {
        Some(block) => Some((block, promised)),
        None => (!whole).then_some((rest, promised)),
    }
}

/// Name of an error code (RFC 9113, section 7).
pub(super) fn error_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    usize::try_from(code).ok().and_then(|code| NAMES.get(code)).copied().unwrap_or("UNKNOWN")
}
