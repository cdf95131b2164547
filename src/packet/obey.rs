//! What an agent does for its server: packet programs (`--packet-programs`), one at a time, and recording what slow
//! requests do (`--why-orders`). Each needs its own consent.
//!
//! ```text
//! server ──order──▶ link ──▶ [obey thread: attach, join, tables] ──answers──▶ link ──▶ server
//! ```
//!
//! While a program runs, an answer goes out each second, so the server knows that the agent is alive. Answers are small
//! enough for a frame. Lines that find no room are left out; each answer says how many lines came before its own, so
//! the server counts what is missing.

use super::fleet::{Ask, Told, ToldWhy};
use super::run::{Ordered, Run};
use anyhow::{anyhow, Result};
use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wirespan_ship::link::{Answer, Order, MAX_FRAME};
use wirespan_view::fleet::FleetState;
use wirespan_view::packets::PacketsView;
use wirespan_view::{WhyOrder, WhySource};

/// How often a thread without a program looks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often the server is told something.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Orders that may wait.
const ORDERS: usize = 8;
/// Bytes of lines in one answer. As a JSON string they take at most twice as many.
const ANSWER_BYTES: usize = 256 << 10;
/// How long lines wait for room in the link, each time that packets are read.
const ROOM: Duration = Duration::from_millis(200);
/// How long the last words of a program wait for the link.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What the server may order.
#[derive(Default)]
pub(crate) struct Allowed {
    /// Packet programs.
    pub(crate) packets: bool,
    /// To record what slow requests do; who does it.
    pub(crate) why: Option<Arc<WhySource>>,
}

/// An agent that will obey: its link sends the orders here.
pub(crate) struct Obedience {
    orders: Receiver<Order>,
}

impl Obedience {
    /// What the link gets, and what [`Obedience::start`] needs.
    pub(crate) fn new() -> (Sender<Order>, Self) {
        let (to, orders) = bounded(ORDERS);
        (to, Obedience { orders })
    }

    /// Starts the thread, which attaches nothing until an order comes.
    pub(crate) fn start(self, answers: Sender<Answer>, allowed: Allowed) -> Result<Obeying> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("obey".into()).spawn(move || {
            Agent { answers, allowed, running: None }.run(&self.orders, &stopping);
        })?;
        Ok(Obeying { stop, thread })
    }
}

/// The running thread.
pub(crate) struct Obeying {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Obeying {
    /// Ends the program that runs, and tells the server its last tables.
    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the obey thread panicked"))
    }
}

/// A program of the server.
struct Running {
    number: u64,
    run: Run,
    lines: Lines,
    told: Instant,
    /// Why it was not changed, if it was to be.
    why: String,
    /// Orders to change it.
    tried: u32,
}

impl Running {
    /// Sends how packets came and went. Where the link has no room for some time, they are left out.
    fn send_stays(&mut self, answers: &Sender<Answer>) {
        let (mut patience, under_way) = (ROOM, self.run.under_way());
        for stays in self.run.stays() {
            let (before, stays, state) = (self.lines.before, Some(stays), FleetState::Running);
            let (why, tried) = (self.why.clone(), self.tried);
            let told = Told { state, why, tried, before, stays, under_way, ..Told::default() };
            let Err(full) = answers.send_timeout(answer(self.number, told), patience) else { continue };
            patience = Duration::ZERO;
            let told = serde_json::from_slice::<Told>(&full.into_inner().body).unwrap_or_default();
            told.stays.iter().for_each(|stays| self.run.lose(stays));
        }
    }
}

/// Lines that wait to be an answer.
#[derive(Default)]
struct Lines {
    waiting: Vec<String>,
    bytes: usize,
    /// Lines that were sent or left out.
    before: u64,
}

impl Lines {
    /// Sends lines, but for the last ones that fill no answer. Where the link has no room for some time, they are left
    /// out.
    fn send(&mut self, lines: Vec<String>, number: u64, answers: &Sender<Answer>) {
        let mut patience = ROOM;
        for line in lines {
            self.bytes += line.len();
            self.waiting.push(line);
            if self.bytes >= ANSWER_BYTES {
                let (before, lines) = self.take();
                let told = Told { state: FleetState::Running, before, lines, ..Told::default() };
                if answers.send_timeout(answer(number, told), patience).is_err() {
                    patience = Duration::ZERO;
                }
            }
        }
    }

    /// All that wait, and how many came before.
    fn take(&mut self) -> (u64, Vec<String>) {
        let (before, lines) = (self.before, std::mem::take(&mut self.waiting));
        self.bytes = 0;
        self.before += lines.len() as u64;
        (before, lines)
    }
}

struct Agent {
    answers: Sender<Answer>,
    allowed: Allowed,
    running: Option<Running>,
}

impl Agent {
    fn run(mut self, orders: &Receiver<Order>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match orders.recv_timeout(self.running.as_ref().map_or(LOOK_EVERY, |running| running.run.rest())) {
                Ok(order) => self.obey(&order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.turn();
        }
        self.end();
    }

    fn obey(&mut self, order: &Order) {
        let number = order.number;
        match serde_json::from_slice(&order.body) {
            Ok(Ask::Run { .. }) if !self.allowed.packets => {
                self.refuse(number, "it was started without --packet-programs");
            }
            Ok(Ask::Run { program, servers, meets }) => {
                self.end();
                match Run::start(Ordered { text: program, servers, meets }, true) {
                    Ok(run) => {
                        self.running = Some(Running {
                            number,
                            run,
                            lines: Lines::default(),
                            told: Instant::now(),
                            why: String::new(),
                            tried: 0,
                        });
                        self.tell(false);
                    }
                    Err(why) => self.refuse(number, &format!("{why:#}")),
                }
            }
            Ok(Ask::Change { program, servers, meets }) => {
                self.change(number, Ordered { text: program, servers, meets });
            }
            Ok(Ask::End) => self.end(),
            Ok(Ask::Why(order)) => self.trace_why(number, &order),
            Err(_) => self.refuse(number, "this agent does not understand the order: is it of another version?"),
        }
    }

    /// Changes the program that runs, without a gap. One that has ended has told so.
    fn change(&mut self, number: u64, ordered: Ordered) {
        let Some(running) = self.running.as_mut().filter(|running| running.number == number) else { return };
        running.tried += 1;
        running.why = match running.run.change(ordered) {
            Ok(()) => String::new(),
            Err(why) => format!("it goes on with the program before: {why:#}"),
        };
        self.tell(false);
    }

    fn trace_why(&self, number: u64, order: &WhyOrder) {
        let told = match self.allowed.why.as_ref().map(|source| source(order)) {
            None => ToldWhy { refused: "it was started without --why-orders".into(), ..ToldWhy::default() },
            Some(Ok(begun)) => ToldWhy { processes: begun.processes, until_ns: begun.until_ns, ..ToldWhy::default() },
            Some(Err((_, why))) => ToldWhy { refused: why, ..ToldWhy::default() },
        };
        let body = serde_json::to_vec(&told).unwrap_or_default();
        let _ = self.answers.send_timeout(Answer { number, body }, LAST_WORDS);
    }

    fn refuse(&self, number: u64, why: &str) {
        let told = Told { state: FleetState::Refused, why: why.into(), ..Told::default() };
        // Without an answer, the server calls the agent silent.
        let _ = self.answers.send_timeout(answer(number, told), LAST_WORDS);
    }

    fn turn(&mut self) {
        let Some(running) = &mut self.running else { return };
        if running.run.turn() {
            self.end();
            return;
        }
        let lines = running.run.lines();
        running.lines.send(lines, running.number, &self.answers);
        if running.told.elapsed() >= TELL_EVERY {
            self.tell(false);
        }
    }

    /// Tells the tables as they are.
    fn tell(&mut self, ends: bool) {
        let Some(running) = &mut self.running else { return };
        running.told = Instant::now();
        let view = running.run.view(ends);
        running.lines.send(running.run.lines(), running.number, &self.answers);
        running.send_stays(&self.answers);
        let (before, lines) = running.lines.take();
        let state = if ends { FleetState::Ended } else { FleetState::Running };
        let (view, under_way) = (Some(view), running.run.under_way());
        let (why, tried) = (running.why.clone(), running.tried);
        let told = answer(running.number, Told { state, why, tried, before, lines, view, under_way, stays: None });
        // A full queue is a link that is down or slow. The next answer says what is missing.
        let _ = match ends {
            true => self.answers.send_timeout(told, LAST_WORDS).is_ok(),
            false => self.answers.try_send(told).is_ok(),
        };
    }

    /// Ends the program that runs.
    fn end(&mut self) {
        if let Some(running) = &mut self.running {
            running.run.turn();
            running.lines.send(running.run.lines(), running.number, &self.answers);
        }
        self.tell(true);
        self.running = None;
    }
}

/// An answer that fits into a frame. A table of very many places goes without its histograms, or is left out.
fn answer(number: u64, mut told: Told) -> Answer {
    let bytes = |told: &Told| serde_json::to_vec(told).unwrap_or_default();
    if let Some(view) = &mut told.view {
        without_seconds(view);
    }
    let mut body = bytes(&told);
    if body.len() + 8 > MAX_FRAME {
        told.lines.clear();
        told.view.iter_mut().for_each(without_halves);
        body = bytes(&told);
    }
    if body.len() + 8 > MAX_FRAME {
        told.view = None;
        body = bytes(&told);
    }
    Answer { number, body }
}

/// The times by second are many, and nobody who asks a fleet shows them.
fn without_seconds(view: &mut PacketsView) {
    view.legs.iter_mut().map(|leg| &mut leg.times).chain(&mut view.total).for_each(|times| times.seconds.clear());
}

fn without_halves(view: &mut PacketsView) {
    view.legs.iter_mut().map(|leg| &mut leg.times).chain(&mut view.total).for_each(|times| times.halves.clear());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_room_are_left_out_and_the_next_answer_shows_it() {
        let (answers, answered) = bounded(2);
        let mut lines = Lines::default();
        let begun = Instant::now();
        lines.send(vec!["x".repeat(ANSWER_BYTES / 4); 22], 7, &answers);
        assert!(begun.elapsed() < ROOM * 3, "it waits once");
        let told = |answer: Answer| serde_json::from_slice::<Told>(&answer.body).unwrap();
        for before in [0, 4] {
            let told = told(answered.try_recv().unwrap());
            assert_eq!((told.before, told.lines.len()), (before, 4));
        }
        assert!(answered.try_recv().is_err());
        let (before, rest) = lines.take();
        assert_eq!((before, rest.len()), (20, 2), "twelve lines are missing");
    }

    #[test]
    fn every_answer_fits_into_a_frame() {
        let lines = vec!["\u{1}".repeat(ANSWER_BYTES)];
        let made = answer(7, Told { lines, before: 3, ..Told::default() });
        assert!(made.body.len() + 8 <= MAX_FRAME);
        let told: Told = serde_json::from_slice(&made.body).unwrap();
        assert_eq!((told.before, told.lines.len()), (3, 0), "the next answer shows that a line is missing");
    }

    #[test]
    fn an_order_that_is_wrong_is_refused_with_the_reason() {
        let (to, obedience) = Obedience::new();
        let (answers, answered) = bounded(4);
        let obeying = obedience.start(answers, Allowed { packets: true, why: None }).unwrap();
        let wrong = Ask::Run { program: "filter: {prot: tcp}".into(), servers: Vec::new(), meets: false };
        for (number, body) in [(1, b"?".to_vec()), (2, serde_json::to_vec(&wrong).unwrap())] {
            to.send(Order { number, body }).unwrap();
            let answer = answered.recv_timeout(Duration::from_secs(10)).unwrap();
            let told: Told = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!((answer.number, told.state), (number, FleetState::Refused));
            assert!(told.why.contains(if number == 1 { "version" } else { "unknown key `prot`" }), "{}", told.why);
        }
        obeying.stop().unwrap();
    }

    #[test]
    fn what_was_not_allowed_is_refused_and_what_was_is_carried_out() {
        let ask = |order: &Ask, allowed: Allowed| {
            let (to, obedience) = Obedience::new();
            let (answers, answered) = bounded(4);
            let obeying = obedience.start(answers, allowed).unwrap();
            to.send(Order { number: 3, body: serde_json::to_vec(order).unwrap() }).unwrap();
            let answer = answered.recv_timeout(Duration::from_secs(10)).unwrap();
            obeying.stop().unwrap();
            String::from_utf8(answer.body).unwrap()
        };
        let run = Ask::Run { program: "filter: {protocol: tcp}".into(), servers: Vec::new(), meets: true };
        assert!(ask(&run, Allowed::default()).contains("without --packet-programs"));
        let why = Ask::Why(WhyOrder { service: "shop".into(), ..WhyOrder::default() });
        assert!(ask(&why, Allowed { packets: true, why: None }).contains("without --why-orders"));
        let source = |order: &WhyOrder| {
            assert_eq!(order.service, "shop");
            Ok(wirespan_view::WhyBegun { processes: 4, until_ns: 9, ..Default::default() })
        };
        let told = ask(&why, Allowed { packets: false, why: Some(Arc::new(source)) });
        let told: ToldWhy = serde_json::from_str(&told).unwrap();
        assert_eq!(told, ToldWhy { processes: 4, until_ns: 9, refused: String::new() });
    }
}
