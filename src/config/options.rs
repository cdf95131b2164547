//! Options of the command line that several subcommands share. They override the configuration file.

use super::{Config, Serve};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use wirespan_view::WhyOrder;

/// Where spans go besides the view.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OutputArgs {
    /// Write every span to this file as OTLP JSON lines
    #[arg(long, value_name = "FILE")]
    pub(crate) otlp_file: Option<PathBuf>,
    /// Export to an OpenTelemetry collector: http://HOST:4317 (gRPC) or http://HOST:4318 (HTTP)
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Export also the metrics of the dependency map there: OpenTelemetry's service graphs, once a minute
    #[arg(long)]
    pub(crate) otlp_metrics: bool,
    /// Keep spans in this directory (else in memory)
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Most memory for spans and flows without --store; the oldest spans go first [default: 256]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) memory_mib: Option<u64>,
}

/// Where the dependency map is written at the end.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MapFileArgs {
    /// Write the dependency map to this file at the end, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) map_file: Option<PathBuf>,
}

/// Whether packets of targets may be changed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PropagateArgs {
    /// Put trace context (W3C traceparent) into HTTP/1 requests of the targets, as far as a self-test shows it to be
    /// safe
    #[arg(long)]
    propagate: bool,
    /// Put trace context beside other requests, into an option of TCP; not every network lets it pass
    #[arg(long)]
    propagate_option: bool,
}

impl PropagateArgs {
    /// The flags apply where the configuration says `off`.
    pub(crate) fn apply(&self, config: &mut Config) {
        if self.propagate && config.capture.propagate == "off" {
            config.capture.propagate = "auto".into();
        }
        config.capture.propagate_option |= self.propagate_option;
    }
}

/// Whether agents are loaded into targets.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AttachArgs {
    /// Load a small agent into each Java machine of the targets, without a restart. It changes some classes of the
    /// running program (executors, Netty), so that they tell which task runs, and changes them back at the end
    #[arg(long)]
    attach_java: bool,
}

impl AttachArgs {
    pub(crate) fn apply(&self, config: &mut Config) {
        config.capture.attach_java |= self.attach_java;
    }
}

/// Of which requests the waits are recorded.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WaitArgs {
    /// Record what the threads of slow requests waited for: of requests that take at least so long (50ms), or `auto`:
    /// longer than most requests of their endpoint
    #[arg(long, value_name = "DURATION|auto")]
    threshold: Option<String>,
    #[command(flatten)]
    pub(crate) calls: TimedCallArgs,
}

impl WaitArgs {
    pub(crate) fn apply(&self, config: &mut Config) {
        if let Some(threshold) = &self.threshold {
            config.waits.threshold.clone_from(threshold);
        }
    }
}

/// Which system calls are recorded, and how they are shown.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CallArgs {
    /// Record these system calls of each request, also short ones: names with commas between, or `all`. Every system
    /// call of the machine gets slower meanwhile, also those of processes that are not traced
    #[arg(long, value_name = "NAME,…|all")]
    pub(crate) syscalls: Option<String>,
    /// Show them as `spans` below their request, as `events` of its span, or as `attributes`: number, total and longest
    /// time by name
    #[arg(long = "syscalls-as", value_name = "FORM", default_value = "attributes", requires = "syscalls")]
    pub(crate) form: String,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// What is recorded with waits, for the time of an order.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct KnobArgs {
    /// Take the stacks of the kernel where threads wait and run [default: as configured: on]
    #[arg(long, value_name = "SWITCH")]
    kernel_stack: Option<Switch>,
    /// Take the stacks of programs there [default: as configured: on]
    #[arg(long, value_name = "SWITCH")]
    user_stack: Option<Switch>,
    /// Tell how often threads were woken, and how long they were ready then [default: as configured: on]
    #[arg(long, value_name = "SWITCH")]
    metrics: Option<Switch>,
}

impl KnobArgs {
    /// Kernel stack, user stack, metrics: what the user has said.
    pub(crate) fn said(&self) -> [Option<bool>; 3] {
        [self.kernel_stack, self.user_stack, self.metrics].map(|said| said.map(|switch| switch == Switch::On))
    }
}

/// The same from the start on, for a time.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TimedCallArgs {
    #[command(flatten)]
    calls: CallArgs,
    /// Record the system calls of this service only [default: of all targets]
    #[arg(long = "syscalls-of", value_name = "SERVICE", requires = "syscalls", default_value = "")]
    service: String,
    /// Record system calls for so long from the start on, at most an hour
    #[arg(long = "syscalls-for", value_name = "DURATION", requires = "syscalls", default_value = "60s")]
    time: String,
}

impl TimedCallArgs {
    /// What is asked for, if anything is.
    pub(crate) fn order(&self) -> Option<WhyOrder> {
        self.calls.syscalls.as_ref().map(|syscalls| WhyOrder {
            service: self.service.clone(),
            threshold: WhyOrder::NO_WAITS.into(),
            syscalls: syscalls.clone(),
            form: self.calls.form.clone(),
            time: self.time.clone(),
            ..WhyOrder::default()
        })
    }
}

/// Whose packets are followed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WatchArgs {
    /// Follow the packets of this service, or of requests to this endpoint (/pay, or GET /pay), through the devices of
    /// this machine: each becomes a span of the request's trace (repeatable; see docs/packets.md)
    #[arg(long, value_name = "SERVICE|ENDPOINT")]
    watch_packets: Vec<String>,
    /// Of watched requests, follow the packets in this network namespace only: a name of `ip netns`, a path, an inode,
    /// or pid:N (repeatable) [default: all of this machine]
    #[arg(long, value_name = "NS")]
    watch_netns: Vec<String>,
    #[command(flatten)]
    mirror: MirrorArgs,
}

/// Devices whose packets are read.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MirrorArgs {
    /// Read the packets of this device, such as the one at a switch's mirror port: each request in them is a span,
    /// also between machines that are not traced (repeatable; see docs/packets.md)
    #[arg(long, value_name = "DEVICE")]
    mirror: Vec<String>,
    /// Of mirrored devices, read only packets from and to this port (repeatable)
    #[arg(long, value_name = "PORT", requires = "mirror")]
    mirror_port: Vec<u16>,
}

impl MirrorArgs {
    pub(crate) fn apply(&self, config: &mut Config) {
        config.packets.mirror.extend(self.mirror.iter().cloned());
        config.packets.mirror_ports.extend(&self.mirror_port);
    }
}

impl WatchArgs {
    pub(crate) fn apply(&self, config: &mut Config) {
        config.packets.watch.extend(self.watch_packets.iter().cloned());
        config.packets.watch_netns.extend(self.watch_netns.iter().cloned());
        self.mirror.apply(config);
    }
}

impl UiArgs {
    /// Where to serve and which secret to ask for go to the configuration.
    pub(crate) fn apply(&self, serve: &mut Serve) {
        if let Some(addr) = self.ui {
            serve.ui = addr;
        }
        if let Some(token) = &self.ui_token {
            serve.ui_token.clone_from(token);
        }
    }
}

/// Whether somebody else may start packet programs here.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ProgramArgs {
    /// Let the UI (of an agent: its server) start packet programs here (docs/packets.md). Whoever can open that UI then
    /// sees between which addresses packets go, also those of programs that are not traced
    #[arg(long)]
    packet_programs: bool,
}

impl ProgramArgs {
    pub(crate) fn apply(&self, config: &mut Config) {
        config.packets.programs |= self.packet_programs;
    }
}

/// Where the UI and the query API are served.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct UiArgs {
    /// Address of the UI and the query API [default: 127.0.0.1:9473]
    #[arg(long, value_name = "ADDR")]
    pub(crate) ui: Option<SocketAddr>,
    /// Secret that the UI and the API ask for [default on other addresses than loopback: one made at the start]
    #[arg(long, value_name = "TOKEN", env = "WIRESPAN_UI_TOKEN", hide_env_values = true)]
    pub(crate) ui_token: Option<String>,
    /// Serve no UI
    #[arg(long, conflicts_with = "ui")]
    pub(crate) no_ui: bool,
}
