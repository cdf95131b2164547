//! SOFARPC as it is written, in both versions of its frames.

pub(crate) const REQUEST: &str = "com.alipay.sofa.rpc.core.request.SofaRequest";
pub(crate) const RESPONSE: &str = "com.alipay.sofa.rpc.core.response.SofaResponse";

#[allow(clippy::too_many_arguments)]
pub(crate) fn frame(
    version: u8,
    kind: u8,
    command: u8,
    id: u32,
    class: &str,
    pairs: &[(&str, &str)],
    content: &[u8],
    status: u16,
) -> Vec<u8> {
    let mut header = Vec::new();
    for text in pairs.iter().flat_map(|(k, v)| [k, v]) {
        header.extend((text.len() as u32).to_be_bytes());
        header.extend(text.as_bytes());
    }
    let mut out = if version == 1 { vec![1] } else { vec![2, 2] };
    out.extend([kind, 0, command, 1]);
    out.extend(id.to_be_bytes());
    out.push(1);
    if version == 2 {
        out.push(1);
    }
    if kind == 0 {
        out.extend(status.to_be_bytes());
    } else {
        out.extend(3000u32.to_be_bytes());
    }
    out.extend((class.len() as u16).to_be_bytes());
    out.extend((header.len() as u16).to_be_bytes());
    out.extend((content.len() as u32).to_be_bytes());
    let checksum: &[u8] = if version == 2 { &[1, 2, 3, 4] } else { &[] };
    [&out, class.as_bytes(), &header, content, checksum].concat()
}

/// An answer in SOFA's Hessian; an error has a text.
pub(crate) fn answer(error: Option<&str>, value: &str) -> Vec<u8> {
    let mut out = vec![b'O', 0x90 + RESPONSE.len() as u8];
    out.extend(RESPONSE.as_bytes());
    out.push(0x94);
    for name in ["isError", "errorMsg", "appResponse", "responseProps"] {
        out.push(name.len() as u8);
        out.extend(name.as_bytes());
    }
    out.extend([b'o', 0x90]);
    match error {
        None => out.extend(b"FN"),
        Some(text) => {
            out.extend([b'T', text.len() as u8]);
            out.extend(text.as_bytes());
        }
    }
    out.push(value.len() as u8);
    out.extend(value.as_bytes());
    out
}
