import { useState } from "react";
import { useFleetOrder } from "../../api/queries";
import type { BetweenView, FleetView, TimeView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { clockWords, missingWords, stateWords } from "../../domain/fleet";
import { fleetWays } from "../../domain/fleetWay";
import { placeWords } from "../../domain/heat";
import { fleetFlowRows, fleetLossRows } from "../../domain/loss";
import { number } from "../../domain/number";
import { timeWords } from "../../domain/times";
import { Way } from "../../parts/Way";
import { Flows, Loss } from "./LossTables";
import css from "./PacketsPage.module.css";
import { ProgramForm } from "./ProgramForm";
import { RunState } from "./RunState";
import { Drops, type LegRow, Legs, legRows, Places, Table } from "./Tables";

/** Packet programs on the agents of this server. */
export function Fleet({ view, failure }: { view: FleetView; failure: Error | null }) {
  const { mutate, isPending, error } = useFleetOrder();
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const running = view.state === "running";
  const give = (program: string, done?: () => void) => {
    const some = view.connected
      .filter(({ agent, takes_orders }) => takes_orders && !left.has(agent))
      .map(({ agent }) => agent);
    const agents = left.size === 0 ? [] : some;
    const change = running ? { change: view.number } : {};
    mutate({ program, agents, ...change }, { onSuccess: () => done?.() });
  };
  const choose = (agent: string) => {
    const next = new Set(left);
    if (!next.delete(agent)) next.add(agent);
    setLeft(next);
  };
  return (
    <div className={css.page}>
      <h1>Packets of {view.connected.length === 1 ? "one agent" : `${view.connected.length} agents`}</h1>
      <ProgramForm now={view} order={{ give, isPending, error }}>
        <fieldset className={css.agents} disabled={running}>
          <legend>{running ? "The agents that were asked run it to its end" : "On the agents"}</legend>
          {view.connected.map(({ agent, takes_orders }) => (
            <label key={agent} data-off={!takes_orders || undefined}>
              <input
                type="checkbox"
                checked={takes_orders && !left.has(agent)}
                disabled={!takes_orders}
                onChange={() => choose(agent)}
              />
              {agent}
              {!takes_orders && " (without --packet-programs)"}
            </label>
          ))}
          {view.connected.length === 0 && <span>None is connected.</span>}
        </fieldset>
      </ProgramForm>
      {failure && (
        <p className={css.alarm} role="alert">
          {failure.message}. What follows is the last that was heard.
        </p>
      )}
      {view.state !== "idle" && <Told view={view} />}
    </div>
  );
}

/** A time between two agents. Its jitter is not told: the clocks are not exact enough. */
function betweenRow(of: BetweenView): LegRow {
  const words = (time: TimeView | null | undefined) => timeWords(time, formatDuration);
  return {
    agent: `${of.from_agent} → ${of.to_agent}`,
    name: `${placeWords(of.from)} → ${placeWords(of.to)}`,
    times: { ...of.times, packets: of.packets },
    cells: [words(of.p50), words(of.p99), words(of.p999), ""],
  };
}

/** Flows that are in no row. */
function leftOut({ agents, flows, flows_left_out }: FleetView): number {
  return flows.length > 0 ? flows_left_out : agents.reduce((all, agent) => all + agent.view.flows_left_out, 0);
}

function Told({ view }: { view: FleetView }) {
  const told = view.agents.filter(({ state }) => state !== "refused");
  const quiet = told.filter(({ state }) => state === "silent" || state === "gone");
  const rows = [
    ...view.between.map(betweenRow),
    ...told.flatMap(({ agent, view: at }) => (at.total ? legRows(at.legs, at.total, agent) : [])),
  ];
  const drops = told.map(({ agent, view: at }) => ({ agent, drops: at.drops }));
  const places = told.map(({ agent, view: at }) => ({ agent, places: at.places, elapsedMs: at.elapsed_ms }));
  const [loss, flows] = [fleetLossRows(view), fleetFlowRows(view)];
  const sum = (of: (agent: FleetView["agents"][number]) => number) => told.reduce((all, agent) => all + of(agent), 0);
  const seen = (
    <>
      <span>
        on {told.length} of {view.agents.length} agents
      </span>
      <span>{number(sum((agent) => agent.view.sightings))} sightings</span>
    </>
  );
  const silent = quiet.map(({ agent, state }) => `${agent} is ${state}`).join(", ");
  return (
    <>
      <RunState
        of={view}
        told={seen}
        missing={silent && `partial: ${silent}`}
        late={
          sum((agent) => agent.view.journeys) > 0 && "without the ways of the last 3 s; between agents a little more"
        }
      />
      <Agents view={view} />
      <Ways view={view} />
      {rows.length > 0 && <Legs rows={rows} />}
      {view.clocks.length > 0 && (
        <ul className={css.clocks} aria-label="Clocks">
          {view.clocks.map((clock) => (
            <li key={`${clock.agent} ${clock.than}`}>{clockWords(clock)}</li>
          ))}
        </ul>
      )}
      {drops.some((one) => one.drops.length > 0) && <Drops of={drops} />}
      {loss.length > 0 && <Loss rows={loss} />}
      {flows.length > 0 && <Flows rows={flows} leftOut={leftOut(view)} />}
      {places.some((one) => one.places.length > 0) && <Places of={places} />}
    </>
  );
}

/** The usual way of packets from agent to agent. */
function Ways({ view }: { view: FleetView }) {
  const ways = fleetWays(view);
  if (ways.length === 0) {
    // One agent alone has nobody whom its packets could reach.
    const compares = view.agents.some(({ met }) => met);
    if (!compares || view.state !== "running") return null;
    return (
      <p className={css.quiet}>
        No packet is known yet to have gone from one agent to another. That is known about eight seconds after it went.
      </p>
    );
  }
  return (
    <section className={css.ways} aria-label="Way of the packets">
      {ways.map(({ from, to, points, packets }) => (
        <div key={points.map(({ id }) => id).join(" ")} className={css.card}>
          <h2>
            {from} → {to}
          </h2>
          <p>{number(packets)} packets; of each part the time that half of them did not exceed, and 99 % (p99)</p>
          <Way points={points} oneWay />
        </div>
      ))}
    </section>
  );
}

const MEANINGS = {
  Sightings: "Packets, counted at each point that saw them",
  Packets: "Packets whose way at this agent is known",
  "Reached another": "Packets that left here and that another agent saw arrive",
  "Only left": "Packets that left here and that no other agent saw arrive: lost, or gone elsewhere",
  "Only came": "Packets that came here and that no other agent saw leave",
  Stayed: "Packets from a program of this machine to another one of it",
};

/** What each agent does, and which of its packets others saw. */
function Agents({ view }: { view: FleetView }) {
  const meets = view.agents.some(({ met }) => met);
  const heads = ["Agent", "State", "Sightings", "Packets"];
  const more = ["Reached another", "Only left", "Only came", "Stayed", "Dropped"];
  return (
    <section className={css.card} aria-label="Agents">
      <Table heads={[...heads, ...(meets ? more : []), ""]} words={2} meanings={MEANINGS}>
        {view.agents.map((agent) => {
          const { view: at } = agent;
          const told = agent.state !== "refused";
          const met = told ? agent.met : undefined;
          const bad = ["silent", "gone", "refused"].includes(agent.state);
          return (
            <tr key={agent.agent}>
              <th scope="row">{agent.agent}</th>
              <td className={`${css.words} ${bad ? css.bad : ""}`}>{stateWords(agent)}</td>
              <td>{told && number(at.sightings)}</td>
              <td>{told && number(at.journeys)}</td>
              {meets && (
                <>
                  <td>{met ? number(met.met) : ""}</td>
                  <td>{met ? number(met.only_left) : ""}</td>
                  <td>{met ? number(met.only_came) : ""}</td>
                  <td>{met ? number(met.whole) : ""}</td>
                  <td>{met ? number(met.dropped) : ""}</td>
                </>
              )}
              <td className={`${css.words} ${css.quiet}`}>{missingWords(agent).join("; ")}</td>
            </tr>
          );
        })}
      </Table>
    </section>
  );
}
