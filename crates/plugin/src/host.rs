//! The functions that a module may call: they describe messages. There is no clock, no file, no network, no log.

use crate::description::{Description, MAX_ERROR, MAX_KEY, MAX_OPERATION, MAX_TARGET, MAX_VALUE};
use crate::fault::Fault;
use wasmi::{Caller, Error, Extern, Linker, StoreLimits};
use wirespan_decode::carried::traceparent;

/// Module name of the imports.
const MODULE: &str = "wirespan";

/// State of a store: the messages that the running call has described, and the limits of its memory.
pub(crate) struct Host {
    pub(crate) description: Description,
    pub(crate) limits: StoreLimits,
}

type Here<'a> = Caller<'a, Host>;

/// At most `max` bytes of the module's memory.
fn bytes(caller: &Here<'_>, at: i32, len: i32, max: usize) -> Result<Vec<u8>, Error> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return Err(Error::host(Fault::Range)) };
    // Addresses are unsigned; wasm has no other integers of 32 bits.
    let (at, len) = (at as u32 as usize, len as u32 as usize);
    let all = at.checked_add(len).and_then(|end| memory.data(caller).get(at..end));
    let all = all.ok_or(Error::host(Fault::Range))?;
    Ok(all.get(..max).unwrap_or(all).to_vec())
}

/// Text without control characters; invalid UTF-8 becomes U+FFFD.
fn text(caller: &Here<'_>, at: i32, len: i32, max: usize) -> Result<String, Error> {
    let bytes = bytes(caller, at, len, max)?;
    // A character that the limit cut in two is dropped.
    let whole = match std::str::from_utf8(&bytes) {
        Err(e) if e.error_len().is_none() && bytes.len() == max => bytes.get(..e.valid_up_to()).unwrap_or(&bytes),
        _ => &bytes,
    };
    let text = String::from_utf8_lossy(whole);
    Ok(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}

fn say(mut caller: Here<'_>, what: impl FnOnce(&mut Description) -> Result<(), Fault>) -> Result<(), Error> {
    what(&mut caller.data_mut().description).map_err(Error::host)
}

/// All functions that a module may import.
pub(crate) fn functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(MODULE, "message", |c: Here<'_>, kind: i32, offset: i32, head_len: i32| {
        say(c, |s| s.message(kind, offset, head_len))
    })?;
    linker.func_wrap(MODULE, "end", |c: Here<'_>, offset: i32| say(c, |s| s.end(offset)))?;
    linker.func_wrap(MODULE, "body", |c: Here<'_>, len: i64| say(c, |s| s.body(len)))?;
    linker.func_wrap(MODULE, "id", |c: Here<'_>, id: i64| say(c, |s| s.id(id)))?;
    linker.func_wrap(MODULE, "status", |c: Here<'_>, code: i32| say(c, |s| s.status(code)))?;
    linker.func_wrap(MODULE, "outcome", |c: Here<'_>, outcome: i32| say(c, |s| s.outcome(outcome)))?;
    linker.func_wrap(MODULE, "skip", |c: Here<'_>, len: i64| say(c, |s| s.skip(len)))?;
    linker.func_wrap(MODULE, "operation", |c: Here<'_>, at: i32, len: i32| {
        let text = text(&c, at, len, MAX_OPERATION)?;
        say(c, |s| s.operation(text))
    })?;
    linker.func_wrap(MODULE, "target", |c: Here<'_>, at: i32, len: i32| {
        let text = text(&c, at, len, MAX_TARGET)?;
        say(c, |s| s.target(text))
    })?;
    linker.func_wrap(MODULE, "error", |c: Here<'_>, at: i32, len: i32| {
        let text = text(&c, at, len, MAX_ERROR)?;
        say(c, |s| s.error(text))
    })?;
    linker.func_wrap(MODULE, "traceparent", |c: Here<'_>, at: i32, len: i32| {
        let context = traceparent(&bytes(&c, at, len, 256)?);
        say(c, |s| s.traceparent(context))
    })?;
    linker.func_wrap(MODULE, "attribute_text", |c: Here<'_>, key: i32, key_len: i32, at: i32, len: i32| {
        let (key, text) = (bytes(&c, key, key_len, MAX_KEY + 1)?, text(&c, at, len, MAX_VALUE)?);
        say(c, |s| s.attribute(&key, crate::description::Given::Text(text)))
    })?;
    linker.func_wrap(MODULE, "attribute_int", |c: Here<'_>, key: i32, key_len: i32, value: i64| {
        let key = bytes(&c, key, key_len, MAX_KEY + 1)?;
        say(c, |s| s.attribute(&key, crate::description::Given::Int(value)))
    })?;
    Ok(())
}
