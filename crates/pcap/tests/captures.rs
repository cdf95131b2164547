//! Real captures: damaged ones must not panic, and whole ones must give the bytes that tshark finds.
//!
//! The captures are not part of this repository. Their folder is `../shared/pcaps` beside it, or the one that
//! `WIRESPAN_PCAPS` names.
#![allow(clippy::unwrap_used)]

mod build;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use wirespan_model::{Event, Transport};
use wirespan_pcap::Replay;

/// Mutations of each capture. The largest captures get fewer, so that the test takes seconds.
const MUTATIONS: usize = 60;
const MUTATED_BYTES: usize = 4 << 20;

/// All captures; `None` after noting for the test runner why there are none.
fn captures(test: &str) -> Option<Vec<PathBuf>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/pcaps");
    let root = std::env::var_os("WIRESPAN_PCAPS").map_or(beside, PathBuf::from);
    let mut found = Vec::new();
    for folder in std::fs::read_dir(&root).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|e| e == "pcap" || e == "pcapng") {
                found.push(file.path());
            }
        }
    }
    found.sort();
    if found.is_empty() {
        skip(test, "no captures beside the project (set WIRESPAN_PCAPS)");
        return None;
    }
    Some(found)
}

fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(log) = std::env::var_os("WIRESPAN_SKIPS") {
        let mut log = std::fs::OpenOptions::new().append(true).open(log).unwrap();
        writeln!(log, "{test}: {reason}").unwrap();
    }
}

#[test]
fn every_capture_can_be_read() {
    for file in captures("every_capture_can_be_read").into_iter().flatten() {
        let mut replay = Replay::default();
        replay.read_path(&file, &mut |_| {}).unwrap();
        assert!(replay.stats().packets > 0, "{}", file.display());
        assert_eq!(replay.stats().count("file_cut_short"), 0, "{}", file.display());
    }
}

#[test]
fn tunnelled_captures_show_what_is_inside() {
    for file in captures("tunnelled_captures_show_what_is_inside").into_iter().flatten() {
        let mut replay = Replay::default();
        replay.read_path(&file, &mut |_| {}).unwrap();
        let (segments, datagrams) = (replay.stats().segments, replay.stats().datagrams);
        match file.file_name().unwrap().to_str().unwrap() {
            "decapsulate_erspan1.pcap" => assert!(segments > 1000),
            "ff-vxlan.pcap" => assert_eq!((segments, datagrams), (1, 0)),
            "geneve.pcap" => assert_eq!((datagrams, replay.stats().icmp), (0, 4)),
            "ipip.pcap" => assert_eq!((segments, replay.stats().icmp), (4, 1)),
            "vmware-gre-teb.pcap" => assert_eq!((datagrams, replay.stats().icmp), (2, 54)),
            _ => {}
        }
    }
}

/// A small random generator with a seed, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

#[test]
fn damaged_captures_never_panic() {
    for file in captures("damaged_captures_never_panic").into_iter().flatten() {
        let whole = std::fs::read(&file).unwrap();
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for _ in 0..MUTATIONS.min(MUTATED_BYTES / whole.len()).max(3) {
            let mut bytes = whole.clone();
            for _ in 0..=dice.roll(8) {
                let at = dice.roll(bytes.len());
                match dice.roll(4) {
                    0 => bytes[at] ^= 1 << dice.roll(8),
                    1 => bytes[at] = [0, 0xff, 0x7f, 0x80][dice.roll(4)],
                    2 => bytes.truncate(at.max(1)),
                    _ => {
                        let (from, len) = (dice.roll(bytes.len()), dice.roll(64));
                        let copy = bytes[from..(from + len).min(bytes.len())].to_vec();
                        bytes.splice(at..at, copy);
                    }
                }
            }
            let seen = build::replay(&bytes);
            let captured: usize = seen.data().map(|d| d.payload.len()).sum();
            assert!(captured <= bytes.len(), "{}: more bytes came out than went in", file.display());
        }
    }
}

type Streams = BTreeMap<(String, String), Vec<u8>>;

/// Bytes by sender and receiver, as wirespan reads them, and whether some were sent but not captured.
fn ours(file: &Path) -> (Streams, bool) {
    let mut streams = Streams::new();
    let mut gaps = false;
    let mut add = |event| {
        if let Event::Data(d) = event {
            if d.transport == Transport::Tcp {
                let (mut from, mut to) = (d.local.to_string(), d.remote.to_string());
                if d.direction == wirespan_model::Direction::Ingress {
                    std::mem::swap(&mut from, &mut to);
                }
                gaps |= d.len > d.payload.len() as u64;
                streams.entry((from, to)).or_default().extend(d.payload);
            }
        }
    };
    Replay::default().read_path(file, &mut add).unwrap();
    (streams, gaps)
}

fn tshark(file: &Path, args: &[&str]) -> String {
    // One capture has VXLAN on a port of its own.
    let done =
        Command::new("tshark").args(["-d", "udp.port==58678,vxlan", "-r"]).arg(file).args(args).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

/// tshark's reading of a capture: the bytes of each followed stream, and the number of bytes that were sent for the
/// first time.
#[derive(Default)]
struct Theirs {
    followed: Streams,
    sent: BTreeMap<(String, String), usize>,
}

fn theirs(file: &Path) -> Theirs {
    let mut theirs = Theirs::default();
    let mut fields = vec!["-Y", "tcp", "-T", "fields", "-E", "occurrence=l"];
    for field in
        ["tcp.stream", "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.len", "tcp.analysis.retransmission"]
    {
        fields.extend(["-e", field]);
    }
    let mut follow = vec!["-q".to_string()];
    let mut last = -1;
    for line in tshark(file, &fields).lines() {
        let mut f = line.split('\t');
        let mut next = || f.next().unwrap_or_default().to_string();
        let stream: i64 = next().parse().unwrap();
        let ends = (format!("{}:{}", next(), next()), format!("{}:{}", next(), next()));
        let len: usize = next().parse().unwrap();
        if next().is_empty() {
            *theirs.sent.entry(ends).or_default() += len;
        }
        if stream > last {
            follow.extend(["-z".to_string(), format!("follow,tcp,raw,{stream}")]);
            last = stream;
        }
    }
    for text in tshark(file, &follow.iter().map(String::as_str).collect::<Vec<_>>()).split("\nFollow: ").skip(1) {
        let node = |n: &str| text.lines().find_map(|l| l.strip_prefix(n)).unwrap_or_default().to_string();
        let ends = (node("Node 0: "), node("Node 1: "));
        for line in text.lines() {
            let (ends, hex) = match line.strip_prefix('\t') {
                Some(hex) => ((ends.1.clone(), ends.0.clone()), hex),
                None => (ends.clone(), line),
            };
            if hex.is_empty() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                continue;
            }
            let bytes = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap());
            theirs.followed.entry(ends).or_default().extend(bytes);
        }
    }
    theirs
}

#[test]
fn the_bytes_of_each_stream_are_those_that_tshark_follows() {
    const TEST: &str = "the_bytes_of_each_stream_are_those_that_tshark_follows";
    const FOLDERS: [&str; 4] = ["tcp", "common", "http", "rocketmq"]; // shapes, tunnels, long streams, gaps
    if Command::new("tshark").arg("-v").output().is_err() {
        return skip(TEST, "tshark is not installed");
    }
    let Some(files) = captures(TEST) else { return };
    let (mut same, mut with_gaps) = (0, 0);
    for file in files.iter().filter(|f| FOLDERS.iter().any(|d| f.parent().is_some_and(|p| p.ends_with(d)))) {
        if std::fs::metadata(file).unwrap().len() > 200_000 {
            continue; // hundreds of streams: a minute of tshark
        }
        let ((ours, gaps), theirs) = (ours(file), theirs(file));
        let none = Vec::new();
        for ends in ours.keys().chain(theirs.followed.keys()).collect::<std::collections::BTreeSet<_>>() {
            let (got, followed) = (ours.get(ends).unwrap_or(&none), theirs.followed.get(ends).unwrap_or(&none));
            if got == followed {
                same += 1;
                continue;
            }
            // For bytes that were not captured, tshark writes a text into the stream, or leaves out the rest. Its count
            // of bytes sent for the first time gives the right length.
            assert!(gaps, "{} {ends:?}: {} bytes, tshark follows {}", file.display(), got.len(), followed.len());
            assert_eq!(Some(&got.len()), theirs.sent.get(ends), "{} {ends:?}", file.display());
            with_gaps += 1;
        }
    }
    println!("{same} directions have equal bytes, {with_gaps} with gaps have equal counts");
    assert!(same > 20 && with_gaps > 2, "{same} and {with_gaps}");
}
