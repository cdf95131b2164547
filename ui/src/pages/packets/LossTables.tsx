import { formatDuration } from "../../domain/duration";
import { type FlowRow, type LossRow, lost, percent } from "../../domain/loss";
import { number } from "../../domain/number";
import css from "./PacketsPage.module.css";
import { Table } from "./Tables";

const MEANINGS = {
  Share: "Lost ones of all packets whose end is known",
  Dropped: "The kernel told that it dropped them",
  Missing: "Last seen here, where other packets between the same addresses went on",
  "Not known": "They may be on their way still, or gone where nobody watches",
  Between: "Of the lost ones: on the way from one agent to another",
};

const bound = (n: number, atMost: boolean | undefined) => (atMost && n > 0 ? `at most ${number(n)}` : number(n));
const bad = (n: number) => (n > 0 ? css.bad : undefined);

/** What became of the packets at each place. */
export function Loss({ rows }: { rows: readonly LossRow[] }) {
  const many = rows.some(({ agent }) => agent !== undefined);
  const heads = ["Seen at", "Mostly next", "Packets", "Lost", "Share", "Dropped", "Missing", "Not known"];
  return (
    <section className={css.card} aria-label="Loss">
      <h2>Lost</h2>
      <Table heads={many ? ["Agent", ...heads] : heads} words={many ? 3 : 2} meanings={MEANINGS}>
        {rows.map(({ agent, at, next, loss, atMost }) => (
          <tr key={`${agent} ${at} ${next}`}>
            {many && <td className={css.agent}>{agent}</td>}
            <th scope="row">{at}</th>
            <td className={css.words}>{next}</td>
            <td>{number(loss.packets)}</td>
            <td className={bad(lost(loss))}>{bound(lost(loss), atMost)}</td>
            <td>{percent(lost(loss), loss.went_on + lost(loss))}</td>
            <td>{number(loss.dropped)}</td>
            <td>{bound(loss.missing, atMost)}</td>
            <td>{loss.under_way > 0 && number(loss.under_way)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

/** Figures of each flow. `leftOut`: flows with fewer bytes that are not among the rows. */
export function Flows({ rows, leftOut }: { rows: readonly FlowRow[]; leftOut: number }) {
  const many = rows.some(({ agents }) => agents !== undefined);
  const heads = ["Flow", ...(many ? ["Seen by"] : []), "Packets", "Bytes", "Mbit/s"];
  const times = many ? [] : ["p50", "p99", "p99.9", "Jitter"];
  const ends = ["Lost", ...(many ? ["Between"] : []), "Share", "Not known"];
  const rate = ({ bytes, elapsedMs }: FlowRow) => ((bytes * 8) / Math.max(1, elapsedMs) / 1000).toFixed(2);
  return (
    <section className={css.card} aria-label="Flows">
      <h2>Flows</h2>
      <Table heads={[...heads, ...times, ...ends]} words={many ? 2 : 1} meanings={MEANINGS}>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row">{row.name}</th>
            {many && <td className={css.words}>{row.agents}</td>}
            <td>{number(row.packets)}</td>
            <td>{number(row.bytes)}</td>
            <td>{rate(row)}</td>
            {times.map((head, n) => (
              <td key={head}>{row.times && formatDuration(row.times[n] ?? 0)}</td>
            ))}
            <td className={bad(row.lost)}>{bound(row.lost, row.atMost)}</td>
            {many && <td>{bound(row.between ?? 0, row.atMost)}</td>}
            <td>{percent(row.lost, Math.max(row.packets, row.lost))}</td>
            <td>{row.unknown > 0 && number(row.unknown)}</td>
          </tr>
        ))}
      </Table>
      {leftOut > 0 && <p className={css.quiet}>{number(leftOut)} flows with fewer bytes are not shown.</p>}
    </section>
  );
}
