//! Headers of the binary protocol.

/// Length of a header.
pub(super) const HEADER: usize = 24;
/// Magic bytes.
pub(super) const REQUEST: u8 = 0x80;
pub(super) const RESPONSE: u8 = 0x81;
/// Largest body that is believed: values are limited to 1 GiB.
const MAX_BODY: u32 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) magic: u8,
    pub(super) opcode: u8,
    pub(super) key: u16,
    pub(super) extras: u8,
    /// Status of a response; virtual bucket of a request.
    pub(super) status: u16,
    pub(super) body: u32,
    pub(super) opaque: u32,
}

/// Name of an operation, and whether it is quiet: answered only if there is something to tell.
pub(super) fn operation(opcode: u8) -> Option<(&'static str, bool)> {
    Some(match opcode {
        0x00 => ("get", false),
        0x01 => ("set", false),
        0x02 => ("add", false),
        0x03 => ("replace", false),
        0x04 => ("delete", false),
        0x05 => ("increment", false),
        0x06 => ("decrement", false),
        0x07 => ("quit", false),
        0x08 => ("flush", false),
        0x09 => ("get", true),
        0x0a => ("noop", false),
        0x0b => ("version", false),
        0x0c => ("getk", false),
        0x0d => ("getk", true),
        0x0e => ("append", false),
        0x0f => ("prepend", false),
        0x10 => ("stat", false),
        0x11 => ("set", true),
        0x12 => ("add", true),
        0x13 => ("replace", true),
        0x14 => ("delete", true),
        0x15 => ("increment", true),
        0x16 => ("decrement", true),
        0x17 => ("quit", true),
        0x18 => ("flush", true),
        0x19 => ("append", true),
        0x1a => ("prepend", true),
        0x1b => ("verbosity", false),
        0x1c => ("touch", false),
        0x1d => ("gat", false),
        0x1e => ("gat", true),
        0x20 => ("sasl_list_mechs", false),
        0x21 => ("sasl_auth", false),
        0x22 => ("sasl_step", false),
        0x23 => ("gatk", false),
        0x24 => ("gatk", true),
        _ => return None,
    })
}

/// Reads a header; none if it cannot be one.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let [magic, opcode, k0, k1, extras, data_type, s0, s1, b0, b1, b2, b3, o0, o1, o2, o3, ..] = *bytes else {
        return None;
    };
    let header = Header {
        magic,
        opcode,
        key: u16::from_be_bytes([k0, k1]),
        extras,
        status: u16::from_be_bytes([s0, s1]),
        body: u32::from_be_bytes([b0, b1, b2, b3]),
        opaque: u32::from_be_bytes([o0, o1, o2, o3]),
    };
    let inside = u32::from(header.key).saturating_add(u32::from(extras)) <= header.body;
    let sane = matches!(magic, REQUEST | RESPONSE) && data_type == 0 && header.body <= MAX_BODY && header.key <= 250;
    (sane && inside && bytes.len() >= HEADER && operation(opcode).is_some()).then_some(header)
}

/// Whether a request names a key: that of statistics and of authentication is something else.
pub(super) fn has_key(h: &Header) -> bool {
    h.key > 0 && !matches!(h.opcode, 0x10 | 0x20..=0x22)
}

/// Whether lengths are those that the operation has.
pub(super) fn is_exact(h: &Header) -> bool {
    let fixed = u32::from(h.key).saturating_add(u32::from(h.extras));
    if h.magic == RESPONSE {
        return status(h.status).is_some() && matches!(h.extras, 0 | 4);
    }
    let value = h.body > fixed;
    h.status == 0
        && match h.opcode {
            0x00 | 0x04 | 0x09 | 0x0c | 0x0d | 0x14 => h.extras == 0 && h.key > 0 && !value,
            0x01..=0x03 | 0x11..=0x13 => h.extras == 8 && h.key > 0,
            0x05 | 0x06 | 0x15 | 0x16 => h.extras == 20 && h.key > 0 && !value,
            0x07 | 0x0a | 0x0b | 0x17 | 0x20 => h.body == 0,
            0x08 | 0x18 => matches!(h.extras, 0 | 4) && h.key == 0 && !value,
            0x0e | 0x0f | 0x19 | 0x1a => h.extras == 0 && h.key > 0,
            0x10 => h.extras == 0 && !value,
            0x1b => h.extras == 4 && h.key == 0,
            0x1c..=0x1e | 0x23 | 0x24 => h.extras == 4 && h.key > 0 && !value,
            0x21 | 0x22 => h.extras == 0 && h.key > 0,
            _ => false,
        }
}

/// Name of a status, and the end at fault: none (0), the client (1), the server (2).
pub(super) fn status(status: u16) -> Option<(&'static str, u8)> {
    Some(match status {
        0x00 => ("SUCCESS", 0),
        0x01 => ("KEY_ENOENT", 0),
        0x02 => ("KEY_EEXISTS", 0),
        0x03 => ("E2BIG", 1),
        0x04 => ("EINVAL", 1),
        0x05 => ("NOT_STORED", 0),
        0x06 => ("DELTA_BADVAL", 1),
        0x07 => ("NOT_MY_VBUCKET", 1),
        0x08 => ("NO_BUCKET", 1),
        0x20 => ("AUTH_ERROR", 1),
        0x21 => ("AUTH_CONTINUE", 0),
        0x22 => ("ERANGE", 1),
        0x23 => ("ROLLBACK", 1),
        0x24 => ("EACCESS", 1),
        0x80 => ("NOT_INITIALIZED", 2),
        0x81 => ("UNKNOWN_COMMAND", 1),
        0x82 => ("ENOMEM", 2),
        0x83 => ("NOT_SUPPORTED", 1),
        0x84 => ("EINTERNAL", 2),
        0x85 => ("EBUSY", 2),
        0x86 => ("ETMPFAIL", 2),
        _ => return None,
    })
}
