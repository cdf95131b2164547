//! The definition of a protocol, as a user writes it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A protocol. The words of this file are those of `docs/protocols/custom.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// Name: lower-case letters, digits, `_` and `-`.
    pub name: String,
    /// `tcp` (default), `udp` or `both`.
    pub transport: String,
    /// Ports of servers; if given, only connections to these are asked.
    pub ports: Vec<u16>,
    /// Bytes that each frame begins with, or has at a place; all must be there.
    pub magic: Vec<Magic>,
    /// Bytes of every call that the kernel should copy; 0 leaves it to `capture.payload_bytes`.
    pub need_bytes: u32,
    /// Where frames end.
    pub frame: Framing,
    /// What tells a request from a response; without it the end that connected asks.
    pub kind: Option<KindBy>,
    /// What pairs a response with its request; without it they pair in order.
    pub id: Option<Source>,
    /// The operation.
    pub operation: Option<Source>,
    /// The target of the message.
    pub target: Option<Source>,
    /// Status of a response.
    pub status: Option<StatusBy>,
    /// Further attributes of the span.
    pub attribute: Vec<Attribute>,
}

/// Bytes at a place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Magic {
    /// Place in the frame.
    pub offset: u32,
    /// The bytes in hexadecimal: `ca fe 01`.
    pub hex: String,
    /// The bytes as text, instead.
    pub text: String,
}

/// Where frames end: a length or a delimiter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Framing {
    /// Place of the length.
    pub length_offset: u32,
    /// Bytes of the length: 1, 2, 3, 4 or 8; 0 means that frames have no length.
    pub length_size: u8,
    /// Order of its bytes.
    pub endian: Endian,
    /// What to add to the length to get that of the whole frame: the bytes of the header, if it does not count them.
    pub adjust: i64,
    /// Bytes that end a frame, instead of a length; `\r\n` and `\0` as in any TOML string.
    pub delimiter: String,
    /// Longest frame that is believed, bytes; 0 is 16 MiB.
    pub max_bytes: u64,
}

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endian {
    /// Highest first, as networks do.
    #[default]
    Big,
    /// Lowest first.
    Little,
}

/// How a field is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A number of `size` bytes at `offset`.
    #[default]
    Number,
    /// Text of `size` bytes at `offset`, to its first zero or space.
    Text,
    /// Text at `offset` behind its own length of `size` bytes.
    Prefixed,
    /// The word number `word` of the frame, words being separated by spaces or tabs.
    Word,
}

/// A field of a frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// How it is written.
    pub form: Form,
    /// Its place in the frame.
    pub offset: u32,
    /// Its size, or that of its length.
    pub size: u8,
    /// Order of the bytes of a number.
    pub endian: Endian,
    /// Bits of the number that count; 0 is all.
    pub mask: u64,
    /// Which word, from 0.
    pub word: u8,
    /// Names of values; a value without a name is shown as it is.
    pub names: BTreeMap<String, String>,
}

/// What tells a request from a response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KindBy {
    /// The field.
    pub field: Source,
    /// Its values in requests.
    pub request: Vec<String>,
    /// Its values in responses.
    pub response: Vec<String>,
    /// Its values in messages that nothing answers.
    pub one_way: Vec<String>,
}

/// Status of a response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusBy {
    /// The field.
    pub field: Source,
    /// Its values that mean success; all others are failures.
    pub ok: Vec<String>,
    /// Those failures that are the client's fault; all others are the server's.
    pub client_error: Vec<String>,
}

/// An attribute of the span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attribute {
    /// Its key.
    pub key: String,
    /// The field with its value.
    pub field: Source,
}

impl Definition {
    /// A definition that has every key once: a list of the existing keys.
    pub fn full() -> Definition {
        let source = || Source { names: BTreeMap::from([("0".to_owned(), "zero".to_owned())]), ..Source::default() };
        Definition {
            magic: vec![Magic::default()],
            kind: Some(KindBy { field: source(), ..KindBy::default() }),
            id: Some(source()),
            operation: Some(source()),
            target: Some(source()),
            status: Some(StatusBy { field: source(), ..StatusBy::default() }),
            attribute: vec![Attribute { field: source(), ..Attribute::default() }],
            ..Definition::default()
        }
    }
}
