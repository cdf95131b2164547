//! The attach protocol of HotSpot, as `jcmd` speaks it: a file `.attach_pidN` and the signal SIGQUIT make the machine
//! listen at the socket `/tmp/.java_pidN`. A request is a version, a command and three arguments, each with a zero
//! behind it; the answer is a number and text (JDK sources: `AttachListener.cpp`, `VirtualMachineImpl.java`).

use super::files;
use super::process::Machine;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{fchown, openat, statat, unlinkat, AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_timeout, socket_peercred, Timeout};
use rustix::net::{connect, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{pidfd_send_signal, Signal};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the machine may take to listen. It must stop all its threads for that.
const LISTENS: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// How long an answer may take: the machine changes its classes meanwhile.
const ANSWERS: Duration = Duration::from_secs(30);
const MAX_ANSWER: u64 = 4096;
/// Where the machine's socket is, whatever the variable TMPDIR says.
const SOCKETS: &str = "/tmp";

/// Why there is no agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The machine cannot load this file; it may load it from elsewhere.
    Library(String),
    /// The machine is still starting, and may take the request later.
    Early(String),
    /// The machine does not take the request.
    Machine(String),
}

impl Refusal {
    fn machine(what: &str, error: impl std::fmt::Display) -> Self {
        Refusal::Machine(format!("{what}: {error}"))
    }
}

/// Asks the machine to load a library, and gives that a text. Takes the user of the machine for this thread meanwhile,
/// and for good if the way back fails: call it in a thread that ends afterwards.
pub(super) fn load(machine: &Machine, library: &str, options: &str) -> Result<(), Refusal> {
    let sockets = files::folder(machine, SOCKETS).map_err(|e| Refusal::machine("its /tmp cannot be opened", e))?;
    listen(machine, &sockets)?;
    let user = User::of(machine).map_err(|e| Refusal::machine("its user cannot be taken", e))?;
    let answer = ask(machine, &sockets, &request(library, options));
    drop(user);
    understand(&answer.map_err(|e| Refusal::machine("it did not answer", e))?)
}

/// Makes the machine listen at its socket.
fn listen(machine: &Machine, sockets: &OwnedFd) -> Result<(), Refusal> {
    let socket = format!(".java_pid{}", machine.own_pid);
    let listens = || {
        let found = statat(sockets, &socket, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Socket && s.st_uid == machine.uid)
    };
    if listens() {
        return Ok(());
    }
    let name = format!(".attach_pid{}", machine.own_pid);
    let owner = (Some(Uid::from_raw(machine.uid)), Some(Gid::from_raw(machine.gid)));
    let make = |folder: &OwnedFd| {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(folder, &name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => fchown(&file, owner.0, owner.1),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        }
    };
    // The machine looks into its working folder first.
    let folders = [&machine.folder, sockets];
    let made = folders.iter().find(|folder| make(folder).is_ok());
    let Some(made) = made else {
        return Err(Refusal::Machine("neither its working folder nor /tmp takes files".into()));
    };
    let sent = pidfd_send_signal(&machine.process, Signal::QUIT);
    let began = Instant::now();
    let mut listening = listens();
    while sent.is_ok() && !listening && began.elapsed() < LISTENS {
        std::thread::sleep(PAUSE);
        listening = listens();
    }
    let _ = unlinkat(made, &name, AtFlags::empty());
    sent.map_err(|e| Refusal::machine("it has ended", e))?;
    let silent =
        || Refusal::Machine("it does not listen, though it was asked (is attaching disabled in a file?)".into());
    listening.then_some(()).ok_or_else(silent)
}

/// The bytes of the command that loads a library by its absolute path.
fn request(library: &str, options: &str) -> Vec<u8> {
    ["1", "load", library, "true", options].iter().flat_map(|text| text.bytes().chain([0])).collect()
}

/// One request, one answer.
fn ask(machine: &Machine, sockets: &OwnedFd, request: &[u8]) -> std::io::Result<String> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(LISTENS))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWERS))?;
    // The path may be longer than an address has room for; that of the open folder is not.
    let path = format!("/proc/self/fd/{}/.java_pid{}", sockets.as_raw_fd(), machine.own_pid);
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    if socket_peercred(&socket)?.pid.as_raw_pid() != machine.pid.cast_signed() {
        return Err(std::io::Error::other("another process listens at its socket"));
    }
    let mut stream = UnixStream::from(socket);
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What an answer says. Its first line is 0 if the machine has taken the request; the second one what the library's
/// first function gave.
fn understand(answer: &str) -> Result<(), Refusal> {
    let mut lines = answer.lines();
    let status = lines.next().unwrap_or_default().trim();
    let text = lines.collect::<Vec<_>>().join(" ");
    if status != "0" {
        return Err(Refusal::Machine(format!("it refuses ({status}): {text}")));
    }
    let code = text.trim().strip_prefix("return code: ").unwrap_or(text.trim());
    match code.parse::<i32>() {
        Ok(0) => Ok(()),
        Ok(code @ NO_JVMTI) => Err(Refusal::Early(meaning(code))),
        Ok(code) => Err(Refusal::Machine(format!("the agent could not begin: {}", meaning(code)))),
        Err(_) => Err(Refusal::Library(format!("it cannot load the library: {text}"))),
    }
}

/// The tool interface is not there. It is the last part of a machine that starts.
const NO_JVMTI: i32 = 101;

/// What the agent's first function returns (`agent/java/agent.c`).
fn meaning(code: i32) -> String {
    match code {
        NO_JVMTI => "the machine has no tool interface, or another agent uses it alone".into(),
        102 => "the pipe could not be opened".into(),
        103 => "the class that tells of tasks could not be made".into(),
        104 => "the classes could not be changed".into(),
        105 => "the thread that waits for the end could not be started".into(),
        other => format!("number {other}"),
    }
}

/// The user of the machine, taken by this thread: a machine answers nobody else, and in a namespace of users it does
/// not know root.
struct User;

impl User {
    fn of(machine: &Machine) -> rustix::io::Result<Self> {
        let user = User; // goes back also if only half of this succeeds
        set_thread_groups(&[])?;
        set_thread_res_gid(Gid::ROOT, Gid::from_raw(machine.gid), Gid::ROOT)?;
        set_thread_res_uid(Uid::ROOT, Uid::from_raw(machine.uid), Uid::ROOT)?;
        Ok(user)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT);
        let _ = set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_five_texts() {
        assert_eq!(request("/tmp/a.so", "b"), b"1\0load\0/tmp/a.so\0true\0b\0");
    }

    #[test]
    fn an_answer_says_what_became_of_it() {
        assert_eq!(understand("0\nreturn code: 0\n"), Ok(()));
        assert_eq!(understand("0\n0\n"), Ok(()));
        let refused = |answer| understand(answer).expect_err("a refusal");
        let disabled = refused("100\nDynamic agent loading is not enabled. Use -XX:+EnableDynamicAgentLoading\n");
        assert!(matches!(disabled, Refusal::Machine(why) if why.contains("Dynamic agent loading is not enabled")));
        let failed = refused("0\nreturn code: 104\n");
        assert!(matches!(failed, Refusal::Machine(why) if why.contains("classes could not be changed")));
        assert!(matches!(refused("0\nreturn code: 101\n"), Refusal::Early(_)));
        let no_library = refused("0\n/tmp/a.so: failed to map segment from shared object\n");
        assert!(matches!(no_library, Refusal::Library(why) if why.contains("failed to map segment")));
        assert!(matches!(refused(""), Refusal::Machine(_)));
    }
}
