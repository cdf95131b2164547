//! The cases of `tests/cases`, in short.

use crate::harness::{root, skip, WIRESPAN};
use crate::packets::ready;
use crate::running::output;
use serde_json::Value;
use std::process::Command;

#[test]
fn congestion_at_the_port_of_a_bridge_is_found_by_decomposition() {
    let test = "congestion_at_the_port_of_a_bridge_is_found_by_decomposition";
    if !ready(test) {
        return;
    }
    let script = root().join("tests/cases/congestion.py");
    let mut command = Command::new("python3");
    let done = output(command.arg(script).args(["--wirespan", WIRESPAN, "--messages", "100", "--json"]));
    let [out, err] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if done.status.code() == Some(77) {
        return skip(test, out.trim());
    }
    assert!(done.status.success(), "{}\n{out}\n{err}", done.status);
    let phases: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(names, ["quiet", "congested", "mended"]);
    let total = |n: usize| phases[n]["total_p50_ns"].as_u64().unwrap();
    assert!(total(1) > 2 * total(0) && total(1) > 2 * total(2), "{out}");
    assert_eq!(phases[1]["longest"], "queue ports → xmit ports", "{out}");
}
