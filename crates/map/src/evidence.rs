//! The source of a map's evidence.

use std::convert::Infallible;
use wirespan_model::{Flow, Span};

/// Spans and flow records of one range of time. A map visits each kind up to three times, so each call of a method must
/// show the same evidence; the order may differ.
pub trait Evidence {
    /// Why the evidence could not be read.
    type Error;

    /// Shows DNS spans, for the names of addresses. They may have begun before the range, because clients cache
    /// answers.
    fn lookups(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), Self::Error>;

    /// Shows every span.
    fn spans(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), Self::Error>;

    /// Shows every flow record.
    fn flows(&self, visit: &mut dyn FnMut(&Flow)) -> Result<(), Self::Error>;
}

/// Evidence that is in memory.
pub(crate) struct InMemory<'f, S> {
    pub(crate) spans: S,
    pub(crate) flows: &'f [Flow],
}

impl<'s, S: IntoIterator<Item = &'s Span> + Clone> Evidence for InMemory<'_, S> {
    type Error = Infallible;

    fn lookups(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), Infallible> {
        self.spans(visit)
    }

    fn spans(&self, visit: &mut dyn FnMut(&Span)) -> Result<(), Infallible> {
        self.spans.clone().into_iter().for_each(visit);
        Ok(())
    }

    fn flows(&self, visit: &mut dyn FnMut(&Flow)) -> Result<(), Infallible> {
        self.flows.iter().for_each(visit);
        Ok(())
    }
}
