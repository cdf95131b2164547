//! JSON-RPC 2.0 over HTTP: the method, and the code of an error. Parameters and results are not looked at.

use super::json::{first_object, members, unescape, Value};
use super::{error_text, failed, name, text};
use wirespan_model::message::AttrList;
use wirespan_model::{AttrVal, Late, Outcome};

/// Longest method name, bytes.
const MAX_METHOD: usize = 128;

/// Reads a request body; of a batch the first call.
pub(super) fn request(body: &[u8]) -> Option<AttrList<'static>> {
    let (object, batch) = first_object(body);
    let (mut version, mut method) = (false, None);
    members(object, |key, value| match (key, value) {
        (b"jsonrpc", Value::Text { raw: b"2.0", whole: true }) => version = true,
        (b"method", Value::Text { raw, whole: true }) => method = Some(raw),
        _ => {}
    });
    let method = method.filter(|_| version)?;
    let mut attrs = AttrList::new();
    attrs.push(("rpc.system.name", AttrVal::from("jsonrpc")));
    attrs.push(("jsonrpc.protocol.version", AttrVal::from("2.0")));
    if let Some(method) = name(method, b"./:-$", MAX_METHOD) {
        attrs.push(("rpc.method", text(method)));
    }
    if batch {
        attrs.push(("wirespan.rpc.batch", AttrVal::Bool(true)));
    }
    Some(attrs)
}

/// Reads the beginning of a response.
pub(super) fn response(body: &[u8]) -> Late<'static> {
    let (object, _) = first_object(body);
    let (mut code, mut message) = (None, Vec::new());
    members(object, |key, value| {
        if let (b"error", Value::Object(error)) = (key, value) {
            members(error, |key, value| match (key, value) {
                (b"code", Value::Word(word)) => {
                    code = std::str::from_utf8(word).ok().and_then(|w| w.parse::<i32>().ok());
                }
                (b"message", Value::Text { raw, .. }) => message = unescape(raw),
                _ => {}
            });
        }
    });
    let Some(code) = code else { return Late::default() };
    // Section 5.1: parse error, invalid request, unknown method, invalid parameters.
    let asker = matches!(code, -32700 | -32602..=-32600);
    let mut late = failed(if asker { Outcome::ClientError } else { Outcome::ServerError }, error_text(&message));
    late.attrs.push(("rpc.status_code", text(code.to_string())));
    late.attrs.push(("error.type", text(code.to_string())));
    late
}
