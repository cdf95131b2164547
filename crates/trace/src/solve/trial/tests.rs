use super::source::{FORGIVEN, PROVEN};
use super::*;
use wirespan_model::ExchangeRange;

/// Classes of requests.
const ANY: u64 = 1;
const OTHER: u64 = 2;

fn call(cause: u64, end_ns: u64) -> Span {
    Span { cause: Some(cause), cause_evidence: Some(Evidence::WakeUp), end_ns, ..Span::default() }
}

/// How long requests take.
const LONGEST: u64 = 1_000;

/// Classes of calls.
const KIND: u64 = 7;
const LATE: u64 = 8;

fn request(exchange: u64, end_ns: u64) -> Span {
    Span { exchange: Some(ExchangeRange { first: exchange, last: exchange }), end_ns, ..Span::default() }
}

/// What the trial says of a claim by wake-up, which has 0.8 before anything is known.
fn confidence(trial: &Trial) -> f64 {
    trial.claim(&call(1, 1)).map_or(f64::NAN, |claim| claim.confidence)
}

#[test]
fn confidence_is_what_answers_have_shown() {
    let mut trial = Trial::default();
    assert!((confidence(&trial) - 0.8).abs() < 0.01, "nothing is known yet");
    for x in 0..300 {
        trial.add_claim(&call(x, 10), KIND, false);
        trial.add_answer(&request(x, 20), ANY, LONGEST);
    }
    assert!((0.98..0.99).contains(&confidence(&trial)), "{}", confidence(&trial));
    for x in 300..400 {
        trial.add_claim(&call(x, 30), KIND, false);
        trial.add_answer(&request(x, 20), ANY, LONGEST);
    }
    assert!(confidence(&trial) < 0.4, "a quarter was refuted: {}", confidence(&trial));
}

#[test]
fn a_loop_is_never_nearly_certain() {
    let (mut trial, mut threads) = (Trial::default(), Trial::default());
    for x in 0..300 {
        // Four requests at once; the loop takes their calls in turns, the threads one request after the other.
        let of_loop = x / 8 * 4 + x % 4;
        trial.add_claim(&call(of_loop, 10), KIND, false);
        threads.add_claim(&call(x / 2, 10), KIND, false);
    }
    for x in 0..300 {
        trial.add_answer(&request(x, 20), ANY, LONGEST);
        threads.add_answer(&request(x, 20), ANY, LONGEST);
    }
    assert!((0.9..0.96).contains(&confidence(&trial)), "{}", confidence(&trial));
    assert!(confidence(&threads) > 0.98, "{}", confidence(&threads));
}

#[test]
fn few_claims_among_many_calls_are_rare() {
    let mut trial = Trial::default();
    let mut calls = |claimed, others| {
        (0..claimed).for_each(|x| trial.add_claim(&call(x, 10), KIND, false));
        (0..others).for_each(|_| trial.add_unclaimed(KIND));
        trial.is_rare(KIND)
    };
    assert!(!calls(1, 6), "seven calls tell nothing");
    assert!(calls(0, 10));
    assert!(!calls(20, 0), "most have a claim by now");
    assert!(calls(0, 100));
    assert!(!trial.is_rare(LATE));
}

#[test]
fn claims_that_hold_are_believed_soon() {
    let mut trial = Trial::default();
    for x in 1..=u64::from(PROVEN) {
        assert!(!trial.is_over(&call(1, 1)));
        trial.add_claim(&call(x, 50), KIND, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
    }
    assert!(trial.is_over(&call(1, 1)) && !trial.any_failed() && trial.claims.is_empty());
}

#[test]
fn calls_that_end_after_the_answer_refute_the_claims() {
    let mut trial = Trial::default();
    for x in 1..=30 {
        // The one comes before its request's end is known, the other after.
        trial.add_claim(&call(x, if x % 10 == 0 { 70 } else { 50 }), KIND, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
        trial.add_claim(&call(x, if x % 10 == 5 { 70 } else { 50 }), KIND, false);
    }
    assert!(trial.any_failed() && !trial.is_over(&call(1, 1)));
}

#[test]
fn failures_of_another_time_are_forgiven() {
    let mut trial = Trial::default();
    let mut judge = |end_ns| {
        trial.add_claim(&call(1, end_ns), KIND, false);
        trial.add_answer(&request(1, 60), ANY, LONGEST);
        (trial.any_failed(), trial.is_over(&call(1, 1)))
    };
    (0..10).for_each(|_| _ = judge(50));
    (0..5).for_each(|_| _ = judge(70));
    (1..FORGIVEN).for_each(|_| assert_eq!(judge(50), (true, false)));
    assert_eq!(judge(50), (false, true));
    // Two of a thousand are rare.
    (0..2).for_each(|_| assert_eq!(judge(70), (false, false)));
    assert_eq!(judge(70), (true, false));
}

#[test]
fn a_kind_of_call_that_nobody_waits_for_refutes_nothing() {
    let mut trial = Trial::default();
    for x in 1..=300 {
        trial.add_claim(&call(x, if x % 7 == 0 { 50 } else { 70 }), LATE, false);
        trial.add_claim(&call(x, 50), KIND, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
    }
    assert!(!trial.any_failed());
}

#[test]
fn late_claims_of_calls_that_requests_enclose_fail() {
    let mut trial = Trial::default();
    for x in 1..=20 {
        trial.add_claim(&call(x, 50), KIND, false);
        trial.add_claim(&Span { start_ns: 70, ..call(x, 80) }, LATE, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
    }
    assert!(!trial.any_failed() && trial.share() > 0.9);
    trial.enclose(LATE, true);
    assert!(trial.any_failed() && trial.share() < 0.1, "{}", trial.share());
    trial.enclose(LATE, false);
    assert!(!trial.any_failed());
}

#[test]
fn a_route_that_answers_first_refutes_nothing() {
    let mut trial = Trial::default();
    for x in 1..=300 {
        let late = x % 5 == 0;
        trial.add_claim(&call(x, if late { 70 } else { 50 }), KIND, false);
        trial.add_answer(&request(x, 60), if late { OTHER } else { ANY }, LONGEST);
    }
    assert!(!trial.any_failed() && trial.is_over(&call(1, 1)) && trial.share() > 0.9, "{}", trial.share());
    // One of the other routes fails, too: the claims are wrong.
    for x in 301..=310 {
        trial.add_claim(&call(x, if x % 2 == 0 { 70 } else { 50 }), KIND, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
    }
    assert!(trial.any_failed());
}

/// The first calls of a request that goes on after its answer have no better evidence than a wake-up where the
/// runtime's probes came too late for them.
#[test]
fn calls_that_begin_after_the_answers_of_few_routes_say_little_of_other_claims() {
    let mut trial = Trial::default();
    let mut x = 0;
    let mut judge = |class, start_ns| {
        x += 1;
        trial.add_claim(&Span { start_ns, ..call(x, start_ns + 10) }, KIND, false);
        trial.add_answer(&request(x, 60), class, LONGEST);
        (trial.any_failed(), trial.believes(&call(1, 1)))
    };
    (0..20).for_each(|_| assert_eq!(judge(ANY, 40), (false, true)));
    assert_eq!([judge(OTHER, 70), judge(OTHER, 70)], [(false, true), (true, true)]);
    assert_eq!([judge(OTHER + 1, 70), judge(OTHER + 2, 70)], [(true, true); 2]);
    assert_eq!(judge(OTHER + 3, 70), (true, false), "four routes do not go on after their answers at once");
}

#[test]
fn calls_under_way_at_the_answer_refute_the_claims_of_a_route_at_once() {
    let mut trial = Trial::default();
    for x in 1..=22 {
        trial.add_claim(&call(x, if x > 20 { 70 } else { 50 }), KIND, false);
        trial.add_answer(&request(x, 60), if x > 20 { OTHER } else { ANY }, LONGEST);
    }
    assert!(trial.any_failed() && !trial.believes(&call(1, 1)), "{}", trial.share());
}

#[test]
fn what_fails_seldom_is_right_mostly() {
    let mut trial = Trial::default();
    for x in 1..=100 {
        trial.add_claim(&call(x, if x % 50 == 0 { 70 } else { 50 }), KIND, false);
        trial.add_claim(&call(x, 70), LATE, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
    }
    assert!(trial.any_failed() && (0.93..0.95).contains(&trial.share()), "{}", trial.share());
    (101..=200).for_each(|x| {
        trial.add_claim(&call(x, if x % 3 == 0 { 70 } else { 50 }), KIND, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
    });
    assert!(trial.share() < 0.5, "{}", trial.share());
}

/// Jetty: what the tasks of a pool claim is right. A thread that serves, and was started while another one dealt with
/// a request, is not there for that request.
#[test]
fn each_claimant_is_tried_on_its_own() {
    let mut trial = Trial::default();
    let by = |tid, cause, end_ns| {
        let evidence = Some(Evidence::ChildTask);
        Span { tid, cause_evidence: evidence, ..call(cause, end_ns) }
    };
    for x in 1..=20 {
        trial.add_claim(&by(5, x, 50), KIND, false);
        // It is not known yet that this thread serves.
        trial.add_claim(&by(6, x, 70), KIND, false);
        trial.add_answer(&Span { tid: 6, ..request(x, 60) }, ANY, LONGEST);
    }
    assert!(trial.has_failed(&by(6, 1, 50)) && !trial.has_failed(&by(5, 1, 50)));
    assert!(!trial.has_failed(&call(1, 50)), "nothing is known of wake-ups");
    assert!(!trial.has_failed(&Span { coroutine: 9, ..by(6, 1, 50) }), "nor of virtual threads");
    assert!(trial.believes(&by(5, 1, 50)) && !trial.believes(&by(6, 1, 50)));
    assert!(trial.share() < 0.5, "only what failed counts: {}", trial.share());
}

/// `@Async` without a return value: the call races the answer, and often ends before it.
#[test]
fn calls_of_one_rare_route_may_be_late_often() {
    let judged = |others: u64| {
        let mut trial = Trial::default();
        for x in 1..=200 {
            let class = if x % 5 == 0 { OTHER } else { ANY };
            let claimed = class == OTHER || x % 5 <= others;
            let late = class == OTHER && x % 2 == 0;
            if claimed {
                trial.add_claim(&call(x, if late { 70 } else { 50 }), LATE, false);
            }
            trial.add_answer(&request(x, 60), class, LONGEST);
        }
        (trial.any_failed(), trial.are_of_one_class(&call(1, 1), LATE))
    };
    assert_eq!(judged(0), (false, true));
    assert_eq!(judged(4), (true, false), "a call that is claimed for all routes");
}

#[test]
fn what_is_kept_is_bounded() {
    let mut trial = Trial::default();
    for x in 1..=3 * MAX_KEPT as u64 {
        trial.add_claim(&call(x, 50), KIND, false);
        trial.add_answer(&request(x | 1 << 40, 60), ANY, LONGEST);
    }
    assert!(trial.claims.len() <= MAX_KEPT && trial.order.len() <= MAX_KEPT);
    assert!(trial.answers.len() <= MAX_KEPT && trial.answered.len() <= MAX_KEPT);
}

#[test]
fn a_call_within_another_request_of_the_same_read_refutes_nothing() {
    let stream = |exchange, id, end_ns| Span { message_id: Some(id), ..request(exchange, end_ns) };
    let mut trial = Trial::default();
    for x in 0..u64::from(PROVEN) {
        let at = 10_000 * x;
        trial.add_answer(&stream(x, 1, at + 20), ANY, LONGEST);
        trial.add_claim(&call(x, at + 40), KIND, true);
        trial.add_answer(&stream(x, 3, at + 60), ANY, LONGEST);
    }
    assert!(trial.is_over(&call(1, 1)) && trial.late.is_empty());
    for x in 1_000..1_003 {
        let at = 90_000_000 + 100 * x;
        trial.add_claim(&call(x, at + 40), KIND, true);
        trial.add_answer(&stream(x, 1, at + 20), ANY, LONGEST);
    }
    assert!(!trial.any_failed(), "the last of them may still be for an open request");
    trial.add_answer(&stream(9, 1, 99_000_000), ANY, LONGEST);
    assert!(trial.any_failed());
}

#[test]
fn each_pool_of_threads_is_tried_on_its_own() {
    let of = |name: &str, cause, end_ns| Span { comm: name.into(), ..call(cause, end_ns) };
    let mut trial = Trial::default();
    for x in 1..=2 * u64::from(PROVEN) {
        trial.add_claim(&of(&format!("http-{x}"), x, if x % 4 == 0 { 90 } else { 50 }), LATE, false);
        trial.add_claim(&of(&format!("exec-{x}"), x, 50), KIND, false);
        trial.add_answer(&request(x, 60), ANY, LONGEST);
    }
    assert!(trial.has_failed(&of("http-1", 1, 1)) && trial.is_over(&of("exec-2", 1, 1)));
}
