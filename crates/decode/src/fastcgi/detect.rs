//! Recognises FastCGI by a BEGIN_REQUEST record: sixteen bytes of which thirteen are given.
//!
//! Bias: against. A connection that is joined inside a request is recognised by its next request. The bytes of the
//! application decide nothing.

use super::record::{begins, Record};
use crate::{Detect, Probe};
use wirespan_model::Side;

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let (first, second) = (begins(probe.first), begins(probe.second));
    if first == Some(true) {
        return Detect::Yes { first_is_client: true };
    }
    if second == Some(true) {
        return Detect::Yes { first_is_client: false };
    }
    // The rest of an answer, and the next request is still to come.
    let answers = |bytes: &[u8]| Record::read(Side::Server, bytes).is_some();
    let begun = (first.is_none() && !probe.first.is_empty()) || (second.is_none() && !probe.second.is_empty());
    if begun || answers(probe.first) || answers(probe.second) {
        Detect::Maybe
    } else {
        Detect::No
    }
}
