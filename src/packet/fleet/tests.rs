#![allow(clippy::unwrap_used)]

use super::*;
use wirespan_ship::link::AgentInfo;

fn running(sessions: &[u64]) -> Collected {
    let asked = |session: &u64| {
        let shown = FleetAgent { agent: format!("node-{session}"), ..FleetAgent::default() };
        Asked { session: *session, shown, heard: Instant::now(), next_line: 0, under_way: 0 }
    };
    let limit = Duration::from_secs(60);
    let agents = sessions.iter().map(asked).collect();
    Collected { number: 7, started: Some(Instant::now()), limit, agents, ..Collected::default() }
}

fn told(told: &Told) -> Answer {
    Answer { number: 7, body: serde_json::to_vec(told).unwrap() }
}

fn lines(before: u64, lines: &[&str]) -> Told {
    let lines = lines.iter().map(ToString::to_string).collect();
    Told { state: FleetState::Running, before, lines, under_way: 3, ..Told::default() }
}

#[test]
fn lines_name_their_agent_and_what_is_missing_is_counted() {
    let mut all = running(&[1, 2]);
    all.take(1, &told(&lines(0, &[r#"{"kind":"packet"}"#])));
    all.take(1, &told(&lines(5, &[r#"{"kind":"packet"}"#, "{\"kind\":\"pack", "7"])));
    all.take(2, &told(&lines(0, &[r#"{"kind":"journey"}"#])));
    all.take(2, &Answer { number: 7, body: b"{\"state\":\"runn".to_vec() });
    // Of an earlier program, and of nobody.
    all.take(2, &Answer { number: 6, ..told(&lines(0, &["{}"])) });
    all.take(3, &told(&lines(0, &["{}"])));
    let view = all.view(|_| true, Some(0));
    assert_eq!((view.state, view.first_line, view.lines.len()), (PacketsState::Running, 0, 3));
    let line: Value = serde_json::from_str(&view.lines[2]).unwrap();
    assert_eq!(line, serde_json::json!({"agent": "node-2", "kind": "journey"}));
    let counts: Vec<_> = view.agents.iter().map(|a| (a.lost_lines, a.malformed)).collect();
    assert_eq!(counts, [(4, 2), (0, 1)], "four before the fifth, two that are cut; one answer");
    // What was fetched is forgotten.
    let view = all.view(|_| true, Some(2));
    assert_eq!((view.first_line, view.lines.len()), (2, 1));
}

#[test]
fn an_agent_that_vanishes_leaves_what_it_told_and_what_was_under_way() {
    let mut all = running(&[1, 2]);
    let view = Some(PacketsView { sightings: 40, ..PacketsView::default() });
    all.take(1, &told(&Told { view, ..lines(0, &[]) }));
    all.take(2, &told(&Told { state: FleetState::Ended, ..lines(0, &[]) }));
    let seen = all.view(|session| session == 2, Some(0));
    let states: Vec<_> = seen.agents.iter().map(|a| (a.state, a.incomplete, a.view.sightings)).collect();
    assert_eq!(states, [(FleetState::Gone, 3, 40), (FleetState::Ended, 0, 0)]);
    assert_eq!(seen.state, PacketsState::Running, "it may come back before the time is over");
    all.limit = Duration::ZERO;
    assert_eq!(all.view(|session| session == 2, Some(0)).state, PacketsState::Ended);
}

#[test]
fn an_agent_that_tells_nothing_is_silent_and_not_waited_for_without_end() {
    let mut all = running(&[1]);
    all.take(1, &told(&lines(0, &[])));
    all.agents[0].heard = Instant::now().checked_sub(SILENT * 2).unwrap();
    assert_eq!(all.view(|_| true, Some(0)).agents[0].state, FleetState::Silent);
    all.take(1, &told(&lines(0, &[])));
    assert_eq!(all.view(|_| true, Some(0)).agents[0].state, FleetState::Running, "it is back");
    all.limit = Duration::ZERO;
    assert_eq!(all.view(|_| true, Some(0)).state, PacketsState::Running, "its last words may come");
    all.started = Instant::now().checked_sub(GRACE * 2);
    assert_eq!(all.view(|_| true, Some(0)).state, PacketsState::Ended);
}

#[test]
fn lines_that_nobody_fetches_are_bounded_and_counted() {
    let mut all = running(&[1]);
    let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(LINES_BYTES / 4));
    for n in 0..6 {
        all.take(1, &told(&lines(n, &[&long])));
    }
    assert!(all.bytes <= LINES_BYTES && all.lost_lines >= 2, "{} {}", all.bytes, all.lost_lines);
    assert_eq!(all.view(|_| true, Some(0)).first_line, all.lost_lines);
}

#[test]
fn agents_are_named_by_host_and_an_unknown_name_is_refused() {
    let agent = |host: &str, pid| AgentStatus {
        agent: AgentInfo { host: host.into(), pid, ..AgentInfo::default() },
        ..AgentStatus::default()
    };
    let agents = BTreeMap::from([(1, agent("web-1", 10)), (2, agent("db-1", 11)), (3, agent("web-1", 12))]);
    let names = |wanted: &[&str]| {
        let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        called::wanted(named(&agents), &names).map(|all| all.into_iter().map(|(_, name, _)| name).collect::<Vec<_>>())
    };
    assert_eq!(names(&[]).unwrap(), ["db-1", "web-1/10", "web-1/12"]);
    assert_eq!(names(&["web-1"]).unwrap(), ["web-1/10", "web-1/12"]);
    assert_eq!(names(&["web-1/12", "db-1"]).unwrap(), ["db-1", "web-1/12"]);
    let wrong = names(&["bd-1"]).unwrap_err();
    assert!(wrong.contains("no agent `bd-1` is connected; did you mean `db-1`?"), "{wrong}");
}
