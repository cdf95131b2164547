//! The kernel's list of TCP sockets of a network namespace (`sock_diag(7)`). Unlike /proc, it has their cookies.

use crate::netlink::{self, u32_at};
use rustix::net::netlink::SOCK_DIAG;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const TCP: u8 = 6;
const LISTEN: u8 = 10;
/// ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LISTEN.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 10;

/// One socket.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Socket {
    pub(super) inode: u32,
    pub(super) cookie: u64,
    pub(super) listens: bool,
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
}

/// TCP sockets of both families in the network namespace of this thread.
pub(super) fn sockets() -> io::Result<Vec<Socket>> {
    let mut found = Vec::new();
    for family in [2u8, 10] {
        dump(family, &mut found)?;
    }
    Ok(found)
}

fn dump(family: u8, found: &mut Vec<Socket>) -> io::Result<()> {
    let mut request = vec![family, TCP, 0, 0];
    request.extend(STATES.to_ne_bytes());
    request.extend([0; 48]);
    let mut each = |kind: u16, message: &[u8]| {
        if kind == SOCK_DIAG_BY_FAMILY {
            found.extend(one(message));
        }
    };
    netlink::list(Some(SOCK_DIAG), SOCK_DIAG_BY_FAMILY, &request, &mut each)
}

/// `struct inet_diag_msg`.
fn one(m: &[u8]) -> Option<Socket> {
    let (family, state) = (*m.first()?, *m.get(1)?);
    let ip = |at: usize| {
        Some(if family == 2 {
            IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(m.get(at..at + 4)?).ok()?))
        } else {
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(m.get(at..at + 16)?).ok()?)).to_canonical()
        })
    };
    let port = |at: usize| Some(u16::from_be_bytes(m.get(at..at + 2)?.try_into().ok()?));
    Some(Socket {
        listens: state == LISTEN,
        local_port: port(4)?,
        remote_port: port(6)?,
        local: ip(8)?,
        remote: ip(24)?,
        cookie: u64::from(u32_at(m, 44)?) | u64::from(u32_at(m, 48)?) << 32,
        inode: u32_at(m, 68)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_and_a_connection_of_this_test_are_found() {
        let listener = std::net::TcpListener::bind("[::1]:0").expect("it listens");
        let addr = listener.local_addr().expect("an address");
        let client = std::net::TcpStream::connect(addr).expect("it connects");
        let ours = client.local_addr().expect("an address").port();
        let all = sockets().expect("netlink answers");
        let port = addr.port();
        assert!(all.iter().any(|s| s.listens && s.local_port == port && s.local.is_loopback()));
        let c = all.iter().find(|s| !s.listens && s.local_port == ours && s.remote_port == port).expect("the client");
        assert!(c.cookie != 0 && c.inode != 0 && c.remote == addr.ip());
    }

    #[test]
    fn a_short_message_is_no_socket() {
        let mut message = vec![0u8; 72];
        message[0] = 2;
        assert!((0..message.len()).all(|n| one(&message[..n]).is_none()));
        assert!(one(&message).is_some());
    }
}
