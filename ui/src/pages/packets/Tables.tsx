import { type ReactNode, useState } from "react";
import type { HeatView, LegView, PacketsView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { placeWords } from "../../domain/heat";
import { number } from "../../domain/number";
import { HeatMap } from "./HeatMap";
import css from "./PacketsPage.module.css";

const WHOLE = "the whole way";
const nameOf = (leg: LegView) => `${placeWords(leg.from)} → ${placeWords(leg.to)}`;

interface TableProps {
  heads: readonly string[];
  /** So many of the first heads stand over words. */
  words?: number;
  /** What a head means, where one word does not say it. */
  meanings?: Readonly<Record<string, string>>;
  children: ReactNode;
}

/** A table under these heads. */
export function Table({ heads, words = 1, meanings = {}, children }: TableProps) {
  return (
    <div className={css.scroll}>
      <table className={css.table}>
        <thead>
          <tr>
            {heads.map((head, n) => (
              <th key={head} scope="col" data-words={n < words || undefined} title={meanings[head]}>
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

/** One part of the way. */
export interface LegRow {
  readonly name: string;
  /** The agent, if there are several. */
  readonly agent?: string;
  readonly times: HeatView;
  /** p50, p99, p99.9 and jitter, in words. */
  readonly cells: readonly [string, string, string, string];
  /** It is all of the way, not a part. */
  readonly whole?: boolean;
}

/** The parts of the way at one machine, and all of it. */
export function legRows(legs: readonly LegView[], total: HeatView, agent?: string): LegRow[] {
  const row = (name: string, times: HeatView, jitter: string, whole: boolean): LegRow => {
    // Without a packet there is no time.
    const words = (ns: number) => (times.packets > 0 ? formatDuration(ns) : "");
    return {
      name,
      times,
      whole,
      cells: [words(times.p50_ns), words(times.p99_ns), words(times.p999_ns), jitter],
      ...(agent === undefined ? {} : { agent }),
    };
  };
  const parts = legs.map((leg) => row(nameOf(leg), leg.times, formatDuration(leg.jitter_ns), false));
  return [...parts, row(WHOLE, total, "", true)];
}

const keyOf = ({ agent, name }: LegRow) => (agent === undefined ? name : `${agent}: ${name}`);

/** Time from place to place, and the heat map of the one that is chosen. */
export function Legs({ rows }: { rows: readonly LegRow[] }) {
  const [chosen, choose] = useState("");
  // What goes from one agent to another stands first.
  const many = rows.some((row) => row.agent !== undefined);
  const shown = rows.find((row) => keyOf(row) === chosen) ?? (many ? rows[0] : rows.find((row) => row.whole));
  if (!shown) return null;
  // The part of each leg in the sum of all, by which the longest is found at a glance.
  const sum = rows.reduce((all, { times, whole }) => (whole ? all : all + times.mean_ns * times.packets), 0);
  const heads = ["From → to", "Packets", "p50", "p99", "p99.9", "Jitter"];
  return (
    <section className={css.card} aria-label="Time from place to place">
      <HeatMap
        title={keyOf(shown)}
        heat={shown.times}
        p50={shown.cells[0]}
        p99={shown.cells[1]}
        p999={shown.cells[2]}
      />
      <Table heads={many ? ["Agent", ...heads] : heads} words={many ? 2 : 1}>
        {rows.map((row) => {
          const { name, agent, times, cells, whole } = row;
          const key = keyOf(row);
          const share = !whole && sum > 0 ? (times.mean_ns * times.packets) / sum : 0;
          return (
            <tr key={key} data-chosen={row === shown || undefined}>
              {many && <td className={css.agent}>{agent}</td>}
              <th scope="row">
                <span className={css.share} style={{ width: `${share * 100}%` }} aria-hidden="true" />
                <button type="button" aria-pressed={row === shown} onClick={() => choose(key)}>
                  {name}
                </button>
              </th>
              <td>{number(times.packets)}</td>
              {cells.map((cell, n) => (
                <td key={heads[n + 2]}>{cell}</td>
              ))}
            </tr>
          );
        })}
      </Table>
    </section>
  );
}

/** Rows of several agents; with one that has no name, there is no column for it. */
export function Drops({ of }: { of: readonly { agent: string; drops: PacketsView["drops"] }[] }) {
  const many = of.some(({ agent }) => agent);
  const heads = ["Where", "Reason", "Packets", "Sent again", "Later"];
  return (
    <section className={css.card} aria-label="Drops">
      <h2>Dropped</h2>
      <Table heads={many ? ["Agent", ...heads] : heads} words={many ? 3 : 2}>
        {of.flatMap(({ agent, drops }) =>
          drops.map((drop) => {
            const at = placeWords({ ...drop.place, point: "" }) || "in a socket";
            const where = drop.after ? `${at}, after ${placeWords(drop.after)}` : at;
            return (
              <tr key={`${agent} ${where} ${drop.reason}`}>
                {many && <td className={css.agent}>{agent}</td>}
                <th scope="row">{where}</th>
                <td className={`${css.words} ${css.bad}`}>{drop.reason}</td>
                <td>{number(drop.packets)}</td>
                <td>{number(drop.resent)}</td>
                <td>{drop.resent > 0 ? formatDuration(drop.resent_p50_ns) : ""}</td>
              </tr>
            );
          }),
        )}
      </Table>
    </section>
  );
}

interface SeenBy {
  readonly agent: string;
  readonly places: PacketsView["places"];
  readonly elapsedMs: number;
}

export function Places({ of }: { of: readonly SeenBy[] }) {
  const many = of.some(({ agent }) => agent);
  const heads = ["Place", "Packets", "Bytes", "Mbit/s"];
  const rate = (bytes: number, ms: number) => ((bytes * 8) / Math.max(1, ms) / 1000).toFixed(2);
  return (
    <section className={css.card} aria-label="Packets by place">
      <h2>Seen</h2>
      <Table heads={many ? ["Agent", ...heads] : heads} words={many ? 2 : 1}>
        {of.flatMap(({ agent, places, elapsedMs }) =>
          places.map(({ place, packets, bytes }) => (
            <tr key={`${agent} ${placeWords(place)}`}>
              {many && <td className={css.agent}>{agent}</td>}
              <th scope="row">{placeWords(place)}</th>
              <td>{number(packets)}</td>
              <td>{number(bytes)}</td>
              <td>{rate(bytes, elapsedMs)}</td>
            </tr>
          )),
        )}
      </Table>
    </section>
  );
}
