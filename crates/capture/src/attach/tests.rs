//! A real machine, as one finds it: a worker prints whether its stack shows the agent's class.

use super::{attach, process};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Prints one line a round: whether the tasks of the JDK's executors run inside the agent's class, and whether the
/// results are right. The executors are new in each round, as their workers keep the code with which they began.
const PROGRAM: &str = r#"
import java.util.concurrent.*;

public class Probe {
    static String seen() {
        for (StackTraceElement at : new Throwable().getStackTrace())
            if (at.getClassName().endsWith("WirespanTasks")) return "agent";
        return "plain";
    }

    static String thrown(ExecutorService pool) throws Exception {
        try {
            pool.submit(() -> { throw new IllegalStateException(seen()); }).get();
            return "nothing";
        } catch (ExecutionException e) {
            return e.getCause().getMessage();
        }
    }

    public static void main(String[] arguments) throws Exception {
        while (true) {
            ExecutorService pool = Executors.newFixedThreadPool(2);
            ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
            ForkJoinPool joins = new ForkJoinPool(1);
            CompletableFuture<String> first = new CompletableFuture<>();
            CompletableFuture<String> then = first.thenCombine(CompletableFuture.supplyAsync(Probe::seen, joins),
                    (a, b) -> a + " " + b + " " + seen());
            timer.schedule(() -> first.complete(seen()), 1, TimeUnit.MILLISECONDS);
            System.out.println(pool.submit(Probe::seen).get() + " " + then.get() + " " + thrown(pool));
            for (ExecutorService each : new ExecutorService[] {pool, timer, joins}) each.shutdown();
            Thread.sleep(10);
        }
    }
}
"#;

/// The program in a machine that verifies every class, also its own.
struct Machine {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    _folder: tempfile::TempDir,
}

impl Machine {
    /// `None`, with the reason, where this machine has no Java or the test has no right to take another user.
    fn start(options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("Probe.java");
        std::fs::write(&file, PROGRAM).expect("a file");
        let child = Command::new("java")
            .args(["-XX:+UnlockDiagnosticVMOptions", "-XX:+BytecodeVerificationLocal", "-Xmx64m"])
            .args(options)
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child.map_err(|error| println!("skipped: java: {error}")) else { return None };
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            let _ = child.kill();
            return None;
        }
        let mut machine = Machine { child, lines, _folder: folder };
        machine.wait_for("plain plain plain plain plain");
        Some(machine)
    }

    /// Reads until a round says this.
    fn wait_for(&mut self, wanted: &str) {
        let began = Instant::now();
        let mut last = String::new();
        while last != wanted {
            assert!(began.elapsed() < Duration::from_secs(60), "{wanted:?} never came, but {last:?}");
            last = self.lines.next().expect("the program has ended").expect("a line");
        }
    }

    fn answers(&self) -> Result<super::Attached, String> {
        attach(self.child.id())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_machine_changes_its_classes_and_changes_them_back() {
    let Some(mut machine) = Machine::start(&[]) else { return };
    for _ in 0..2 {
        let (_, pipe) = machine.answers().expect("an agent");
        machine.wait_for("agent agent agent agent agent");
        let left = std::fs::read_dir("/tmp").expect("/tmp").flatten().map(|f| f.file_name());
        let own = format!(".wirespan-{}-{}", std::process::id(), machine.child.id());
        assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with(&own)), "files are left");
        drop(pipe);
        machine.wait_for("plain plain plain plain plain");
    }
}

#[test]
fn a_machine_that_forbids_it_is_not_asked() {
    for (option, why) in [
        ("-XX:+DisableAttachMechanism", "-XX:+DisableAttachMechanism"),
        ("-XX:-EnableDynamicAgentLoading", "-XX:-EnableDynamicAgentLoading"),
    ] {
        let Some(mut machine) = Machine::start(&[option]) else { return };
        let refused = machine.answers().expect_err("no agent");
        assert!(refused.contains(why), "{refused}");
        machine.wait_for("plain plain plain plain plain");
    }
}

#[test]
fn a_machine_that_the_signal_would_end_is_not_asked() {
    let Some(mut machine) = Machine::start(&["-Xrs"]) else { return };
    assert!(matches!(process::look(machine.child.id()), Ok(process::State::Starts)));
    machine.wait_for("plain plain plain plain plain");
}
