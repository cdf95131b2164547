//! Frames as they are told: without directories, and without what the kernel does for each wait.

use wirespan_model::stack::Frame;
use wirespan_model::Text;

/// The last part of a path.
pub(super) fn base_name(path: &str) -> Text {
    path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default().into()
}

/// Kernel functions between the system call and the scheduler: neither the program that took the stack and the switch
/// itself, nor the entry into the kernel.
pub(super) fn cut_kernel(mut frames: Vec<Frame>) -> Vec<Frame> {
    let is_switch = |f: &Frame| {
        let name = f.function.trim_start_matches('_');
        ["schedule", "bpf_", "traceiter_", "preempt_schedule", "io_schedule", "perf_"]
            .iter()
            .any(|s| name.starts_with(s))
    };
    let inner = frames.iter().rposition(is_switch).map_or(0, |last| last + 1);
    frames.drain(..inner);
    let is_entry = |f: &Frame| {
        ["do_syscall_", "x64_sys_call", "entry_SYSCALL", "asm_", "el0", "invoke_syscall"]
            .iter()
            .any(|s| f.function.starts_with(s))
    };
    let outer = frames.iter().position(is_entry).unwrap_or(frames.len());
    frames.truncate(outer);
    frames
}

/// A function of code that a runtime makes while it runs, from the file in which the runtime describes it
/// (`/tmp/perf-PID.map`). Node writes `JS:*price /srv/shop/cart.js:17:9`.
pub(super) fn from_perf_map(symbol: &str, module: &str) -> Option<Frame> {
    if !(module.starts_with("perf-") && module.ends_with(".map")) {
        return None;
    }
    let (kind, rest) = symbol.split_once(':').filter(|(kind, _)| kind.chars().all(char::is_alphanumeric))?;
    if !matches!(kind, "JS" | "LazyCompile" | "Function" | "Script" | "Eval") {
        return Some(Frame { function: symbol.into(), ..Frame::default() });
    }
    let (name, place) = rest.trim_start_matches(['*', '~', '^', '+']).split_once(' ').unwrap_or((rest, ""));
    let mut parts = place.split(':').rev();
    let numbers: Vec<&str> = parts.by_ref().take_while(|part| part.parse::<u32>().is_ok()).collect();
    let path = place.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
    Some(Frame {
        function: if name.is_empty() { "(anonymous)".into() } else { name.into() },
        file: base_name(path),
        line: numbers.last().and_then(|line| line.parse().ok()).unwrap_or(0),
        module: Text::default(),
    })
}

/// The loops of interpreters: CPython's, CRuby's, PHP's.
const LOOPS: [&str; 5] = ["_PyEval_EvalFrameDefault", "vm_exec", "rb_vm_exec", "vm_call_cfunc", "execute_ex"];

/// Functions that an interpreter runs take the place of the interpreter's own. Below them stays what they have called
/// in C. If the interpreter is built without frame pointers, of that only the innermost function is known. `native` has
/// the functions of each address, several if some are inlined; what is inlined in the loop is the loop. `is_followed`:
/// each address is surely of code, so that one without a name says nothing about the others.
pub(super) fn with_interpreted(
    mut native: Vec<Vec<Frame>>,
    interpreted: Vec<Frame>,
    is_followed: bool,
) -> Vec<Vec<Frame>> {
    let is_loop = |frame: &Frame| LOOPS.iter().any(|name| frame.function.starts_with(name));
    let inner = native.iter().position(|place| place.iter().any(is_loop)).unwrap_or(1);
    native.truncate(inner);
    let is_unnamed = |place: &Vec<Frame>| place.iter().any(|frame| frame.function.is_empty());
    if is_followed {
        native.retain(|place| !is_unnamed(place));
    } else if native.iter().any(is_unnamed) {
        native.clear();
    }
    native.push(interpreted);
    native
}

/// Functions of JavaScript or Java take the place of the code that the machine has made of them, or that runs them.
/// `functions` have their places in the stack. A function of C++ whose registers look like such a frame keeps its own
/// name.
pub(super) fn with_made(native: &mut Vec<Vec<Frame>>, functions: &[(usize, Vec<Frame>)]) {
    let is_made = |place: &[Frame]| {
        place.iter().all(|frame| {
            frame.function.is_empty() || frame.function.starts_with("Builtins_") || frame.module.is_empty()
        })
    };
    for (at, own) in functions {
        // What has no name at the end of a stack was left out.
        while native.len() <= *at {
            native.push(vec![Frame::default()]);
        }
        if let Some(place) = native.get_mut(*at).filter(|place| is_made(place)) {
            place.clone_from(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<Frame> {
        names.iter().map(|name| Frame { function: (*name).into(), ..Frame::default() }).collect()
    }

    #[test]
    fn of_the_kernel_only_what_it_did_for_this_call_is_left() {
        let all = frames(&[
            "bpf_prog_1b2c_wait_switch",
            "bpf_trace_run4",
            "__traceiter_sched_switch",
            "__schedule",
            "schedule",
            "schedule_timeout",
            "unix_stream_read_generic",
            "sock_recvmsg",
            "do_syscall_64",
            "entry_SYSCALL_64_after_hwframe",
        ]);
        assert_eq!(cut_kernel(all), frames(&["unix_stream_read_generic", "sock_recvmsg"]));
        assert_eq!(cut_kernel(frames(&["futex_wait"])), frames(&["futex_wait"]));
    }

    #[test]
    fn functions_of_an_interpreter_stand_above_what_they_have_called_in_c() {
        let python = || frames(&["price", "handle"]);
        let told_of = |native: &[&[&str]], is_followed| {
            let native = native.iter().map(|place| frames(place)).collect();
            with_interpreted(native, python(), is_followed)
                .concat()
                .iter()
                .map(|f| f.function.to_string())
                .collect::<Vec<_>>()
        };
        let told = |native: &[&[&str]]| told_of(native, false);
        let with_pointers: [&[&str]; 4] = [&["nanosleep"], &["time_sleep"], &["_PyEval_EvalFrameDefault"], &["main"]];
        assert_eq!(told(&with_pointers), ["nanosleep", "time_sleep", "price", "handle"]);
        assert_eq!(told(&[&["nanosleep"], &["no_caller"]]), ["nanosleep", "price", "handle"]);
        assert_eq!(told(&[&["Py_INCREF", "_PyEval_EvalFrameDefault.cold"]]), ["price", "handle"]);
        assert_eq!(told(&[&[""]]), ["price", "handle"]);
        let stripped: [&[&str]; 4] = [&["nanosleep"], &[""], &["call"], &["_PyEval_EvalFrameDefault"]];
        assert_eq!(told(&stripped), ["price", "handle"]);
        assert_eq!(told_of(&stripped, true), ["nanosleep", "call", "price", "handle"]);
    }

    #[test]
    fn functions_of_javascript_take_the_place_of_what_runs_them() {
        let frame =
            |name: &str, module: &str| Frame { function: name.into(), module: module.into(), ..Frame::default() };
        let mut native = vec![
            vec![frame("uv_sleep", "node")],
            vec![frame("Builtins_InterpreterEntryTrampoline", "node")],
            vec![frame("", "")],
            vec![frame("node::Start", "node")],
        ];
        let functions: Vec<_> = (0..6).map(|at| (at, vec![frame(&at.to_string(), "")])).collect();
        with_made(&mut native, &functions);
        let names: Vec<String> = native.concat().iter().map(|f| f.function.to_string()).collect();
        assert_eq!(names, ["uv_sleep", "1", "2", "node::Start", "4", "5"]);
    }

    #[test]
    fn functions_of_node_are_told_with_their_files() {
        let frame = from_perf_map("JS:*price /home/alice/shop/cart.js:17:9", "perf-12.map").unwrap_or_default();
        assert_eq!((&*frame.function, &*frame.file, frame.line), ("price", "cart.js", 17));
        let frame = from_perf_map("LazyCompile:~ /srv/a.js:3", "perf-12.map").unwrap_or_default();
        assert_eq!(frame.to_string(), "(anonymous) (a.js:3)");
        let builtin = from_perf_map("Builtin:InterpreterEntryTrampoline", "perf-12.map").unwrap_or_default();
        assert_eq!(builtin.function, "Builtin:InterpreterEntryTrampoline");
        assert_eq!(from_perf_map("ns::f(int)", "libshop.so"), None);
    }
}
