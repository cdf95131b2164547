//! The agents of a server, by name.

use std::collections::BTreeMap;
use wirespan_model::near::nearest;
use wirespan_ship::link::AgentStatus;

/// The names of agents: that of the host, with the process where several run.
pub(super) fn named(agents: &BTreeMap<u64, AgentStatus>) -> Vec<(u64, String, &AgentStatus)> {
    let alone = |host: &str| agents.values().filter(|other| other.agent.host == host).count() == 1;
    let name = |of: &AgentStatus| match alone(&of.agent.host) {
        true => of.agent.host.clone(),
        false => format!("{}/{}", of.agent.host, of.agent.pid),
    };
    let mut all: Vec<_> = agents.iter().map(|(session, status)| (*session, name(status), status)).collect();
    all.sort_by(|a, b| a.1.cmp(&b.1));
    all
}

/// The agents that an order names; an error that names the nearest.
pub(super) fn wanted<'a>(
    all: Vec<(u64, String, &'a AgentStatus)>,
    names: &[String],
) -> Result<Vec<(u64, String, &'a AgentStatus)>, String> {
    let is = |(_, name, status): &(u64, String, &AgentStatus), wanted: &String| {
        name == wanted || status.agent.host == *wanted
    };
    if let Some(wrong) = names.iter().find(|name| !all.iter().any(|agent| is(agent, name))) {
        let near = nearest(wrong, all.iter().map(|(_, name, _)| name));
        let hint = near.map_or_else(|| ".".into(), |name| format!("; did you mean `{name}`?"));
        let there: Vec<&str> = all.iter().map(|(_, name, _)| &**name).collect();
        return Err(format!("no agent `{wrong}` is connected{hint} There are: {}", there.join(", ")));
    }
    let chosen = all.into_iter().filter(|agent| names.is_empty() || names.iter().any(|name| is(agent, name)));
    Ok(chosen.collect())
}
