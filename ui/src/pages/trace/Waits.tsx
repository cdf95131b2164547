import { useState } from "react";
import type { SpanWait, SpanWaits } from "../../api/types";
import { formatDuration, ticks } from "../../domain/duration";
import { kindLabel, lanes, longest, reasonWords } from "../../domain/waits";
import { Link } from "../../routing/Link";
import { href } from "../../routing/url";
import css from "./Waits.module.css";

interface Props {
  of: SpanWaits;
  durationNs: number;
}

/** Waits told at once; a button shows the others. */
const TOLD = 6;

/** The waits of a span on a line of time for each thread, and the longest of them in words. */
export function Waits({ of, durationNs }: Props) {
  const [all, setAll] = useState(false);
  const told = all ? of.waits : longest(of.waits, TOLD);
  const rest = of.waits.length - told.length;
  return (
    <div className={css.waits}>
      <div className={css.lanes} role="img" aria-label="Waits in the time of the span">
        {lanes(of.waits, durationNs).map(({ thread, marks }) => (
          <div key={thread} className={css.lane}>
            <span className={css.thread} title={thread}>
              {thread}
            </span>
            <span className={css.track}>
              {marks.map(({ wait, left, width }) => (
                <span
                  key={wait.offset_ns}
                  data-kind={wait.kind}
                  data-in-call={wait.in_call || undefined}
                  style={{ left: `${left}%`, width: `max(2px, ${width}%)` }}
                  title={`${formatDuration(wait.duration_ns)}: ${wait.words}`}
                />
              ))}
            </span>
          </div>
        ))}
        {of.waits.length > 0 && <Axis durationNs={durationNs} />}
      </div>
      <ol>
        {told.map((wait) => (
          <Told key={`${wait.thread} ${wait.offset_ns}`} wait={wait} />
        ))}
      </ol>
      {rest > 0 && (
        <button type="button" onClick={() => setAll(true)}>
          {rest} shorter {rest === 1 ? "wait" : "waits"}
        </button>
      )}
      <p>
        {of.waits.length === 0 && "It did not wait. "}
        {reasonWords(of.reason)}
        {of.left_out > 0 && ` ${of.left_out} shorter waits are not kept.`}
      </p>
    </div>
  );
}

function Axis({ durationNs }: { durationNs: number }) {
  // A label at the end would stand outside.
  const marks = ticks(durationNs, 4).filter((ns) => ns <= durationNs * 0.85);
  return (
    <div className={css.lane} aria-hidden="true">
      <span />
      <span className={css.axis}>
        {marks.map((ns) => (
          <span key={ns} style={{ left: `${(ns / Math.max(1, durationNs)) * 100}%` }}>
            {formatDuration(ns)}
          </span>
        ))}
      </span>
    </div>
  );
}

function Told({ wait }: { wait: SpanWait }) {
  return (
    <li>
      <span className={css.swatch} data-kind={wait.kind} />
      <span className={css.number}>{formatDuration(wait.duration_ns)}</span>
      <span>
        {wait.words}
        <small>
          {kindLabel(wait.kind)}, from {formatDuration(wait.offset_ns)} on
          {wait.in_call && ", in a call of the request"}
          {wait.ready_ns > 0 && wait.kind !== "run-queue" && `, then ${formatDuration(wait.ready_ns)} ready`}
          {wait.kind !== "run-queue" && wait.ran_by && `, while ${wait.ran_by} ran`}
          <Other id={wait.woken_by_span} words="the request that ended it" />
          <Other id={wait.ran_by_span} words="the request that ran" />
        </small>
        <Stack of={wait} />
      </span>
    </li>
  );
}

/** Leads to the span of another request. */
function Other({ id, words }: { id: string | null | undefined; words: string }) {
  if (!id) {
    return null;
  }
  return (
    <>
      {", "}
      <Link href={href(`/trace/${id}`, new URLSearchParams({ span: id }))}>{words}</Link>
    </>
  );
}

/** In which code it waited: functions of the program, then of the kernel, each innermost first. */
function Stack({ of }: { of: SpanWait }) {
  if (of.stack.length + of.kernel_stack.length === 0) {
    return null;
  }
  return (
    <details>
      <summary>in {of.stack.length > 0 ? "this code" : "the kernel"}</summary>
      {of.stack.length > 0 && <pre>{of.stack.join("\n")}</pre>}
      {of.kernel_stack.length > 0 && <pre>{["kernel:", ...of.kernel_stack].join("\n")}</pre>}
    </details>
  );
}
