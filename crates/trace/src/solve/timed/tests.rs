use super::*;
use crate::solve::testing::{call, request};
use crate::solve::timeline::Call;

const MS: u64 = 1_000_000;
/// Classes of requests and of calls.
const RETRY: Class = 1;
const MAIL: Class = 2;
const TRY: Class = 1;
const SEND: Class = 2;
const ASK: Class = 3;

/// Several requests at a time, at random. Some try again after a time limit; others send a mail after their answer.
/// `asks`: how many calls the latter make before it. Returns the request of each other call, too.
fn events(requests: u32, asks: u32) -> (Vec<Event>, FxHashMap<u32, u32>) {
    let (mut events, mut truth, mut random, mut at) = (Vec::new(), FxHashMap::default(), 1_u32, MS);
    let mut dice = move |sides: u64| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (u64::from(random >> 8) * sides) >> 24
    };
    for id in 1..=requests {
        at += dice(8 * MS);
        let class = if dice(2) == 0 { RETRY } else { MAIL };
        let r = request(id, class, (at, at + if class == RETRY { 30 * MS } else { MS }));
        let (made, start_ns) = if class == RETRY { (TRY, at + 17 * MS) } else { (SEND, r.end_ns + 4 * MS) };
        let start_ns = start_ns + dice(MS);
        let c = Call { socket: id.into(), ..call(id + 10_000, made, (start_ns, start_ns + 2 * MS)) };
        truth.insert(c.id, id);
        for n in (0..asks).filter(|_| class == MAIL) {
            let ask = call(id + 20_000 + n * 10_000, ASK, (at + MS / 4, at + MS / 2));
            events.extend([Event::Sent(ask), Event::Replied(ask)]);
        }
        events.extend([Event::Read(r), Event::Sent(c), Event::Replied(c), Event::Answered(r)]);
    }
    events.sort_by_key(Event::at_ns);
    (events, truth)
}

#[test]
fn what_timers_do_is_led_to_by_the_request_that_set_them() {
    let leads = Timed::learn(&events(400, 0).0).leads;
    assert!(leads.rate(Lead::Read(RETRY), Kind::Call(TRY)) > 0.8);
    assert!(leads.rate(Lead::Read(MAIL), Kind::Call(SEND)) > 0.8);
    assert!(leads.rate(Lead::Read(RETRY), Kind::Call(SEND)) < 0.1);
    assert!(leads.rate(Lead::Read(MAIL), Kind::Call(TRY)) < 0.1);
}

#[test]
fn most_calls_get_their_request_whether_or_not_it_had_answered() {
    let (events, truth) = events(400, 0);
    let found = Timed::learn(&events).makers;
    let right = truth.iter().filter(|(call, request)| found.get(call) == Some(request)).count();
    assert!(right > 260, "{right} of 400");
}

#[test]
fn requests_that_call_after_their_answer_go_on_and_others_do_not() {
    let lasts = Timed::learn(&events(400, 0).0).lasts;
    assert!((5 * MS..20 * MS).contains(&lasts[&MAIL]), "{lasts:?}");
    assert_eq!(lasts.get(&RETRY), None);
    assert!(Timed::learn(&events(6, 0).0).lasts.is_empty(), "too few to say anything");
    assert!(Timed::learn(&[]).makers.is_empty());
}

#[test]
fn requests_that_call_before_their_answer_are_not_taken_to_go_on() {
    assert!(Timed::learn(&events(400, 2).0).lasts.is_empty());
}
