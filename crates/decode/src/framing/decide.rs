//! The detection that most binary protocols share: the bytes of each end are a message for certain, perhaps, or not.

use crate::{Detect, Probe};

/// How one end's bytes look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    /// A frame for certain. The value says whether the asking end sent it, if the frame tells.
    Certain(Option<bool>),
    /// Could be a frame; counts only if the other end's could be one too.
    Likely(Option<bool>),
    /// Too few bytes, or none.
    More,
    /// No frame.
    Other,
}

/// The answer of a protocol, from the looks of both ends' bytes.
///
/// The capture source decides which end asks; if it does not know, the frames decide. Frames of the same role at both
/// ends, or of an unknown role, decide nothing.
pub(crate) fn decide(probe: &Probe<'_>, first: Looks, second: Looks) -> Detect {
    use Looks::{Certain, Likely, More, Other};
    let (a, b) = match (first, second) {
        // The bytes of the other end may start in the middle of a frame.
        (Certain(a), Certain(b) | Likely(b)) | (Likely(a), Certain(b) | Likely(b)) => (a, b),
        (Certain(a), More | Other) => (a, None),
        (More, Certain(b)) => (None, b),
        (Likely(_) | More, More) | (More, Likely(_)) => return Detect::Maybe,
        (Other, _) | (_, Other) => return Detect::No,
    };
    if probe.first_is_client.is_none() && a.is_some() && a == b {
        return Detect::Maybe;
    }
    match probe.first_is_client.or(a).or(b.map(|client| !client)) {
        Some(first_is_client) => Detect::Yes { first_is_client },
        None => Detect::Maybe,
    }
}
