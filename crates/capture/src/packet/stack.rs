//! Names of the functions in which the kernel was.

use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::MaybeDefault;
use compact_str::CompactString;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Stacks whose names are kept. A packet program sees few different ones.
const MOST_KEPT: usize = 4_096;
/// What stands for a function without a name.
const UNKNOWN: &str = "?";
/// How the functions begin that lead from a hook to its program; leading underscores are left out.
const OWN: [&str; 4] = ["bpf_", "traceiter_", "perf_", "kprobe_"];

/// Names stacks, and keeps the names.
#[derive(Default)]
pub(super) struct Stacks {
    symbols: Option<Symbolizer>,
    kept: FxHashMap<Box<[u64]>, Arc<[CompactString]>>,
}

impl Stacks {
    /// The functions, innermost first, without those of the program that took the stack.
    pub(super) fn name(&mut self, addresses: &[u64]) -> Arc<[CompactString]> {
        if let Some(known) = self.kept.get(addresses) {
            return Arc::clone(known);
        }
        if self.kept.len() >= MOST_KEPT {
            self.kept.clear();
        }
        let symbols = self.symbols.get_or_insert_with(Symbolizer::new);
        let kernel = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() });
        // A return address is behind its call.
        let calls: Vec<u64> = addresses.iter().enumerate().map(|(n, at)| at.saturating_sub((n > 0).into())).collect();
        let named = match symbols.symbolize(&kernel, Input::AbsAddr(&calls)) {
            Ok(found) => found.into_iter().map(function).collect(),
            Err(error) => {
                tracing::debug!(%error, "a stack of the kernel has no names");
                vec![CompactString::from(UNKNOWN); calls.len()]
            }
        };
        let named = without_own(named);
        self.kept.insert(addresses.into(), Arc::clone(&named));
        named
    }
}

fn function(found: Symbolized<'_>) -> CompactString {
    match found {
        Symbolized::Sym(symbol) => CompactString::from(symbol.name.as_ref()),
        Symbolized::Unknown(_) => UNKNOWN.into(),
    }
}

fn without_own(named: Vec<CompactString>) -> Arc<[CompactString]> {
    let is_own = |name: &CompactString| OWN.iter().any(|own| name.trim_start_matches('_').starts_with(own));
    let own = named.iter().rposition(is_own).map_or(0, |last| last + 1);
    named.into_iter().skip(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_hook_itself_are_left_out() {
        let named = ["?", "bpf_trace_run4", "__bpf_trace_kfree_skb", "__traceiter_kfree_skb", "tcp_v4_rcv", "?"];
        let left = without_own(named.map(CompactString::from).to_vec());
        assert_eq!(*left, ["tcp_v4_rcv", "?"].map(CompactString::from));
        assert_eq!(*without_own(vec!["ip_rcv".into()]), [CompactString::from("ip_rcv")]);
    }
}
