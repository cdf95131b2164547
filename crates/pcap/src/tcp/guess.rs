//! A guess at the client's end, if no handshake was captured.

/// First port of the range that Linux gives to clients by default (`net.ipv4.ip_local_port_range`).
const EPHEMERAL: u16 = 32_768;

/// Index (0 or 1) of the end that is most likely the client. `first` are the first captured bytes, sent by end
/// `sender`.
///
/// The start of an HTTP message decides. Otherwise the end with an ephemeral port is the client; then the end with the
/// higher port; then the end that spoke first.
pub(super) fn client(ports: [u16; 2], sender: usize, first: &[u8]) -> usize {
    const METHODS: [&[u8]; 9] =
        [b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"PRI * HTTP/2"];
    if METHODS.iter().any(|m| first.starts_with(m)) {
        return sender;
    }
    if first.starts_with(b"HTTP/1.") {
        return 1 - sender;
    }
    match (ports[0] >= EPHEMERAL, ports[1] >= EPHEMERAL) {
        (true, false) => 0,
        (false, true) => 1,
        _ if ports[0] == ports[1] => sender,
        _ => usize::from(ports[0] < ports[1]),
    }
}

#[cfg(test)]
mod tests {
    use super::client;

    #[test]
    fn bytes_beat_ports() {
        assert_eq!(client([80, 50_000], 0, b"GET / HTTP/1.1"), 0);
        assert_eq!(client([80, 50_000], 0, b"HTTP/1.1 200 OK"), 1);
    }

    #[test]
    fn ports_decide_if_bytes_do_not() {
        assert_eq!(client([6379, 50_000], 0, b"+OK"), 1);
        assert_eq!(client([50_000, 6379], 1, b"+OK"), 0);
        assert_eq!(client([8080, 9090], 0, b""), 1);
        assert_eq!(client([7000, 7000], 1, b""), 1);
    }
}
