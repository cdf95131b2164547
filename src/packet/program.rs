//! Reads a packet program (YAML).

mod values;

pub(crate) use values::duration;

use crate::cli::encode;
use anyhow::{anyhow, bail, Context as _, Result};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use values::Written;
use wirespan_capture::packet::{Filter, Net, PacketOptions};
use wirespan_capture::targets::netns_inode;
use wirespan_model::packet::Point;
use wirespan_view::Whose;

/// Records at most, unless the program says otherwise.
const AT_MOST: u64 = 1_000_000;
/// Room for the packets of some 100 ms at 200,000 sightings a second.
const RING_BYTES: u32 = 16 << 20;

/// What is done with the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// A line for each packet at each point.
    Record,
    /// The way of each packet.
    Journeys,
    /// Packets and bytes at each place.
    Count,
    /// Time between places: p50, p99, jitter.
    Latency,
    /// Drops by place and reason, with retransmissions.
    Drops,
}

/// A value, or a list of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Some1<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Clone> Some1<T> {
    fn all(of: Option<&Self>) -> Vec<T> {
        match of {
            None => Vec::new(),
            Some(Some1::One(one)) => vec![one.clone()],
            Some(Some1::Many(many)) => many.clone(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterKeys {
    netns: Option<Some1<String>>,
    device: Option<Some1<String>>,
    #[serde(default)]
    protocol: Written<u8>,
    #[serde(default)]
    address: Written<Net>,
    #[serde(default)]
    source: Written<Net>,
    #[serde(default)]
    destination: Written<Net>,
    #[serde(default)]
    port: Written<u16>,
    #[serde(default)]
    source_port: Written<u16>,
    #[serde(default)]
    destination_port: Written<u16>,
    #[serde(default)]
    tcp_flags: Vec<Flag>,
    trace: Option<String>,
    service: Option<String>,
    endpoint: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flag {
    Fin = 1,
    Syn = 2,
    Rst = 4,
    Psh = 8,
    Ack = 16,
    Urg = 32,
    Ece = 64,
    Cwr = 128,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    Send,
    Queue,
    Xmit,
    Receive,
    Tcp,
    Ready,
    Copied,
    Drop,
    Resent,
}

impl From<Where> for Point {
    fn from(at: Where) -> Self {
        match at {
            Where::Send => Point::Send,
            Where::Queue => Point::Queue,
            Where::Xmit => Point::Xmit,
            Where::Receive => Point::Receive,
            Where::Tcp => Point::Tcp,
            Where::Ready => Point::Ready,
            Where::Copied => Point::Copied,
            Where::Drop => Point::Drop,
            Where::Resent => Point::Resent,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "keys, each with a value: filter, where, action, for, at_most, one_flow_of")]
struct Keys {
    #[serde(default)]
    filter: FilterKeys,
    #[serde(rename = "where")]
    points: Option<Vec<Where>>,
    action: Option<Vec<Action>>,
    #[serde(rename = "for")]
    time: Option<Written<Duration>>,
    at_most: Option<u64>,
    one_flow_of: Option<u32>,
}

/// A packet program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    keys: Keys,
    /// What is done with the packets.
    pub(crate) actions: Vec<Action>,
    /// How long it runs.
    pub(crate) time: Duration,
}

/// The error in other words, with the nearest name and the line.
fn explain(error: &serde_norway::Error) -> anyhow::Error {
    let text = error.to_string();
    let line = error.location().map_or(String::new(), |at| format!("line {}: ", at.line()));
    let words: Vec<&str> = text.split('`').collect();
    let kind = words.first().copied().unwrap_or_default();
    let (Some(wrong), true) = (words.get(1), kind.contains("unknown field") || kind.contains("unknown variant")) else {
        return anyhow!("{text}");
    };
    let what = if kind.contains("field") { "key" } else { "value" };
    let known: Vec<&str> = words.iter().copied().skip(3).step_by(2).collect();
    match known.iter().map(|name| (strsim::damerau_levenshtein(wrong, name), name)).min() {
        Some((distance, name)) if distance <= wrong.len().max(4) / 2 => {
            anyhow!("{line}unknown {what} `{wrong}`; did you mean `{name}`?")
        }
        _ => anyhow!("{line}unknown {what} `{wrong}`; there are: {}", known.join(", ")),
    }
}

/// The error with the line of the key that it names first, if the text has one.
fn with_line(text: &str, error: &anyhow::Error) -> anyhow::Error {
    let said = format!("{error:#}");
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let path = said.trim_start_matches('`').split(|c| !is_name(c)).next().unwrap_or_default();
    let key = path.rsplit('.').next();
    let is_there = |line: &str| line.split(['{', ',', ' ']).any(|word| word.strip_suffix(':') == key);
    match text.lines().position(is_there) {
        Some(at) => anyhow!("line {}: {said}", at + 1),
        None => anyhow!("{said}"),
    }
}

impl Program {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("packet program {}", path.display()))?;
        Program::parse(&text).with_context(|| format!("packet program {}", path.display()))
    }

    /// Reads the text of a file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        // An empty file is an empty program.
        let keys: Option<Keys> = serde_norway::from_str(text).map_err(|e| explain(&e))?;
        let keys = keys.unwrap_or_default();
        Program::of(keys).map_err(|error| with_line(text, &error))
    }

    fn of(keys: Keys) -> Result<Self> {
        let actions = keys.action.clone().unwrap_or_else(|| vec![Action::Latency, Action::Drops]);
        if actions.is_empty() {
            bail!("`action` is empty: there is nothing to do with the packets");
        }
        let time = keys.time.map_or(Duration::from_secs(10), |Written(time)| time);
        let program = Program { keys, actions, time };
        // Namespaces may be those of another machine.
        program.options_in(Vec::new())?;
        program.asks()?;
        Ok(program)
    }

    /// What to load for it. The namespaces are those of the program and these.
    pub(crate) fn options(&self, more_netns: &[String]) -> Result<PacketOptions> {
        let netns = self.netns(more_netns)?.into_iter().map(|(inode, _)| inode).collect();
        self.options_in(netns)
    }

    /// As [`Program::options`], for packets of these namespaces.
    pub(crate) fn options_in(&self, netns: Vec<u32>) -> Result<PacketOptions> {
        let keys = &self.keys.filter;
        let flags = keys.tcp_flags.iter().fold(0, |all, flag| all | *flag as u8);
        let filter = Filter {
            source: keys.source.0,
            destination: keys.destination.0,
            address: keys.address.0,
            source_port: keys.source_port.0,
            destination_port: keys.destination_port.0,
            port: keys.port.0,
            protocol: keys.protocol.0,
            tcp_flags: flags,
            devices: Some1::all(keys.device.as_ref()),
            netns,
        };
        let points = match &self.keys.points {
            Some(points) if points.is_empty() => bail!("`where` is empty: packets are seen nowhere"),
            Some(points) => points.iter().map(|at| Point::from(*at)).collect(),
            None => Point::ALL.to_vec(),
        };
        let at_most = self.keys.at_most.unwrap_or(AT_MOST);
        if at_most == 0 {
            bail!("`at_most` is 0: no packet would be told");
        }
        let one_flow_of = self.keys.one_flow_of.unwrap_or(1);
        let only_ends = self.asks()?.is_some();
        Ok(PacketOptions { filter, only_ends, points, one_flow_of, at_most, ring_bytes: RING_BYTES })
    }

    /// The path of the query API that names the connections of the filter, and whether they are those of one trace.
    pub(crate) fn asks(&self) -> Result<Option<(String, bool)>> {
        let FilterKeys { trace, service, endpoint, .. } = &self.keys.filter;
        if let Some(id) = trace {
            let is_id = matches!(id.len(), 16 | 32) && id.bytes().all(|b| b.is_ascii_hexdigit());
            if !is_id {
                bail!("filter.trace: `{id}` is no id: of a trace it has 32 hex digits, of a span 16; quote it");
            }
            if service.is_some() || endpoint.is_some() {
                bail!("filter.trace names the packets already: leave out `service` and `endpoint`");
            }
            return Ok(Some((format!("/api/v1/trace/{id}/model"), true)));
        }
        let mut query: Vec<(&str, &str)> = Vec::new();
        query.extend(service.as_deref().map(|name| ("service", name)));
        query.extend(endpoint.as_deref().map(|path| ("endpoint", path)));
        if query.is_empty() {
            return Ok(None);
        }
        let words = query.iter().map(|(key, value)| format!("&{key}={}", encode(value)));
        let path = format!("/api/v1/spans?tap=server-process&limit=1000&from=-1h{}", words.collect::<String>());
        Ok(Some((path, false)))
    }

    /// What the filter means by spans.
    pub(crate) fn whose(&self) -> Option<Whose> {
        let FilterKeys { trace, service, endpoint, .. } = &self.keys.filter;
        match (trace, service, endpoint) {
            (Some(id), ..) => Some(Whose::Trace(id.clone())),
            (None, None, None) => None,
            (None, service, endpoint) => Some(Whose::Requests { service: service.clone(), endpoint: endpoint.clone() }),
        }
    }

    /// Whether the filter has `trace`.
    pub(crate) fn names_a_trace(&self) -> bool {
        self.keys.filter.trace.is_some()
    }

    /// The chosen namespaces, as they are written.
    pub(crate) fn netns_names(&self, more: &[String]) -> Vec<String> {
        let mut names = Some1::all(self.keys.filter.netns.as_ref());
        names.extend(more.iter().cloned());
        names
    }

    /// The chosen namespaces: inode and name.
    pub(crate) fn netns(&self, more: &[String]) -> Result<Vec<(u32, String)>> {
        let all = self.netns_names(more);
        all.iter().map(|name| Ok((netns_inode(name).map_err(|e| anyhow!(e))?, name.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_as_it_is_written() {
        let text = "filter:\n  protocol: tcp\n  address: 10.0.0.0/8\n  port: 80\n  tcp_flags: [syn, rst]\n  \
                    device: eth0\nwhere: [queue, xmit]\naction: [count]\nfor: 500ms\nat_most: 7\none_flow_of: 4\n";
        let program = Program::parse(text).expect("valid");
        assert_eq!((program.time, &program.actions[..]), (Duration::from_millis(500), &[Action::Count][..]));
        let options = program.options(&[]).expect("valid");
        assert_eq!(options.points, [Point::Queue, Point::Xmit]);
        assert_eq!((options.at_most, options.one_flow_of), (7, 4));
        let filter = options.filter;
        assert_eq!((filter.protocol, filter.port, filter.tcp_flags, filter.devices), (6, 80, 6, vec!["eth0".into()]));
        assert!(filter.address.has([10, 1, 2, 3].into()) && filter.source.is_any());
    }

    #[test]
    fn connections_are_asked_for_by_trace_service_and_endpoint() {
        let asks = |text| Program::parse(text).expect("valid").asks().expect("valid");
        let trace = asks("filter: {trace: 'abcdef0123456789'}\n").expect("asks");
        assert_eq!(trace, ("/api/v1/trace/abcdef0123456789/model".into(), true));
        let (path, _) = asks("filter: {service: a shop, endpoint: /pay}\n").expect("asks");
        assert!(path.ends_with("&service=a%20shop&endpoint=%2Fpay"), "{path}");
        assert_eq!(asks("filter: {port: 80}\n"), None);
        let options = Program::parse("filter: {service: shop}\n").expect("valid").options(&[]).expect("valid");
        assert!(options.only_ends);
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let program = Program::parse("").expect("valid");
        assert_eq!(program.actions, [Action::Latency, Action::Drops]);
        let options = program.options(&[]).expect("valid");
        assert!(options.filter.is_everything());
        assert_eq!((options.points.len(), options.at_most), (Point::ALL.len(), AT_MOST));
    }

    #[test]
    fn a_wrong_key_names_the_nearest_and_the_line() {
        let wrong = |text| Program::parse(text).expect_err("wrong").to_string();
        assert_eq!(wrong("for: 1s\nfliter: {}\n"), "line 2: unknown key `fliter`; did you mean `filter`?");
        assert_eq!(
            wrong("filter:\n  port: 1\n  adress: 10.0.0.1\n"),
            "line 3: unknown key `adress`; did you mean `address`?"
        );
        assert_eq!(wrong("where:\n- queue\n- xmitt\n"), "line 3: unknown value `xmitt`; did you mean `xmit`?");
        assert!(wrong("frobnicate: 1\n").contains("there are: filter, where, action, for"));
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_its_key() {
        let wrong = |text| format!("{:#}", Program::parse(text).expect_err("wrong"));
        assert!(wrong("filter: {address: 10.0.0.0/99}").starts_with("filter.address: "));
        assert!(wrong("filter:\n  port: 1\n  source: ten\n").ends_with("at line 3 column 11"));
        assert_eq!(wrong("filter:\n  port: 1\n  protocol: tpc\n"), "line 3: unknown value `tpc`; did you mean `tcp`?");
        assert!(wrong("filter: {protocol: 256}").ends_with("icmpv6, a number below 256"));
        assert!(wrong("for: soon").contains("500ms"));
        assert!(wrong("action: [count]\nfor: 10").ends_with("write 500ms, 10s or 2m at line 2 column 6"));
        assert!(wrong("filter: {port: 70000}").contains("`70000` is no port: write a number up to 65535 at line 1"));
        assert!(wrong("filter: {port: 1}\nwhere: []").starts_with("line 2: `where` is empty"));
        assert!(wrong("for: 1s\n\naction: []").starts_with("line 3: `action` is empty"));
        assert!(wrong("at_most: 0").starts_with("line 1: `at_most` is 0"));
        assert!(wrong("[1, 2]").ends_with("each with a value: filter, where, action, for, at_most, one_flow_of"));
        assert!(wrong("for: 1s\nfilter: {trace: checkout}").starts_with("line 2: filter.trace: `checkout` is no id"));
        assert!(wrong("filter: {trace: checkout}").contains("32 hex digits"));
        let id = "0123456789abcdef";
        let twice = format!("filter: {{trace: '{id}', service: shop}}");
        assert!(wrong(&twice).starts_with("line 1: filter.trace names"));
        assert!(wrong(&twice).contains("leave out `service`"));
    }
}
