//! ZMTP as it is written.

pub(crate) fn greeting(mechanism: &str, server: bool) -> Vec<u8> {
    let mut g = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x01".to_vec();
    g.extend(mechanism.as_bytes());
    g.resize(32, 0);
    g.push(u8::from(server));
    g.resize(64, 0);
    g
}

pub(crate) fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    if body.len() < 256 {
        [&[flags, body.len() as u8][..], body].concat()
    } else {
        [&[flags | 2][..], &(body.len() as u64).to_be_bytes(), body].concat()
    }
}

pub(crate) fn command(name: &str, arguments: &[u8]) -> Vec<u8> {
    frame(4, &[&[name.len() as u8][..], name.as_bytes(), arguments].concat())
}

pub(crate) fn ready(name: &str, socket: &str, identity: &str) -> Vec<u8> {
    let kind = [b"\x0bSocket-Type\x00\x00\x00", &[socket.len() as u8][..], socket.as_bytes()].concat();
    let identity = [b"\x08Identity\x00\x00\x00", &[identity.len() as u8][..], identity.as_bytes()].concat();
    command(name, &[kind, identity].concat())
}
