//! gRPC: methods, statuses and their outcome (gRPC over HTTP/2; OpenTelemetry semantic conventions for gRPC).

use crate::semantics::error_text;
use std::borrow::Cow;
use wirespan_model::percent::percent_decode;
use wirespan_model::semconv::GRPC_STATUS;
use wirespan_model::{AttrVal, Late, Outcome};

/// Longest status message that is read, bytes.
const MAX_MESSAGE: usize = 1024;

/// `/package.Service/Method` → without the slash.
pub(crate) fn method(path: &[u8]) -> Option<&str> {
    let full = std::str::from_utf8(path.strip_prefix(b"/")?).ok()?;
    let (service, method) = full.rsplit_once('/')?;
    let named = |s: &str, more: &[u8]| {
        !s.is_empty() && s.len() <= 512 && s.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    (named(service, b"._-/") && named(method, b"_-.")).then_some(full)
}

/// The method of a request over HTTP/1, where gRPC can only be gRPC-Web.
pub(crate) fn call<'a>(content_type: &[u8], path: &'a [u8]) -> Option<&'a str> {
    if !content_type.starts_with(b"application/grpc-web") {
        return None;
    }
    let end = memchr::memchr2(b'?', b'#', path).unwrap_or(path.len());
    method(path.get(..end)?)
}

/// Whose fault a status is: the conventions count these as errors of the server.
pub(crate) fn outcome(code: i32) -> Outcome {
    match code {
        0 => Outcome::Ok,
        2 | 4 | 12..=15 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}

/// The facts of a status.
pub(crate) fn status(code: i32, message: &[u8]) -> Late<'static> {
    let mut late = Late { status_code: Some(code), outcome: outcome(code), ..Late::default() };
    late.attrs.push(("rpc.system.name", AttrVal::from("grpc")));
    let name = usize::try_from(code).ok().and_then(|code| GRPC_STATUS.get(code)).copied();
    late.attrs.push(("rpc.status_code", name.map_or_else(|| AttrVal::Str(code.to_string().into()), AttrVal::from)));
    if code != 0 {
        let name = name.unwrap_or("_OTHER");
        late.attrs.push(("error.type", AttrVal::from(name)));
        let text = percent_decode(message.get(..MAX_MESSAGE).unwrap_or(message));
        late.error = if text.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(error_text(&text)) };
    }
    late
}
