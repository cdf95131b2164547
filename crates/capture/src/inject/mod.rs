//! Trace context put into what targets send: `traceparent` in HTTP/1 requests (`bpf/inject*.h`). Opt-in, and only as far as
//! a [self-test](selftest) on sockets of our own shows that nobody would notice.
//!
//! A socket can be seen before TCP only while it is in a socket map, and there some kernels answer FIONREAD with 0 while bytes
//! are queued (commit 929e30f93125 without its mend). A verdict program for received bytes mends that, but then splice() out
//! of the socket waits for ever; so wirespan has none. Instead a socket leaves the map while its first request goes out,
//! before a byte of the answer can have come.

mod selftest;

use crate::features::{Feature, MessageRung, Program};
use crate::object::WirespanSkel;
use crate::targets::Targets;
use libbpf_rs::{MapCore as _, MapFlags};
use selftest::Expect;

const LOST: &str = "no trace context is put into requests";

const fn program(name: &'static str, tracepoint: &'static str, since: &'static str) -> Program {
    let rung = Some(MessageRung::SocketTracepoints);
    Program { name, tracepoint, since, rung, feature: "context in HTTP/1 requests", lost: LOST, required: false }
}

/// The programs of `--propagate`.
pub(crate) const PROGRAMS: &[Program] = &[
    program("inject_sockops", "cgroup/sockops", "Linux 5.10"),
    program("inject_message", "cgroup/sk_msg", "Linux 5.10"),
    program("inject_received", "sock_recv_length", "Linux 6.3"),
];

/// Names of `inject_counters`, in their order.
const COUNTERS: [&str; 11] = [
    "inject_enrolled",
    "inject_refused",
    "injected",
    "inject_own_context",
    "inject_not_http",
    "inject_partial_head",
    "inject_busy",
    "inject_unknown_context",
    "inject_failed",
    "inject_left",
    "received_contexts",
];

/// `enum ws_inject_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off = 0,
    First = 1,
    Every = 2,
}

/// Which requests get a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagate {
    /// None.
    #[default]
    Off,
    /// As many as the self-test allows.
    Auto,
    /// The first of each connection.
    First,
    /// Every one, or none if that cannot be made safe.
    Every,
}

impl Propagate {
    /// Reads a word of the configuration.
    pub fn from_word(word: &str) -> Result<Self, String> {
        match word {
            "off" => Ok(Propagate::Off),
            "auto" => Ok(Propagate::Auto),
            "first" => Ok(Propagate::First),
            "every" => Ok(Propagate::Every),
            _ => Err(format!("`{word}` is not a way to propagate; use off, auto, first or every")),
        }
    }

    fn modes(self) -> &'static [Mode] {
        match self {
            Propagate::Off => &[],
            Propagate::Auto => &[Mode::Every, Mode::First],
            Propagate::First => &[Mode::First],
            Propagate::Every => &[Mode::Every],
        }
    }
}

fn set_mode(skel: &mut WirespanSkel<'static>, mode: Mode) {
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.inject_mode = mode as u32;
    }
}

fn set_target(skel: &mut WirespanSkel<'static>, pid: u32, on: bool) -> Result<(), libbpf_rs::Error> {
    let key = pid.to_ne_bytes();
    if on {
        skel.maps.target_pids.update(&key, &[1], MapFlags::ANY)?;
    } else {
        skel.maps.target_pids.delete(&key)?;
    }
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.target_generation = bss.target_generation.wrapping_add(1).max(1);
    }
    Ok(())
}

/// Tests, chooses the mode, and says what came of it. Events of the test are in the ring afterwards, and for nobody.
pub(crate) fn start(
    skel: &mut WirespanSkel<'static>,
    wanted: Propagate,
    loaded: &[&str],
    targets: &Targets,
) -> Feature {
    let row = |rung, active, lost: &str, remedy: String| Feature {
        feature: "context put into HTTP/1 requests",
        rung,
        active,
        lost: lost.to_string(),
        remedy,
    };
    if !loaded.contains(&"sock_send_length") {
        return row("none", false, LOST, "needs messages by socket tracepoints (Linux 6.3)".into());
    }
    if let Some(missing) = PROGRAMS.iter().find(|p| !loaded.contains(&p.name)) {
        return row("none", false, LOST, format!("the kernel did not take {}", missing.name));
    }
    let own = std::process::id();
    let is_target = targets.all || targets.pids.contains(&own);
    if !is_target {
        if let Err(error) = set_target(skel, own, true) {
            return row("none", false, LOST, format!("the self-test did not start: {error}"));
        }
    }
    let outcome = test(skel, wanted);
    if !is_target {
        let _ = set_target(skel, own, false);
    }
    match outcome {
        Ok((Mode::Every, _)) => row("every request", true, "", String::new()),
        Ok((_, why)) if why.is_empty() => row("first request of each connection", true, "", String::new()),
        Ok((_, why)) => {
            let lost = "requests after the first of a connection carry no context";
            row("first request of each connection", true, lost, format!("sockets cannot stay enrolled here: {why}"))
        }
        Err(why) => row("none", false, LOST, why),
    }
}

/// The best mode that passes, and why the one before it did not.
fn test(skel: &mut WirespanSkel<'static>, wanted: Propagate) -> Result<(Mode, String), String> {
    set_mode(skel, Mode::Off);
    selftest::run(Expect::Nothing).map_err(|why| format!("the self-test fails without enrolment: {why}"))?;
    let mut before = String::new();
    for mode in wanted.modes() {
        set_mode(skel, *mode);
        let expect = if *mode == Mode::Every { Expect::Every } else { Expect::First };
        match selftest::run(expect) {
            Ok(()) => return Ok((*mode, before)),
            Err(why) => before = why,
        }
        set_mode(skel, Mode::Off);
    }
    Err(format!("its self-test failed: {before}"))
}

/// What was injected, and what was not and why.
pub(crate) fn counters(skel: &WirespanSkel<'static>) -> Vec<(&'static str, u64)> {
    let one = |(i, name): (u32, &'static str)| {
        let per_cpu = skel.maps.inject_counters.lookup_percpu(&i.to_ne_bytes(), MapFlags::ANY);
        let values = per_cpu.ok().flatten().unwrap_or_default();
        let sum = values.into_iter().filter_map(|v| Some(u64::from_ne_bytes(v.get(..8)?.try_into().ok()?))).sum();
        (name, sum)
    };
    (0u32..).zip(COUNTERS).map(one).collect()
}
