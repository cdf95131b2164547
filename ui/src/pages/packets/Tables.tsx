import { type ReactNode, useState } from "react";
import type { HeatView, LegView, PacketsView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { placeWords } from "../../domain/heat";
import { HeatMap } from "./HeatMap";
import css from "./PacketsPage.module.css";

const number = (n: number) => n.toLocaleString("en");
const WHOLE = "the whole way";
const nameOf = (leg: LegView) => `${placeWords(leg.from)} → ${placeWords(leg.to)}`;

/** A table under these heads. */
function Table({ heads, children }: { heads: readonly string[]; children: ReactNode }) {
  return (
    <div className={css.scroll}>
      <table className={css.table}>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** Time from place to place, and the heat map of the one that is chosen. */
export function Legs({ legs, total }: { legs: readonly LegView[]; total: HeatView }) {
  const [chosen, choose] = useState(WHOLE);
  const rows = [
    ...legs.map((leg) => ({ name: nameOf(leg), leg, times: leg.times })),
    { name: WHOLE, leg: null, times: total },
  ];
  const shown = rows.find((row) => row.name === chosen) ?? { name: WHOLE, times: total };
  // The part of each leg in the sum of all, by which the longest is found at a glance.
  const sum = legs.reduce((all, { times }) => all + times.mean_ns * times.packets, 0);
  return (
    <section className={css.card} aria-label="Time from place to place">
      <HeatMap title={shown.name} heat={shown.times} />
      <Table heads={["From → to", "Packets", "p50", "p99", "p99.9", "Jitter"]}>
        {rows.map(({ name, leg, times }) => {
          const share = leg && sum > 0 ? (times.mean_ns * times.packets) / sum : 0;
          return (
            <tr key={name} data-chosen={name === shown.name || undefined}>
              <th scope="row">
                <span className={css.share} style={{ width: `${share * 100}%` }} aria-hidden="true" />
                <button type="button" aria-pressed={name === shown.name} onClick={() => choose(name)}>
                  {name}
                </button>
              </th>
              <td>{number(times.packets)}</td>
              <td>{formatDuration(times.p50_ns)}</td>
              <td>{formatDuration(times.p99_ns)}</td>
              <td>{formatDuration(times.p999_ns)}</td>
              <td>{leg ? formatDuration(leg.jitter_ns) : ""}</td>
            </tr>
          );
        })}
      </Table>
    </section>
  );
}

export function Drops({ drops }: { drops: PacketsView["drops"] }) {
  return (
    <section className={css.card} aria-label="Drops">
      <h2>Dropped</h2>
      <Table heads={["Where", "Reason", "Packets", "Sent again", "Later"]}>
        {drops.map((drop) => {
          const at = placeWords({ ...drop.place, point: "" }) || "in a socket";
          const where = drop.after ? `${at}, after ${placeWords(drop.after)}` : at;
          return (
            <tr key={`${where} ${drop.reason}`}>
              <th scope="row">{where}</th>
              <td className={css.bad}>{drop.reason}</td>
              <td>{number(drop.packets)}</td>
              <td>{number(drop.resent)}</td>
              <td>{drop.resent > 0 ? formatDuration(drop.resent_p50_ns) : ""}</td>
            </tr>
          );
        })}
      </Table>
    </section>
  );
}

export function Places({ places, elapsedMs }: { places: PacketsView["places"]; elapsedMs: number }) {
  const rate = (bytes: number) => ((bytes * 8) / Math.max(1, elapsedMs) / 1000).toFixed(2);
  return (
    <section className={css.card} aria-label="Packets by place">
      <h2>Seen</h2>
      <Table heads={["Place", "Packets", "Bytes", "Mbit/s"]}>
        {places.map(({ place, packets, bytes }) => (
          <tr key={placeWords(place)}>
            <th scope="row">{placeWords(place)}</th>
            <td>{number(packets)}</td>
            <td>{number(bytes)}</td>
            <td>{rate(bytes)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
