import type { SpanCalls } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import css from "./SystemCalls.module.css";

/** Frequent errors of Linux, by number. */
const ERRORS: Readonly<Record<number, string>> = {
  1: "EPERM",
  2: "ENOENT",
  4: "EINTR",
  9: "EBADF",
  11: "EAGAIN",
  12: "ENOMEM",
  13: "EACCES",
  14: "EFAULT",
  17: "EEXIST",
  20: "ENOTDIR",
  22: "EINVAL",
  24: "EMFILE",
  25: "ENOTTY",
  28: "ENOSPC",
  29: "ESPIPE",
  32: "EPIPE",
  38: "ENOSYS",
  95: "EOPNOTSUPP",
  104: "ECONNRESET",
  107: "ENOTCONN",
  110: "ETIMEDOUT",
  111: "ECONNREFUSED",
  115: "EINPROGRESS",
};

/** A result from −1 to −4095 is the number of an error. */
function errorName(result: number): string | null {
  return result < 0 && result >= -4095 ? (ERRORS[-result] ?? `error ${-result}`) : null;
}

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
          <table>
            <thead>
              <tr>
                <th scope="col">call</th>
                <th scope="col">begun</th>
                <th scope="col">took</th>
                <th scope="col">returned</th>
              </tr>
            </thead>
            <tbody>
              {of.events.map((call) => (
                <tr key={`${call.tid} ${call.offset_ns}`}>
                  <th scope="row">{call.name}</th>
                  <td>+{formatDuration(call.offset_ns)}</td>
                  <td>{formatDuration(call.duration_ns)}</td>
                  <td data-failed={errorName(call.result) !== null || undefined}>
                    {errorName(call.result) ?? call.result}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
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
