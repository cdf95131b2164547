//! Real applications in short: stacks of `tests/apps/field`, with the logs of their servers as the truth.
//!
//! `bench/accuracy --field` measures all of them with more users; `docs/accuracy.md` has the table.

use crate::harness::{can_trace, root, skip, WIRESPAN};
use serde_json::Value;
use std::process::Command;

/// Users that begin at once, and their requests.
const USERS: u64 = 10;
const REQUESTS: u64 = 300;
/// Greatest share of wrong links among those stated at 0.9 or more.
const WRONG: f64 = 0.005;

/// Runs a stack under wirespan with these further arguments. Returns what the comparison says, or nothing if this
/// machine cannot run it.
fn compared(stack: &str, settings: &[&str]) -> Option<Value> {
    let test = format!("field_{stack}");
    if !can_trace(&test) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    // The database runs as a user of its own.
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (apps, spans, work) = (root().join("tests/apps/field"), dir.path().join("spans"), dir.path().join("work"));
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--config"]).arg(apps.join("masks.toml"));
    command
        .args(settings)
        .arg("--otlp-file")
        .arg(&spans)
        .args(["--", "python3"])
        .arg(apps.join("run.py"))
        .arg("--dir")
        .arg(&work);
    command.args(["--users", &USERS.to_string(), "--requests", &REQUESTS.to_string(), "--pause-us", "30000", stack]);
    let done = command.output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{said}");
    let load = out.lines().find(|line| line.starts_with("{\"stack\"")).unwrap();
    let load: Value = serde_json::from_str(load).unwrap();
    if let Some(reason) = load["skipped"].as_str() {
        skip(&test, reason);
        return None;
    }
    assert_eq!((&load["requests"], &load["broken"]), (&REQUESTS.into(), &0.into()), "{load}{said}");
    let mut compare = Command::new("python3");
    compare.arg(apps.join("compare.py")).args(["--show", "3", "--format", "json"]).arg(&spans).arg(&work);
    let done = compare.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(serde_json::from_slice(&done.stdout).unwrap())
}

/// Why a stack is below its bar, if it is.
fn short_of(stack: &str, exact: f64, settings: &[&str]) -> Option<String> {
    let report = compared(stack, settings)?;
    let (sure, wrong) = (report["links at 0.9"].as_f64().unwrap(), report["wrong at 0.9"].as_f64().unwrap());
    println!("{stack}: {} exact, {wrong} of {sure} sure links wrong", report["share"]);
    let reached = report["share"].as_f64().unwrap() >= exact && wrong <= WRONG * sure.max(400.0);
    (!reached).then(|| format!("{stack}: aim {exact}: {report:#}"))
}

/// The share of exact traces that each stack must reach. A stack below it is run once more: a shared machine may stop
/// for a long time.
fn stacks(bars: &[(&str, f64)]) {
    stacks_with(bars, &[]);
}

/// The same with further arguments for wirespan.
fn stacks_with(bars: &[(&str, f64)], settings: &[&str]) {
    for (stack, exact) in bars {
        if let Some(short) = short_of(stack, *exact, settings) {
            println!("once more, as it fell short: {short}");
            if let Some(short) = short_of(stack, *exact, settings) {
                panic!("{short}");
            }
        }
    }
}

#[test]
fn services_of_node_with_one_connection_to_redis_are_traced_exactly() {
    stacks(&[("fastify", 0.9), ("express", 0.9)]);
}

/// A pool of connections to MongoDB; one connection of HTTP/2 for the calls of all requests.
#[test]
fn services_of_node_with_mongodb_or_grpc_are_traced_exactly() {
    stacks(&[("mongodb", 0.95), ("grpc-js", 0.9)]);
}

#[test]
fn services_of_go_are_traced_exactly() {
    stacks(&[("gin", 0.97), ("gin-tls", 0.97), ("gin-grpc", 0.97)]);
}

/// Workers that find their jobs without waiting for them: in a channel with room, and in netpoll's list of tasks.
#[test]
fn services_of_go_with_workers_that_do_not_wait_are_traced_exactly() {
    stacks(&[("httprouter", 0.97), ("hertz", 0.93)]);
}

/// Each release of the lock of Ruby's machine wakes a thread; only some wake-ups hand work over.
#[test]
fn services_of_ruby_with_threads_are_traced_exactly() {
    stacks(&[("sinatra", 0.97)]);
}

/// Envoy's TLS is not read; the service behind it tells what Envoy has asked.
#[test]
fn a_proxy_whose_tls_is_not_read_is_joined() {
    stacks(&[("envoy-h2", 0.95)]);
}

#[test]
fn services_of_python_with_threads_or_tasks_are_traced_exactly() {
    stacks(&[("django-gthread", 0.97), ("aiohttp", 0.9), ("starlette", 0.93), ("fastapi-sync", 0.9)]);
    stacks(&[("motor", 0.95)]);
}

/// From the request that asks for a job to what the job calls: at once, in a chain, and tried again later; in a child
/// of the worker, and in its threads.
#[test]
fn jobs_of_queues_lead_to_the_requests_that_asked_for_them() {
    stacks(&[("rq", 0.99), ("celery", 0.99), ("celery-threads", 0.99)]);
    stacks(&[("celery-rabbitmq", 0.97), ("bullmq", 0.98), ("sidekiq", 0.97)]);
    stacks(&[("kafkajs", 0.65), ("amqplib", 0.95), ("amqp091-go", 0.95)]);
    // One write carries the messages of several requests, and no answer comes: who is woken after it tells.
    stacks(&[("kafka-go", 0.75)]);
}

/// Four languages in a row: greenlets, threads, a pool of threads and an event loop.
#[test]
fn the_services_of_bookinfo_are_traced_exactly() {
    stacks(&[("bookinfo", 0.98)]);
}

/// An executor under gevent has a queue of greenlets.
#[test]
fn services_of_python_under_gevent_are_traced_exactly() {
    stacks(&[("flask-gevent", 0.95)]);
}

/// Event loops that are awake hand over in memory: only the machine knows for which request a loop sends. One
/// connection to Redis, or of HTTP/2, carries the calls of all requests.
#[test]
fn services_of_java_with_event_loops_are_traced_exactly_by_an_agent() {
    stacks_with(&[("spring-webflux", 0.98), ("grpc-java", 0.95), ("spring-virtual", 0.98)], &["--attach-java"]);
}

/// Ktor on Netty in front of Ktor's own engine: any thread resumes any coroutine, which still acts for its own request.
#[test]
fn services_of_kotlin_with_coroutines_are_traced_exactly_by_an_agent() {
    stacks_with(&[("ktor", 0.98)], &["--attach-java"]);
}

/// Its client has a pool of its own, and futures of its own.
#[test]
fn services_of_micronaut_are_traced_exactly_by_an_agent() {
    stacks_with(&[("micronaut", 0.98)], &["--attach-java"]);
}
