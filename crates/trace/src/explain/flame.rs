//! Flame graphs: in which code requests spent their time, running and waiting; of one span, or of slow requests beside
//! usual ones.

use super::Parts;
use crate::tree::service_name;
use serde::{Deserialize, Serialize};
use wirespan_model::attr::WAIT_REASON;
use wirespan_model::stack::{Frame, Stack};
use wirespan_model::wait::{SpanWait, SpanWaits, WaitKind, SAMPLE_NS};
use wirespan_model::{plain, Span};

/// Most functions that lie on each other; deeper ones are left out.
const DEEPEST: usize = 200;

/// Which requests a span belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those that are asked about.
    Slow = 0,
    /// Those to compare with.
    Usual = 1,
}

/// What a box of a flame graph stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlameKind {
    /// Requests as a whole.
    #[default]
    Request,
    /// A function of the program.
    Program,
    /// A function of the kernel.
    Kernel,
    /// A wait.
    Wait,
}

/// A box of a flame graph: all time in which this function was under way below those above it. Times are means of all
/// requests, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlameBox {
    /// Number of boxes above it.
    pub depth: u32,
    /// Where it begins, from the left.
    pub from_ns: u64,
    /// How wide it is: the mean of the slow requests.
    pub ns: u64,
    /// The mean of the usual requests.
    pub usual_ns: u64,
    /// Function, without control characters.
    pub name: String,
    /// What it is.
    pub kind: FlameKind,
}

/// A flame graph.
#[derive(Clone, Debug, Default)]
pub struct Flame {
    root: Node,
    spans: [u64; 2],
}

#[derive(Clone, Debug, Default)]
struct Node {
    name: String,
    kind: FlameKind,
    /// Of both sides.
    ns: [u64; 2],
    below: Vec<Node>,
}

impl Node {
    fn below(&mut self, name: &str, kind: FlameKind) -> &mut Node {
        let known = self.below.iter().position(|node| node.kind == kind && node.name == name);
        let at = known.unwrap_or_else(|| {
            self.below.push(Node { name: name.into(), kind, ..Node::default() });
            self.below.len() - 1
        });
        &mut self.below[at]
    }
}

impl Flame {
    /// Of one span; `None` if it is not known in which code it was.
    pub fn of_span(span: &Span) -> Option<Self> {
        let mut flame = Flame::default();
        flame.add(span, Side::Slow).then_some(flame)
    }

    /// Of slow requests beside those of the sample. If none was recorded as one of the sample, the slower half stands
    /// beside the quicker one. `None` if less than two say in which code they were.
    pub fn compare<'a>(spans: impl Iterator<Item = &'a Span>) -> Option<Self> {
        // A request that failed is no usual one, however quick it was.
        let failed = |span: &Span| span.text(WAIT_REASON) == Some("error");
        let mut known: Vec<&Span> = spans.filter(|span| !failed(span) && Flame::of_span(span).is_some()).collect();
        if known.len() < 2 {
            return None;
        }
        let is_slow = |span: &&Span| span.text(WAIT_REASON) == Some("slow");
        known.sort_by_key(|span| (is_slow(span), span.duration_ns()));
        let usual = known.iter().filter(|span| !is_slow(span)).count();
        let usual = if usual == 0 || usual == known.len() { known.len() / 2 } else { usual };
        let mut flame = Flame::default();
        for (n, span) in known.into_iter().enumerate() {
            flame.add(span, if n < usual { Side::Usual } else { Side::Slow });
        }
        Some(flame)
    }

    /// Adds a span. Says whether it is known in which code it was.
    pub fn add(&mut self, span: &Span, side: Side) -> bool {
        let Some(told) = SpanWaits::of(span) else { return false };
        if told.stacks.is_empty() && told.samples_left_out == 0 {
            return false;
        }
        self.spans[side as usize] += 1;
        self.add_name(span);
        for sample in &told.samples {
            let stack = told.stacks.get(sample.stack as usize);
            self.put(stack, None, side, SAMPLE_NS * u64::from(sample.times));
        }
        self.put(None, Some("[code not known]".into()), side, SAMPLE_NS * u64::from(told.samples_left_out));
        for wait in &told.waits {
            let what = if wait.in_call { "a call" } else { wait.kind.as_str() };
            self.put(told.stack(wait), Some(format!("[waited: {what}]")), side, wait.duration_ns);
        }
        self.put(None, Some("[waited: shorter waits]".into()), side, told.left_out_ns);
        self.put(None, Some("[waited: run-queue]".into()), side, forgotten_ns(span, &told));
        true
    }

    /// The graph is called as its requests, as far as their names are the same.
    fn add_name(&mut self, span: &Span) {
        let service = service_name(span);
        let names = [format!("{service}: {}", span.name()), service.to_string(), "requests".to_string()];
        let names = names.map(|name| plain::line(&name).into_owned());
        let known = &self.root.name;
        let is_same =
            |name: &String| name == known || known.strip_prefix(name.as_str()).is_some_and(|s| s.starts_with(": "));
        let [whole, .., any] = &names;
        let name = if known.is_empty() { whole } else { names.iter().find(|name| is_same(name)).unwrap_or(any) };
        self.root.name = name.clone();
    }

    /// Adds a time to a stack, and to a box at its end.
    fn put(&mut self, stack: Option<&Stack>, end: Option<String>, side: Side, ns: u64) {
        if ns == 0 {
            return;
        }
        let mut at = &mut self.root;
        at.ns[side as usize] += ns;
        let named = |frame: &Frame| match (frame.function.is_empty(), frame.module.is_empty()) {
            (false, _) => plain::line(&frame.function).into_owned(),
            (true, false) => format!("[{}]", plain::line(&frame.module)),
            (true, true) => "?".into(),
        };
        let user = stack.into_iter().flat_map(|s| s.user.iter().rev()).map(|f| (named(f), FlameKind::Program));
        let kernel = stack.into_iter().flat_map(|s| s.kernel.iter().rev()).map(|f| (named(f), FlameKind::Kernel));
        let end = end.into_iter().map(|name| (name, FlameKind::Wait));
        for (name, kind) in user.chain(kernel).take(DEEPEST).chain(end) {
            at = at.below(&name, kind);
            at.ns[side as usize] += ns;
        }
    }

    /// Number of slow and of usual requests.
    pub fn spans(&self) -> [u64; 2] {
        self.spans
    }

    fn mean(&self, node: &Node) -> [u64; 2] {
        [node.ns[0] / self.spans[0].max(1), node.ns[1] / self.spans[1].max(1)]
    }

    /// The boxes, each before those below it; the widest of its siblings comes first.
    pub fn boxes(&self) -> Vec<FlameBox> {
        let mut out = Vec::new();
        self.boxes_of(&self.root, 0, 0, &mut out);
        out
    }

    fn boxes_of(&self, node: &Node, depth: u32, from_ns: u64, out: &mut Vec<FlameBox>) {
        let [ns, usual_ns] = self.mean(node);
        out.push(FlameBox { depth, from_ns, ns, usual_ns, name: node.name.clone(), kind: node.kind });
        let mut below: Vec<&Node> = node.below.iter().collect();
        below.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        let mut at_ns = from_ns;
        for inner in below {
            self.boxes_of(inner, depth + 1, at_ns, out);
            at_ns += self.mean(inner)[0];
        }
    }

    /// Folded text, as flame graph tools read it: a line for each stack, functions from the outermost on, and the time
    /// in µs; if there are usual requests, their time before that of the slow ones.
    pub fn folded(&self) -> String {
        folded(&self.boxes(), self.spans[1] > 0)
    }
}

/// How long the span was ready in waits that the kernel's ring had no room for: the clocks of the thread know the sum.
fn forgotten_ns(span: &Span, told: &SpanWaits) -> u64 {
    let ready = |wait: &SpanWait| match wait.kind {
        WaitKind::RunQueue | WaitKind::CpuLimit => wait.duration_ns,
        _ if super::turns::is_between_turns(wait) => 0,
        _ => wait.ready_ns,
    };
    let known: u64 = told.waits.iter().map(ready).sum();
    Parts::of(span).map_or(0, |parts| (parts.run_queue + parts.cpu_limit).saturating_sub(known + told.left_out_ns))
}

/// The folded text of some boxes, in the order of [`Flame::boxes`]. `compares`: with the usual time.
pub fn folded(boxes: &[FlameBox], compares: bool) -> String {
    let mut path: Vec<&FlameBox> = Vec::new();
    let mut own: Vec<[u64; 2]> = Vec::new();
    let mut lines = Vec::new();
    let mut end = |path: &mut Vec<&FlameBox>, own: &mut Vec<[u64; 2]>| {
        let names: Vec<String> = path.iter().map(|b| b.name.replace(';', ",")).collect();
        if let (Some(_), Some([ns, usual_ns])) = (path.pop(), own.pop()) {
            match (ns / 1000, usual_ns / 1000) {
                (0, 0) => {}
                (us, usual_us) if compares => lines.push(format!("{} {usual_us} {us}\n", names.join(";"))),
                (us, _) => lines.push(format!("{} {us}\n", names.join(";"))),
            }
        }
    };
    for flame in boxes {
        while path.len() > flame.depth as usize {
            end(&mut path, &mut own);
        }
        if let Some([ns, usual_ns]) = own.last_mut() {
            *ns = ns.saturating_sub(flame.ns);
            *usual_ns = usual_ns.saturating_sub(flame.usual_ns);
        }
        path.push(flame);
        own.push([flame.ns, flame.usual_ns]);
    }
    while !path.is_empty() {
        end(&mut path, &mut own);
    }
    lines.concat()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::wait::SpanSample;

    const MS: u64 = 1_000_000;

    fn stack(user: &[&str], kernel: &[&str]) -> Stack {
        let frames = |names: &[&str]| {
            names.iter().map(|name| Frame { function: (*name).into(), ..Frame::default() }).collect::<Vec<_>>()
        };
        Stack { user: frames(user), kernel: frames(kernel) }
    }

    fn span(reason: &str, times: u32, lock_ms: u64) -> Span {
        let wait = SpanWait { kind: WaitKind::Lock, duration_ns: lock_ms * MS, stack: Some(1), ..SpanWait::default() };
        let told = SpanWaits {
            waits: vec![wait],
            stacks: vec![stack(&["price<[u8; 4]>", "main"], &[]), stack(&["lock", "main"], &["futex_wait"])],
            samples: vec![SpanSample { stack: 0, times }],
            left_out_ns: 500,
            ..SpanWaits::default()
        };
        let attrs = vec![told.attribute(), (WAIT_REASON.into(), reason.into())];
        Span { operation: "GET".into(), end_ns: lock_ms * MS + u64::from(times), attrs, ..Span::default() }
    }

    #[test]
    fn boxes_lie_below_those_that_called_them_and_are_as_wide_as_all_within() {
        let flame = Flame::of_span(&span("slow", 2, 30)).unwrap();
        let ran = 2 * SAMPLE_NS;
        let told: Vec<_> = flame.boxes().into_iter().map(|b| (b.depth, b.from_ns, b.ns, b.name, b.kind)).collect();
        assert_eq!(
            told[1..3],
            [
                (1, 0, 30 * MS + ran, "main".to_string(), FlameKind::Program),
                (2, 0, 30 * MS, "lock".to_string(), FlameKind::Program),
            ]
        );
        assert_eq!(
            told[3..],
            [
                (3, 0, 30 * MS, "futex_wait".to_string(), FlameKind::Kernel),
                (4, 0, 30 * MS, "[waited: lock]".to_string(), FlameKind::Wait),
                (2, 30 * MS, ran, "price<[u8; 4]>".to_string(), FlameKind::Program),
                (1, 30 * MS + ran, 500, "[waited: shorter waits]".to_string(), FlameKind::Wait),
            ]
        );
        assert!(Flame::of_span(&Span::default()).is_none());
    }

    #[test]
    fn time_without_a_processor_that_no_wait_tells_is_in_the_graph() {
        let mut ready = span("slow", 1, 30);
        ready.attrs.push(("wirespan.wait.run_queue".into(), (5 * MS as i64).into()));
        let boxes = Flame::of_span(&ready).unwrap().boxes();
        let told = boxes.iter().find(|b| b.name == "[waited: run-queue]").map(|b| (b.depth, b.ns));
        assert_eq!(told, Some((1, 5 * MS - 500)));
    }

    #[test]
    fn folded_text_has_a_line_for_each_stack() {
        let folded = Flame::of_span(&span("slow", 2, 30)).unwrap().folded();
        let lines: Vec<&str> = folded.lines().map(|line| line.split_once(";main;").unwrap().1).collect();
        assert_eq!(lines, ["lock;futex_wait;[waited: lock] 30000", "price<[u8, 4]> 20202"]);
    }

    #[test]
    fn slow_requests_stand_beside_the_sample_or_beside_quicker_ones() {
        let spans = [span("slow", 1, 90), span("slow", 3, 110), span("sample", 2, 10)];
        let flame = Flame::compare(spans.iter()).unwrap();
        assert_eq!(flame.spans(), [2, 1]);
        let boxes = flame.boxes();
        let lock = boxes.iter().find(|b| b.name == "lock").unwrap();
        assert_eq!((lock.ns, lock.usual_ns), (100 * MS, 10 * MS));
        assert!(flame.folded().contains("[waited: lock] 10000 100000"), "{}", flame.folded());
        let only_slow = Flame::compare(spans[..2].iter()).unwrap();
        assert_eq!(only_slow.spans(), [1, 1]);
        assert!(Flame::compare(spans[..1].iter()).is_none());
    }

    #[test]
    fn a_stack_of_any_depth_is_drawn() {
        let deep = vec!["f"; 10_000];
        let told = SpanWaits {
            stacks: vec![stack(&deep, &[])],
            samples: vec![SpanSample { stack: 0, times: 1 }],
            ..SpanWaits::default()
        };
        let flame = Flame::of_span(&Span { attrs: vec![told.attribute()], ..Span::default() }).unwrap();
        assert_eq!(flame.boxes().len(), DEEPEST + 1);
    }
}
