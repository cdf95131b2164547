//! A plug-in as a protocol: it is asked about connections, and switched off after its last allowed fault.

use crate::fault::Fault;
use crate::instance::{Instance, Nature};
use crate::limits::{Credit, Limits};
use crate::load::Settings;
use crate::parser::PluginParser;
use std::sync::{Arc, Mutex};
use wasmi::{Engine, Module};
use wirespan_decode::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Item, Side, Transport, L7};

/// A protocol that a WebAssembly module reads.
pub struct Plugin {
    shared: Arc<Shared>,
    ports: Vec<u16>,
}

/// The state that the connections of a plug-in share.
pub(crate) struct Shared {
    pub(crate) name: L7,
    path: String,
    pub(crate) bad: &'static str,
    pub(crate) gap: &'static str,
    pub(crate) nature: Nature,
    limits: Limits,
    engine: Engine,
    module: Module,
    running: Mutex<Running>,
}

struct Running {
    /// `None`: switched off.
    instance: Option<Instance>,
    credit: Credit,
    calls: u64,
    fuel: u64,
    faults: [u64; Fault::NAMES.len()],
    unread_bytes: u64,
}

/// Answer to a piece of a side.
pub(crate) enum Answer {
    /// This many bytes are done, and this many behind them need not be shown.
    Consumed(usize, u64),
    /// No message starts here.
    Bad,
    /// It will not read this connection any more.
    Over,
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl Plugin {
    pub(crate) fn new(
        name: String,
        path: String,
        settings: &Settings,
        engine: Engine,
        module: Module,
        instance: Instance,
    ) -> Self {
        let running = Running {
            credit: Credit::full(),
            calls: 0,
            fuel: 0,
            faults: Default::default(),
            unread_bytes: 0,
            instance: None,
        };
        let nature = instance.nature;
        let shared = Shared {
            bad: leak(format!("{name}_bad_message")),
            gap: leak(format!("{name}_gap")),
            name: leak(name),
            path,
            nature,
            limits: settings.limits,
            engine,
            module,
            running: Mutex::new(Running { instance: Some(instance), ..running }),
        };
        Plugin { shared: Arc::new(shared), ports: settings.ports.clone() }
    }
}

impl Shared {
    /// Calls the instance; a fault costs the instance its life, and the plug-in the connection.
    fn with<T>(
        &self,
        new_bytes: usize,
        call: impl FnOnce(&mut Instance, Limits, &mut Credit) -> (Result<T, Fault>, u64),
    ) -> Option<T> {
        let mut running = self.running.lock().ok()?;
        let running = &mut *running;
        let instance = running.instance.as_mut()?;
        running.credit.earn(new_bytes);
        running.calls += 1;
        let (answer, used) = call(instance, self.limits, &mut running.credit);
        running.fuel = running.fuel.saturating_add(used);
        match answer {
            Ok(answer) => Some(answer),
            Err(fault) => {
                running.fault(self, fault);
                None
            }
        }
    }

    /// Shows the plug-in bytes of a side, and hands out the messages that it describes.
    pub(crate) fn read(
        &self,
        state: &mut [u8],
        side: Side,
        (bytes, new_bytes): (&[u8], usize),
        flags: i32,
        base: u64,
        out: &mut dyn FnMut(Item<'_, '_>),
    ) -> Answer {
        let number = match side {
            Side::Client => 0,
            Side::Server => 1,
        };
        let answer = self.with(new_bytes, |instance, limits, credit| {
            let (answer, used) = instance.read(state, number, bytes, flags, limits, credit);
            let checked = answer.and_then(|consumed| match usize::try_from(consumed) {
                Ok(n) if n <= bytes.len() => {
                    let skip = instance.description().done(n)?;
                    instance.description().tell(self.name, side, base, out);
                    Ok(Answer::Consumed(n, skip))
                }
                Ok(_) => Err(Fault::Lie("it consumed more bytes than it was shown")),
                Err(_) if consumed == -1 => Ok(Answer::Bad),
                Err(_) => Err(Fault::Lie("it consumed a negative number of bytes")),
            });
            (checked, used)
        });
        answer.unwrap_or(Answer::Over)
    }

    /// Bytes that it did not read because it is off, or lost the connection.
    pub(crate) fn unread(&self, bytes: u64) {
        if let Ok(mut running) = self.running.lock() {
            running.unread_bytes = running.unread_bytes.saturating_add(bytes);
        }
    }
}

impl Running {
    fn fault(&mut self, shared: &Shared, fault: Fault) {
        if let Some(count) = self.faults.get_mut(fault.index()) {
            *count += 1;
        }
        let total: u64 = self.faults.iter().sum();
        let (name, path) = (shared.name, shared.path.as_str());
        let mut before = self.instance.take();
        if total >= u64::from(shared.limits.faults) {
            tracing::error!("plug-in `{name}` ({path}) is off: {fault}; that is fault {total} of {total} it may have");
            return;
        }
        // The memory of the instance is no longer to be trusted.
        match Instance::start(&shared.engine, &shared.module, shared.limits) {
            Ok(mut fresh) => {
                if let Some(before) = &mut before {
                    fresh.description_mut().inherit(before.description_mut());
                }
                self.instance = Some(fresh);
                tracing::warn!("plug-in `{name}` ({path}) lost a connection: {fault}");
            }
            Err(error) => {
                tracing::error!("plug-in `{name}` ({path}) is off: {fault}, and it does not start again: {error}")
            }
        }
    }
}

impl Protocol for Plugin {
    fn name(&self) -> L7 {
        self.shared.name
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        let transport = match probe.transport {
            Transport::Tcp | Transport::UnixStream => 1,
            Transport::Udp | Transport::UnixDgram => 2,
        };
        let port_fits = match probe.server_port {
            Some(port) => self.ports.is_empty() || self.ports.contains(&port),
            None => true,
        };
        if self.shared.nature.transport & transport == 0 || !port_fits {
            return Detect::No;
        }
        let client = match probe.first_is_client {
            Some(true) => 1,
            Some(false) => 0,
            None => -1,
        };
        let port = probe.server_port.map_or(-1, i32::from);
        let shown = probe.first.len() + probe.second.len();
        let answer = self.shared.with(shown, |instance, limits, credit| {
            let (answer, used) = instance.detect((probe.first, probe.second), (client, port), limits, credit);
            let checked = answer.and_then(|n| match n {
                0 => Ok(Detect::No),
                1 => Ok(Detect::Maybe),
                2 | 3 => Ok(Detect::Yes { first_is_client: n == 2 }),
                _ => Err(Fault::Lie("it gave a verdict that there is not")),
            });
            (checked, used)
        });
        match (answer, probe.first_is_client) {
            // The capture source knows the connecting end better than the plug-in.
            (Some(Detect::Yes { .. }), Some(first_is_client)) => Detect::Yes { first_is_client },
            (Some(answer), _) => answer,
            (None, _) => Detect::No,
        }
    }

    fn pairing(&self) -> Pairing {
        match self.shared.nature.pairing {
            1 => Pairing::ById,
            _ => Pairing::InOrder,
        }
    }

    fn need(&self) -> Need {
        match u32::try_from(self.shared.nature.need) {
            Ok(bytes) => Need::EveryCall(bytes),
            Err(_) => Need::WholeCalls,
        }
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(PluginParser::new(Arc::clone(&self.shared), transport))
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let Ok(running) = self.shared.running.lock() else { return Vec::new() };
        let name = self.shared.name;
        let mut all = vec![
            (format!("{name}_calls"), running.calls),
            (format!("{name}_fuel"), running.fuel),
            (format!("{name}_unread_dropped_bytes"), running.unread_bytes),
            (format!("{name}_off_faults"), u64::from(running.instance.is_none())),
        ];
        let faults = Fault::NAMES.iter().zip(running.faults);
        all.extend(faults.map(|(reason, n)| (format!("{name}_faults_{reason}"), n)));
        all
    }
}
