//! How packets are told in words.

use crate::packet::names::Reason;
use crate::packet::Names;
use anyhow::Result;
use compact_str::CompactString;
use std::fmt::Write as _;
use wirespan_journey::{Dropped, Journey, Place};
use wirespan_model::packet::{hex, Point, Route, Sighting, ETHER_ARP, NOT_IP};
use wirespan_view::packets::FlowEnds;

/// `12.3 µs`, `4.53 ms` or `1.20 s`.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// `1 packet`, `2 packets`.
pub(crate) fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The protocol of a flow and its two ends: `tcp`, `10.0.0.1:40000`, `10.0.0.2:80`. Of a frame that is not of IP and
/// not of ARP, no ends are known.
pub(crate) fn ends(route: &Route) -> FlowEnds {
    let protocol = match (route.protocol, route.source_port) {
        (NOT_IP, ETHER_ARP) => "arp".to_owned(),
        (NOT_IP, kind) => return FlowEnds { protocol: format!("frame 0x{kind:04x}"), ..FlowEnds::default() },
        (6, _) => "tcp".to_owned(),
        (17, _) => "udp".to_owned(),
        (1, _) => "icmp".to_owned(),
        (58, _) => "icmpv6".to_owned(),
        (other, _) => format!("protocol {other}"),
    };
    let end = |ip, port| match route.protocol {
        6 | 17 => std::net::SocketAddr::new(ip, port).to_string(),
        _ => ip.to_string(),
    };
    let source = end(route.source, route.source_port);
    FlowEnds { protocol, source, destination: end(route.destination, route.destination_port) }
}

pub(super) fn route(route: &Route) -> String {
    let FlowEnds { protocol: name, source: from, destination: to } = ends(route);
    match (route.protocol, route.destination_port) {
        (NOT_IP, _) if from.is_empty() => name,
        (NOT_IP, 1) => format!("{name} {from} asks for {to}"),
        (NOT_IP, 2) => format!("{name} {from} answers {to}"),
        (NOT_IP, other) => format!("{name} {from} operation {other} to {to}"),
        _ => format!("{name} {from} → {to}"),
    }
}

/// Bytes as `45 00 00 54`.
fn spaced(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| hex(&[*byte])).collect::<Vec<_>>().join(" ")
}

/// A packet at one point, in a line of its own, with its headers and its stack below.
pub(super) fn sighting(s: &Sighting, names: &Names, reason: &Reason<'_>, out: &mut String) -> std::fmt::Result {
    let (seconds, us) = (s.time_ns / 1_000_000_000 % 86_400, s.time_ns / 1000 % 1_000_000);
    let (h, m, sec) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{h:02}:{m:02}:{sec:02}.{us:06}  {:<34} ", names.place(&Place::of(s)))?;
    match (s.point, s.route.protocol) {
        (Point::Mark, _) => write!(out, "called by {} (process {}, thread {})", s.device, s.seq, s.len)?,
        (_, NOT_IP) => write!(out, "{}  {} bytes", route(&s.route), s.len)?,
        _ => write!(out, "{}  seq {}, {} bytes", route(&s.route), s.seq, s.len)?,
    }
    writeln!(out, "{}", why_dropped(s, reason).map_or(String::new(), |why| format!("  {why}")))?;
    if let Some(headers) = &s.headers {
        let (link, rest) = headers.bytes.split_at_checked(headers.link_len.into()).unwrap_or((&[], &headers.bytes));
        let link = if link.is_empty() { String::new() } else { format!("{} | ", spaced(link)) };
        writeln!(out, "    {link}{}", spaced(rest))?;
    }
    if !s.stack.is_empty() {
        writeln!(out, "    {}", stack(&s.stack))?;
    }
    Ok(())
}

/// Functions, innermost first.
pub(super) fn stack(of: &[CompactString]) -> String {
    of.join(" < ")
}

pub(super) fn why_dropped(s: &Sighting, reason: &Reason<'_>) -> Option<String> {
    (s.point == Point::Drop).then(|| reason(s.reason))
}

/// The way of a packet, with a line for each step.
pub(super) fn describe(journey: &Journey, names: &Names, reason: &Reason<'_>, out: &mut String) -> Result<()> {
    let Journey { seq, len, attempt, .. } = journey;
    let again = if *attempt > 1 { format!(", sent again ({attempt})") } else { String::new() };
    let what = if journey.route.protocol == 6 { format!("seq {seq}, ") } else { String::new() };
    let took = time(journey.duration_ns());
    writeln!(out, "{}  {what}{len} bytes, {took}{again}", route(&journey.route))?;
    let mut before = journey.start_ns();
    let mut shown = journey.route;
    for step in &journey.steps {
        let wait = time(step.time_ns.saturating_sub(before));
        before = step.time_ns;
        write!(out, "  {:>11}  {:<40} cpu {}", format!("+{wait}"), names.place(&step.place), step.cpu)?;
        if step.queue_len > 0 {
            write!(out, ", {} wait in the queue", step.queue_len)?;
        }
        // The first place may be behind the translation.
        if step.route != shown || (step.was.is_some() && step.time_ns == journey.start_ns()) {
            match &step.was {
                // By the kernel's own word, between the place before and this one.
                Some(was) => write!(out, ", conntrack has made {} of {}", route(&step.route), route(was))?,
                None => write!(out, ", now {}", route(&step.route))?,
            }
            shown = step.route;
        }
        writeln!(out)?;
    }
    if let Some(Dropped { step, reason: why, resent_after_ns }) = &journey.dropped {
        let wait = time(step.time_ns.saturating_sub(before));
        let later = resent_after_ns.map_or(String::new(), |ns| format!(", sent again {} later", time(ns)));
        let why = reason(*why);
        writeln!(out, "  {:>11}  dropped {}: {why}{later}", format!("+{wait}"), names.at(&step.place))?;
    }
    Ok(())
}
