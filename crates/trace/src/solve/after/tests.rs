use super::*;
use crate::solve::testing::{call, request};

const MS: u64 = 1_000_000;

fn sent(id: u32, class: Class, start_ns: u64, maker: Maker) -> Event {
    Event::Sent(Call { maker, ..call(id, class, (start_ns, start_ns + MS)) })
}

fn learnt(of: impl Fn(u64) -> Vec<Event>) -> After {
    let mut after = After::default();
    let mut events: Vec<Event> = (1..60).flat_map(of).collect();
    events.sort_by_key(Event::at_ns);
    let mut within = Within::default();
    within.learn(&events);
    after.learn(&events, &within);
    after
}

/// A request of class 1 that answers after one millisecond.
fn short(n: u64) -> [Event; 2] {
    let r = request(n as u32, 1, (n * 100 * MS, (n * 100 + 1) * MS));
    [Event::Read(r), Event::Answered(r)]
}

#[test]
fn calls_whose_request_is_certain_tell_how_long_it_goes_on() {
    let after = learnt(|n| {
        let late = sent(1_000 + n as u32, 5, (n * 100 + 20) * MS, Maker::Known(n));
        [short(n).to_vec(), vec![late]].concat()
    });
    let lasts = after.until_ns(1, 0);
    assert!((20 * MS..40 * MS).contains(&lasts), "{lasts}");
    assert_eq!(after.until_ns(2, 7), 7, "nothing is known of another class");
}

#[test]
fn requests_that_enclose_calls_do_not_go_on() {
    let after = learnt(|n| {
        // A second request follows soon, as a user's next one does, and makes the call.
        let next = request(500 + n as u32, 2, ((n * 100 + 2) * MS, (n * 100 + 30) * MS));
        let call = sent(1_000 + n as u32, 5, (n * 100 + 3) * MS, Maker::Unknown(None));
        [short(n).to_vec(), vec![Event::Read(next), call, Event::Answered(next)]].concat()
    });
    assert_eq!(after.longest_ns(), 0);
}

/// One user. Calls of one class are made by requests of two classes, each time soon after the last answer.
#[test]
fn calls_that_requests_of_several_classes_enclose_are_not_late() {
    let after = learnt(|n| {
        let class = (n % 2) as Class + 1;
        let r = request(n as u32, class, (n * 100 * MS, (n * 100 + 60) * MS));
        let (both, own) = (n * 100 + 2, n * 100 + 30 + u64::from(class));
        let call = |class, at| sent(1_000 + n as u32, class, at * MS, Maker::Unknown(None));
        vec![Event::Read(r), call(5, both), call(10 + class, own), Event::Answered(r)]
    });
    assert_eq!(after.longest_ns(), 0);
}

/// On a busy machine calls come so long after their request's answer that others like it have been answered since:
/// of 40 calls of class 5 all begin within 16 ms of the last answer, and of 360 others 329.
#[test]
fn requests_that_make_no_calls_before_they_answer_may_make_them_later() {
    let goes_on = |answers, enclosed| {
        let mut lie = [Lie::default(), Lie { enclosed, ..Lie::default() }];
        for i in 0..400 {
            let begins_ns = if i < 369 { 8 * MS } else { 90 * MS };
            lie[1].begins.add(begins_ns);
            lie[1].ends.add(begins_ns + MS);
            if i < 40 {
                lie[0].begins.add(begins_ns);
                lie[0].ends.add(begins_ns + MS);
            }
        }
        let [own, all] = lie;
        let mut after = After { calls: 400.0, ..After::default() };
        after.of_class.insert(5, 40.0);
        after.pairs.insert((5, 1), own);
        after.served.insert(1, Served { answers, all, ..Served::default() });
        after.conclude(&Within::default());
        after.until_ns(1, 0) > 0
    };
    assert!(goes_on(40.0, 0.0));
    assert!(!goes_on(80.0, 0.0), "twice as many requests");
    assert!(!goes_on(40.0, 30.0), "they make calls before they answer");
}

#[test]
fn ends_are_put_in_their_order_and_those_beyond_are_returned() {
    let after = After { lasts: FxHashMap::from_iter([(1, 5 * MS)]), ..After::default() };
    let mut events = [short(1), short(2)].concat();
    let beyond = after.extend(&mut events);
    let ends =
        |events: &[Event]| events.iter().filter(|e| matches!(e, Event::Ended(_))).map(Event::at_ns).collect::<Vec<_>>();
    assert_eq!((ends(&events), ends(&beyond)), (vec![106 * MS], vec![206 * MS]));
    assert!(events.is_sorted_by_key(Event::at_ns));
    assert_eq!(after.extend(&mut events), [], "nothing is added twice");
}
