//! Network namespaces for one test.

use crate::running::{output, Running};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

fn ip(args: &str) -> Output {
    output(Command::new("ip").args(args.split_whitespace()))
}

/// What `ip`, `tc`, `nft` and `sysctl` say if the machine lacks something. All other errors are errors of the test.
const LACKING: [&str; 7] = [
    "Operation not permitted",
    "Permission denied",
    "Operation not supported",
    "Unknown device type",
    "kind is unknown",
    "Protocol not supported",
    "Could not process rule: No such file",
];

/// The error, if it means that this machine lacks something. Panics at any other.
pub(crate) fn lacking(error: String) -> String {
    assert!(LACKING.iter().any(|words| error.contains(words)), "{error}");
    error
}

/// Network namespaces with names of their own, removed at the end.
pub(crate) struct Spaces {
    names: Vec<String>,
}

impl Spaces {
    /// Makes `count` namespaces and runs `ip` with each line. `{0}` in a line stands for the name of the first
    /// namespace. The error says what this machine lacks. A wrong line panics.
    pub(crate) fn new(tag: &str, count: usize, script: &[&str]) -> Result<Self, String> {
        // Tests run side by side, and two may have the same tag.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let names = (0..count).map(|n| format!("ws{tag}-{n}-{own}")).collect();
        let spaces = Spaces { names };
        let up = spaces.names.iter().flat_map(|n| [format!("netns add {n}"), format!("-n {n} link set lo up")]);
        let named = |line: &&str| {
            let each = spaces.names.iter().enumerate();
            each.fold((*line).to_string(), |line, (n, name)| line.replace(&format!("{{{n}}}"), name))
        };
        for line in up.chain(script.iter().map(named)) {
            let done = ip(&line);
            if !done.status.success() {
                return Err(lacking(format!("ip {line}: {}", String::from_utf8_lossy(&done.stderr).trim())));
            }
        }
        Ok(spaces)
    }

    /// 10.214.1.1 and 10.214.1.2, on one link.
    pub(crate) fn pair(tag: &str) -> Result<Self, String> {
        Spaces::new(
            tag,
            2,
            &[
                "-n {0} link add name eth0 type veth peer name eth0 netns {1}",
                "-n {0} addr add 10.214.1.1/24 dev eth0",
                "-n {1} addr add 10.214.1.2/24 dev eth0",
                "-n {0} link set eth0 up",
                "-n {1} link set eth0 up",
            ],
        )
    }

    /// 10.216.1.1 and 10.216.1.2, in a tunnel of VXLAN over one link.
    pub(crate) fn tunnelled(tag: &str) -> Result<Self, String> {
        Spaces::new(
            tag,
            2,
            &[
                "-n {0} link add name u0 type veth peer name u0 netns {1}",
                "-n {0} addr add 10.215.1.1/24 dev u0",
                "-n {1} addr add 10.215.1.2/24 dev u0",
                "-n {0} link set u0 up",
                "-n {1} link set u0 up",
                "-n {0} link add name vx type vxlan id 7 local 10.215.1.1 remote 10.215.1.2 dstport 4789 dev u0",
                "-n {1} link add name vx type vxlan id 7 local 10.215.1.2 remote 10.215.1.1 dstport 4789 dev u0",
                "-n {0} addr add 10.216.1.1/24 dev vx",
                "-n {1} addr add 10.216.1.2/24 dev vx",
                "-n {0} link set vx up",
                "-n {1} link set vx up",
            ],
        )
    }

    /// client — router — server; the router forwards 10.213.1.1:8080 to the server's port 80, and hides the client.
    pub(crate) fn behind_nat(tag: &str) -> Result<Self, String> {
        let spaces = Spaces::new(
            tag,
            3,
            &[
                "-n {1} link add name toc type veth peer name eth0 netns {0}",
                "-n {1} link add name tos type veth peer name eth0 netns {2}",
                "-n {0} addr add 10.213.1.2/24 dev eth0",
                "-n {1} addr add 10.213.1.1/24 dev toc",
                "-n {1} addr add 10.213.2.1/24 dev tos",
                "-n {2} addr add 10.213.2.2/24 dev eth0",
                "-n {0} link set eth0 up",
                "-n {1} link set toc up",
                "-n {1} link set tos up",
                "-n {2} link set eth0 up",
                // The server has a route to the router only, so nothing works without masquerade.
                "-n {0} route add default via 10.213.1.1",
            ],
        )?;
        let rules = "table ip wsmap {\n\
            chain pre { type nat hook prerouting priority dstnat; tcp dport 8080 dnat to 10.213.2.2:80; }\n\
            chain post { type nat hook postrouting priority srcnat; oifname \"tos\" masquerade; }\n}\n";
        for command in [&["sysctl", "-qw", "net.ipv4.ip_forward=1"][..], &["nft", rules]] {
            spaces.inside(1, command).map_err(lacking)?;
        }
        Ok(spaces)
    }

    /// The name for `ip netns`.
    pub(crate) fn name(&self, space: usize) -> &str {
        &self.names[space]
    }

    pub(crate) fn command(&self, space: usize, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[space]]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a script that says on stderr when it is listening, until the value is dropped.
    pub(crate) fn python(&self, space: usize, script: &str, args: &[&str]) -> Running {
        let mut all = vec!["netns", "exec", self.name(space), "python3", "-c", script];
        all.extend(args);
        let mut running = Running::start("ip", &all);
        running.wait_for("listening");
        running
    }

    /// The command's output, or the reason for its failure.
    pub(crate) fn inside(&self, space: usize, args: &[&str]) -> Result<String, String> {
        let done = output(&mut self.command(space, args));
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(format!("{args:?}: {}", String::from_utf8_lossy(&done.stderr).trim())),
        }
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}
