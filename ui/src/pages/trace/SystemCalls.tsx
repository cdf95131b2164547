import type { SpanCalls } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import css from "./SystemCalls.module.css";

/** The system calls of a span by name, and each of them if they were asked for as events. */
export function SystemCalls({ of }: { of: SpanCalls }) {
  return (
    <div className={css.calls}>
      <table>
        <thead>
          <tr>
            <th scope="col">call</th>
            <th scope="col">number</th>
            <th scope="col">errors</th>
            <th scope="col">together</th>
            <th scope="col">longest</th>
          </tr>
        </thead>
        <tbody>
          {of.sums.map((sum) => (
            <tr key={sum.name}>
              <th scope="row">{sum.name}</th>
              <td>{sum.count}</td>
              <td>{sum.failed > 0 && sum.failed}</td>
              <td>{formatDuration(sum.total_ns)}</td>
              <td>{formatDuration(sum.longest_ns)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {of.events.length > 0 && (
        <details>
          <summary>one by one</summary>
          <ol>
            {of.events.map((call) => (
              <li key={`${call.tid} ${call.offset_ns}`}>
                +{formatDuration(call.offset_ns)} {call.name}, {formatDuration(call.duration_ns)}, returned{" "}
                {call.result}
              </li>
            ))}
          </ol>
        </details>
      )}
      <p>
        {of.sums.length === 0 && "It made none of the calls that were asked for. "}
        {of.left_out > 0 && `${of.left_out} further calls are in the table only. `}
        {of.lost > 0 && `${of.lost} calls were lost.`}
      </p>
    </div>
  );
}
