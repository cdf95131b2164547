//! `wirespan packet --replace` on one machine: another command puts its program in the place of the one that runs.
//!
//! The command that runs listens at a socket that only its user can open. It takes the text of a program, and answers
//! with nothing, or with the reason why it goes on as it was.

use crate::packet::Program;
use anyhow::{anyhow, bail, Context as _, Result};
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Where commands listen.
const DIR: &str = "/run/wirespan/packet";
/// Bytes of a program at most.
const LONGEST: u64 = 64 << 10;
/// Longest wait for the text. Nothing is read from the ring meanwhile.
const READING: Duration = Duration::from_millis(200);
/// Longest wait for the answer: the kernel verifies the new programs.
const ANSWERING: Duration = Duration::from_secs(15);

/// Where the command that runs listens. Its socket is removed when it is dropped.
pub(super) struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A program that is to be run instead.
pub(super) struct Wanted {
    pub(super) program: Program,
    from: UnixStream,
}

impl Wanted {
    /// Says whether it runs now.
    pub(super) fn answer(mut self, done: Result<(), &anyhow::Error>) {
        let text = done.err().map_or(String::new(), |why| format!("{why:#}"));
        // Whoever has asked may be gone.
        let _ = self.from.write_all(text.as_bytes());
    }
}

impl Door {
    /// `None` if this machine has no place for it: then the program can be changed by its file only.
    pub(super) fn open() -> Option<Self> {
        Door::open_in(Path::new(DIR), std::process::id())
    }

    fn open_in(dir: &Path, pid: u32) -> Option<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).ok()?;
        let path = dir.join(pid.to_string());
        // A process of this number that was killed has left its socket.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some(Door { listener, path })
    }

    /// The program that somebody wants to be run instead. A wrong one is answered here.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        let (mut from, _) = self.listener.accept().ok()?;
        let read = || -> Result<String> {
            from.set_nonblocking(false)?;
            from.set_read_timeout(Some(READING))?;
            let mut text = String::new();
            (&from).take(LONGEST + 1).read_to_string(&mut text)?;
            if text.len() as u64 > LONGEST {
                bail!("the program is longer than {} KiB", LONGEST >> 10);
            }
            Ok(text)
        };
        match read().and_then(|text| Program::parse(&text)) {
            Ok(program) => Some(Wanted { program, from }),
            Err(why) => {
                let _ = from.write_all(format!("{why:#}").as_bytes());
                None
            }
        }
    }
}

/// Puts the program of the file in the place of the one that another command runs; `pid`: which one, if there are many.
pub(super) fn replace(file: &Path, pid: Option<u32>) -> Result<ExitCode> {
    Program::read(file)?;
    let text = fs::read_to_string(file).with_context(|| format!("packet program {}", file.display()))?;
    let (pid, stream) = running(Path::new(DIR), pid)?;
    ask(stream, &text).with_context(|| format!("process {pid} goes on with its program as it was"))?;
    eprintln!("wirespan: the program of process {pid} has changed, without a gap");
    Ok(ExitCode::SUCCESS)
}

fn ask(mut stream: UnixStream, text: &str) -> Result<()> {
    stream.set_read_timeout(Some(ANSWERING))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut why = String::new();
    stream.read_to_string(&mut why).context("it did not answer")?;
    if why.is_empty() {
        Ok(())
    } else {
        Err(anyhow!(why))
    }
}

/// A connection to the command that runs.
fn running(dir: &Path, pid: Option<u32>) -> Result<(u32, UnixStream)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid.is_some_and(|pid| pid != number) {
            continue;
        }
        match UnixStream::connect(entry.path()) {
            Ok(stream) => found.push((number, stream)),
            // Its process was killed.
            Err(why) if why.kind() == ErrorKind::ConnectionRefused => _ = fs::remove_file(entry.path()),
            Err(why) => return Err(why).with_context(|| format!("asking process {number}")),
        }
    }
    let numbers: Vec<String> = found.iter().map(|(number, _)| number.to_string()).collect();
    match (found.pop(), pid) {
        (Some(one), _) if found.is_empty() => Ok(one),
        (Some(_), _) => {
            bail!("several packet programs run: say which one, with --replace=PID ({})", numbers.join(", "))
        }
        (None, Some(pid)) => bail!("process {pid} runs no packet program"),
        (None, None) => bail!("no packet program runs on this machine: start it without --replace"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_handed_over_and_the_answer_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(format!("{:#}", running(dir.path(), None).unwrap_err()).contains("without --replace"));
        let door = Door::open_in(dir.path(), 7).unwrap();
        assert!(door.wanted().is_none());
        let asked = |text: &'static str| {
            let stream = running(dir.path(), Some(7)).unwrap().1;
            std::thread::spawn(move || ask(stream, text))
        };
        let wait = || loop {
            if let Some(wanted) = door.wanted() {
                return wanted;
            }
        };
        let client = asked("filter: {port: 81}");
        wait().answer(Ok(()));
        client.join().unwrap().unwrap();
        let client = asked("filter: {port: 82}");
        wait().answer(Err(&anyhow!("no such device")));
        assert_eq!(client.join().unwrap().unwrap_err().to_string(), "no such device");
        let client = asked("filter: {prot: 82}");
        while !client.is_finished() {
            assert!(door.wanted().is_none());
        }
        assert!(client.join().unwrap().unwrap_err().to_string().contains("did you mean `port`"));
    }

    #[test]
    fn one_of_several_must_be_named_and_a_dead_one_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Door::open_in(dir.path(), 7).unwrap();
        let second = Door::open_in(dir.path(), 8).unwrap();
        assert!(running(dir.path(), None).unwrap_err().to_string().contains("--replace=PID"));
        assert_eq!(running(dir.path(), Some(8)).unwrap().0, 8);
        assert!(running(dir.path(), Some(9)).unwrap_err().to_string().contains("process 9"));
        // Killed: its socket stays.
        let path = second.path.clone();
        drop(second);
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(running(dir.path(), None).unwrap().0, 7);
        assert!(!path.exists());
    }
}
