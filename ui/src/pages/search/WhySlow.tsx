import { useState } from "react";
import type { Slow, SlowSpent, SlowWait, SlowWaits } from "../../api/types";
import { useWhy } from "../../api/why";
import { formatDuration } from "../../domain/duration";
import { type Filters, toApi } from "../../domain/filters";
import { partLabel } from "../../domain/parts";
import { kindLabel } from "../../domain/waits";
import { sidesWords } from "../../domain/why";
import { Failure, Loading } from "../../parts/Notice";
import { RecordWaits } from "../../parts/RecordWaits";
import { Link } from "../../routing/Link";
import { Code } from "./Code";
import css from "./WhySlow.module.css";

/** Requests that are looked at. */
const LIMIT = "5000";
/** Groups of waits told at once; a button shows the others. */
const TOLD = 6;

/** Why the requests that meet the filters are slow: their waits beside those of usual ones, and the code. */
export function WhySlow({ filters, endpoint }: { filters: Filters; endpoint: string }) {
  const params = { ...toApi({ ...filters, order: "newest" }), limit: LIMIT };
  const { data, error, refetch } = useWhy(params);
  const [asks, setAsks] = useState(false);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading what="reasons" />;
  const { compared } = data;
  const unknown = !compared?.waits;
  return (
    <div className={css.both}>
      <section className={css.why} aria-label="Why slow">
        <h2>Why slow</h2>
        {!compared && (
          <p>
            {data.requests === 0 ? "No request" : `Only ${data.requests} of these requests`} of these conditions says
            where its time went: too few to compare.
          </p>
        )}
        {compared && <Words of={compared} />}
        {compared?.waits && <Ranked of={compared.waits} />}
        {compared && <Parts of={compared} />}
        {unknown && (
          <p className={css.unknown}>
            What slow requests wait for was not recorded: {data.recorded} of {data.requests} requests have their waits.
          </p>
        )}
        {unknown || asks || data.recording.length > 0 ? (
          <RecordWaits
            key={`${filters.service} ${endpoint}`}
            service={filters.service}
            endpoint={endpoint}
            now={data}
          />
        ) : (
          <p>
            <button type="button" className={css.button} onClick={() => setAsks(true)}>
              Record more
            </button>
          </p>
        )}
      </section>
      <Code filters={filters} />
    </div>
  );
}

function Words({ of }: { of: Slow }) {
  return (
    <>
      <p className={css.sides}>
        {sidesWords(of)} {formatDuration(of.slow.mean_ns)} on average, not {formatDuration(of.usual.mean_ns)}.{" "}
        <Link href={`/trace/${of.slowest}?span=${of.slowest}`}>The slowest</Link>
      </p>
      <ul className={css.words} aria-label="In words">
        {of.words.map((words) => (
          <li key={words}>{words}</li>
        ))}
        {of.words.length === 0 && <li>Nothing has grown so much that it says why.</li>}
      </ul>
    </>
  );
}

function Head({ what }: { what: string }) {
  return (
    <thead>
      <tr>
        <th scope="col">More</th>
        <th scope="col">Slow</th>
        <th scope="col">Usual</th>
        <th scope="col">{what}</th>
      </tr>
    </thead>
  );
}

const grown = (ns: number) => (ns > 0 ? `+${formatDuration(ns)}` : formatDuration(ns));

/** The groups of waits: what has grown most first. */
function Ranked({ of }: { of: SlowWaits }) {
  const [all, setAll] = useState(false);
  const told = all ? of.ranked : of.ranked.slice(0, TOLD);
  const most = Math.max(1, ...of.ranked.map((wait) => Math.abs(wait.more_ns)));
  return (
    <>
      <table className={css.ranked} aria-label="Waits">
        <Head what="What they wait for" />
        <tbody>
          {told.map((wait) => (
            <Row key={`${wait.words} ${wait.stack.join()} ${wait.more_ns}`} of={wait} most={most} waits={of} />
          ))}
        </tbody>
      </table>
      {of.ranked.length > told.length && (
        <button type="button" className={css.button} onClick={() => setAll(true)}>
          {of.ranked.length - told.length} that have grown less
        </button>
      )}
      {of.usual_spans === 0 && (
        <p>The waits of usual requests were not recorded: the difference is at least so much.</p>
      )}
    </>
  );
}

function Row({ of, most, waits }: { of: SlowWait; most: number; waits: SlowWaits }) {
  return (
    <tr>
      <td>
        <strong>
          {!of.usual && "≥ "}
          {grown(of.more_ns)}
        </strong>
        <span className={css.bar} data-less={of.more_ns < 0 || undefined}>
          <span data-kind={of.kind} style={{ width: `${(Math.abs(of.more_ns) / most) * 100}%` }} />
        </span>
      </td>
      <Spent of={of.slow} all={waits.slow_spans} />
      {of.usual ? <Spent of={of.usual} all={waits.usual_spans} /> : <td>not known</td>}
      <td className={css.what}>
        <span>{of.words}</span>
        <small>
          {kindLabel(of.kind)}
          {of.in_call && ", in a call of the request"}
        </small>
        {of.stack.length > 0 && (
          <details>
            <summary>in {of.place || of.stack[0]}</summary>
            <pre>{of.stack.join("\n")}</pre>
          </details>
        )}
      </td>
    </tr>
  );
}

/** The mean; below it the median, and how many requests have such a wait. */
function Spent({ of, all }: { of: SlowSpent; all: number }) {
  return (
    <td title={`${of.waits} waits`}>
      {formatDuration(of.mean_ns)}
      <small>median {formatDuration(of.median_ns)}</small>
      <small>
        in {of.spans} of {all}
      </small>
    </td>
  );
}

function Parts({ of }: { of: Slow }) {
  const parts = [...of.parts].sort((a, b) => b.slow_ns - b.usual_ns - (a.slow_ns - a.usual_ns));
  return (
    <table className={css.parts} aria-label="Where the time goes">
      <Head what="Where the time goes" />
      <tbody>
        {parts.map((part) => (
          <tr key={part.key}>
            <td>{grown(part.slow_ns - part.usual_ns)}</td>
            <td>{formatDuration(part.slow_ns)}</td>
            <td>{formatDuration(part.usual_ns)}</td>
            <td>{partLabel(part.key)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
