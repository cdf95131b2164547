//! The protocols of one run: those that are built in, then those that the user added.
//!
//! A value, not a global: who makes a joiner hands it over, so that it is there before the first connection, two runs
//! in one process may differ (tests do), and nobody can add to it while connections look.

use crate::{Detect, Keep, Parser, Probe, Protocol, Verdict, PATIENCE, REGISTRY};
use std::fmt;
use std::sync::Arc;
use wirespan_model::Transport;

/// The built-in protocols and, behind them, those that were added.
#[derive(Clone, Default)]
pub struct Registry {
    more: Arc<[&'static dyn Protocol]>,
    keep: Arc<Keep>,
}

impl Registry {
    /// The built-in protocols, then these. A protocol lives as long as the process: leak it once, at the start.
    ///
    /// Of two protocols with one name the earlier is found by it.
    pub fn with(more: Vec<&'static dyn Protocol>) -> Self {
        Registry { more: more.into(), keep: Arc::default() }
    }

    /// Shows and hides what the user wants.
    pub fn keeping(self, keep: Keep) -> Self {
        Registry { keep: Arc::new(keep), ..self }
    }

    /// A parser of this protocol for one connection.
    pub fn parser(&self, protocol: &dyn Protocol, transport: Transport) -> Box<dyn Parser> {
        let parser = protocol.parser_with(transport, &self.keep);
        self.keep.without_hidden(protocol.name(), parser)
    }

    /// All, in the order in which they are asked.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn Protocol> + '_ {
        REGISTRY.iter().chain(self.more.iter()).copied()
    }

    /// The protocol of this name.
    pub fn find(&self, name: &str) -> Option<&'static dyn Protocol> {
        self.iter().find(|p| p.name() == name)
    }

    /// What the added protocols counted.
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.more.iter().flat_map(|p| p.counters()).collect()
    }

    /// Asks every protocol; see [`infer`](crate::infer()).
    pub fn infer(&self, probe: &Probe<'_>, turns: (u32, u32)) -> Verdict {
        let mut maybe = false;
        for protocol in self.iter() {
            match protocol.detect(probe) {
                Detect::Yes { first_is_client } => return Verdict::Known { protocol, first_is_client },
                Detect::Maybe => maybe = true,
                Detect::No => {}
            }
        }
        let patient = turns.0 < PATIENCE || turns.1 < PATIENCE;
        if maybe && patient {
            Verdict::NeedMore
        } else {
            Verdict::Unknown
        }
    }
}

/// The names of what was added.
impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.more.iter().map(|p| p.name())).finish()
    }
}

/// Registries are equal if they added the same protocols.
impl PartialEq for Registry {
    fn eq(&self, other: &Self) -> bool {
        self.keep == other.keep
            && self.more.len() == other.more.len()
            && self.more.iter().zip(other.more.iter()).all(|(a, b)| std::ptr::addr_eq(*a, *b))
    }
}

impl Eq for Registry {}
