//! The parts of one request's time, by the clocks of the threads that acted for it.
//!
//! The points of a request are the messages that were moved for it: its own, and those of its calls. Between two points
//! on one thread the clocks tell how long the thread ran and how long it was ready. Until the thread moves a message
//! for another request, it acts for this one. What remains was spent waiting: for calls that were under way, or for
//! something that was not seen. So the points cut the time of a request into pieces, each with parts of its own.

use super::marks::{Marks, Point};
use super::parts::Parts;
use super::served::Served;
use smallvec::SmallVec;
use wirespan_model::event::{ClockMark, Clocks};
use wirespan_model::Span;

/// One call of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    start_ns: u64,
    /// When the answer arrived, whether or not a thread read it at once.
    arrived_ns: u64,
    /// When its first byte was read.
    answered_ns: u64,
    end_ns: u64,
    pub(super) socket: u64,
    /// Other calls may be under way on its connection.
    is_shared: bool,
}

impl Call {
    pub(super) fn of(span: &Span) -> Self {
        let queued_ns = u64::from(span.tcp.queue_us) * 1000;
        let answered_ns = if span.response_ns == 0 { span.end_ns } else { span.response_ns };
        Call {
            start_ns: span.start_ns,
            arrived_ns: answered_ns.saturating_sub(queued_ns).max(span.start_ns),
            answered_ns,
            end_ns: span.end_ns,
            socket: span.socket,
            is_shared: span.message_id.is_some(),
        }
    }

    /// Whether a thread moved bytes of this call here.
    fn has(&self, mark: &ClockMark) -> bool {
        let within = mark.began_ns >= self.start_ns && mark.time_ns <= self.end_ns;
        let at_its_ends = mark.began_ns == self.start_ns || mark.time_ns == self.end_ns;
        within && (!self.is_shared || at_its_ends)
    }

    /// When it was under way: until its answer came, and while more of the answer was to come.
    fn under_way(&self) -> [(u64, u64); 2] {
        [(self.start_ns, self.arrived_ns), (self.answered_ns, self.end_ns)]
    }
}

/// How far the clocks went.
#[derive(Clone, Copy, Debug, Default)]
struct Went {
    ran: u64,
    queued: u64,
    limited: u64,
}

impl Went {
    fn between(from: &Clocks, to: &Clocks) -> Self {
        Went {
            ran: to.on_cpu_ns.saturating_sub(from.on_cpu_ns),
            queued: to.queued_ns.saturating_sub(from.queued_ns),
            limited: to.limited_ns.saturating_sub(from.limited_ns),
        }
    }

    fn busy(&self) -> u64 {
        self.ran + self.queued
    }
}

/// The messages that were moved for a request, in the order of time; `calls`: those that were made for it.
pub(super) fn points<'a>(request: &Served, calls: &[Call], marks: &'a Marks) -> Vec<Point<'a>> {
    let (start_ns, end_ns) = (request.start_ns, request.end_ns);
    let own = marks.of_socket(request.pid, request.socket, start_ns, end_ns);
    let own = own.filter(|p| request.exchange.is_some_and(|x| x.contains(p.mark.exchange)));
    let within = |call: &Call| (call.start_ns.max(start_ns), call.end_ns.min(end_ns));
    let of_calls = calls.iter().flat_map(|call| {
        let (from_ns, to_ns) = within(call);
        marks.of_socket(request.pid, call.socket, from_ns, to_ns).filter(|p| call.has(p.mark))
    });
    let mut points: Vec<Point<'_>> = own.chain(of_calls).collect();
    points.sort_by_key(|p| p.mark.time_ns);
    points.dedup_by_key(|p| (p.mark.time_ns, p.mark.tid));
    points
}

/// A piece of a request's time, between two of its points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) parts: Parts,
    /// The thread that acted all the time, and for no other request.
    pub(super) thread: Option<u32>,
}

/// The pieces of a request's time, by its [`points`].
pub(super) fn pieces(request: &Served, calls: &[Call], points: &[Point<'_>]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(points.len() + 1);
    let mut add = |from_ns: u64, to_ns: u64, thread, parts: &dyn Fn(&mut Time)| {
        let mut time = Time { parts: Parts::default(), left: to_ns.saturating_sub(from_ns) };
        parts(&mut time);
        time.parts.unknown += time.left;
        pieces.push(Piece { from_ns, to_ns, parts: time.parts, thread });
    };
    let (start_ns, end_ns) = (request.start_ns, request.end_ns);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        add(start_ns, end_ns, None, &|_| {});
        return pieces;
    };
    add(start_ns, first.mark.time_ns, None, &|time| time.before_first(start_ns, first));
    for pair in points.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        let is_alone = a.mark.tid == b.mark.tid && a.after.is_none_or(|next| next.time_ns >= b.mark.time_ns);
        let thread = Some(a.mark.tid).filter(|_| is_alone);
        add(a.mark.time_ns, b.mark.time_ns, thread, &|time| time.between(a, b, calls));
    }
    let last_ns = last.mark.time_ns;
    add(last_ns, end_ns, None, &|time| {
        time.give(|p| &mut p.children, covered_ns(last_ns, end_ns, calls));
    });
    pieces
}

/// The parts so far, and how much of the time is not given to one.
struct Time {
    parts: Parts,
    left: u64,
}

impl Time {
    /// Gives as much time to a part as there is left; says how much.
    fn give(&mut self, part: fn(&mut Parts) -> &mut u64, ns: u64) -> u64 {
        let ns = ns.min(self.left);
        *part(&mut self.parts) += ns;
        self.left -= ns;
        ns
    }

    /// A thread ran and waited for a processor, at most for as long as there is room.
    fn ran(&mut self, went: Went, room: &mut u64) {
        let limited = went.limited.min(went.queued);
        *room -= self.give(|p| &mut p.on_cpu, went.ran.min(*room));
        *room -= self.give(|p| &mut p.cpu_limit, limited.min(*room));
        *room -= self.give(|p| &mut p.run_queue, (went.queued - limited).min(*room));
    }

    /// The request had arrived, and its thread did something else, or was born for it.
    fn before_first(&mut self, start_ns: u64, first: &Point<'_>) {
        let mut room = first.mark.time_ns.saturating_sub(start_ns);
        let Some(before) = first.before else {
            let since_birth = Went { limited: 0, ..Went::between(&Clocks::default(), &first.mark.clocks) };
            if since_birth.busy() <= room {
                self.ran(since_birth, &mut room);
            }
            return;
        };
        let went = Went::between(&before.clocks, &first.mark.clocks);
        let since_ns = first.mark.time_ns.saturating_sub(before.time_ns);
        self.ran(Went { ran: 0, ..went }, &mut room);
        // If the thread slept before the request came, it did nothing for others.
        if since_ns <= went.busy() + went.busy() / 8 {
            self.give(|p| &mut p.other_requests, went.ran.min(room));
        }
    }

    fn between(&mut self, a: &Point<'_>, b: &Point<'_>, calls: &[Call]) {
        let (from_ns, to_ns) = (a.mark.time_ns, b.mark.time_ns);
        let length = to_ns - from_ns;
        let covered = covered_ns(from_ns, to_ns, calls);
        let mut room = length;
        let same = a.mark.tid == b.mark.tid;
        let mut others = 0;
        if let Some(next) = a.after.filter(|next| next.time_ns <= to_ns) {
            self.ran(Went::between(&a.mark.clocks, &next.clocks), &mut room);
            if same {
                others = Went::between(&next.clocks, &b.mark.clocks).busy();
            }
        }
        if !same {
            // Another thread took over. What it did since its last message, it did for this request, or it slept.
            let before = b.before.unwrap_or(b.mark);
            self.ran(Went::between(&before.clocks, &b.mark.clocks), &mut room);
        }
        let own = length - room;
        let uncovered = (length - covered).saturating_sub(own).min(room);
        self.give(|p| &mut p.children, room - uncovered);
        let idle = uncovered - self.give(|p| &mut p.other_requests, others.min(uncovered));
        if same {
            self.give(|p| &mut p.blocked, idle);
        }
    }
}

/// How much of a time was covered by calls that were under way.
pub(super) fn covered_ns(from_ns: u64, to_ns: u64, calls: &[Call]) -> u64 {
    let clip = |(from, to): (u64, u64)| (from.max(from_ns), to.min(to_ns));
    let mut spans: SmallVec<[(u64, u64); 8]> =
        calls.iter().flat_map(Call::under_way).map(clip).filter(|(from, to)| from < to).collect();
    spans.sort_unstable();
    let mut until = from_ns;
    let mut sum = 0;
    for (from, to) in spans {
        sum += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    sum
}
