//! All captures at once: what every connection carries, read again and again by the parser that inference chose, a new
//! one each time. Files and inference are no part of the measured time, and neither is what follows a change of
//! protocol.

use super::rate;
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use wirespan_decode::{infer, Probe, Protocol, Verdict};
use wirespan_model::{Chunk, DataEvent, Direction, Endpoint, Event, Item, Role, Side, SocketId, Transport};
use wirespan_pcap::Replay;

/// Calls of one connection that inference looks at.
const PROBED_CALLS: usize = 32;
/// Bytes per end that it is shown.
const SHOWN: usize = 4096;

struct Stream {
    protocol: &'static dyn Protocol,
    transport: Transport,
    turns: Vec<(Side, Vec<u8>, u64)>,
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|e| e == "pcap" || e == "pcapng" || e == "cap") {
            into.push(path);
        }
    }
}

/// What each connection of a file carries.
fn connections(file: &Path) -> Vec<Vec<DataEvent>> {
    let mut found: Vec<Vec<DataEvent>> = Vec::new();
    let mut places: HashMap<(SocketId, Option<(Endpoint, Endpoint)>), usize> = HashMap::new();
    let read = Replay::default().read_path(file, &mut |event| {
        let Event::Data(d) = event else { return };
        let ends = (d.transport == Transport::Udp).then_some((d.local, d.remote));
        let place = *places.entry((d.socket, ends)).or_insert_with(|| {
            found.push(Vec::new());
            found.len() - 1
        });
        found.get_mut(place).unwrap().push(d);
    });
    if let Err(e) = read {
        eprintln!("{}: {e}", file.display());
    }
    found
}

/// The protocol of a connection, and whether the end that sent the first call asks.
fn guess(calls: &[DataEvent]) -> Option<(&'static dyn Protocol, bool)> {
    let first = calls.first()?;
    let egress = first.direction == Direction::Egress;
    let (first_is_client, server_port) = match first.role {
        Role::Client => (Some(egress), Some(first.remote.port)),
        Role::Server => (Some(!egress), Some(first.local.port)),
        Role::Unknown => (None, None),
    };
    let (mut shown, mut turns, mut last): ([Vec<u8>; 2], _, _) = (Default::default(), [0, 0], None);
    for call in calls.iter().take(PROBED_CALLS) {
        let i = usize::from(call.direction != first.direction);
        if last.replace(i) != Some(i) {
            turns[i] += 1;
        }
        let room = SHOWN.saturating_sub(shown[i].len()).min(call.payload.len());
        shown[i].extend_from_slice(call.payload.get(..room)?);
        let probe =
            Probe { transport: first.transport, first: &shown[0], second: &shown[1], first_is_client, server_port };
        match infer(&probe, (turns[0], turns[1])) {
            Verdict::Known { protocol, first_is_client } => return Some((protocol, first_is_client)),
            Verdict::NeedMore => {}
            _ => return None,
        }
    }
    None
}

fn stream(calls: Vec<DataEvent>) -> Option<Stream> {
    let (protocol, first_is_client) = guess(&calls)?;
    let (first, transport) = (calls.first()?.direction, calls.first()?.transport);
    let side = |d: Direction| if (d == first) == first_is_client { Side::Client } else { Side::Server };
    let turns = calls.into_iter().map(|d| {
        let missing = d.len.saturating_sub(d.payload.len() as u64);
        (side(d.direction), d.payload.to_vec(), missing)
    });
    Some(Stream { protocol, transport, turns: turns.collect() })
}

/// Reads every stream once; the number of messages.
fn replay(streams: &[&Stream]) -> u64 {
    let mut messages = 0;
    for stream in streams {
        let mut parser = stream.protocol.parser(stream.transport);
        let mut over = false;
        for (side, bytes, missing) in &stream.turns {
            parser.feed(Chunk { side: *side, bytes: black_box(bytes), missing: *missing }, &mut |item| {
                messages += u64::from(matches!(black_box(&item), Item::Message(_)));
                over |= matches!(item, Item::Upgrade(_));
            });
            if over {
                break;
            }
        }
        parser.finish(&mut |item| messages += u64::from(matches!(item, Item::Message(_))));
    }
    messages
}

fn line(name: &str, streams: &[&Stream]) {
    let bytes: usize = streams.iter().flat_map(|s| &s.turns).map(|t| t.1.len()).sum();
    let messages = replay(streams);
    let rounds = rate(1, || {
        black_box(replay(streams));
    });
    println!(
        "| {name} | {} | {messages} | {bytes} | {:.0} | {:.0} | {:.2} |",
        streams.len(),
        rounds * messages as f64,
        1e9 / (rounds * messages as f64),
        rounds * bytes as f64 / 1e9
    );
}

pub(crate) fn print(folder: Option<String>) {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/pcaps");
    let mut found = Vec::new();
    files(&folder.map_or(beside, PathBuf::from), &mut found);
    let streams: Vec<Stream> = found.iter().flat_map(|file| connections(file)).filter_map(stream).collect();
    let mut by_name: BTreeMap<&str, Vec<&Stream>> = BTreeMap::new();
    for stream in &streams {
        by_name.entry(stream.protocol.name()).or_default().push(stream);
    }
    println!("| {} captures | connections | messages | bytes | messages/s | ns/message | GB/s |", found.len());
    println!("|---|---|---|---|---|---|---|");
    for (name, streams) in &by_name {
        line(name, streams);
    }
    line("all", &streams.iter().collect::<Vec<_>>());
}
