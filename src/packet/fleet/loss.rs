//! Loss and flows of several agents, added up.

use super::super::board::ROWS;
use std::collections::{BTreeMap, HashMap};
use wirespan_journey::meeting::Departed;
use wirespan_view::fleet::{FleetAgent, FleetFlow, FleetState, FleetView};
use wirespan_view::packets::FlowEnds;

/// Packets that left an agent and did not arrive at another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) missing: u64,
    pub(super) unknown: u64,
}

impl Lost {
    pub(super) fn add(&mut self, of: &Departed) {
        self.missing += of.missing;
        self.unknown += of.unknown();
    }
}

/// Whether an agent has not told of all packets that it saw.
fn is_partial(agent: &FleetAgent) -> bool {
    let quiet = matches!(agent.state, FleetState::Silent | FleetState::Gone);
    quiet || agent.view.lost > 0 || agent.malformed > 0 || agent.met.is_some_and(|met| met.left_out > 0)
}

/// Whether some packets that left this agent, and that are missing, may have arrived: another one has not told of all.
pub(super) fn is_at_most(agents: &[FleetAgent], from: usize) -> bool {
    agents.iter().enumerate().any(|(n, agent)| n != from && is_partial(agent))
}

/// Puts the flows of all agents into the view. `between`: what was lost on the way from one to another.
pub(super) fn flows(view: &mut FleetView, between: &HashMap<Option<FlowEnds>, Lost>) {
    let mut all: BTreeMap<Option<FlowEnds>, FleetFlow> = BTreeMap::new();
    for agent in &view.agents {
        for of in &agent.view.flows {
            let row = all.entry(of.flow.clone()).or_default();
            row.agents.push(agent.agent.clone());
            row.lost_at_agents += of.loss.dropped + of.loss.missing;
            // Agents see the same packets cut or joined. The one with the most bytes stands for all.
            if row.agents.len() == 1 || of.bytes > row.bytes {
                (row.packets, row.bytes, row.elapsed_ms) = (of.packets, of.bytes, agent.view.elapsed_ms);
            }
            row.resent = row.resent.max(of.resent);
        }
    }
    let at_most = view.agents.iter().any(is_partial);
    let mut rows: Vec<FleetFlow> = all
        .into_iter()
        .map(|(flow, mut row)| {
            let lost = between.get(&flow).copied().unwrap_or_default();
            row.lost_between = lost.missing;
            row.unknown = if row.agents.len() > 1 { lost.unknown } else { 0 };
            FleetFlow { flow, at_most: at_most && lost.missing > 0, ..row }
        })
        .collect();
    rows.sort_by_key(|row| (row.flow.is_none(), std::cmp::Reverse(row.bytes)));
    let (others, mut rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.flow.is_none());
    let not_told: u64 = view.agents.iter().map(|agent| agent.view.flows_left_out).max().unwrap_or(0);
    view.flows_left_out = rows.len().saturating_sub(ROWS) as u64 + not_told;
    rows.truncate(ROWS);
    rows.extend(others);
    view.flows = rows;
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_view::packets::{FlowView, LossView, PacketsView};

    fn flow(port: u16, packets: u64, dropped: u64) -> FlowView {
        let (source, destination) = (format!("10.0.0.1:{port}"), "10.0.0.2:80".into());
        let flow = Some(FlowEnds { protocol: "udp".into(), source, destination });
        let loss = LossView { packets, dropped, went_on: packets - dropped, ..LossView::default() };
        FlowView { flow, packets, bytes: packets * 10, loss, ..FlowView::default() }
    }

    fn agent(name: &str, flows: Vec<FlowView>) -> FleetAgent {
        let view = PacketsView { flows, elapsed_ms: 2000, ..PacketsView::default() };
        FleetAgent { agent: name.into(), state: FleetState::Running, view, ..FleetAgent::default() }
    }

    #[test]
    fn a_flow_of_two_agents_is_one_row_with_what_was_lost_at_both_and_between() {
        let agents = vec![agent("web", vec![flow(1, 100, 5), flow(2, 7, 0)]), agent("db", vec![flow(1, 90, 1)])];
        let mut view = FleetView { agents, ..FleetView::default() };
        let between = HashMap::from([(flow(1, 0, 0).flow, Lost { missing: 4, unknown: 1 })]);
        flows(&mut view, &between);
        let rows: Vec<_> = view
            .flows
            .iter()
            .map(|row| (row.agents.len(), row.packets, row.lost_at_agents, row.lost_between, row.unknown, row.at_most))
            .collect();
        assert_eq!(rows, [(2, 100, 6, 4, 1, false), (1, 7, 0, 0, 0, false)]);
        // What an agent that is gone saw is not known.
        view.agents[1].state = FleetState::Gone;
        flows(&mut view, &between);
        assert_eq!(view.flows.iter().map(|row| row.at_most).collect::<Vec<_>>(), [true, false]);
        assert_eq!([0, 1].map(|from| is_at_most(&view.agents, from)), [true, false]);
    }

    #[test]
    fn rows_beyond_the_bound_are_counted() {
        let agents = vec![agent("web", (0..ROWS as u16 + 3).map(|port| flow(port, u64::from(port) + 1, 0)).collect())];
        let mut view = FleetView { agents, ..FleetView::default() };
        view.agents[0].view.flows_left_out = 2;
        flows(&mut view, &HashMap::new());
        assert_eq!((view.flows.len(), view.flows_left_out, view.flows[0].packets), (ROWS, 5, 103));
    }
}
