//! The protocols of one run: those that are built in, then those that the user added.
//!
//! The registry is a value, not a global: the code that makes a joiner passes it in. So the registry is complete before
//! the first connection, two runs in one process may have different ones (tests do), and no code can add to it while
//! connections use it.

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
    /// If two protocols have one name, [`Registry::find`] finds the earlier.
    pub fn with(more: Vec<&'static dyn Protocol>) -> Self {
        Registry { more: more.into(), keep: Arc::default() }
    }

    /// The same registry with the user's masks.
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

    /// The counters of the added protocols.
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

/// Prints the names of the added protocols.
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
