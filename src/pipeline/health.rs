//! What is wrong with the places to which spans go, in words.

use crate::conditions::{Conditions, Trouble};
use wirespan_ship::link::{Sender, SenderState};
use wirespan_ship::otlp::ExportStatus;
use wirespan_store::StoreStatus;

/// The link to a server.
pub(super) fn link(conditions: &Conditions, link: &Sender) {
    let (status, server) = (link.status(), link.server());
    let kept = format!(
        "{} spans wait ({} of {} KiB), {} are lost",
        status.queued,
        status.backlog_bytes >> 10,
        link.backlog_limit() >> 10,
        status.dropped()
    );
    let (what, todo) = match &status.state {
        SenderState::Connected | SenderState::Closed => {
            return conditions.set("link", None, &format!("the server {server} is connected"));
        }
        SenderState::Connecting => return,
        SenderState::Held(why) => {
            (format!("the server {server} takes no spans at present: {why}"), "look at its status")
        }
        SenderState::Waiting(why) if why.contains("wrong token") => (
            format!("the server refuses this agent: {why}"),
            "give the server's secret with --token or in WIRESPAN_TOKEN",
        ),
        SenderState::Waiting(why) => (
            format!("the server is not connected: {why}"),
            "is `wirespan server` running there, with --listen on an address that this machine reaches?",
        ),
    };
    conditions.set("link", Some(Trouble { what, waits: kept, todo: todo.into() }), "");
}

/// The export to a collector.
pub(super) fn export(conditions: &Conditions, url: &str, status: &ExportStatus) {
    match &status.error {
        Some(error) => {
            let lost: u64 = status.dropped.values().sum();
            let trouble = Trouble {
                what: format!("the collector {url} does not take spans: {error}"),
                waits: format!("{} spans wait, {lost} are lost", status.queued),
                todo: "is an OpenTelemetry collector listening there, and is the protocol that of the port?".into(),
            };
            conditions.set("export", Some(trouble), "");
        }
        None if status.reached => conditions.set("export", None, &format!("the collector {url} answers")),
        None => {}
    }
}

/// The store.
pub(super) fn store(conditions: &Conditions, status: &StoreStatus, lost: u64, deferred: u64) {
    let stopped = status.stopped.as_ref().map(|why| Trouble {
        what: format!("the store is not writing: {why}"),
        waits: format!("{lost} spans are lost, {deferred} were left with their senders"),
        todo: match status.looked_at {
            true => "give --store a directory that can be written, to take spans".into(),
            false => "it goes on by itself when it can".into(),
        },
    });
    conditions.set("store", stopped, "");
    let forgotten: u64 = status.dropped.iter().map(|(_, n)| n).sum();
    let full = (forgotten > 0).then(|| Trouble {
        what: "the memory for spans is full: the oldest are forgotten".into(),
        waits: format!("{forgotten} spans so far"),
        todo: "--store DIR keeps spans on disk, --memory-mib N gives more memory".into(),
    });
    conditions.set("memory", full, "");
    let damaged = status.damaged.first().map(|first| Trouble {
        what: format!("{} files of the store are damaged: {first}", status.damaged.len()),
        waits: String::new(),
        todo: "everything else can be read (docs/reliability.md)".into(),
    });
    conditions.set("damage", damaged, "");
}
