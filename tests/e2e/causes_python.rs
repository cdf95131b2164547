//! Causes of calls that programs of Python make, against what they say themselves.

use crate::causes::{app, check, LIGHT, OVERLAPPING, SATURATED};
use crate::harness::{can_trace, has};
use std::process::Command;

/// A program of tests/apps/causes, with the arguments before the back end's port.
fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(app(arguments[0])).args(&arguments[1..]).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn an_executor_of_python_hands_over() {
    let test = "causes_python";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    // The queue says whose job a worker takes. Wake-ups alone gave 30 to 85 %.
    check(test, 2, LIGHT, 0.98, python(&["executor.py"]));
    check(test, 2, OVERLAPPING, 0.98, python(&["executor.py"]));
    check(test, 2, SATURATED, 0.98, python(&["executor.py"]));
}

/// A thread that runs a job in a copy of a task's context acts for that task, whichever queue brought the job.
#[test]
fn threads_of_python_act_for_the_task_in_whose_context_they_work() {
    let test = "causes_context";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    check(test, 2, LIGHT, 0.98, python(&["context.py"]));
    check(test, 2, OVERLAPPING, 0.98, python(&["context.py"]));
    check(test, 2, SATURATED, 0.98, python(&["context.py"]));
}

/// A task that was made for one request acts for it after the answer, too, when its connection has brought the next. So
/// does a task that a timer of it makes. A request may reach its task by a chain of futures.
#[test]
fn tasks_of_asyncio_call_for_their_request_after_its_answer() {
    let test = "causes_later";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    for how in ["same", "child", "locked", "timer", "chained"] {
        check(test, 2, LIGHT, 0.98, python(&["later.py", how]));
        check(test, 2, OVERLAPPING, 0.98, python(&["later.py", how]));
    }
}
