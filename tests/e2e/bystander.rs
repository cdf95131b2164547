//! A process that is not a target: none of its bytes is in any event, file, log or answer.

use crate::harness::{can_trace, compile, has, Running, WIRESPAN};
use std::process::Command;

const MARK: &str = "XYZZY-bystander-7f3a";

#[test]
fn no_byte_of_a_bystander_is_kept() {
    let test = "bystander";
    if !can_trace(test) || !has(test, &["cc", "python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = compile("bystander/bystander.c", dir.path());
    let bystander = Running::start(program.to_str().unwrap(), &[MARK, "60"]);
    let spans = dir.path().join("spans.jsonl");
    let store = dir.path().join("store");
    // The target exchanges marked bytes as well, so that the test would notice if nothing were captured at all.
    let script = "import http.server, threading, http.client, time\n\
        s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
        threading.Thread(target=s.serve_forever, daemon=True).start()\n\
        for i in range(20):\n    c = http.client.HTTPConnection(*s.server_address); c.request('GET', \
        '/target-was-seen'); c.getresponse().read(); time.sleep(.05)\n";
    let done = Command::new(WIRESPAN)
        .env("WIRESPAN_LOG", "trace")
        .args(["run", "--no-ui", "--otlp-file"])
        .arg(&spans)
        .arg("--store")
        .arg(&store)
        .args(["--", "python3", "-c", script])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (ready, _) = bystander.end();
    assert!(ready.starts_with("ready"), "the bystander did not exchange: {ready}");

    let mut all = done.stdout;
    all.extend(done.stderr);
    all.extend(std::fs::read(&spans).unwrap());
    let has = |bytes: &[u8], what: &str| bytes.windows(what.len()).any(|w| w == what.as_bytes());
    assert!(has(&all, "target-was-seen"), "the target was not traced");
    assert!(!has(&all, MARK) && !has(&all, "bystander-7f3a"), "a byte of the bystander was printed or exported");
    for file in std::fs::read_dir(&store).unwrap().flatten().filter(|f| f.path().is_file()) {
        assert!(!has(&std::fs::read(file.path()).unwrap(), MARK), "{:?}", file.path());
    }
}
