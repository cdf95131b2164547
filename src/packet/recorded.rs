//! Packets that were recorded as JSON lines before → the ones that a program selects.

use super::{Names, Subject};
use anyhow::{bail, Context as _, Result};
use rustc_hash::FxHashSet;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::Path;
use wirespan_capture::packet::{Filter, Headers, PacketOptions};
use wirespan_model::packet::{Point, Route, Sighting, NOT_IP};
use wirespan_model::plain;

/// How such a file comes about.
const RECORD: &str = "--from reads what `wirespan packet` with `action: [record]` and --format json wrote";

/// A machine that saw packets.
pub(crate) struct Machine {
    /// Its agent; empty if the packets were recorded without a fleet.
    pub(crate) agent: String,
    /// What it called its namespaces.
    pub(crate) names: Names,
}

/// What a file has for a program.
#[derive(Default)]
pub(crate) struct Recorded {
    /// The selected packets, in the order of the file, each with the number of its machine.
    pub(crate) sightings: Vec<(usize, Sighting)>,
    /// The machines that saw packets.
    pub(crate) machines: Vec<Machine>,
    /// Lines of JSON that wirespan did not write. Those of other actions are not counted.
    pub(crate) foreign_lines: u64,
    /// Packets that the program does not select.
    pub(crate) not_selected: u64,
    /// More were selected, but `at_most` was reached.
    pub(crate) at_limit: bool,
    reasons: BTreeMap<u32, String>,
    followed: Followed,
}

impl Recorded {
    /// Reads a file. `netns`: names or inodes of the chosen namespaces; empty: all. `subject`: the connections that the
    /// filter names by spans.
    pub(crate) fn read(
        path: &Path,
        options: &PacketOptions,
        netns: &[String],
        subject: Option<&Subject>,
    ) -> Result<Self> {
        if options.filter.headers == Headers::Outer {
            bail!("filter.headers: `outer`: of a packet in a tunnel, only the inner headers are recorded");
        }
        let file = std::fs::File::open(path).with_context(|| format!("recorded packets {}", path.display()))?;
        let mut all = Recorded::default();
        let marks = options.marks.iter().map(|mark| mark.function.as_str());
        let functions: Vec<&str> = options.functions.iter().map(String::as_str).chain(marks).collect();
        for (n, line) in (1u64..).zip(std::io::BufReader::new(file).lines()) {
            let at = || format!("{}, line {n}", path.display());
            let Ok(line) = serde_json::from_str::<Value>(&line.with_context(at)?) else {
                bail!("{}: this is no JSON; {RECORD}", at());
            };
            if line["kind"] != "packet" {
                all.foreign_lines += u64::from(!line["kind"].is_string());
                continue;
            }
            let s = Sighting::deserialize(&line).with_context(at)?;
            let space = line["netns_name"].as_str().unwrap_or_default();
            let machine = all.machine(&plain::line(line["agent"].as_str().unwrap_or_default()));
            if let Some(Machine { names, .. }) = all.machines.get_mut(machine) {
                names.call(s.netns, space);
            }
            if let Some(reason) = line["drop_reason"].as_str() {
                all.reasons.entry(s.reason).or_insert_with(|| reason.to_owned());
            }
            let is_named = s.function.is_empty() || functions.contains(&s.function.as_str());
            let in_space = netns.is_empty() || netns.iter().any(|name| name == space || *name == s.netns.to_string());
            let named = subject.is_none_or(|subject| subject.has(&s));
            let seen = in_space && named && is_named && options.points.contains(&s.point);
            if !seen || !all.followed.selects(&options.filter, &s) {
                all.not_selected += 1;
            } else if all.sightings.len() as u64 >= options.at_most {
                all.at_limit = true;
                break;
            } else {
                all.sightings.push((machine, s));
            }
        }
        if all.sightings.is_empty() && all.not_selected == 0 {
            bail!("{} has no packets; {RECORD}", path.display());
        }
        Ok(all)
    }

    /// The number of a machine.
    fn machine(&mut self, agent: &str) -> usize {
        let known = self.machines.iter().position(|machine| machine.agent == agent);
        known.unwrap_or_else(|| {
            self.machines.push(Machine { agent: agent.to_owned(), names: Names::default() });
            self.machines.len() - 1
        })
    }

    /// The kernel's name for the reason of a drop.
    pub(crate) fn reason(&self, number: u32) -> String {
        self.reasons.get(&number).cloned().unwrap_or_else(|| format!("reason {number}"))
    }
}

/// Flows that the filter follows under the addresses that conntrack has given them.
#[derive(Default)]
struct Followed(FxHashSet<Route>);

impl Followed {
    /// Whether the filter selects a packet, as the kernel programs decide it (`bpf/packet/select.h`).
    fn selects(&mut self, filter: &Filter, s: &Sighting) -> bool {
        // A mark is no packet.
        if s.point == Point::Mark {
            return true;
        }
        let has = |route: &Route| has_addresses(filter, route) || self.0.contains(route);
        if !has_kind(filter, s) || !(has(&s.route) || s.was.as_deref().is_some_and(has)) {
            return false;
        }
        if let Some(was) = s.was.as_deref().filter(|_| !self.0.contains(&s.route)) {
            self.0.extend([s.route, *was]);
            let answers = [s.route.reversed(), was.reversed()];
            if answers.iter().any(|answer| has_addresses(filter, answer)) {
                self.0.extend(answers);
            }
        }
        true
    }
}

/// Whether all but addresses and ports is that of the filter.
fn has_kind(filter: &Filter, s: &Sighting) -> bool {
    (filter.protocol == 0 || filter.protocol == s.route.protocol)
        && (filter.ether_type != 0 || s.route.protocol != NOT_IP)
        && (filter.ether_type == 0 || filter.ether_type == s.route.ether_type())
        && (filter.tcp_flags == 0 || filter.tcp_flags & s.flags != 0)
        && (filter.devices.is_empty() || s.ifindex == 0 || filter.devices.iter().any(|name| *name == s.device))
}

/// Whether addresses and ports are those of the filter.
fn has_addresses(filter: &Filter, route: &Route) -> bool {
    let Route { source, destination, source_port, destination_port, .. } = *route;
    let port = |wanted: u16, ports: &[u16]| wanted == 0 || ports.contains(&wanted);
    let net = |net: wirespan_capture::packet::Net, ip| net.is_any() || net.has(ip);
    port(filter.source_port, &[source_port])
        && port(filter.destination_port, &[destination_port])
        && port(filter.port, &[source_port, destination_port])
        && net(filter.source, source)
        && net(filter.destination, destination)
        && (net(filter.address, source) || net(filter.address, destination))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_capture::packet::Net;
    use wirespan_model::packet::{Headers, Point, Tunnel};

    fn one() -> Sighting {
        let (source, destination) = ("10.1.0.7".parse().unwrap(), "fd00::1".parse().unwrap());
        Sighting {
            time_ns: 1_700_000_000_000_000_001,
            point: Point::Drop,
            netns: 4_026_531_840,
            ifindex: 3,
            device: "eth0".into(),
            function: "".into(),
            cpu: 1,
            route: Route { source, destination, source_port: 40_000, destination_port: 80, protocol: 6 },
            seq: u32::MAX,
            len: 100,
            hash: 9,
            flags: 0x18,
            tunnel: Tunnel::Vxlan,
            fragment: true,
            reason: 64,
            queue_len: 5,
            was: Some(Route { source, destination, source_port: 1, destination_port: 2, protocol: 6 }.into()),
            headers: Some(Headers { link_len: 14, frame_len: 154, bytes: [7; 54].into() }.into()),
            stack: ["ip_rcv_core".into(), "ip_rcv".into()].into(),
        }
    }

    #[test]
    fn what_was_recorded_comes_back() {
        for s in [one(), Sighting { point: Point::Function, function: "ip_rcv".into(), ..one() }] {
            assert_eq!(Sighting::deserialize(&serde_json::to_value(&s).unwrap()).unwrap(), s);
        }
        let mut wrong = serde_json::to_value(one()).unwrap();
        wrong["point"] = "nowhere".into();
        assert!(Sighting::deserialize(&wrong).unwrap_err().to_string().contains("nowhere"));
        assert!(Sighting::deserialize(&serde_json::json!({"kind": "packet"})).is_err());
        // A number that its field cannot hold is an error, too, and is not cut.
        let mut wrong = serde_json::to_value(one()).unwrap();
        wrong["route"]["source_port"] = 65_536.into();
        assert!(Sighting::deserialize(&wrong).is_err());
    }

    #[test]
    fn lines_of_other_actions_are_passed_over_and_what_is_no_record_is_told() {
        let mut packet = serde_json::to_value(one()).unwrap();
        packet["kind"] = "packet".into();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recorded.jsonl");
        let options = crate::packet::Program::parse("").unwrap().options(&[]).unwrap();
        let read = |text: String| {
            std::fs::write(&file, text).unwrap();
            Recorded::read(&file, &options, &[], None)
        };
        let all = read(format!("{packet}\n{{\"kind\":\"end\"}}\n{{\"kin\":1}}\n")).unwrap();
        assert_eq!((all.sightings.len(), all.foreign_lines), (1, 1));
        let wrong = |text: &str| format!("{:#}", read(text.to_owned()).map(|_| ()).unwrap_err());
        let said = wrong("{\"kind\":\"end\"}\nno json\n");
        assert!(said.contains("recorded.jsonl, line 2: this is no JSON; --from reads what"), "{said}");
        assert!(wrong("{\"kind\":\"end\"}\n").contains("has no packets; --from reads what"));
    }

    #[test]
    fn a_flow_is_followed_under_the_addresses_that_conntrack_gives_it() {
        let route = |source: &str, source_port, destination: &str, destination_port| Route {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            source_port,
            destination_port,
            protocol: 6,
        };
        let seen = |route, was: Option<Route>| Sighting { route, was: was.map(Box::new), ..one() };
        let before = route("10.1.0.2", 40_000, "10.1.0.1", 8080);
        let behind = route("10.2.0.1", 50_000, "10.2.0.2", 80);
        let ports = [
            (Filter { port: 8080, ..Filter::default() }, [false, true, true, true]),
            (Filter { destination_port: 8080, ..Filter::default() }, [false, true, true, false]),
            // The address behind the translation is followed to that before it.
            (Filter { destination_port: 80, ..Filter::default() }, [true, true, true, false]),
            (Filter { port: 8081, ..Filter::default() }, [false; 4]),
        ];
        for (filter, wanted) in ports {
            let mut followed = Followed::default();
            let told =
                [seen(behind, None), seen(behind, Some(before)), seen(before, None), seen(behind.reversed(), None)]
                    .map(|s| followed.selects(&filter, &s));
            assert_eq!(told, wanted, "{filter:?}");
            assert!(!followed.selects(&filter, &seen(route("10.2.0.1", 50_001, "10.2.0.2", 81), None)));
        }
    }

    #[test]
    fn a_filter_selects_as_the_kernel_does() {
        let selects = |filter: &Filter, s: &Sighting| Followed::default().selects(filter, s);
        let selected = |filter: Filter| selects(&filter, &one());
        let net = |text| Net::parse(text).unwrap();
        assert!(selected(Filter::default()));
        assert!(selected(Filter { protocol: 6, port: 80, tcp_flags: 8, ..Filter::default() }));
        assert!(!selected(Filter { protocol: 17, ..Filter::default() }));
        assert!(!selected(Filter { tcp_flags: 2, ..Filter::default() }));
        assert!(!selected(Filter { source_port: 80, ..Filter::default() }));
        assert!(selected(Filter { address: net("fd00::/16"), source: net("10.0.0.0/8"), ..Filter::default() }));
        assert!(!selected(Filter { destination: net("10.0.0.0/8"), ..Filter::default() }));
        assert!(!selected(Filter { devices: vec!["eth1".into()], ..Filter::default() }));
        assert!(selects(
            &Filter { devices: vec!["eth1".into()], ..Filter::default() },
            &Sighting { ifindex: 0, ..one() }
        ));
    }
}
