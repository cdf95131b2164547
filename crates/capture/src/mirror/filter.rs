//! Which frames the kernel copies: a program of classic BPF.

use super::Begins;
use libc::sock_filter;

/// Bytes of a frame that are kept: all.
const WHOLE: u32 = 0x4_0000;
/// What the kernel knows the frame as, whatever it begins with (`SKF_AD_OFF + SKF_AD_PROTOCOL`).
const PROTOCOL: u32 = 0xffff_f000;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ARP: u32 = 0x0806;
/// Kinds of frames that may have IP inside: tags of VLANs, MPLS, PPPoE.
const OTHERS: [u32; 4] = [0x8100, 0x88a8, 0x8847, 0x8864];
const ICMP: u32 = 1;
const ICMP_V6: u32 = 58;
const TCP: u32 = 6;
const UDP: u32 = 17;

const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_HALF_BEHIND: u16 = 0x48;
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const IF_EQUAL: u16 = 0x15;
const IF_BITS: u16 = 0x45;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;

fn op(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Goes `over` so many instructions if it is equal.
fn if_equal(k: u32, over: usize) -> sock_filter {
    sock_filter { code: IF_EQUAL, jt: over as u8, jf: 0, k }
}

/// Ends with the frame if one of the two ports, which `load` loads, is one of these; else without it.
fn ports(ports: &[u16], load: [sock_filter; 2]) -> Vec<sock_filter> {
    let each = ports.len() + 1;
    let mut out = Vec::new();
    for (n, load) in load.into_iter().enumerate() {
        out.push(load);
        for (at, port) in ports.iter().enumerate() {
            // Behind the rest of this load and those that follow is one `RETURN` without the frame.
            let rest = (ports.len() - 1 - at) + (1 - n) * each;
            out.push(if_equal((*port).into(), rest + 1));
        }
    }
    out.extend([op(RETURN, 0), op(RETURN, WHOLE)]);
    out
}

/// The program for frames that begin so.
pub(super) fn program(begins: Begins, of: &[u16]) -> Vec<sock_filter> {
    let ip = if begins == Begins::Ethernet { 14 } else { 0 };
    // ARP is always kept: it is rare.
    let unless_arp = sock_filter { code: IF_EQUAL, jt: 0, jf: 1, k: ARP };
    let mut out = vec![op(LOAD_HALF, PROTOCOL), unless_arp, op(RETURN, WHOLE)];
    if of.is_empty() {
        let kinds: Vec<u32> = [IPV4, IPV6].into_iter().chain(OTHERS).collect();
        let last = kinds.len() - 1;
        out.extend(kinds.iter().enumerate().map(|(at, kind)| if_equal(*kind, last - at + 1)));
        out.extend([op(RETURN, 0), op(RETURN, WHOLE)]);
        return out;
    }
    // What the byte at `at` says of the payload: goes on if it has ports. ICMP is kept, whatever it is about: it is
    // rare.
    let with_ports = |at, icmp| {
        let ends = [op(RETURN, 0), op(RETURN, WHOLE)];
        [op(LOAD_BYTE, at), if_equal(TCP, 4), if_equal(UDP, 3), if_equal(icmp, 1)].into_iter().chain(ends)
    };
    // The ports are behind a header of fixed size.
    let mut v6: Vec<_> = with_ports(ip + 6, ICMP_V6).collect();
    v6.extend(ports(of, [op(LOAD_HALF, ip + 40), op(LOAD_HALF, ip + 42)]));
    let mut v4: Vec<_> = with_ports(ip + 9, ICMP).collect();
    v4.push(op(LOAD_HALF, ip + 6));
    // A later fragment has no ports.
    v4.extend([sock_filter { code: IF_BITS, jt: 0, jf: 1, k: 0x1fff }, op(RETURN, 0)]);
    v4.push(op(LOAD_HEADER_LENGTH, ip));
    v4.extend(ports(of, [op(LOAD_HALF_BEHIND, ip), op(LOAD_HALF_BEHIND, ip + 2)]));
    out.extend([if_equal(IPV4, 2), if_equal(IPV6, 2), op(RETURN, 0), op(JUMP, v6.len() as u32)]);
    out.extend(v6);
    out.extend(v4);
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Runs a program as the kernel does. Returns whether the frame is kept.
    fn keeps(program: &[sock_filter], protocol: u32, frame: &[u8]) -> bool {
        let half = |at: usize| frame.get(at..at + 2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1]));
        let (mut a, mut x, mut at) = (0, 0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let loaded = match code {
                LOAD_HALF if k == PROTOCOL => Some(protocol),
                LOAD_HALF => half(k as usize),
                LOAD_HALF_BEHIND => half(x as usize + k as usize),
                LOAD_BYTE | LOAD_HEADER_LENGTH => frame.get(k as usize).map(|b| u32::from(*b)),
                IF_EQUAL | IF_BITS => {
                    let holds = if code == IF_EQUAL { a == k } else { a & k != 0 };
                    at += usize::from(if holds { jt } else { jf });
                    continue;
                }
                JUMP => {
                    at += k as usize;
                    continue;
                }
                RETURN => return k > 0,
                _ => panic!("{code:#x}"),
            };
            // A load beyond the frame ends the program without it.
            let Some(loaded) = loaded else { return false };
            match code {
                LOAD_HEADER_LENGTH => x = (loaded & 15) * 4,
                _ => a = loaded,
            }
        }
    }

    fn ipv4(words: u8, protocol: u8, fragment: u16, ports: [u16; 2]) -> Vec<u8> {
        let mut ip = vec![0; usize::from(words) * 4];
        (ip[0], ip[9]) = (0x40 | words, protocol);
        ip[6..8].copy_from_slice(&fragment.to_be_bytes());
        ip.extend(ports.iter().flat_map(|p| p.to_be_bytes()));
        ip
    }

    fn ipv6(next: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut ip = vec![0; 40];
        (ip[0], ip[6]) = (0x60, next);
        ip.extend(ports.iter().flat_map(|p| p.to_be_bytes()));
        ip
    }

    #[test]
    fn only_frames_of_the_ports_are_kept() {
        let ports = [80, 443, 53];
        for begins in [Begins::Ethernet, Begins::Ip] {
            let program = program(begins, &ports);
            let keeps = |kind, ip: Vec<u8>| {
                let mut frame = if begins == Begins::Ethernet { vec![0; 14] } else { Vec::new() };
                frame.extend(ip);
                keeps(&program, kind, &frame)
            };
            for port in ports {
                assert!(keeps(IPV4, ipv4(5, 6, 0, [port, 9])), "{port}");
                assert!(keeps(IPV4, ipv4(15, 17, 0x4000, [9, port])), "options; may not be cut: {port}");
                assert!(keeps(IPV6, ipv6(6, [port, 9])) && keeps(IPV6, ipv6(17, [9, port])), "{port}");
            }
            assert!(!keeps(IPV4, ipv4(5, 6, 0, [9, 10])) && !keeps(IPV6, ipv6(6, [9, 10])));
            assert!(keeps(IPV4, ipv4(5, 1, 0, [0x303, 0])) && keeps(IPV6, ipv6(58, [0x100, 0])), "errors of ICMP");
            assert!(!keeps(IPV4, ipv4(5, 58, 0, [80, 80])) && !keeps(IPV6, ipv6(1, [80, 80])), "no ports");
            assert!(!keeps(IPV4, ipv4(5, 6, 1, [80, 80])), "a later fragment");
            assert!(keeps(ARP, vec![0; 28]) && !keeps(0x88cc, ipv4(5, 6, 0, [80, 80])));
            assert!(!keeps(IPV4, ipv4(5, 6, 0, [80, 80])[..20].to_vec()), "cut");
        }
    }

    #[test]
    fn without_ports_all_that_may_have_ip_is_kept() {
        let program = program(Begins::Ethernet, &[]);
        for kind in [IPV4, IPV6].into_iter().chain(OTHERS) {
            assert!(keeps(&program, kind, &[]), "{kind:#x}");
        }
        assert!(keeps(&program, ARP, &[0; 60]) && !keeps(&program, 0x88cc, &[0; 60]));
    }

    #[test]
    fn the_longest_program_has_no_jump_that_is_too_long() {
        let ports: Vec<u16> = (1..=super::super::MAX_PORTS as u16).collect();
        let program = program(Begins::Ethernet, &ports);
        for port in ports {
            assert!(keeps(&program, IPV4, &[vec![0; 14], ipv4(5, 6, 0, [port, 9])].concat()));
            assert!(keeps(&program, IPV6, &[vec![0; 14], ipv6(6, [9, port])].concat()));
        }
    }
}
