//! The client's operations, the traced spans, and their differences.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The servers' own reading and writing may begin and end this much outside of the client's call: on a busy machine a
/// process that is ready may wait this long.
const SLACK_NS: u64 = 500_000_000;
/// Most differences that are printed.
const SHOWN: usize = 400;

/// One operation that the client did.
struct Done {
    protocol: String,
    name: String,
    status: String,
    attrs: BTreeMap<String, String>,
    late: bool,
    start: u64,
    end: u64,
    port: u64,
    end_port: u64,
}

/// A truth file.
pub(crate) struct Truth {
    ports: Vec<u64>,
    also: Vec<String>,
    pub(crate) secrets: Vec<String>,
    /// The connections of this protocol can be understood from their start only, so none is older than the tracing.
    from_start: bool,
    done: Vec<Done>,
}

/// A span at a process.
pub(crate) struct Seen {
    side: &'static str,
    protocol: String,
    name: String,
    status: String,
    error: String,
    attrs: BTreeMap<String, String>,
    start: u64,
    end: u64,
    port: u64,
    end_port: u64,
}

/// The outcome of the operation.
pub(crate) struct Report {
    pub(crate) summary: String,
    pub(crate) differences: Vec<String>,
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// A span's name, as `Span::name` makes it.
fn name(protocol: &str, operation: &str, target: &str) -> String {
    match (operation, target) {
        ("", "") => protocol.to_string(),
        ("", target) => format!("{protocol} {target}"),
        (operation, "") => operation.to_string(),
        (operation, target) => format!("{operation} {target}"),
    }
}

pub(crate) fn read(path: &Path) -> Truth {
    let file = std::fs::read_to_string(path).unwrap();
    let mut lines = file.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let head = lines.next().unwrap();
    let words = |key: &str| head[key].as_array().unwrap().iter().map(text).collect::<Vec<_>>();
    let mut done: Vec<_> = lines
        .map(|r| Done {
            protocol: text(&r["protocol"]),
            name: name(&text(&r["protocol"]), &text(&r["operation"]), &text(&r["target"])),
            status: text(&r["status"]),
            attrs: r["attrs"].as_object().unwrap().iter().map(|(k, v)| (k.clone(), text(v))).collect(),
            late: r["late"] == true,
            start: r["start"].as_u64().unwrap(),
            end: r["end"].as_u64().unwrap(),
            port: r["port"].as_u64().unwrap(),
            end_port: r["end_port"].as_u64().unwrap(),
        })
        .collect();
    // The earliest deadline first: then the first span that fits is never one that another record needs more.
    done.sort_by_key(|d| (d.end, d.start));
    Truth {
        ports: words("ports").iter().map(|p| p.parse().unwrap()).collect(),
        also: words("also"),
        secrets: words("secrets"),
        from_start: head["from_start"] == true,
        done,
    }
}

/// The spans of processes towards the servers' ports.
pub(crate) fn spans(path: &Path, truth: &Truth) -> Vec<Seen> {
    let mut seen = Vec::new();
    let file = std::fs::read_to_string(path).unwrap();
    let each = |v: &Value, key: &str| v[key].as_array().cloned().unwrap_or_default();
    for request in file.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()) {
        let groups = each(&request, "resourceSpans").into_iter().flat_map(|g| each(&g, "scopeSpans"));
        for s in groups.flat_map(|g| each(&g, "spans")) {
            let attrs: BTreeMap<_, _> = each(&s, "attributes")
                .iter()
                .map(|a| (text(&a["key"]), text(a["value"].as_object().unwrap().values().next().unwrap())))
                .collect();
            let attr = |key: &str| attrs.get(key).cloned().unwrap_or_default();
            let mut ends = match attr("wirespan.tap_side").as_str() {
                "client-process" => ["client", "server"],
                "server-process" => ["server", "client"],
                _ => continue,
            };
            let number = |text: String| text.parse().unwrap_or(0);
            let (mut port, mut end_port) = (number(attr("server.port")), number(attr("client.port")));
            // Requests and messages that the server starts itself: the records name the ends by who connected.
            if truth.ports.contains(&end_port) && !truth.ports.contains(&port) {
                (port, end_port) = (end_port, port);
                ends.reverse();
            }
            let side = ends[0];
            if !truth.ports.contains(&port) {
                continue;
            }
            seen.push(Seen {
                side,
                protocol: attr("network.protocol.name"),
                name: text(&s["name"]),
                status: attr("wirespan.status"),
                error: attr("wirespan.error.message"),
                start: number(text(&s["startTimeUnixNano"])),
                end: number(text(&s["endTimeUnixNano"])),
                port,
                end_port,
                attrs,
            });
        }
    }
    seen.sort_by_key(|s| (s.end, s.start));
    seen
}

impl Done {
    fn is(&self, span: &Seen) -> bool {
        self.looks_like(span)
            && self.port == span.port
            && (self.end_port == 0 || self.end_port == span.end_port)
            && self.during(span)
    }

    /// Every reported fact must be right. On a connection that was joined in the middle, a fact may be missing if the
    /// span says that it is unknown.
    fn looks_like(&self, span: &Seen) -> bool {
        let list = span.attrs.get("wirespan.unknown").filter(|_| self.late).map_or("", String::as_str);
        let hidden = |what: &str| list.split(',').any(|w| w == what);
        // Without the content type gRPC is HTTP/2: a POST to a path that names the method.
        let plain = self.attrs.get("rpc.system.name").is_some_and(|s| s == "grpc")
            && hidden("http.request.header.content-type");
        let name = match (plain, hidden("url.path")) {
            (true, false) => format!("POST /{}", self.name),
            (true, true) => "POST".to_string(),
            (false, true) => self.protocol.clone(),
            (false, false) => self.name.clone(),
        };
        name == span.name
            && self.protocol == span.protocol
            && (self.status == span.status || hidden("rpc.status_code"))
            && self
                .attrs
                .iter()
                .all(|(k, v)| span.attrs.get(k) == Some(v) || hidden(k) || plain && k == "rpc.system.name")
    }

    fn during(&self, span: &Seen) -> bool {
        span.start + SLACK_NS >= self.start && span.end <= self.end + SLACK_NS
    }

    fn show(&self, from: u64) -> String {
        let late = if self.late { ", connection older than the tracing" } else { "" };
        let attrs: String = self.attrs.iter().map(|(k, v)| format!(" {k}={v}")).collect();
        format!(
            "{} {:?} {}{attrs} at {:.3}–{:.3} ms from port {}{late}",
            self.protocol,
            self.name,
            self.status,
            ms(self.start, from),
            ms(self.end, from),
            self.end_port
        )
    }
}

fn ms(time: u64, from: u64) -> f64 {
    (time as f64 - from as f64) / 1e6
}

impl Seen {
    fn show(&self, from: u64) -> String {
        let error = if self.error.is_empty() { String::new() } else { format!(" ({})", self.error) };
        format!(
            "{} {:?} {}{error} at {:.3}–{:.3} ms, port {} → {}",
            if self.protocol.is_empty() { "unknown" } else { &self.protocol },
            self.name,
            self.status,
            ms(self.start, from),
            ms(self.end, from),
            self.end_port,
            self.port
        )
    }

    /// What both ends must agree on.
    fn essence(&self) -> (&str, &str, &str, &str) {
        (&self.protocol, &self.name, &self.status, &self.error)
    }
}

impl Truth {
    fn is_also(&self, span: &Seen) -> bool {
        let full = format!("{} {}", span.protocol, span.name);
        self.also.iter().any(|a| full == *a || full.strip_prefix(a.as_str()).is_some_and(|rest| rest.starts_with(' ')))
    }

    /// Matches each operation to its own span, on each end; then both ends of each exchange to each other.
    pub(crate) fn compare(&self, spans: &[Seen]) -> Report {
        let from = self.done.iter().map(|d| d.start).min().unwrap_or(0);
        let mut differences = Vec::new();
        let mut also = 0;
        for side in ["client", "server"] {
            let spans: Vec<_> = spans.iter().filter(|s| s.side == side).collect();
            let mut taken = vec![false; spans.len()];
            let mut missing = Vec::new();
            for done in &self.done {
                match (0..spans.len()).find(|i| !taken[*i] && done.is(spans[*i])) {
                    Some(i) => taken[i] = true,
                    None => missing.push(done),
                }
            }
            for done in missing {
                differences.push(format!("{side}: missing: {}", done.show(from)));
                let near = (0..spans.len()).filter(|i| {
                    !taken[*i] && done.during(spans[*i]) && (done.end_port == 0 || done.end_port == spans[*i].end_port)
                });
                differences.extend(near.take(2).map(|i| format!("          near is {}", spans[i].show(from))));
            }
            for (span, _) in spans.iter().zip(&taken).filter(|(_, taken)| !**taken) {
                if self.is_also(span) {
                    also += 1;
                } else {
                    differences.push(format!("{side}: extra: {}", span.show(from)));
                }
            }
        }
        let pairs = pair(spans, from, &|span| self.is_also(span), &mut differences);
        let hidden = differences.len().saturating_sub(SHOWN);
        differences.truncate(SHOWN);
        if hidden > 0 {
            differences.push(format!("… and {hidden} lines more"));
        }
        let late = self.done.iter().filter(|d| d.late).count();
        let summary = format!(
            "{} operations, {late} of them on connections older than the tracing; {} spans, {also} of them made by the \
             library; {pairs} pairs of ends",
            self.done.len(),
            spans.len(),
        );
        assert!(!self.done.is_empty() && (late > 0 || self.from_start), "the client did nothing: {summary}");
        Report { summary, differences }
    }
}

/// Compares both ends of each exchange, found by connection and sequence number of the request's first byte.
/// A library that closes with a farewell message may leave before the answer.
fn pair(spans: &[Seen], from: u64, is_also: &dyn Fn(&Seen) -> bool, differences: &mut Vec<String>) -> usize {
    let agree = |c: &Seen, s: &Seen| {
        let left = is_also(c) && c.status == "closed" && (&c.protocol, &c.name) == (&s.protocol, &s.name);
        left || c.essence() == s.essence()
    };
    let mut ends: HashMap<_, [Vec<&Seen>; 2]> = HashMap::new();
    for span in spans {
        let Some(seq) = span.attrs.get("wirespan.tcp.request_seq").or(span.attrs.get("wirespan.tcp.response_seq"))
        else {
            continue;
        };
        let both = ends.entry((span.port, span.end_port, seq.as_str(), span.status == "no-request")).or_default();
        both[usize::from(span.side == "server")].push(span);
    }
    for [client, server] in ends.values() {
        let same = client.len() == server.len() && client.iter().zip(server).all(|(c, s)| agree(c, s));
        if !same {
            let show = |ends: &[&Seen]| ends.iter().map(|s| s.show(from)).collect::<Vec<_>>().join("; ");
            differences.push(format!("ends differ: client: {}\n             server: {}", show(client), show(server)));
        }
    }
    ends.len()
}
