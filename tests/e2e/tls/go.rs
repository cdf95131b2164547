//! Go's `crypto/tls`, of the installed and of older versions.

use super::{is_joined, run, script};
use crate::harness::{can_trace, has, skip};
use std::path::Path;
use std::process::Command;

/// A server and a client in Go: three requests over one connection. The programs are stripped, so that only the table
/// of the runtime names their functions.
const GO: &str = r#"
package main
import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "net/http/httptest"; "strings"; "time")
func main() {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("z", 40000))
	}))
	s.StartTLS()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	for i := 0; i < 3; i++ {
		r, err := c.Get(fmt.Sprintf("%s/go/%d", s.URL, i))
		if err != nil { panic(err) }
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	time.Sleep(300 * time.Millisecond) // the server's last write is still to return
}
"#;

/// Replaces the machine's setting, because older versions may not know all of its values.
const FLAGS: &str = "-mod=mod";

/// Builds a program without symbols; `toolchain` as in `GOTOOLCHAIN`.
pub(super) fn build(dir: &Path, program: &str, mode: &str, toolchain: &str) {
    script(dir, "main.go", program);
    script(dir, "go.mod", "module pair\ngo 1.17\n");
    let built = Command::new("go")
        .args(["build", "-ldflags", "-s -w", &format!("-buildmode={mode}"), "-o", "pair", "."])
        .env("GOTOOLCHAIN", toolchain)
        .env("GOFLAGS", FLAGS)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

#[test]
fn stripped_go_is_read_with_and_without_fixed_addresses() {
    let test = "tls_go";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    for mode in ["exe", "pie"] {
        let dir = tempfile::tempdir().unwrap();
        build(dir.path(), GO, mode, "local");
        let spans = run(dir.path(), &["./pair"]);
        for i in 0..3 {
            is_joined(&spans, &format!("GET /go/{i}"), "200");
        }
    }
}

/// A program that is not the traced command, but started by it, is probed some tens of milliseconds later. What it sent
/// before is not read; what follows on the same connection must still find its own records.
#[test]
fn a_connection_older_than_its_probes_is_read_from_then_on() {
    let test = "tls_go_early";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = GO.replace("40000", "400").replace("i < 3", "i < 5");
    let program = program.replace("r.Body.Close()", "r.Body.Close(); time.Sleep(200 * time.Millisecond)");
    build(dir.path(), &program, "exe", "local");
    let spans = run(dir.path(), &["sh", "-c", "./pair; true"]);
    // Its client waits for the second answer while it is probed, and so reads it unseen. The kernel takes the third
    // request for a part of the second.
    for i in 3..5 {
        is_joined(&spans, &format!("GET /go/{i}"), "200");
    }
}

/// The oldest supported version, and one in between; each is fetched from the module proxy once.
#[test]
fn older_versions_of_go_are_read() {
    let test = "tls_go_old";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    for version in ["go1.17.13", "go1.21.13"] {
        let there = Command::new("go")
            .arg("version")
            .env("GOTOOLCHAIN", version)
            .env("GOFLAGS", FLAGS)
            .current_dir("/")
            .output()
            .unwrap();
        if !String::from_utf8_lossy(&there.stdout).contains(version) {
            skip(test, &format!("{version} cannot be had: {}", String::from_utf8_lossy(&there.stderr).trim()));
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        build(dir.path(), GO, "exe", version);
        let spans = run(dir.path(), &["./pair"]);
        for i in 0..3 {
            is_joined(&spans, &format!("GET /go/{i}"), "200");
        }
    }
}
