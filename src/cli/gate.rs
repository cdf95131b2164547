//! `__gate FD CMD…`: a new process that waits until it is a target, then becomes the command. So the first thing that
//! the command does is seen.

use anyhow::{bail, Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

#[derive(Args)]
pub(crate) struct GateArgs {
    /// Where to read the word: one byte means go, the end of file means end
    fifo: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn gate(args: &GateArgs) -> Result<ExitCode> {
    let mut word = [0; 1];
    let mut gate = std::fs::File::open(&args.fifo).context("the gate")?;
    if gate.read(&mut word)? == 0 {
        bail!("not traced, so not started");
    }
    drop(gate);
    let [program, rest @ ..] = args.command.as_slice() else { bail!("no command") };
    let error = Command::new(program).args(rest).exec();
    eprintln!("wirespan: {}: {error}", program.to_string_lossy());
    // As shells do: 127 for a command that is not there, 126 for one that cannot be run.
    Ok(ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }))
}

/// A command that has been started and waits at the gate.
pub(crate) struct Gated {
    /// The process: it keeps its pid when it becomes the command.
    pub(crate) child: Child,
    word: std::io::PipeWriter,
}

impl Gated {
    /// Starts the command up to the gate.
    pub(crate) fn start(command: &[OsString], stdout: Stdio) -> Result<Self> {
        use std::os::fd::AsRawFd as _;
        let (gate, word) = std::io::pipe()?;
        // The child opens its end through our descriptor table, so that it inherits nothing.
        let path = format!("/proc/{}/fd/{}", std::process::id(), gate.as_raw_fd());
        let child = crate::memory::spared(|| {
            Command::new("/proc/self/exe").arg("__gate").arg(path).arg("--").args(command).stdout(stdout).spawn()
        });
        let child = child.context("starting the command")?;
        Self::wait_for_open(&child, gate);
        Ok(Gated { child, word })
    }

    /// Our reading end must outlive the child's opening of it.
    fn wait_for_open(child: &Child, gate: std::io::PipeReader) {
        use std::os::fd::AsRawFd as _;
        let ours = std::fs::read_link(format!("/proc/self/fd/{}", gate.as_raw_fd()));
        for _ in 0..500 {
            let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).is_ok_and(|dir| {
                dir.flatten().any(|fd| match (std::fs::read_link(fd.path()), &ours) {
                    (Ok(theirs), Ok(ours)) => theirs == *ours,
                    _ => false,
                })
            });
            if open {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Lets it become the command.
    pub(crate) fn open(mut self) -> Result<Child> {
        use std::io::Write as _;
        self.word.write_all(b"!").context("the command ended before it began")?;
        Ok(self.child)
    }
}
