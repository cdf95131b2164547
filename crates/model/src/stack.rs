//! Stacks: in which code a thread was.

use crate::attr::Text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A function that was under way. It is told by names only: no argument, no value, no directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Name of the function, readable; empty if it is not known.
    pub function: Text,
    /// Name of its source file, without directories; empty if it is not known.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub file: Text,
    /// Line in that file; 0 if it is not known.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub line: u32,
    /// Name of the program or library, without directories; empty for the kernel and for code made while it runs.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub module: Text,
}

impl fmt::Display for Frame {
    /// `function (file:line)`, as much of it as is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.function.is_empty() { "?" } else { &self.function })?;
        match (self.file.is_empty(), self.line) {
            (false, 0) => write!(f, " ({})", self.file),
            (false, line) => write!(f, " ({}:{line})", self.file),
            _ if !self.module.is_empty() => write!(f, " ({})", self.module),
            _ => Ok(()),
        }
    }
}

/// A stack of functions, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stack {
    /// Functions of the program and its libraries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<Frame>,
    /// Functions of the kernel, between the system call and the scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<Frame>,
}

impl Stack {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.user.is_empty() && self.kernel.is_empty()
    }

    /// Frames as text, a line for each.
    pub fn text(frames: &[Frame]) -> String {
        frames.iter().map(Frame::to_string).collect::<Vec<_>>().join("\n")
    }

    /// The frames that say most to the authors of the program: from the innermost function that is not of the C library
    /// or of a runtime on.
    pub fn telling(&self) -> &[Frame] {
        let from = self.user.iter().position(|frame| !is_plumbing(frame)).unwrap_or(0);
        self.user.get(from..).unwrap_or_default()
    }
}

/// Whether each program has this function, so that it says nothing of this one.
fn is_plumbing(frame: &Frame) -> bool {
    const MODULES: [&str; 10] =
        ["libc.", "libc-", "libpthread", "ld-", "libjvm.", "libpython", "python3", "libruby", "php", "libphp"];
    const FUNCTIONS: [&str; 13] = [
        "runtime.",
        "internal/poll.",
        "internal/runtime",
        "syscall.",
        "runtime/internal",
        "std::sys::",
        "core::ops::",
        "__",
        "pthread_",
        "java.",
        "javax.",
        "jdk.",
        "sun.",
    ];
    frame.function.is_empty()
        || MODULES.iter().any(|module| frame.module.starts_with(module))
        || FUNCTIONS.iter().any(|function| frame.function.starts_with(function))
}

/// A stack whose names are looked up by another thread.
#[derive(Clone, Debug, Default)]
pub struct NamedLater(Arc<OnceLock<Arc<Stack>>>);

impl NamedLater {
    /// The stack, if its names are known by now.
    pub fn get(&self) -> Option<&Arc<Stack>> {
        self.0.get()
    }

    /// Sets the names. The first call counts.
    pub fn set(&self, stack: Arc<Stack>) {
        let _ = self.0.set(stack);
    }
}

impl PartialEq for NamedLater {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.get().is_some_and(|own| other.get() == Some(own))
    }
}

impl Eq for NamedLater {}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str) -> Frame {
        Frame { function: function.into(), module: module.into(), ..Frame::default() }
    }

    #[test]
    fn a_frame_says_what_is_known() {
        let known = Frame { file: "cart.c".into(), line: 7, ..frame("price", "shop") };
        assert_eq!(known.to_string(), "price (cart.c:7)");
        assert_eq!(frame("price", "shop").to_string(), "price (shop)");
        assert_eq!(Frame::default().to_string(), "?");
    }

    #[test]
    fn what_every_program_has_is_left_out_at_the_inner_end() {
        let python = frame("PyObject_Vectorcall", "python3.11");
        let nap = frame("nap", "shop");
        let user = vec![frame("clock_nanosleep", "libc.so.6"), python, nap, frame("main", "shop")];
        let stack = Stack { user, kernel: Vec::new() };
        assert_eq!(stack.telling()[0].function, "nap");
        let user = vec![
            frame("Unsafe_Park", "libjvm.so"),
            frame("jdk.internal.misc.Unsafe.park", ""),
            frame("java.util.concurrent.locks.LockSupport.park", ""),
            frame("javaassist.Shop.price", ""),
            frame("java.lang.Thread.run", ""),
        ];
        let java = Stack { user, kernel: Vec::new() };
        assert_eq!(java.telling()[0].function, "javaassist.Shop.price");
        let only = Stack { user: vec![frame("clock_nanosleep", "libc.so.6")], kernel: Vec::new() };
        assert_eq!(only.telling().len(), 1);
        assert!(Stack::default().telling().is_empty());
    }

    #[test]
    fn names_come_later_and_stay() {
        let later = NamedLater::default();
        assert!(later.get().is_none() && later == later.clone() && later != NamedLater::default());
        later.set(Arc::new(Stack { user: vec![frame("a", "")], kernel: Vec::new() }));
        later.set(Arc::default());
        assert_eq!(later.get().map(|stack| stack.user.len()), Some(1));
    }
}
