use super::*;
use wirespan_decode::ids::ids;
use wirespan_model::event::PROVISIONAL;
use wirespan_model::{ExchangeRange, SpanKind};

const JOB: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
const AGAIN: &str = "1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
const SENDER: &str = "2f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
const S: u64 = 1_000_000_000;

fn call(operation: &str, tid: u32, at: u64) -> Span {
    Span {
        tap: TapSide::ClientProcess,
        protocol: Cow::Borrowed("redis"),
        operation: operation.into(),
        pid: 1,
        tid,
        start_ns: at,
        end_ns: at,
        ..Span::default()
    }
}

fn with_ids(mut span: Span, names: &[&str]) -> Span {
    let hashes: String = names.iter().map(|id| format!("{:016x} ", ids(id.as_bytes())[0])).collect();
    span.attrs.push((Cow::Borrowed(ELEMENT_IDS), Value::Str(hashes.trim().into())));
    span
}

/// The first thread takes a message.
fn take(jobs: &mut NamedJobs, exchange: u64, names: &[&str]) {
    let mut span = with_ids(call("BRPOP", 1, 0), names);
    span.exchange = Some(ExchangeRange { first: exchange, last: exchange });
    span.attrs.push((Cow::Borrowed(ELEMENTS_TAKEN), Value::Str("".into())));
    jobs.see(&mut span);
    assert!(span.cause.is_none() && !span.attrs.iter().any(|(key, _)| key == ELEMENT_IDS));
}

fn cause(jobs: &mut NamedJobs, mut span: Span) -> Option<u64> {
    jobs.see(&mut span);
    span.cause
}

fn handed(jobs: &mut NamedJobs, bytes: &str) -> Option<u64> {
    let handed = Handed { provisional: PROVISIONAL | 5, time_ns: 0, bytes: bytes.into() };
    jobs.handed(&handed).map(|alias| alias.cause)
}

#[test]
fn what_is_struck_off_is_for_the_message_that_it_names() {
    let mut jobs = NamedJobs::default();
    take(&mut jobs, 10, &[JOB, SENDER]);
    take(&mut jobs, 11, &[AGAIN, SENDER]);
    assert_eq!(cause(&mut jobs, with_ids(call("HDEL", 1, S), &[JOB])), Some(10));
    assert_eq!(cause(&mut jobs, call("GET", 1, S)), None, "this call names nothing");
    let mut claimed = with_ids(call("HDEL", 1, S), &[JOB]);
    (claimed.cause, claimed.cause_evidence) = (Some(11), Some(Evidence::EventLoop));
    assert_eq!(cause(&mut jobs, claimed.clone()), Some(10), "not what the loop read last");
    claimed.cause_evidence = Some(Evidence::Thread);
    assert_eq!(cause(&mut jobs, claimed), Some(11));
    let mut foreign = with_ids(call("HDEL", 1, S), &[JOB]);
    foreign.pid = 2;
    assert_eq!(cause(&mut jobs, foreign), None, "another process took it");
}

/// One read brings several messages of a subscriber.
#[test]
fn a_job_from_a_pipe_has_the_cause_of_its_delivery_among_others() {
    let mut jobs = NamedJobs::default();
    for (n, id) in [(1, JOB), (2, AGAIN)] {
        let mut span = Span {
            id: SpanId(n),
            tap: TapSide::ServerProcess,
            kind: SpanKind::Consumer,
            exchange: Some(ExchangeRange { first: 10, last: 10 }),
            ..call("basic.deliver", 1, 0)
        };
        span.attrs.push((Cow::Borrowed("messaging.message.conversation_id"), Value::Str(id.into())));
        jobs.see(&mut span);
    }
    assert_eq!(handed(&mut jobs, &format!("({AGAIN} {SENDER})")), Some(10));
    let mut job = call("GET", 7, S);
    (job.pid, job.cause) = (9, Some(PROVISIONAL | 5));
    jobs.see(&mut job);
    let (of, span) = (job.cause, job.attrs.iter().find(|(key, _)| key == CAUSE_SPAN));
    assert_eq!((of, span.map(|(_, id)| id.clone())), (Some(10), Some(Value::Str(SpanId(2).to_string().into()))));
}

#[test]
fn a_taker_works_on_what_its_scripts_show() {
    let mut jobs = NamedJobs::default();
    let script = || {
        let mut span = call("EVALSHA", 4, S);
        span.exchange = Some(ExchangeRange { first: 20, last: 20 });
        span.attrs.push((Cow::Borrowed(ELEMENTS_TAKEN), Value::Str("a1".into())));
        span
    };
    cause(&mut jobs, script());
    assert_eq!(cause(&mut jobs, call("LPUSH", 4, S)), None, "this process has taken nothing");
    take(&mut jobs, 10, &[JOB]);
    cause(&mut jobs, script());
    assert_eq!(cause(&mut jobs, call("LPUSH", 4, S)), Some(20));
    assert_eq!(cause(&mut jobs, call("LPUSH", 4, 30 * S)), Some(20), "the job goes on");
    assert_eq!(cause(&mut jobs, call("LPUSH", 4, 300 * S)), None, "no job pauses that long");
    assert_eq!(cause(&mut jobs, call("LPUSH", 1, S)), None, "another thread");
}

/// BullMQ: a loop learns from a marker that there is work, and takes one job after the other by scripts. Sidekiq: a
/// thread that lost the lock of its pool to another seems to act for that one.
#[test]
fn a_script_takes_what_was_put_whatever_its_actor_seems_to_act_for() {
    let mut jobs = NamedJobs::default();
    take(&mut jobs, 10, &[]);
    let mut put = call("EVALSHA", 3, 0);
    (put.pid, put.tap) = (2, TapSide::ServerProcess);
    put.attrs.push((Cow::Borrowed(ELEMENTS_PUT), Value::Str("a1 b2".into())));
    jobs.see(&mut put);
    let script = |element: &str, exchange: u64, evidence| {
        let mut span = call("EVALSHA", 4, S);
        span.exchange = Some(ExchangeRange { first: exchange, last: exchange });
        (span.cause, span.cause_evidence) = (Some(10), Some(evidence));
        span.attrs.push((Cow::Borrowed(ELEMENTS_TAKEN), Value::Str(element.into())));
        span
    };
    let seems = |tid, evidence| {
        let mut span = call("GET", tid, 2 * S);
        (span.cause, span.cause_evidence) = (Some(10), Some(evidence));
        span
    };
    assert_eq!(cause(&mut jobs, script("c3", 20, Evidence::EventLoop)), Some(10), "nobody has put this");
    assert_eq!(cause(&mut jobs, script("a1", 21, Evidence::Thread)), Some(10), "a call of the job of this thread");
    assert_eq!(cause(&mut jobs, script("a1", 22, Evidence::EventLoop)), None);
    assert_eq!(cause(&mut jobs, seems(4, Evidence::EventLoop)), Some(22));
    assert_eq!(cause(&mut jobs, script("b2", 23, Evidence::EventLoop)), None);
    assert_eq!(cause(&mut jobs, seems(4, Evidence::EventLoop)), Some(23), "the next job");
    assert_eq!(cause(&mut jobs, script("a1", 24, Evidence::WakeUp)), None);
    assert_eq!(cause(&mut jobs, seems(4, Evidence::Inferred)), Some(24));
    assert_eq!(cause(&mut jobs, seems(5, Evidence::Inferred)), Some(10), "another thread");
}

#[test]
fn a_job_from_a_pipe_has_the_cause_of_its_message() {
    let mut jobs = NamedJobs::default();
    take(&mut jobs, 10, &[JOB, SENDER]);
    take(&mut jobs, 11, &[AGAIN, SENDER]);
    assert_eq!(handed(&mut jobs, "no id"), None);
    assert_eq!(handed(&mut jobs, &format!("({JOB} {SENDER})")), Some(10));
    // A message that came a second time has the same id: the later one counts.
    take(&mut jobs, 12, &[JOB, SENDER]);
    assert_eq!(handed(&mut jobs, &format!("({JOB} {SENDER})")), Some(12));
    let mut late = call("GET", 7, 3600 * S);
    (late.pid, late.cause) = (9, Some(PROVISIONAL | 5));
    assert_eq!(cause(&mut jobs, late), Some(12), "also of its later calls");
    (20..30).for_each(|n| take(&mut jobs, n, &[SENDER]));
    assert_eq!(handed(&mut jobs, SENDER), None, "the id of a sender names no job");
}
