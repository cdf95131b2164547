//! Tasks of Python's asyncio (its C module `_asyncio`, which uvloop uses as well): where a task is made, stepped and
//! woken, where a future is settled, and where an event loop goes from one callback to the next; of uvloop, where
//! reading from a connection begins.
//!
//! Only `PyContext_Exit` is a symbol in every build. The other functions are found by names
//! ([`super::python::tables`]): in tables of methods (`PyMethodDef`), in types (`PyTypeObject`, until Python 3.11) and
//! in the specifications of types (`PyType_Spec`, since 3.12).

use super::python::tables::{Tables, LOOKED_AT};
use super::{python, Learn, Runtime};
use crate::features::Program;
use crate::uprobe::elf::Image;
use crate::uprobe::points::{entry, Exits};
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{
    AsyncioFacts, ASYNCIO_BORN as BORN, ASYNCIO_CALLBACK as CALLBACK, ASYNCIO_END as END, ASYNCIO_LEFT as LEFT,
    ASYNCIO_READS as READS, ASYNCIO_SETTLED as SETTLED, ASYNCIO_STEP as STEP, ASYNCIO_WAKE as WAKE,
    ASYNCIO_WRAPPED as WRAPPED,
};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Python's asyncio, and uvloop.
pub(super) struct Asyncio;

const PROGRAM: &str = "asyncio";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Python: which task runs (asyncio, uvloop)",
    "calls of tasks are joined by guess if several requests were read together; waits are those of the thread",
)];

impl Runtime for Asyncio {
    fn tables(&self) -> &'static [&'static str] {
        &["actors", "answers", "carriers", "first_tasks", "progress_of", "python_copies"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let tasks = plan(image);
        vec![ProbeSet::new(PROGRAM, tasks.enter), ProbeSet::at_return(PROGRAM, tasks.end)]
    }

    fn maps(&self) -> &'static [&'static str] {
        &[FACTS]
    }

    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        let is_module = image.is_x86_64() && image.functions(&[MODULE]).contains_key(MODULE);
        let coroutine = is_module.then(|| coroutine(image)).flatten()?;
        Some(Learn::value(FACTS, move |_| Some(AsyncioFacts { coroutine })).at_once())
    }

    fn expected(&self, pid: u32, root: &Path) -> Vec<PathBuf> {
        python::expected(pid, root, &MODULES)
    }
}

const FACTS: &str = "asyncio_facts";
/// A method of tasks that only returns the coroutine.
const GET_COROUTINE: &str = "get_coro";

/// Where a task keeps its coroutine.
fn coroutine(image: &Image<'_>) -> Option<u16> {
    let tables = Tables::of(image, &[GET_COROUTINE]);
    let method = tables.function(tables.methods(GET_COROUTINE).next()?)?;
    let method = method.jumps_to().map_or(Some(method), |at| tables.function(at))?;
    u16::try_from(method.first_read()?).ok()
}

/// Modules that are probed: their folder below that of the interpreter's version, and how their file names begin.
const MODULES: [(&str, &str); 2] = [("lib-dynload", "_asyncio."), ("site-packages/uvloop", "loop.")];

/// Exported by that module; a static interpreter has both.
const MODULE: &str = "PyInit__asyncio";
/// Exported by the interpreter.
const INTERPRETER: &str = "_PyRuntime";
const LEAVES_CONTEXT: &str = "PyContext_Exit";
/// Exported by uvloop's module, which contains libuv.
const UVLOOP: &str = "PyInit_loop";
const READ_START: &str = "uv_read_start";
/// Methods of futures, and of tasks, which are futures.
const SETTLING: [&str; 3] = ["set_result", "set_exception", "cancel"];
/// Distances from the name in a `PyTypeObject` to `tp_dealloc`, `tp_call` and `tp_init`. A `PyType_Spec` has the
/// pointer to its slots in the place of `tp_dealloc`.
const DEALLOC: u64 = 24;
/// A slot by its place behind the name in a type, and by its number in `typeslots.h`.
type Slot = (u64, u32);
const CALL: Slot = (104, 50);
const INIT: Slot = (272, 60);
/// Most slots of one type that are read.
const MAX_SLOTS: u64 = 32;

/// Where to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tasks {
    enter: Vec<Probe>,
    /// Functions whose return is of interest.
    end: Vec<Probe>,
}

/// Finds the probes of a file. Half of the functions are in the interpreter, the others in its module. A half is used
/// only if it is complete.
fn plan(image: &Image<'_>) -> Tasks {
    let mut tasks = Tasks::default();
    if !image.is_x86_64() {
        return tasks;
    }
    let symbols = image.functions(&[MODULE, INTERPRETER, LEAVES_CONTEXT, UVLOOP, READ_START]);
    if let (true, Some(start)) = (symbols.contains_key(UVLOOP), symbols.get(READ_START)) {
        let offset = entry(image, start.address, LOOKED_AT);
        tasks.enter.extend(offset.map(|offset| Probe { offset, cookie: READS }));
    }
    let (module, interpreter) = (symbols.contains_key(MODULE), symbols.contains_key(INTERPRETER));
    if !module && !interpreter {
        return tasks;
    }
    let tables = Tables::of(image, &NAMES);
    if let Some(exit) = symbols.get(LEAVES_CONTEXT).filter(|_| interpreter) {
        tasks.enter.extend(tables.callbacks(exit.address).unwrap_or_default());
    }
    if module {
        let found = tables.tasks().unwrap_or_default();
        tasks.enter.extend(found.enter);
        tasks.end.extend(found.end);
    }
    tasks
}

const NAMES: [&str; 11] = [
    "copy",
    "run",
    "set_result",
    "set_exception",
    "cancel",
    "_asyncio.Task",
    "TaskStepMethWrapper",
    "_asyncio.TaskStepMethWrapper",
    "task_wakeup",
    "TaskWakeupMethWrapper",
    "_asyncio.TaskWakeupMethWrapper",
];

impl Tables<'_, '_> {
    /// A function of a type, by the type's name.
    fn slot(&self, name: &str, (place, number): Slot) -> Option<u64> {
        self.to(name).into_iter().find_map(|at| {
            if self.code(at + DEALLOC).is_some() {
                return self.code(at + place);
            }
            let slots = *self.pointers.get(&(at + DEALLOC))?;
            let slot = (0..MAX_SLOTS).map(|n| slots + 16 * n).find(|slot| {
                self.image.data(*slot, 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes) == Some(number)
            })?;
            self.code(slot + 8)
        })
    }

    /// Where an event loop begins and ends a callback.
    fn callbacks(&self, exit: u64) -> Option<Vec<Probe>> {
        Some(vec![self.entry(self.context_run()?, CALLBACK)?, self.entry(exit, LEFT)?])
    }

    fn tasks(&self) -> Option<Tasks> {
        let mut tasks = Tasks::default();
        tasks.enter.push(self.entry(self.slot("_asyncio.Task", INIT)?, BORN)?);
        for name in SETTLING {
            let methods: HashSet<u64> = self.methods(name).collect();
            if methods.is_empty() {
                return None;
            }
            for method in methods {
                tasks.enter.push(self.entry(method, SETTLED)?);
            }
        }
        let either = |names: [&str; 2]| names.into_iter().find_map(|name| self.slot(name, CALL));
        let step = either(["TaskStepMethWrapper", "_asyncio.TaskStepMethWrapper"])?;
        let woken = self.methods("task_wakeup").next().map(|at| (at, WAKE));
        let wrapped = || Some((either(["TaskWakeupMethWrapper", "_asyncio.TaskWakeupMethWrapper"])?, WRAPPED));
        for (address, cookie) in [(step, STEP), woken.or_else(wrapped)?] {
            let points = self.function(address)?.return_points();
            let Exits::Return(at) = points.exits else { return None };
            tasks.enter.push(self.probe(points.enter, cookie)?);
            tasks.end.push(self.probe(at, END)?);
        }
        Some(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::elf;
    use std::path::Path;
    use std::process::Command;

    /// The interpreters that are here: that of PATH, that of the system, and those of pyenv.
    fn interpreters() -> Vec<String> {
        let versions = std::env::var("HOME").map(|home| format!("{home}/.pyenv/versions")).unwrap_or_default();
        let found = std::fs::read_dir(versions).into_iter().flatten().flatten();
        let found = found.map(|version| version.path().join("bin/python3").display().to_string());
        ["python3".to_string(), "/usr/bin/python3".to_string()].into_iter().chain(found).collect()
    }

    /// Its version, and the files in which contexts and tasks are.
    fn files(python: &str) -> Option<(u32, String, String)> {
        const ASK: &str =
            "import sys, _asyncio; print(sys.version_info[1]); print(getattr(_asyncio, '__file__', sys.executable))\n\
            print(next((l.split()[-1] for l in open('/proc/self/maps') if 'libpython3.' in l), sys.executable))";
        let asked = Command::new(python).args(["-c", ASK]).output().ok()?;
        let text = String::from_utf8(asked.stdout).ok()?;
        let mut lines = text.lines().map(str::to_string);
        Some((lines.next()?.parse().ok()?, lines.next()?, lines.next()?))
    }

    /// The names of the functions that are probed, where the file has them, and their cookies.
    fn probed(file: &str) -> Option<(Tasks, Vec<(String, u32)>)> {
        elf::with(Path::new(file), |image| {
            let tasks = plan(image);
            let all = image.named(|name| Some(String::from_utf8_lossy(name).to_string()));
            let inside = |probe: &Probe| {
                let holds = |place: &elf::Place| {
                    image.offset(place.address).is_some_and(|o| (o..o + place.size).contains(&probe.offset))
                };
                all.iter().find(|(place, _)| holds(place)).map(|(_, name)| (name.clone(), probe.cookie))
            };
            let named = tasks.enter.iter().chain(&tasks.end).filter_map(inside).collect();
            Some((tasks, named))
        })
    }

    #[test]
    fn the_coroutine_of_a_task_is_found_in_every_interpreter_that_is_here() {
        const ASK: &str = "import asyncio, ctypes\n\
            async def work():\n\
            \x20   task = asyncio.current_task()\n\
            \x20   words = (ctypes.c_uint64 * 40).from_address(id(task))\n\
            \x20   print(8 * list(words).index(id(task.get_coro())))\n\
            asyncio.run(work())";
        let mut seen = 0;
        for python in interpreters() {
            let Some((_, module, _)) = files(&python).filter(|f| f.0 >= 8) else { continue };
            let asked = Command::new(&python).args(["-c", ASK]).output().expect("it runs");
            let right = String::from_utf8_lossy(&asked.stdout).trim().parse().ok();
            assert!(right.is_some(), "{python}: {}", String::from_utf8_lossy(&asked.stderr));
            assert_eq!(elf::with(Path::new(&module), coroutine), right, "{python}");
            seen += 1;
        }
        if seen == 0 {
            println!("skipped: no python3 from 3.8 on");
        }
    }

    #[test]
    fn tasks_are_found_in_every_interpreter_that_is_here() {
        let mut seen = 0;
        for python in interpreters() {
            let Some((minor, module, interpreter)) = files(&python).filter(|f| f.0 >= 8) else { continue };
            let (contexts, named) = probed(&interpreter).expect("an ELF file");
            let cookies: Vec<_> = contexts.enter.iter().map(|p| p.cookie).collect();
            assert_eq!(cookies, [CALLBACK, LEFT], "{python}: {interpreter}");
            for (name, cookie) in named {
                let right = if cookie == LEFT { LEAVES_CONTEXT } else { "context_run" };
                assert!(cookie == END || name == right, "{python}: {name} {cookie}");
            }
            let (tasks, named) = probed(&module).expect("an ELF file");
            let count = |cookie| tasks.enter.iter().chain(&tasks.end).filter(|p| p.cookie == cookie).count();
            let wake = if minor < 10 { WRAPPED } else { WAKE };
            assert_eq!([BORN, STEP, wake, END].map(count), [1, 1, 1, 2], "{python}: {module}");
            assert!(count(SETTLED) >= 3, "{python}: {tasks:?}");
            // A build that kept its symbols says whether it is so.
            for (name, cookie) in named {
                let right = match cookie {
                    BORN => name.contains("Task___init__"),
                    SETTLED => SETTLING.iter().any(|s| name.ends_with(s)),
                    STEP => name == "TaskStepMethWrapper_call",
                    WAKE => name == "task_wakeup",
                    WRAPPED => name == "TaskWakeupMethWrapper_call",
                    _ => {
                        name == "task_wakeup"
                            || name.ends_with("MethWrapper_call")
                            || name == "context_run"
                            || name == LEAVES_CONTEXT
                    }
                };
                assert!(right, "{python}: {cookie} is in {name}");
            }
            seen += 1;
        }
        if seen == 0 {
            println!("skipped: no python3 from 3.8 on");
        }
    }
}
