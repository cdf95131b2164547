//! The keys of a program.

use super::doing::{Doing, Place};
use super::values::{EtherType, Written};
use serde::Deserialize;
use serde_norway::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use wirespan_capture::packet::{Headers, Net};

/// A value, or a list of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Some1<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Clone> Some1<T> {
    pub(super) fn all(of: Option<&Self>) -> Vec<T> {
        match of {
            None => Vec::new(),
            Some(Some1::One(one)) => vec![one.clone()],
            Some(Some1::Many(many)) => many.clone(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilterKeys {
    pub(super) netns: Option<Some1<String>>,
    pub(super) device: Option<Some1<String>>,
    #[serde(default)]
    pub(super) ether_type: Written<EtherType>,
    #[serde(default)]
    pub(super) protocol: Written<u8>,
    #[serde(default)]
    pub(super) address: Written<Net>,
    #[serde(default)]
    pub(super) source: Written<Net>,
    #[serde(default)]
    pub(super) destination: Written<Net>,
    #[serde(default)]
    pub(super) port: Written<u16>,
    #[serde(default)]
    pub(super) source_port: Written<u16>,
    #[serde(default)]
    pub(super) destination_port: Written<u16>,
    #[serde(default)]
    pub(super) tcp_flags: Vec<Flag>,
    #[serde(default)]
    pub(super) headers: Written<Headers>,
    pub(super) trace: Option<String>,
    pub(super) service: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) workload: Option<Some1<String>>,
}

impl FilterKeys {
    /// Those of the keys that only packets of IP have, and those that need an address, as far as they are used.
    pub(super) fn of_ip(&self) -> (Option<&'static str>, Option<&'static str>) {
        let used = |all: &[(&'static str, bool)]| all.iter().find(|(_, is_used)| *is_used).map(|(key, _)| *key);
        let needs_ip = [
            ("protocol", self.protocol.0 != 0),
            ("port", self.port.0 != 0),
            ("source_port", self.source_port.0 != 0),
            ("destination_port", self.destination_port.0 != 0),
            ("tcp_flags", !self.tcp_flags.is_empty()),
            ("headers", self.headers.0 != Headers::Either),
            ("trace", self.trace.is_some()),
            ("service", self.service.is_some()),
            ("endpoint", self.endpoint.is_some()),
        ];
        let needs_address = [
            ("address", !self.address.0.is_any()),
            ("source", !self.source.0.is_any()),
            ("destination", !self.destination.0.is_any()),
            ("workload", self.workload.is_some()),
        ];
        (used(&needs_ip), used(&needs_address))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Flag {
    Fin = 1,
    Syn = 2,
    Rst = 4,
    Psh = 8,
    Ack = 16,
    Urg = 32,
    Ece = 64,
    Cwr = 128,
}

/// What the tables are told by, beside places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    Flow,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "keys, each with a value: globals, filter, where, action, by, for, at_most, one_flow_of"
)]
pub(super) struct Keys {
    /// Read before all others, see `globals.rs`.
    #[serde(default, rename = "globals")]
    pub(super) _globals: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) filter: FilterKeys,
    #[serde(rename = "where")]
    pub(super) points: Option<Vec<Place>>,
    pub(super) action: Option<Vec<Doing>>,
    pub(super) by: Option<By>,
    #[serde(rename = "for")]
    pub(super) time: Option<Written<Duration>>,
    pub(super) at_most: Option<u64>,
    pub(super) one_flow_of: Option<u32>,
}
