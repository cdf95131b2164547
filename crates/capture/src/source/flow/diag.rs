//! The kernel's list of TCP sockets of a network namespace (`sock_diag(7)`). Unlike /proc, it has their cookies.

use rustix::net::{netlink, recv, send, socket, AddressFamily, RecvFlags, SendFlags, SocketType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
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
    let fd = socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG))?;
    let mut request = Vec::with_capacity(72);
    request.extend(72u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family, TCP, 0, 0]);
    request.extend(STATES.to_ne_bytes());
    request.extend([0; 48]);
    send(&fd, &request, SendFlags::empty())?;
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let (n, _) = recv(&fd, &mut buffer[..], RecvFlags::empty())?;
        if n == 0 || read(buffer.get(..n).unwrap_or_default(), found)? {
            return Ok(());
        }
    }
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

/// Reads one answer; true at the end of the list.
fn read(mut answer: &[u8], found: &mut Vec<Socket>) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(answer, 0), u16_at(answer, 4)) {
        let Some(message) = answer.get(16..length as usize) else { break };
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let errno = u32_at(message, 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(-errno));
            }
            SOCK_DIAG_BY_FAMILY => found.extend(one(message)),
            _ => {}
        }
        answer = answer.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
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
    fn a_torn_answer_is_no_panic() {
        let mut message = vec![0u8; 88];
        message[..4].copy_from_slice(&88u32.to_ne_bytes());
        message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message[16] = 2;
        for n in 0..message.len() {
            let mut found = Vec::new();
            assert!(!read(&message[..n], &mut found).expect("no error") && found.is_empty());
        }
        let mut found = Vec::new();
        let _ = read(&message, &mut found);
        assert_eq!(found.len(), 1);
    }
}
