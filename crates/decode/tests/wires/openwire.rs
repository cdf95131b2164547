//! What begins a connection of OpenWire, whose commands are then in one of two encodings.

pub(crate) fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u16).to_be_bytes()[..], s.as_bytes()].concat()
}

pub(crate) fn sized(kind: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 1).to_be_bytes()[..], &[kind], body].concat()
}

pub(crate) fn map(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut m = (entries.len() as u32).to_be_bytes().to_vec();
    for (name, kind, value) in entries {
        m.extend([text(name), vec![*kind], value.to_vec()].concat());
    }
    m
}

pub(crate) fn wire(tight: bool, cache: bool) -> Vec<u8> {
    let m = map(&[("CacheEnabled", 1, &[u8::from(cache)]), ("TightEncodingEnabled", 1, &[u8::from(tight)])]);
    sized(1, &[b"ActiveMQ\x00\x00\x00\x0c\x01", &(m.len() as u32).to_be_bytes()[..], &m].concat())
}
