//! Which acts a request owes: what its read and the replies to its calls lead to, less what it has done.

use crate::solve::chain::{Act, Last, Place};
use crate::solve::leads::{Kind, Lead, Leads};
use crate::solve::timeline::Event;

/// Acts owed from which on one is expected; and the least likelihood of an act that is not.
const OWED: f64 = 0.3;
const LEAST: f64 = 0.01;
/// Where a read leads to so many acts of a kind, replies are not what leads to them.
const BY_READ: f64 = 0.5;

#[derive(Debug)]
pub(in crate::solve) struct Debts(Leads);

impl Debts {
    pub(in crate::solve) fn learn(events: &[Event]) -> Debts {
        Debts(Leads::learn(events))
    }

    pub(in crate::solve) fn of(leads: Leads) -> Debts {
        Debts(leads)
    }

    /// How many such acts are to come.
    fn owed(&self, place: &Place, act: Act) -> f64 {
        if act == Act::Answer && place.waits {
            return 0.0;
        }
        let kind = Kind::of(act, place.class);
        let led = self.led(place, kind);
        if led >= OWED || place.waits {
            return led;
        }
        // It waits for nothing, so it does something of what its last event leads to.
        let last = match place.last {
            Last::Replied(class) => Lead::Replied(class),
            Last::Read => Lead::Read(place.class),
            _ => return led,
        };
        let may = |kind: Kind| match kind {
            Kind::Call(class) => place.made.of(class) == 0.0,
            Kind::Answer(class) => class == place.class,
        };
        if !may(kind) {
            return led;
        }
        let all: f64 = self.0.rates(last).filter(|(kind, _)| may(*kind)).map(|(_, rate)| rate).sum();
        led.max(self.0.rate(last, kind) / all.max(1e-9))
    }

    /// How many its read and all replies lead to, less those made.
    fn led(&self, place: &Place, kind: Kind) -> f64 {
        let made = if let Kind::Call(class) = kind { place.made.of(class) } else { 0.0 };
        let read = self.0.rate(Lead::Read(place.class), kind);
        if read >= BY_READ {
            return read.max(1.0) - made;
        }
        let replies = place.replied.all().map(|(class, n)| n * self.0.rate(Lead::Replied(class), kind));
        read + replies.sum::<f64>() - made
    }

    pub(in crate::solve) fn likely(&self, place: &Place, act: Act) -> f64 {
        self.owed(place, act).clamp(LEAST, 1.0)
    }

    pub(in crate::solve) fn is_owed(&self, place: &Place, act: Act) -> bool {
        self.owed(place, act) >= OWED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::chain::{Done, Made};

    fn place(last: Last, made: &[u16], replied: &[u16]) -> Place {
        let of = |classes: &[u16]| {
            let mut all = Made::default();
            classes.iter().for_each(|class| all.add(*class));
            all
        };
        let waits = made.len() > replied.len();
        Place { class: 1, last, waits, done: Done::default(), made: of(made), replied: of(replied) }
    }

    /// Reads lead to the calls 1 and 2; of the replies of 1, two in ten lead to call 3.
    fn debts() -> Debts {
        let rates = [
            (Lead::Read(1), Kind::Call(1), 1.0),
            (Lead::Read(1), Kind::Call(2), 0.9),
            (Lead::Replied(1), Kind::Call(3), 0.2),
        ];
        Debts(Leads::of(rates))
    }

    #[test]
    fn what_a_read_leads_to_is_owed_until_it_is_done_however_long_it_waits() {
        let fresh = place(Last::Read, &[], &[]);
        assert!(debts().is_owed(&fresh, Act::Call(1)) && debts().is_owed(&fresh, Act::Call(2)));
        assert!(!debts().is_owed(&fresh, Act::Call(3)) && !debts().is_owed(&fresh, Act::Answer));
        let waiting = place(Last::Replied(1), &[1], &[1]);
        assert!(debts().is_owed(&waiting, Act::Call(2)) && !debts().is_owed(&waiting, Act::Call(1)));
    }

    #[test]
    fn a_request_that_waits_for_nothing_does_what_else_its_last_event_leads_to() {
        let done = place(Last::Replied(1), &[1, 2], &[1, 2]);
        assert!(debts().likely(&done, Act::Call(3)) > 0.99);
        let waits = place(Last::Replied(1), &[1, 2], &[1]);
        assert!(debts().likely(&waits, Act::Call(3)) < OWED);
    }
}
