//! `__gate PIPE CMD…`: a new process that waits until it is traced, then becomes the command. So the command is traced
//! from its first instruction.

use anyhow::{bail, Context as _, Result};
use clap::Args;
use rustix::io::{fcntl_setfd, FdFlags};
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

#[derive(Args)]
pub(crate) struct GateArgs {
    /// Descriptor of a pipe: one byte in it means go on, end of file means give up
    pipe: RawFd,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn gate(args: &GateArgs) -> Result<ExitCode> {
    let mut word = [0; 1];
    let mut gate = inherited(args.pipe);
    if gate.read(&mut word)? == 0 {
        bail!("not traced, so not started");
    }
    drop(gate);
    let [program, rest @ ..] = args.command.as_slice() else { bail!("no command") };
    let error = Command::new(program).args(rest).exec();
    eprintln!("wirespan: {}: {error}", program.to_string_lossy());
    // The codes of shells: 127 for a command that does not exist, 126 for a command that cannot be run.
    Ok(ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }))
}

/// The end of the pipe that was passed to this process. Closed when dropped, so that the command does not have it.
#[allow(unsafe_code)]
fn inherited(pipe: RawFd) -> std::fs::File {
    // SAFETY: nothing else in this process uses the descriptor: `Gated::start` opened it for this purpose, and a wrong
    // number only makes the read fail.
    unsafe { std::fs::File::from_raw_fd(pipe) }
}

/// The file that `execvp` would find.
fn program(name: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let runs = |p: &PathBuf| p.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(runs)
}

/// A process that waits at the gate to become a command.
pub(crate) struct Gated {
    /// The process: it keeps its pid when it becomes the command.
    pub(crate) child: Child,
    program: Option<PathBuf>,
    word: std::io::PipeWriter,
}

impl Gated {
    /// Starts the command up to the gate.
    pub(crate) fn start(command: &[OsString], stdout: Stdio) -> Result<Self> {
        let (gate, word) = std::io::pipe()?;
        // The child may not look into our descriptor table if it has fewer capabilities: it inherits its end.
        fcntl_setfd(&gate, FdFlags::empty())?;
        let pipe = gate.as_raw_fd().to_string();
        let child = crate::memory::spared(|| {
            Command::new("/proc/self/exe").arg("__gate").arg(pipe).arg("--").args(command).stdout(stdout).spawn()
        });
        drop(gate);
        let child = child.context("starting the command")?;
        Ok(Gated { child, program: command.first().and_then(|name| program(name)), word })
    }

    /// The file that the process will execute, as far as that is known.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        self.program.clone()
    }

    /// Lets the process become the command.
    pub(crate) fn open(mut self) -> Result<Child> {
        use std::io::Write as _;
        self.word.write_all(b"!").context("the command ended before it began")?;
        Ok(self.child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_command_is_found_as_execvp_finds_it() {
        assert_eq!(program(OsStr::new("./here")), Some("./here".into()));
        assert!(program(OsStr::new("sh")).is_some_and(|p| p.is_absolute() && p.ends_with("sh")));
        assert_eq!(program(OsStr::new("no-such-command-anywhere")), None);
    }
}
