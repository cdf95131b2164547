//! `docs/protocols.md`: what is there for each protocol, read from the code itself, so that the page cannot say more.
//!
//! `WIRESPAN_WRITE_DOCS=1 cargo test -p wirespan-decode --test coverage` writes the page.
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use wirespan_decode::{Need, Pairing, Protocol, REGISTRY};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Protocols that no real server drives, and why: of registries, Debian's, npm, PyPI, Maven and Go modules were looked
/// at.
const WITHOUT_SERVER: &[(&str, &str)] = &[
    ("krpc", "none was found: its framework (bruceran/krpc) is not in Maven Central under its own name"),
    (
        "microsoft.sql_server",
        "none that answers queries was found: Debian's `tdspool` relays to a server, PyPI's `mssqlpot`, `honeypots` \
        and `opencanary` refuse every login",
    ),
    ("tls", "its handshakes are those of the real servers and clients in `tests/e2e/tls`"),
];

type Texts = [(String, String)];

/// Files under `folder` with this extension, with their texts.
fn texts(folder: &Path, extension: &str) -> Vec<(String, String)> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    found.sort();
    found
}

/// The folder of a protocol: the one whose `mod.rs` says its name.
fn folder(protocol: &dyn Protocol) -> PathBuf {
    let name = format!("\"{}\"", protocol.name());
    let says_it = |path: &PathBuf| {
        let text = fs::read_to_string(path.join("mod.rs")).unwrap_or_default();
        text.split("fn name(").nth(1).is_some_and(|t| t.split('}').next().is_some_and(|body| body.contains(&name)))
    };
    let mut all: Vec<_> = fs::read_dir(root().join("crates/decode/src")).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all.into_iter().find(says_it).unwrap_or_else(|| panic!("no folder says that its name is {name}"))
}

fn joined(mut names: Vec<String>) -> String {
    names.sort();
    names.dedup();
    if names.is_empty() {
        "–".into()
    } else {
        names.join(", ")
    }
}

struct Row {
    text: String,
    served: bool,
    missing: Vec<&'static str>,
}

/// Whether a script drives this protocol: it, or the client that it shares with others, says so (`parser` first, where
/// the protocol of the spans is not that of the parser).
fn drives(script: &str, clients: &Texts, quoted: &str) -> bool {
    let shared = clients.iter().filter(|(file, _)| script.contains(&format!("from {file} import")));
    let texts = || std::iter::once(script).chain(shared.clone().map(|(_, text)| text.as_str()));
    let says = |key: &str| {
        let lines = texts().flat_map(str::lines).map(str::trim_start).filter(|l| l.starts_with(key));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let parser = says("parser = ");
    let lines = if parser.is_empty() { says("protocol = ") } else { parser };
    lines.iter().any(|l| l.contains(quoted)) || script.contains(&format!("protocol={quoted}"))
}

fn row(protocol: &dyn Protocol, servers: &Texts, clients: &Texts, spoken: &Texts, oracles: &Texts) -> Row {
    let name = protocol.name();
    let folder = folder(protocol);
    let module = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let what: String =
        module.lines().take_while(|l| l.starts_with("//! ")).map(|l| &l[3..]).collect::<String>().trim().into();
    let what = what.split(['(', ':', ';']).next().unwrap().trim().trim_end_matches('.').to_string();
    let pairs = match protocol.pairing() {
        Pairing::InOrder => "order",
        Pairing::ById => "id",
    };
    let sees = match protocol.need() {
        Need::WholeCalls => "whole calls".to_string(),
        Need::FirstCall => "first call of a run".to_string(),
        Need::Starts => "start of every call".to_string(),
        Need::EveryCall(0) => "every call".to_string(),
        Need::EveryCall(n) => format!("every call, {n} bytes"),
        Need::LongHeaders(n) => format!("handshakes, {n} bytes of a call"),
    };
    let quoted = format!("\"{name}\"");
    let real: Vec<String> = servers
        .iter()
        .filter(|(_, text)| drives(text, clients, &quoted))
        .map(|(file, _)| file.replace('_', "-"))
        .collect();
    // The function that makes its conversation is named after its folder.
    let making = format!("fn {}(", folder.file_name().unwrap().to_string_lossy());
    let by_hand = spoken.iter().any(|(_, text)| text.contains(&making));
    let served = !real.is_empty();
    let searched = match (served, by_hand) {
        (true, _) => "servers",
        (false, true) => "by hand",
        (false, false) => "–",
    };
    let oracle = oracles.iter().any(|(_, text)| text.contains(&quoted));
    let mut tests: Vec<_> = texts(&folder, "rs").into_iter().filter(|(file, _)| file == "tests").collect();
    if folder.join("tests").is_dir() {
        tests.extend(texts(&folder.join("tests"), "rs"));
    }
    let secrets = tests.into_iter().any(|(_, text)| {
        let text = text.to_lowercase();
        ["canary", "secret", "geheim"].iter().any(|word| text.contains(word))
    });
    let seeds = fs::read_dir(root().join("fuzz/seeds").join(name)).map_or(0, Iterator::count);
    // A target is named after the protocol, or after its folder where the name is no name of a file.
    let names = [name.to_string(), folder.file_name().unwrap().to_string_lossy().into_owned()];
    let targets = root().join("fuzz/fuzz_targets");
    let built = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let target = names.iter().any(|n| {
        targets.join(format!("{n}.rs")).exists() && built.contains(&format!("path = \"fuzz_targets/{n}.rs\""))
    });
    let mut missing = Vec::new();
    for (there, part) in [
        (secrets, "a test that no secret leaves it"),
        (searched != "–", "conversation with secrets"),
        (seeds > 0, "seeds"),
        (target, "a fuzz target"),
    ] {
        if !there {
            missing.push(part);
        }
    }
    let text = format!(
        "| `{name}` | {what} | {pairs} | {sees} | {} | {searched} | {} | {} | {} |\n",
        if secrets { "yes" } else { "–" },
        joined(real),
        if oracle { "tshark" } else { "–" },
        if target { format!("{seeds} seeds") } else { "–".into() },
    );
    Row { text, served, missing }
}

#[test]
fn the_page_is_what_the_code_generates() {
    let servers = texts(&root().join("tests/apps/servers"), "py");
    let clients = texts(&root().join("tests/apps/serving"), "py");
    let spoken = texts(&root().join("tests/servers/spoken"), "rs");
    let oracles = texts(&root().join("crates/decode/tests/oracle"), "rs");
    let mut page = String::from(
        "# Protocols\n\nGenerated from the code by `WIRESPAN_WRITE_DOCS=1 cargo test -p wirespan-decode --test \
        coverage`; a test keeps it true.\n\n\
         *Pairs*: how a response finds its request. *Sees*: how much of the calls of a connection the kernel copies \
         for it. *Masks*: its tests prove that\n\
         no secret leaves the parser. *Secrets*: all that wirespan writes was searched for secrets sent through its \
         real servers, or through a conversation\n\
         made by hand (`tests/servers/spoken`). *Real servers*: those in `tests/apps/servers`; `docs/real-servers.md` \
         tells what is compared. *Captures*: read by an\n\
         independent oracle, too, differences in [protocols/differences.md](protocols/differences.md). What is seen of \
         QUIC: [protocols/quic.md](protocols/quic.md).\n\n\
         | protocol | what | pairs by | sees | masks | secrets | real servers | captures | fuzzed \
         |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut incomplete, mut without) = (Vec::new(), String::new());
    for protocol in REGISTRY {
        let Row { text, served, missing } = row(*protocol, &servers, &clients, &spoken, &oracles);
        page += &text;
        let why = WITHOUT_SERVER.iter().find(|(name, _)| *name == protocol.name());
        match (served, why) {
            (false, Some((name, why))) => {
                let _ = writeln!(without, "- `{name}`: {why}.");
            }
            (false, None) => incomplete.push(format!("{}: why has it no real server?", protocol.name())),
            (true, Some((name, _))) => {
                incomplete.push(format!("{name} has a real server, and a reason why it has none"))
            }
            (true, None) => {}
        }
        if !missing.is_empty() {
            incomplete.push(format!("{} has no {}", protocol.name(), missing.join(", no ")));
        }
    }
    let _ = write!(page, "\n{} protocols.\n\n## Without a real server\n\n{without}", REGISTRY.len());
    let path = root().join("docs/protocols.md");
    if std::env::var_os("WIRESPAN_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(incomplete.is_empty(), "{}", incomplete.join("\n"));
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/protocols.md is stale: WIRESPAN_WRITE_DOCS=1 cargo test -p wirespan-decode --test coverage"
    );
}
