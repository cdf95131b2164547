//! The header of a command, in either form, and its kept fields.

use super::json::{Json, Stop, Value};
use std::borrow::Cow;

/// Longest frame that is believed, bytes (the default limit of brokers is 16 MiB).
const MAX_FRAME: u64 = 1 << 28;
/// Bytes before the header: the length, and the length of the header with its form in the top byte.
pub(super) const BEFORE: usize = 8;
/// Most fields of a header that are read.
const MAX_FIELDS: usize = 256;
/// Newest language code (`LanguageCode`).
const MAX_LANGUAGE: u8 = 16;

/// Which form the header has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Binary,
}

/// The lengths at the start of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// The frame on the wire, its length field included.
    pub(super) frame: u64,
    /// The header.
    pub(super) head: usize,
    pub(super) form: Form,
}

/// A header.
#[derive(Clone, Debug, Default)]
pub(super) struct Head<'a> {
    pub(super) code: i32,
    pub(super) opaque: i32,
    pub(super) flag: i32,
    pub(super) fields: Fields<'a>,
}

type Text<'a> = Option<Cow<'a, [u8]>>;

/// The kept fields; all others (access keys, signatures, keys) are passed over.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) topic: Text<'a>,
    pub(super) producer_group: Text<'a>,
    pub(super) consumer_group: Text<'a>,
    pub(super) queue: Option<i64>,
    pub(super) queue_offset: Option<i64>,
    pub(super) commit_offset: Option<i64>,
    pub(super) message_id: Text<'a>,
    pub(super) properties: Text<'a>,
    pub(super) suspend_ms: Option<i64>,
    /// The body holds messages (the answer to a pull).
    pub(super) messages: bool,
    /// Fields in all.
    pub(super) count: usize,
}

impl<'a> Fields<'a> {
    /// `short` names the fields with single letters (`SEND_MESSAGE_V2`).
    fn set(&mut self, name: &[u8], value: Cow<'a, [u8]>, short: bool) {
        let int = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
        self.count = self.count.saturating_add(1);
        match name {
            b"a" if short => self.producer_group = Some(value),
            b"b" if short => self.topic = Some(value),
            b"e" if short => self.queue = int(&value),
            b"i" if short => self.properties = Some(value),
            b"topic" | b"originTopic" => self.topic = Some(value),
            b"producerGroup" => self.producer_group = Some(value),
            b"consumerGroup" | b"group" => self.consumer_group = Some(value),
            b"queueId" => self.queue = int(&value),
            b"queueOffset" => self.queue_offset = int(&value),
            b"commitOffset" => self.commit_offset = int(&value),
            b"msgId" | b"originMsgId" => self.message_id = Some(value),
            b"properties" => self.properties = Some(value),
            b"suspendTimeoutMillis" => self.suspend_ms = int(&value),
            b"nextBeginOffset" | b"popTime" => self.messages = true,
            _ => {}
        }
    }
}

/// Whether a code names the fields of a message with single letters.
pub(super) fn is_short(code: i32) -> bool {
    matches!(code, 310 | 320 | 325)
}

/// The lengths of a frame.
pub(super) fn lengths(bytes: &[u8]) -> Result<Lengths, Stop> {
    let (len, rest) = bytes.split_first_chunk::<4>().ok_or(Stop::More)?;
    let len = u64::from(u32::from_be_bytes(*len));
    let form = match rest.first() {
        None if len > MAX_FRAME => return Err(Stop::Bad),
        None => return Err(Stop::More),
        Some(0) => Form::Json,
        Some(1) => Form::Binary,
        Some(_) => return Err(Stop::Bad),
    };
    let [_, a, b, c] = *rest.first_chunk::<4>().ok_or(Stop::More)?;
    let head = u32::from_be_bytes([0, a, b, c]);
    if len > MAX_FRAME || u64::from(head).saturating_add(4) > len || head < 16 {
        return Err(Stop::Bad);
    }
    Ok(Lengths { frame: len.saturating_add(4), head: usize::try_from(head).map_err(|_| Stop::Bad)?, form })
}

/// Reads the header of a frame that starts with its lengths.
pub(super) fn head<'a>(bytes: &'a [u8], lengths: &Lengths) -> Result<Head<'a>, Stop> {
    let end = BEFORE.saturating_add(lengths.head);
    let view = bytes.get(BEFORE..).unwrap_or_default();
    let whole = bytes.get(BEFORE..end);
    let read = match lengths.form {
        Form::Json => json(whole.unwrap_or(view)),
        Form::Binary => binary(whole.unwrap_or(view), lengths.head),
    };
    match read {
        // It ends within itself.
        Err(Stop::More) if whole.is_some() => Err(Stop::Bad),
        read => read,
    }
}

fn json(bytes: &[u8]) -> Result<Head<'_>, Stop> {
    let mut head = Head::default();
    let (mut code, mut opaque, mut flag) = (None, None, None);
    let mut json = Json::new(bytes);
    json.open()?;
    for i in 0..MAX_FIELDS {
        let Some(key) = json.key(i == 0)? else { break };
        match (&*key, json.value()?) {
            (b"code", Value::Int(n)) => code = Some(n),
            (b"opaque", Value::Int(n)) => opaque = Some(n),
            (b"flag", Value::Int(n)) => flag = Some(n),
            (name, Value::Object) => {
                let wanted = name == b"extFields";
                for i in 0..MAX_FIELDS {
                    let Some(name) = json.key(i == 0)? else { break };
                    match json.value()? {
                        Value::Text(value) if wanted => {
                            let short = code.is_some_and(|c| i32::try_from(c).is_ok_and(is_short));
                            head.fields.set(&name, value, short);
                        }
                        Value::Object => return Err(Stop::Bad),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let int = |n: Option<i64>| n.and_then(|n| i32::try_from(n).ok()).ok_or(Stop::Bad);
    (head.code, head.opaque, head.flag) = (int(code)?, int(opaque)?, int(flag)?);
    Ok(head)
}

fn binary(bytes: &[u8], len: usize) -> Result<Head<'_>, Stop> {
    let mut at = bytes;
    let code = i16::from_be_bytes(take(&mut at)?);
    let [language] = take(&mut at)?;
    let _version: [u8; 2] = take(&mut at)?;
    let opaque = i32::from_be_bytes(take(&mut at)?);
    let flag = i32::from_be_bytes(take(&mut at)?);
    if language > MAX_LANGUAGE || !(0..=3).contains(&flag) {
        return Err(Stop::Bad);
    }
    let mut head = Head { code: i32::from(code), opaque, flag, fields: Fields::default() };
    let remark = length(u32::from_be_bytes(take(&mut at)?), len)?;
    slice(&mut at, remark)?;
    let fields = length(u32::from_be_bytes(take(&mut at)?), len)?;
    // Fixed fields, remark and fields fill the header.
    if remark.saturating_add(fields).saturating_add(21) != len {
        return Err(Stop::Bad);
    }
    while !at.is_empty() {
        let name = u16::from_be_bytes(take(&mut at)?);
        let name = slice(&mut at, usize::from(name))?;
        let value = length(u32::from_be_bytes(take(&mut at)?), len)?;
        let value = slice(&mut at, value)?;
        if !name.iter().all(u8::is_ascii_graphic) {
            return Err(Stop::Bad);
        }
        head.fields.set(name, Cow::Borrowed(value), is_short(head.code));
    }
    Ok(head)
}

fn length(n: u32, max: usize) -> Result<usize, Stop> {
    usize::try_from(n).ok().filter(|n| *n <= max).ok_or(Stop::Bad)
}

fn take<const N: usize>(at: &mut &[u8]) -> Result<[u8; N], Stop> {
    let (head, tail) = at.split_first_chunk::<N>().ok_or(Stop::More)?;
    *at = tail;
    Ok(*head)
}

fn slice<'a>(at: &mut &'a [u8], n: usize) -> Result<&'a [u8], Stop> {
    let (head, tail) = at.split_at_checked(n).ok_or(Stop::More)?;
    *at = tail;
    Ok(head)
}
