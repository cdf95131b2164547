//! Packets: `wirespan packet` (a program that a person can read → packets, and what became of them), and devices on the
//! way of watched requests, and spans from the packets of devices that the user names (`--mirror`).

mod arp;
mod awaited;
mod board;
mod ethernet;
mod fleet;
mod hops;
mod icmp;
mod mirror;
mod names;
mod obey;
mod offer;
mod pcapng;
mod places;
mod program;
mod programs;
mod recorded;
mod report;
mod run;
mod subject;
mod taps;
mod watch;

pub(crate) use awaited::Awaited;
pub(crate) use fleet::{Fleet, Joined};
pub(crate) use mirror::{Mirroring, Mirrors};
pub(crate) use names::Names;
pub(crate) use obey::{Allowed, Obedience, Obeying};
pub(crate) use offer::Offer;
pub(crate) use pcapng::Pcapng;
pub(crate) use program::{duration, Action, Program};
pub(crate) use programs::Programs;
pub(crate) use recorded::{Machine, Recorded};
pub(crate) use report::{counted, time, Report};
pub(crate) use subject::Subject;
pub(crate) use taps::{count, Taps};
pub(crate) use watch::{Watch, Watching};
