//! Puts trace context into requests of targets (`bpf/inject/`): a `traceparent` header into requests of HTTP/1, an
//! option of TCP beside all others. The user must ask for it. It is used only as far as a [self-test](selftest) with
//! sockets of our own shows that applications would notice nothing.
//!
//! A program can change bytes before TCP takes them only while their socket is in a socket map. For such a socket some
//! kernels answer FIONREAD with 0 while bytes are queued (commit 929e30f93125 without its fix). A verdict program for
//! received bytes would avoid that, but then splice() out of the socket waits for ever, so wirespan has none. Instead a
//! socket leaves the map while its first request goes out, before a byte of the answer can have come.

mod selftest;

use crate::features::{Feature, MessageRung, Program};
use crate::object::WirespanSkel;
use crate::on_demand;
use crate::targets::Targets;
use crate::wire;
use crate::wire::contract::{self, WS_INJECT_EVERY, WS_INJECT_FIRST, WS_INJECT_OFF, WS_I_OPTION_RECEIVED};
use libbpf_rs::{MapCore as _, MapFlags};
use selftest::Expect;

/// Begin of the names of the programs that use the map of sockets.
pub(crate) const USES_SOCKET_MAP: &str = "inject_";

/// The program that puts contexts into bytes.
pub(crate) const MESSAGES: &str = "inject_message";

/// Requests of HTTP/2 whose causes are kept until they are sent.
pub(crate) const STREAMS: u32 = 16384;

const LOST: &str = "no trace context is put into requests";

const fn program(name: &'static str, tracepoint: &'static str, since: &'static str) -> Program {
    Program::tracepoint(name, since, "context in HTTP/1 requests", LOST)
        .at(tracepoint)
        .on(MessageRung::SocketTracepoints)
}

/// The programs of `--propagate`.
const PROGRAMS: &[Program] = &[
    program("inject_sockops", "cgroup/sockops", "Linux 5.10"),
    program(MESSAGES, "cgroup/sk_msg", "Linux 5.10"),
    program("inject_received", "sock_recv_length", "Linux 6.3"),
];

const OPTIONS_LOST: &str = "requests other than HTTP/1 carry no trace context";

const fn option(name: &'static str, tracepoint: &'static str) -> Program {
    Program { feature: "context in options of TCP", lost: OPTIONS_LOST, ..program(name, tracepoint, "Linux 6.3") }
}

/// Further programs of `--propagate-option`. The first program of [`PROGRAMS`] writes and reads the option.
const OPTION_PROGRAMS: &[Program] =
    &[option("option_send", "tcp_sendmsg_locked"), option("option_received", "sock_recv_length")];

/// The programs for contexts in headers, in options, or in both.
pub(crate) fn programs(headers: Propagate, options: bool) -> impl Iterator<Item = &'static Program> {
    let of_headers = if headers == Propagate::Off { &PROGRAMS[..1] } else { PROGRAMS };
    of_headers.iter().chain(OPTION_PROGRAMS.iter().filter(move |_| options))
}

/// `enum ws_inject_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off = WS_INJECT_OFF as isize,
    First = WS_INJECT_FIRST as isize,
    Every = WS_INJECT_EVERY as isize,
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
    /// Every request; none at all if the self-test does not allow every request.
    Every,
    /// As `Every`, but FIONREAD is not tested: the user vouches that no target asks it of a connection.
    Vouched,
}

impl Propagate {
    const ALL: [Propagate; 5] =
        [Propagate::Off, Propagate::Auto, Propagate::First, Propagate::Every, Propagate::Vouched];

    /// Its word in the configuration.
    pub fn as_word(self) -> &'static str {
        match self {
            Propagate::Off => "off",
            Propagate::Auto => "auto",
            Propagate::First => "first",
            Propagate::Every => "every",
            Propagate::Vouched => "vouched",
        }
    }

    /// Reads a word of the configuration.
    pub fn from_word(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|p| p.as_word() == word);
        found.ok_or_else(|| format!("`{word}` is not a way to propagate; use off, auto, first, every or vouched"))
    }

    fn modes(self) -> &'static [Mode] {
        match self {
            Propagate::Off => &[],
            Propagate::Auto => &[Mode::Every, Mode::First],
            Propagate::First => &[Mode::First],
            Propagate::Every | Propagate::Vouched => &[Mode::Every],
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

/// Runs the self-test, chooses the mode, and describes the outcome. The caller drops the test's events from the ring.
pub(crate) fn start(
    skel: &mut WirespanSkel<'static>,
    wanted: Propagate,
    loaded: &[&str],
    targets: &Targets,
) -> Feature {
    let row = |rung, active, lost: &str, remedy: String| Feature {
        feature: "context put into requests",
        rung,
        active,
        costs: "",
        lost: lost.to_string(),
        remedy,
    };
    if !loaded.contains(&"sock_send_length") {
        return row("none", false, LOST, "needs messages by socket tracepoints (Linux 6.3)".into());
    }
    if let Some(missing) = PROGRAMS.iter().find(|p| !loaded.contains(&p.name)) {
        return row("none", false, LOST, format!("the kernel did not take {}", missing.name));
    }
    match as_target(skel, targets, |skel| test(skel, wanted)) {
        Ok((Mode::Every, _)) if wanted == Propagate::Vouched => {
            row("every request, FIONREAD not tested", true, "", String::new())
        }
        Ok((Mode::Every, _)) => row("every request", true, "", String::new()),
        Ok((_, why)) if why.is_empty() => row("first request of each connection", true, "", String::new()),
        Ok((_, why)) => {
            let lost = "requests after the first of a connection carry no context";
            row("first request of each connection", true, lost, format!("sockets cannot stay enrolled here: {why}"))
        }
        Err(why) => row("none", false, LOST, why),
    }
}

/// Runs `test` while this process is a target. Hooks that only the test would need are not attached.
fn as_target<T>(
    skel: &mut WirespanSkel<'static>,
    targets: &Targets,
    test: impl FnOnce(&mut WirespanSkel<'static>) -> Result<T, String>,
) -> Result<T, String> {
    let own = std::process::id();
    if targets.all || targets.pids.contains(&own) {
        return test(skel);
    }
    let hooks = skel.maps.bss_data.as_ref().map_or(0, |bss| bss.hooks_wanted);
    set_target(skel, own, true).map_err(|error| format!("the self-test did not start: {error}"))?;
    let outcome = test(skel);
    let _ = set_target(skel, own, false);
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.hooks_wanted = hooks;
    }
    outcome
}

/// The best mode that passes its test, and why the mode that was tried before it failed (empty if none was).
fn test(skel: &mut WirespanSkel<'static>, wanted: Propagate) -> Result<(Mode, String), String> {
    set_mode(skel, Mode::Off);
    selftest::run(Expect::Nothing, true).map_err(|why| format!("the self-test fails without enrolment: {why}"))?;
    let mut before = String::new();
    for mode in wanted.modes() {
        set_mode(skel, *mode);
        let expect = if *mode == Mode::Every { Expect::Every } else { Expect::First };
        match selftest::run(expect, wanted != Propagate::Vouched) {
            Ok(()) => return Ok((*mode, before)),
            Err(why) => before = why,
        }
        set_mode(skel, Mode::Off);
    }
    Err(format!("its self-test failed: {before}"))
}

/// Tests options of TCP together with the mode that [`start`] chose, and describes the outcome.
pub(crate) fn start_options(
    skel: &mut WirespanSkel<'static>,
    headers: Propagate,
    loaded: &[&str],
    targets: &Targets,
) -> Feature {
    let row = |rung, lost: &str, remedy: String| Feature {
        feature: "context put into options of TCP",
        rung,
        active: remedy.is_empty(),
        costs: "",
        lost: lost.to_string(),
        remedy,
    };
    let needed = programs(Propagate::Off, true).map(|p| p.name).chain(["sock_send_length"]);
    if let Some(missing) = needed.into_iter().find(|name| !loaded.contains(name)) {
        return row("none", OPTIONS_LOST, format!("the kernel did not take {missing}"));
    }
    match as_target(skel, targets, |skel| test_options(skel, headers != Propagate::Vouched)) {
        Ok(()) => {
            on_demand::want_sends(skel);
            row("first segment of each request", "", String::new())
        }
        Err(why) => {
            set_options(skel, false);
            row("none", OPTIONS_LOST, why)
        }
    }
}

fn set_options(skel: &mut WirespanSkel<'static>, on: bool) {
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.inject_options = u32::from(on);
    }
}

/// Connections must behave as without options, both without headers and with them, and an option must have arrived.
fn test_options(skel: &mut WirespanSkel<'static>, counted: bool) -> Result<(), String> {
    let received = |skel: &WirespanSkel<'static>| wire::counter(&skel.maps.inject_counters, WS_I_OPTION_RECEIVED);
    let headers = skel.maps.bss_data.as_ref().map_or(0, |bss| bss.inject_mode);
    let before = received(skel);
    set_options(skel, true);
    let all = [(Mode::Every, Expect::Every), (Mode::First, Expect::First)];
    let chosen = all.into_iter().find(|(mode, _)| *mode as u32 == headers);
    set_mode(skel, Mode::Off);
    let alone = selftest::run(Expect::Nothing, true);
    set_mode(skel, chosen.map_or(Mode::Off, |(mode, _)| mode));
    alone
        .and_then(|()| chosen.map_or(Ok(()), |(_, expect)| selftest::run(expect, counted)))
        .and_then(|()| if received(skel) == before { Err("no option came with what was sent".into()) } else { Ok(()) })
        .map_err(|why| format!("its self-test failed: {why}"))
}

/// Counters: contexts that were injected, and those that were not, by reason.
pub(crate) fn counters(skel: &WirespanSkel<'static>) -> Vec<(&'static str, u64)> {
    let counters = &skel.maps.inject_counters;
    contract::WS_INJECT_COUNTERS.map(|(which, name)| (name, wire::counter(counters, which))).to_vec()
}
