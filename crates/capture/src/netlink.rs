//! Lists that the kernel gives by netlink.

use rustix::net::{recv, send, socket, AddressFamily, Protocol, RecvFlags, SendFlags, SocketType};
use std::io;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const HEADER_LEN: usize = 16;

/// Asks for a list in the network namespace of this thread, and hands over each message of the answer: its kind, and
/// what stands behind its header. Without a protocol, it is that of devices and their queues (`NETLINK_ROUTE`).
pub(crate) fn list(
    protocol: Option<Protocol>,
    kind: u16,
    request: &[u8],
    each: &mut dyn FnMut(u16, &[u8]),
) -> io::Result<()> {
    let fd = socket(AddressFamily::NETLINK, SocketType::DGRAM, protocol)?;
    let mut message = Vec::with_capacity(HEADER_LEN + request.len());
    message.extend(((HEADER_LEN + request.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    send(&fd, &message, SendFlags::empty())?;
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let (n, _) = recv(&fd, &mut buffer[..], RecvFlags::empty())?;
        if n == 0 || read(buffer.get(..n).unwrap_or_default(), each)? {
            return Ok(());
        }
    }
}

/// Reads one answer; true at the end of the list.
fn read(mut answer: &[u8], each: &mut dyn FnMut(u16, &[u8])) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(answer, 0), u16_at(answer, 4)) {
        let Some(message) = answer.get(HEADER_LEN..length as usize) else { break };
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let errno = u32_at(message, 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(-errno));
            }
            _ => each(kind, message),
        }
        answer = answer.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

/// A number of four bytes, as this machine writes it.
pub(crate) fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_answer_has_no_message_and_an_error_is_told() {
        let mut answer = vec![0u8; 40];
        answer[..4].copy_from_slice(&40u32.to_ne_bytes());
        answer[4..6].copy_from_slice(&44u16.to_ne_bytes());
        for n in 0..=answer.len() {
            let mut found = Vec::new();
            assert!(!read(&answer[..n], &mut |kind, message| found.push((kind, message.len()))).expect("no error"));
            assert_eq!(found, if n == 40 { vec![(44, 24)] } else { vec![] });
        }
        answer[4..6].copy_from_slice(&NLMSG_DONE.to_ne_bytes());
        assert!(read(&answer, &mut |_, _| ()).expect("no error"));
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        let error = read(&answer, &mut |_, _| ()).expect_err("an error");
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }
}
