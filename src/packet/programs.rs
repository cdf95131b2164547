//! `--packet-programs`: the packet programs that the UI runs, one at a time.
//!
//! ```text
//! UI ──program──▶ [programs thread: attach, join, tables] ──tables──▶ UI
//!                        ▲ kernel, only while a program runs
//! ```

use super::board::Board;
use super::{count, Names, Program, Taps};
use anyhow::{anyhow, bail, Result};
use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wirespan_view::packets::{PacketsState, PacketsView};
use wirespan_view::{PacketOrder, PacketSource};

/// How often the ring is read, and the tables are made anew.
const DRAIN_EVERY: Duration = Duration::from_millis(5);
const SHOW_EVERY: Duration = Duration::from_millis(500);
/// How often a thread without a program looks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest time for which a program runs.
const LONGEST: Duration = Duration::from_secs(3600);
/// Longest time for which an order waits for the kernel.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
/// Bytes of a program at most.
const LONGEST_PROGRAM: usize = 64 << 10;

/// A checked order.
struct Order {
    /// Text and program; `None`: the one that runs ends.
    program: Option<(String, Program)>,
    answer: Sender<Result<()>>,
}

/// What the view sees of the thread.
struct Desk {
    orders: Sender<Order>,
    now: Arc<Mutex<Arc<PacketsView>>>,
}

/// The running thread.
pub(crate) struct Programs {
    stop: Arc<AtomicBool>,
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
}

impl Programs {
    /// Starts the thread, which attaches nothing until a program comes.
    pub(crate) fn start() -> Result<Self> {
        let (orders, orders_in) = bounded(1);
        let idle = PacketsView { state: PacketsState::Idle, ..PacketsView::default() };
        let now = Arc::new(Mutex::new(Arc::new(idle)));
        let stop = Arc::new(AtomicBool::new(false));
        let (stopping, shown) = (Arc::clone(&stop), Arc::clone(&now));
        let thread =
            std::thread::Builder::new().name("programs".into()).spawn(move || run(&orders_in, &stopping, &shown))?;
        Ok(Programs { stop, desk: Arc::new(Desk { orders, now }), thread })
    }

    /// Takes orders of the view.
    pub(crate) fn source(&self) -> Arc<dyn PacketSource> {
        Arc::clone(&self.desk) as Arc<dyn PacketSource>
    }

    /// Ends the program that runs. Its tables stay.
    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the programs thread panicked"))
    }
}

impl PacketSource for Desk {
    fn now(&self) -> Arc<PacketsView> {
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn order(&self, order: &PacketOrder) -> Result<(), (&'static str, String)> {
        let text = &order.program;
        let read = |text: &String| Ok((text.clone(), checked(text)?));
        let program = (!text.trim().is_empty()).then(|| read(text)).transpose();
        let program = program.map_err(|why: anyhow::Error| ("program", format!("{why:#}")))?;
        let (answer, answered) = bounded(1);
        let ended = |_| ("", "tracing has ended, or another order is carried out".to_owned());
        self.orders.try_send(Order { program, answer }).map_err(|e| ended(e.to_string()))?;
        let done = answered.recv_timeout(LONGEST_ANSWER).map_err(|e| ended(e.to_string()))?;
        done.map_err(|why| ("program", format!("{why:#}")))
    }
}

/// A program that whoever sees the UI may run.
fn checked(text: &str) -> Result<Program> {
    if text.len() > LONGEST_PROGRAM {
        bail!("the program is longer than {} KiB", LONGEST_PROGRAM >> 10);
    }
    let program = Program::parse(text)?;
    if program.time > LONGEST {
        bail!("`for`: here a program runs for at most an hour");
    }
    if program.asks()?.is_some() {
        bail!("`trace`, `service` and `endpoint` of a filter are for the command `wirespan packet`");
    }
    if program.options(&[])?.filter.is_everything() {
        bail!("this program selects every packet of the machine: give it a `filter`");
    }
    Ok(program)
}

fn run(orders: &Receiver<Order>, stop: &AtomicBool, shown: &Mutex<Arc<PacketsView>>) {
    let show = |view: PacketsView| *shown.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    let mut running: Option<Run> = None;
    let mut told = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let order = orders.recv_timeout(if running.is_some() { DRAIN_EVERY } else { LOOK_EVERY });
        let answer = match order {
            Ok(Order { program: Some((text, program)), answer }) => {
                let done = match &mut running {
                    Some(run) => run.change(text, program),
                    None => Run::start(text, program).map(|run| running = Some(run)),
                };
                Some((answer, done))
            }
            Ok(Order { program: None, answer }) => {
                running.iter_mut().for_each(|run| run.limit = Duration::ZERO);
                Some((answer, Ok(())))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Some(run) = &mut running {
            let ends = run.turn();
            if ends || answer.is_some() || told.elapsed() >= SHOW_EVERY {
                told = Instant::now();
                show(run.view(ends));
            }
            if ends {
                running = None;
            }
        }
        // The tables are made before the answer, so that whoever has it sees what was ordered.
        if let Some((answer, done)) = answer {
            let _ = answer.try_send(done);
        }
    }
    if let Some(mut run) = running {
        run.turn();
        show(run.view(true));
    }
}

/// A program that runs.
struct Run {
    text: String,
    program: Program,
    taps: Taps,
    board: Board,
    started: Instant,
    limit: Duration,
    changes: u32,
}

impl Run {
    fn start(text: String, program: Program) -> Result<Self> {
        let taps = Taps::open(&program.options(&[])?)?;
        let (board, limit) = (Board::new(&program.actions), program.time);
        Ok(Run { text, program, taps, board, started: Instant::now(), limit, changes: 0 })
    }

    /// Runs another program instead, without a gap. If the kernel refuses it, this one goes on.
    fn change(&mut self, text: String, program: Program) -> Result<()> {
        let mut seen = Vec::new();
        let changed = program.options(&[]).and_then(|options| self.taps.change(&options, |_| Ok(()), &mut seen));
        seen.iter().for_each(|s| self.board.see(s));
        changed?;
        self.board.act(&program.actions);
        self.limit = self.started.elapsed() + program.time;
        (self.text, self.program) = (text, program);
        self.changes += 1;
        Ok(())
    }

    /// Reads the ring once. Returns whether the program ends.
    fn turn(&mut self) -> bool {
        let ends = self.started.elapsed() >= self.limit || self.taps.at_limit();
        let mut seen = Vec::new();
        self.taps.drain(&mut seen);
        seen.iter().for_each(|s| self.board.see(s));
        ends
    }

    fn view(&mut self, ends: bool) -> PacketsView {
        self.board.due(ends);
        let mut names = Names::read();
        let named = self.program.netns(&[]).unwrap_or_default();
        named.iter().for_each(|(inode, name)| names.call(*inode, name));
        let counters = self.taps.counters();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let elapsed = self.started.elapsed();
        let mut view = PacketsView {
            state: if ends { PacketsState::Ended } else { PacketsState::Running },
            program: self.text.clone(),
            changes: self.changes,
            elapsed_ms: ms(elapsed),
            limit_ms: ms(self.limit.max(elapsed)),
            sightings: count(&counters, "taken"),
            lost: count(&counters, "lost") + self.taps.missed() + self.board.not_kept(),
            notes: self.notes(),
            ..PacketsView::default()
        };
        self.board.show(&names, &|number| self.taps.reason(number), &mut view);
        view
    }

    fn notes(&self) -> Vec<String> {
        let missing = self.taps.packets().missing().iter();
        let missing = missing.map(|(point, why)| format!("this kernel has no point `{}`: {why}", point.as_str()));
        let limited = self.taps.at_limit().then(|| "ended early, because `at_most` packets were seen".to_owned());
        missing.chain(limited).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_a_page_may_not_run_is_refused_with_the_reason() {
        let programs = Programs::start().expect("a thread");
        let source = programs.source();
        let refused = |text: &str| {
            let (param, why) = source.order(&PacketOrder { program: text.into() }).expect_err("refused");
            assert_eq!(param, "program");
            why
        };
        assert!(refused("filter: {prot: tcp}").contains("line 1: unknown key `prot`"));
        assert!(refused("action: [count]").contains("give it a `filter`"));
        assert!(refused("filter: {port: 80}\nfor: 90m").contains("at most an hour"));
        assert!(refused("filter: {service: shop}").contains("wirespan packet"));
        assert!(refused(&format!("#{}", "x".repeat(LONGEST_PROGRAM))).contains("64 KiB"));
        source.order(&PacketOrder::default()).expect("nothing runs, and nothing ends");
        assert_eq!(source.now().state, PacketsState::Idle);
        programs.stop().expect("it ends");
        assert_eq!(source.order(&PacketOrder::default()).expect_err("ended").0, "");
    }
}
