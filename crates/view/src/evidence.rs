//! The contents of a store, as evidence for the dependency map.

use wirespan_map::{Evidence, ServiceMap};
use wirespan_model::{Flow, Span, TimeRange};
use wirespan_store::{Query, Store, StoreError};

/// DNS spans that are read for their answers, newest first.
const MAX_LOOKUPS: usize = 20_000;
/// How long before the range a DNS answer may lie, ns: clients cache answers.
const LOOKUP_BEFORE_NS: u64 = 3_600_000_000_000;

/// The spans of a store that start in the range, and its flow records.
pub(crate) struct StoreEvidence<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) range: TimeRange,
}

impl Evidence for StoreEvidence<'_> {
    type Error = StoreError;

    fn lookups(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        let from_ns = self.range.from_ns.saturating_sub(LOOKUP_BEFORE_NS);
        let lookups = self.store.search(&Query {
            range: TimeRange { from_ns, ..self.range },
            protocol: Some("dns".into()),
            limit: MAX_LOOKUPS,
            ..Query::default()
        })?;
        lookups.iter().for_each(|span| visit(span));
        Ok(())
    }

    fn spans(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.store.scan_outline(self.range, visit)
    }

    fn flows(&self, visit: &mut dyn FnMut(&Flow)) -> Result<(), StoreError> {
        self.store.flows(self.range, visit)
    }
}

/// The dependency map of a store's spans and flow records in this range.
pub fn service_map(store: &dyn Store, range: TimeRange) -> Result<ServiceMap, StoreError> {
    Ok(ServiceMap::build(&StoreEvidence { store, range }, None)?.0)
}

/// The spans of a store that start in the range, with flow records from another source.
pub(crate) struct WithFlows<'a> {
    pub(crate) spans: StoreEvidence<'a>,
    pub(crate) flows: &'a [Flow],
}

impl Evidence for WithFlows<'_> {
    type Error = StoreError;

    fn lookups(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.spans.lookups(visit)
    }

    fn spans(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.spans.spans(visit)
    }

    fn flows(&self, visit: &mut dyn FnMut(&Flow)) -> Result<(), StoreError> {
        self.flows.iter().for_each(visit);
        Ok(())
    }
}
