//! Which open requests may have made a call.

use crate::solve::timeline::{Call, Request};

/// Longest time for which a call goes on after the request that has not waited for it, ns.
const LONGEST_BEYOND_NS: u64 = 1_000_000_000;

/// A call lies within the request: nearly all requests wait for their calls.
pub(super) fn encloses(r: &Request, c: &Call) -> bool {
    r.start_ns <= c.start_ns && r.until_ns >= c.end_ns
}

/// A call begins in a request that answers without waiting for it: the loser of a race, a call whose time was up.
fn is_left_behind(r: &Request, c: &Call) -> bool {
    (r.start_ns..=r.until_ns).contains(&c.start_ns) && c.end_ns <= r.until_ns.saturating_add(LONGEST_BEYOND_NS)
}

/// Whether a request may have made this call, whether or not it has waited for it.
pub(super) fn may_make(r: &Request, c: &Call) -> bool {
    encloses(r, c) || is_left_behind(r, c)
}

/// Whether a request may have made this call: it encloses the call. If no request does, the call begins in it.
pub(super) fn could_make<'a>(open: &'a [Request], c: &'a Call) -> impl Fn(&Request) -> bool + 'a {
    let is_enclosed = open.iter().any(|r| encloses(r, c));
    move |r| if is_enclosed { encloses(r, c) } else { is_left_behind(r, c) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::testing::{call, request};

    const MS: u64 = 1_000_000;

    /// The requests that may have made a call.
    fn makers(open: &[Request], start_ns: u64, end_ns: u64) -> Vec<u32> {
        let c = call(1, 7, (start_ns, end_ns));
        let could_make = could_make(open, &c);
        open.iter().filter(|r| could_make(r)).map(|r| r.id).collect()
    }

    #[test]
    fn a_call_belongs_to_a_request_that_encloses_it() {
        let open = [request(1, 3, (0, 10 * MS)), request(2, 3, (5 * MS, 30 * MS))];
        assert_eq!(makers(&open, 6 * MS, 9 * MS), [1, 2]);
        assert_eq!(makers(&open, 6 * MS, 20 * MS), [2]);
    }

    #[test]
    fn a_call_that_no_request_encloses_was_left_behind_by_one_in_which_it_began() {
        let open = [request(1, 3, (0, 10 * MS)), request(2, 3, (5 * MS, 30 * MS))];
        assert_eq!(makers(&open, 2 * MS, 40 * MS), [1]);
        assert_eq!(makers(&open, 6 * MS, 40 * MS), [1, 2]);
        // A poll goes on for long, whatever is served meanwhile.
        assert_eq!(makers(&open, 6 * MS, 5_000 * MS), [0; 0]);
        assert_eq!(makers(&open[..1], 20 * MS, 40 * MS), [0; 0]);
    }
}
