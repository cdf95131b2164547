//! The enricher over a `/proc` made by hand, and over real children of this test.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use wirespan_enrich::{Enricher, Roots};
use wirespan_model::event::{Actor, TaskChange, TaskEvent};

const ID: &str = "3f1c9a77b2d84e0f9a6c5d4e3f2a1b0c3f1c9a77b2d84e0f9a6c5d4e3f2a1b0c";

#[derive(Clone, Copy)]
struct Process<'a> {
    pid: u32,
    start: u64,
    comm: &'a str,
    exe: &'a str,
    args: &'a [&'a str],
    environ: &'a [&'a str],
    cgroup: &'a str,
}

fn write(root: &Path, p: &Process<'_>) {
    let dir = root.join("proc").join(p.pid.to_string());
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    // 16 fields between the state and the start time; the name has the worst characters it can have.
    let fields = "0 ".repeat(18);
    fs::write(dir.join("stat"), format!("{} ({}) S {fields}{} 0 0\n", p.pid, p.comm, p.start)).unwrap();
    symlink(p.exe, dir.join("exe")).unwrap();
    fs::write(dir.join("cmdline"), p.args.iter().flat_map(|a| [a, "\0"]).collect::<String>()).unwrap();
    fs::write(dir.join("environ"), p.environ.iter().flat_map(|a| [a, "\0"]).collect::<String>()).unwrap();
    fs::write(dir.join("cgroup"), p.cgroup).unwrap();
}

fn host(root: &Path) -> Enricher {
    let proc = root.join("proc");
    fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(proc.join("sys/kernel/hostname"), "node-7\n").unwrap();
    fs::write(proc.join("sys/kernel/random/boot_id"), "5d9e…\n").unwrap();
    fs::write(root.join("etc/machine-id"), "0123456789abcdef\n").unwrap();
    Enricher::with_roots(Roots { proc, etc: root.join("etc") })
}

fn actor(pid: u32, comm: &str) -> Actor {
    let mut a = Actor { pid, tid: pid, ..Actor::default() };
    a.comm[..comm.len()].copy_from_slice(comm.as_bytes());
    a
}

fn task(change: TaskChange, pid: u32, parent_pid: u32, comm: &str) -> TaskEvent {
    TaskEvent { change, actor: actor(pid, comm), parent_pid, time_ns: 1 }
}

#[test]
fn a_process_in_a_pod_is_fully_described() {
    let root = tempfile::tempdir().unwrap();
    let e = host(root.path());
    write(
        root.path(),
        &Process {
            pid: 41,
            start: 1000,
            comm: "py) (thon",
            exe: "/usr/bin/python3.11 (deleted)",
            args: &["python3", "/srv/cart/main.py", "--token=secret"],
            environ: &["PASSWORD=secret", "PATH=/bin"],
            cgroup: &format!("0::/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444455556666/{ID}\n"),
        },
    );
    let r = e.resource(&actor(41, "worker-3"));
    assert_eq!(&*r.service, "cart");
    assert_eq!(&*r.host, "node-7");
    assert_eq!(&*r.executable, "/usr/bin/python3.11");
    assert_eq!(&*r.container, ID);
    let keys: Vec<&str> = r.extra.iter().map(|(k, _)| &**k).collect();
    assert_eq!(keys, ["host.id", "k8s.pod.uid", "process.runtime.name"]);
    assert!(!format!("{r:?}").contains("secret"), "arguments and environment must not be kept");
    assert!(Arc::ptr_eq(&r, &e.resource(&actor(41, "worker-4"))), "one process, one resource");
    assert_eq!(e.stats().reads, 1);
}

#[test]
fn fork_inherits_exec_refreshes_exit_lingers() {
    let root = tempfile::tempdir().unwrap();
    let e = host(root.path());
    let shell = Process {
        pid: 10,
        start: 5,
        comm: "bash",
        exe: "/usr/bin/bash",
        args: &["bash", "/srv/start-all.sh"],
        environ: &[],
        cgroup: "0::/\n",
    };
    write(root.path(), &shell);
    e.task_event(&task(TaskChange::Exec, 10, 1, "bash"));
    e.task_event(&task(TaskChange::Fork, 11, 10, "bash"));
    assert_eq!(&*e.resource(&actor(11, "bash")).service, "start-all", "a fork is its parent until it executes");
    assert_eq!(e.stats().reads, 1, "the fork was not read");

    write(
        root.path(),
        &Process {
            pid: 11,
            start: 6,
            comm: "x",
            exe: "/opt/stock",
            args: &["stock"],
            environ: &["OTEL_SERVICE_NAME=inventory"],
            cgroup: "0::/\n",
        },
    );
    e.task_event(&task(TaskChange::Exec, 11, 10, "stock"));
    assert_eq!(&*e.resource(&actor(11, "stock")).service, "inventory");

    fs::remove_dir_all(root.path().join("proc/11")).unwrap();
    e.task_event(&task(TaskChange::Exit, 11, 10, "stock"));
    assert_eq!(&*e.resource(&actor(11, "stock")).service, "inventory", "late spans still find the name");

    write(root.path(), &Process { pid: 11, start: 90, args: &["bash", "next.sh"], ..shell });
    e.task_event(&task(TaskChange::Fork, 11, 999, "bash"));
    assert_eq!(&*e.resource(&actor(11, "bash")).service, "next", "the pid was given to another process");
}

#[test]
fn a_process_that_is_gone_is_called_by_its_task_name_in_its_parents_container() {
    let root = tempfile::tempdir().unwrap();
    let e = host(root.path());
    write(
        root.path(),
        &Process {
            pid: 20,
            start: 5,
            comm: "sh",
            exe: "/bin/sh",
            args: &["sh", "job.sh"],
            environ: &[],
            cgroup: &format!("0::/docker/{ID}\n"),
        },
    );
    e.resource(&actor(20, "sh"));
    e.task_event(&task(TaskChange::Fork, 21, 20, "sh"));
    e.task_event(&task(TaskChange::Exec, 21, 20, "curl"));
    e.task_event(&task(TaskChange::Exit, 21, 20, "curl"));
    let r = e.resource(&actor(21, "curl"));
    assert_eq!((&*r.service, &*r.container, &*r.executable), ("curl", ID, ""));
    assert_eq!(e.stats().gone, 1);
    assert_eq!(&*e.resource(&actor(77, "ghost")).service, "ghost");
    assert_eq!(&*e.resource(&Actor::default()).service, "", "a capture file has no process");
}

#[test]
fn a_process_seen_in_the_middle_of_its_exec_is_read_again() {
    let root = tempfile::tempdir().unwrap();
    let e = host(root.path());
    let early =
        Process { pid: 30, start: 5, comm: "dash", exe: "/usr/bin/dash", args: &[], environ: &[], cgroup: "0::/\n" };
    write(root.path(), &early);
    assert_eq!(&*e.resource(&actor(30, "dash")).service, "dash");
    write(root.path(), &Process { args: &["sh", "greeter.sh"], ..early });
    assert_eq!(&*e.resource(&actor(30, "dash")).service, "greeter");

    write(root.path(), &Process { pid: 31, ..early });
    for _ in 0..3 {
        assert_eq!(&*e.resource(&actor(31, "dash")).service, "dash");
    }
    assert_eq!(e.stats().reads, 4, "a process without arguments is read twice, and no more");
}

#[test]
fn host_identity_changes_with_the_boot_only() {
    let root = tempfile::tempdir().unwrap();
    let a = host(root.path());
    let b = host(root.path());
    assert_eq!(a.host_id(), b.host_id());
    fs::write(root.path().join("proc/sys/kernel/random/boot_id"), "another").unwrap();
    let c = Enricher::with_roots(Roots { proc: root.path().join("proc"), etc: root.path().join("etc") });
    assert_ne!(a.host_id(), c.host_id());
    assert_eq!(a.host().stable_id, c.host().stable_id);
    assert!(!a.host().stable_id.contains("0123456789abcdef"), "the machine id itself is not published");
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn real_children_are_named() {
    let e = Enricher::new();
    let sleep = Command::new("sleep").arg("30").env_remove("OTEL_SERVICE_NAME").spawn().unwrap();
    let named = Command::new("sleep").arg("30").env("OTEL_SERVICE_NAME", "declared").spawn().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("greeter.sh");
    fs::write(&script, "echo; read _\n").unwrap();
    let mut sh = Command::new("sh");
    sh.arg(&script).env_remove("OTEL_SERVICE_NAME").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut sh = sh.spawn().unwrap();
    // `spawn` returns when the new executable is in place, but perhaps before its arguments are. A process that prints
    // is ready.
    sh.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();

    let of = |c: &Child| e.resource(&actor(c.id(), "thread"));
    let plain = of(&sleep);
    assert!(["sleep", "coreutils"].contains(&&*plain.service), "{plain:?}");
    assert!(plain.executable.starts_with('/'), "{plain:?}");
    // The second read finds the facts that did not exist yet at the first.
    of(&named);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(&*of(&named).service, "declared");
    assert_eq!(&*of(&sh).service, "greeter");
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(&*plain.host, hostname.trim());
    assert_ne!(e.host_id(), 0);

    let pid = sleep.id();
    stop(sleep);
    e.task_event(&task(TaskChange::Exit, pid, 1, "sleep"));
    assert!(Arc::ptr_eq(&plain, &e.resource(&actor(pid, "sleep"))));
    stop(named);
    stop(sh);
}
