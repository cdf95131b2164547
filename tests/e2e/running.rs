//! Processes of a test. No wait for one is without a bound: a test that hangs would hide what the others found.

use crate::harness::WIRESPAN;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::time::Timespec;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

/// Until a program says something; until it ends after SIGTERM. Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Until a command ends on its own.
const WHOLE: Duration = Duration::from_secs(600);

/// Runs `wirespan ARGS`.
pub(crate) fn wirespan<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Output {
    output(Command::new(WIRESPAN).args(args))
}

/// Runs a command to its end. Panics if that does not come.
pub(crate) fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running(command.spawn().unwrap());
    running.finish(WHOLE)
}

/// Reads all of a pipe beside the test, so that its writer never waits.
pub(crate) fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut all);
        }
        let _ = to.send(all);
    });
    from
}

/// A process that is ended with the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(program: &str, args: &[S]) -> Self {
        Running::start_with(&[], program, args)
    }

    /// With these variables of its environment, beside those of the test.
    pub(crate) fn start_with<S: AsRef<std::ffi::OsStr>>(
        environment: &[(&str, &str)],
        program: &str,
        args: &[S],
    ) -> Self {
        let mut command = Command::new(program);
        command.envs(environment.iter().copied());
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends SIGTERM, and returns the output.
    pub(crate) fn end(self) -> (String, String) {
        self.signal(rustix::process::Signal::TERM);
        let Output { status, stdout, stderr } = self.finish(PATIENCE);
        let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(status.success() || status.code().is_none(), "{status}\nstdout: {out}\nstderr: {err}");
        (out, err)
    }

    /// Waits until it ends, and returns the rest of its output.
    pub(crate) fn finish(mut self, patience: Duration) -> Output {
        let (out, err) = (reader(self.0.stdout.take()), reader(self.0.stderr.take()));
        let status = self.status(patience);
        // A process that it started may still hold the pipes.
        let all =
            |pipe: Receiver<Vec<u8>>| pipe.recv_timeout(Duration::from_secs(if status.is_some() { 30 } else { 1 }));
        let (stdout, stderr) = (all(out), all(err));
        match (status, stdout, stderr) {
            (Some(status), Ok(stdout), Ok(stderr)) => Output { status, stdout, stderr },
            (status, out, err) => {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                let [out, err] = [&out, &err].map(|all| all.as_ref().map_or("(not closed)".into(), |b| text(b)));
                panic!("it did not end within {patience:?} (status {status:?})\nstdout: {out}\nstderr: {err}")
            }
        }
    }

    /// Its status when it has ended. If it does not end, kills it.
    fn status(&mut self, patience: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < patience {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = self.pid();
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        eprintln!("process {pid} does not end: waits in {:?}, kernel stack:\n{}", read("wchan"), read("stack"));
        let _ = self.0.kill();
        let _ = self.0.wait();
        None
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(self.pid() as i32).unwrap(), signal);
    }

    /// Waits until its stderr has this text.
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        let stderr = self.0.stderr.as_mut().unwrap();
        let started = Instant::now();
        let (mut all, mut line) = (Vec::new(), 0);
        let ready = Timespec { tv_sec: 1, tv_nsec: 0 };
        loop {
            let said = || String::from_utf8_lossy(&all).into_owned();
            assert!(started.elapsed() < PATIENCE, "it did not say {words:?} within {PATIENCE:?}:\n{}", said());
            if !poll(&mut [PollFd::new(stderr, PollFlags::IN)], Some(&ready)).is_ok_and(|some| some > 0) {
                continue;
            }
            // Byte by byte, so that what comes behind is left for the next reader.
            let mut byte = [0];
            assert!(stderr.read(&mut byte).unwrap() > 0, "it ended without saying {words:?}:\n{}", said());
            all.push(byte[0]);
            if byte == *b"\n" {
                if String::from_utf8_lossy(&all[line..]).contains(words) {
                    return String::from_utf8_lossy(&all).into_owned();
                }
                line = all.len();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
