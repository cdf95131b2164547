//! Names of the errors by which connections fail (Linux, same numbers on x86-64 and arm64).

use wirespan_model::Text;

/// Name of an errno by which connections fail; `None` for another.
pub(crate) fn name(errno: i32) -> Option<&'static str> {
    Some(match errno {
        1 => "EPERM",
        2 => "ENOENT",
        11 => "EAGAIN",
        13 => "EACCES",
        32 => "EPIPE",
        90 => "EMSGSIZE",
        98 => "EADDRINUSE",
        99 => "EADDRNOTAVAIL",
        100 => "ENETDOWN",
        101 => "ENETUNREACH",
        102 => "ENETRESET",
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        112 => "EHOSTDOWN",
        113 => "EHOSTUNREACH",
        _ => return None,
    })
}

/// Text of an errno for a span's error: its name, else `errno N`; empty for 0.
pub(crate) fn text(errno: i32) -> Text {
    match (errno, name(errno)) {
        (0, _) => "".into(),
        (_, Some(name)) => name.into(),
        (n, None) => format!("errno {n}").into(),
    }
}

/// True if a call that fails with this errno shows that the connection is dead.
pub(crate) fn is_fatal(errno: i32) -> bool {
    matches!(errno, 32 | 103 | 104 | 110 | 111 | 112 | 113)
}
