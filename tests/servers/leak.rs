//! Secrets sent through a server must be in no output, neither as plain text nor in a usual encoding.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

/// Bytes of everything that was searched.
pub(crate) struct Searched {
    pub(crate) summary: String,
    pub(crate) found: Vec<String>,
}

/// GET on the query API: the whole answer, head included.
fn get(server: &str, path: &str) -> Vec<u8> {
    let mut connection = TcpStream::connect(server).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{path}: {}",
        String::from_utf8_lossy(&answer[..answer.len().min(300)])
    );
    answer
}

/// All answers of the query API, of Jaeger's API and of `/metrics` about the traced spans.
pub(crate) fn answers(ui: &str) -> Vec<(String, Vec<u8>)> {
    let mut answers: Vec<(String, Vec<u8>)> =
        ["/api/v1/spans?limit=5000", "/api/v1/services", "/api/v1/map", "/api/v1/status", "/metrics"]
            .map(|path| (path.to_string(), get(ui, path)))
            .into();
    let listed = get(ui, "/api/v1/traces?limit=500");
    let ids: Vec<_> = String::from_utf8_lossy(&listed)
        .split("\"id\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next().map(str::to_string))
        .take(60)
        .collect();
    answers.push(("/api/v1/traces".into(), listed));
    for id in ids {
        for path in [format!("/api/v1/trace/{id}"), format!("/api/traces/{id}")] {
            answers.push((path.clone(), get(ui, &path)));
        }
    }
    answers
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks_exact(3) {
        let n = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        out.extend([18, 12, 6, 0].map(|shift| char::from(DIGITS[(n >> shift & 63) as usize])));
    }
    out
}

/// The secret as it is, as hexadecimal, and as base64 wherever it may begin in what was encoded.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let mut forms = vec![
        ("as it is", secret.to_string()),
        ("as hexadecimal", secret.bytes().map(|b| format!("{b:02x}")).collect()),
        ("as UTF-16", secret.chars().flat_map(|c| [c, '\0']).collect()),
    ];
    // The whole groups of three that lie inside, for each of the three places where the first may begin.
    forms.extend((0..3).map(|skip| ("as base64", base64(&secret.as_bytes()[skip..]))));
    forms
}

/// Where it stands in a [`plain`] text, whatever its case.
fn position(text: &str, what: &str) -> Option<usize> {
    text.find(&what.to_ascii_lowercase())
}

fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

fn files(dir: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            files(&entry.path(), into);
        } else if entry.path().is_file() {
            into.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap()));
        }
    }
}

/// Searches the OTLP file, the store, the log at its most talkative, and the answers of the API.
pub(crate) fn search(secrets: &[String], dir: &Path, answers: &[(String, Vec<u8>)]) -> Searched {
    let mut places = answers.to_vec();
    for file in ["spans.jsonl", "wirespan.log"] {
        places.push((file.into(), std::fs::read(dir.join(file)).unwrap()));
    }
    let before = places.len();
    files(&dir.join("store"), &mut places);
    assert!(places.len() > before, "there is no store");
    let bytes: usize = places.iter().map(|p| p.1.len()).sum();
    let mut found = Vec::new();
    let texts: Vec<_> = places.iter().map(|(place, bytes)| (place, plain(bytes))).collect();
    for (form, what) in secrets.iter().flat_map(|s| forms(s)) {
        for (place, text) in &texts {
            if let Some(at) = position(text, &what) {
                let around = &text.as_bytes()[at.saturating_sub(120)..(at + what.len() + 60).min(text.len())];
                found.push(format!("leak: a secret is {form} in {place}: …{}…", String::from_utf8_lossy(around)));
            }
        }
    }
    found.truncate(12);
    Searched { summary: format!("no secret in {} places, {bytes} bytes", places.len()), found }
}

#[test]
fn secrets_are_found_in_each_form() {
    let secret = "zq0123456789abcdef";
    for hidden in [
        "x zq0123456789abcdef y".into(),
        secret.to_uppercase(),
        "7a7130313233343536373839616263646566".into(),
        secret.chars().flat_map(|c| [c, '\0']).collect(),
        base64(format!("a:{secret}!").as_bytes()),
        base64(format!("ab:{secret}").as_bytes()),
        base64(format!("abc:{secret}!!").as_bytes()),
    ] {
        assert!(forms(secret).iter().any(|(_, f)| position(&plain(hidden.as_bytes()), f).is_some()), "{hidden}");
    }
    assert!(!forms(secret).iter().any(|(_, f)| position("zq0123456789abcde_", f).is_some()));
}
