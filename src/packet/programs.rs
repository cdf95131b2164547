//! `--packet-programs`: the packet programs that the UI runs, one at a time.
//!
//! ```text
//! UI ──program──▶ [programs thread: attach, join, tables] ──tables──▶ UI
//!                        ▲ kernel, only while a program runs
//! ```

use super::run::{whose, Ordered, Run};
use anyhow::{anyhow, Result};
use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wirespan_view::packets::{PacketsState, PacketsView};
use wirespan_view::{PacketOrder, PacketSource, Whose};

const SHOW_EVERY: Duration = Duration::from_millis(500);
/// How often a thread without a program looks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest time for which an order waits for the kernel.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

/// A checked order.
struct Order {
    /// `None`: the one that runs ends.
    program: Option<Ordered>,
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

    fn whose(&self, order: &PacketOrder) -> Result<Option<Whose>, (&'static str, String)> {
        whose(&order.program).map_err(|why| ("program", format!("{why:#}")))
    }

    fn order(&self, order: &PacketOrder, servers: Vec<SocketAddr>) -> Result<(), (&'static str, String)> {
        let text = &order.program;
        let program = (!text.trim().is_empty()).then(|| Ordered { text: text.clone(), servers, meets: false });
        let (answer, answered) = bounded(1);
        let ended = |_| ("", "tracing has ended, or another order is carried out".to_owned());
        self.orders.try_send(Order { program, answer }).map_err(|e| ended(e.to_string()))?;
        let done = answered.recv_timeout(LONGEST_ANSWER).map_err(|e| ended(e.to_string()))?;
        done.map_err(|why| ("program", format!("{why:#}")))
    }
}

fn run(orders: &Receiver<Order>, stop: &AtomicBool, shown: &Mutex<Arc<PacketsView>>) {
    let show = |view: PacketsView| *shown.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    let mut running: Option<Run> = None;
    let mut told = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let order = orders.recv_timeout(running.as_ref().map_or(LOOK_EVERY, Run::rest));
        let answer = match order {
            Ok(Order { program: Some(ordered), answer }) => {
                let done = match &mut running {
                    Some(run) => run.change(ordered),
                    None => Run::start(ordered, false).map(|run| running = Some(run)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_a_page_may_not_run_is_refused_with_the_reason() {
        let programs = Programs::start().expect("a thread");
        let source = programs.source();
        let refused = |text: &str| {
            let (param, why) = source.whose(&PacketOrder { program: text.into() }).expect_err("refused");
            assert_eq!(param, "program");
            why
        };
        assert!(refused("filter: {prot: tcp}").contains("line 1: unknown key `prot`"));
        // Without privilege, too, nothing is attached for servers that nobody knows.
        let shop = PacketOrder { program: "filter: {service: shop, netns: no-such}".into() };
        assert!(source.order(&shop, Vec::new()).is_err());
        source.order(&PacketOrder::default(), Vec::new()).expect("nothing runs, and nothing ends");
        assert_eq!(source.now().state, PacketsState::Idle);
        programs.stop().expect("it ends");
        assert_eq!(source.order(&PacketOrder::default(), Vec::new()).expect_err("ended").0, "");
    }
}
