import { useEffect, useRef, useState } from "react";
import { ApiProblem } from "../../api/client";
import { useStatus, useTraces } from "../../api/queries";
import type { TraceSummary } from "../../api/types";
import { type Filters, NO_FILTERS, narrows, readFilters, writeFilters } from "../../domain/filters";
import { Failure, Loading, Notice } from "../../parts/Notice";
import { useKeys } from "../../routing/keys";
import { go, href, setParams, useUrl } from "../../routing/url";
import { Code } from "./Code";
import { FilterBar } from "./FilterBar";
import { QueryProblem } from "./QueryProblem";
import { Scatter } from "./Scatter";
import css from "./SearchPage.module.css";
import { TraceRows } from "./TraceRows";
import { WhySlow } from "./WhySlow";

export function SearchPage() {
  const { search } = useUrl();
  const filters = readFilters(search);
  const live = search.get("live") === "1";
  const code = search.get("code") === "1";
  const why = search.get("why") === "1";
  const { data, error, isFetching, isPlaceholderData, refetch } = useTraces(filters, live);
  const queryBox = useRef<HTMLInputElement>(null);
  const [cursor, setCursor] = useState(-1);
  // While a new answer is on its way the old list is still shown, but leads nowhere.
  const traces = isPlaceholderData ? [] : (data?.traces ?? []);
  const shown = data?.traces ?? [];
  const at = Math.min(cursor, traces.length - 1);

  const change = (changes: Partial<Filters>) => {
    setCursor(-1);
    go(href("/", writeFilters(new URLSearchParams(window.location.search), { ...filters, ...changes })));
  };
  const move = (step: number) => setCursor(Math.max(0, Math.min(traces.length - 1, at + step)));
  useKeys({
    "j ArrowDown": () => move(1),
    "k ArrowUp": () => move(-1),
    Enter: () => open(traces[at]),
    "/": () => queryBox.current?.focus(),
    r: () => void refetch(),
    l: () => setParams({ live: live ? "" : "1" }),
  });
  useEffect(() => {
    document.title = filters.service ? `${filters.service} – wirespan` : "wirespan";
  }, [filters.service]);

  const problem = error instanceof ApiProblem && error.problem.code === "bad_query" ? error.problem : null;
  return (
    <div className={css.page}>
      <h1 className="visually-hidden">Search for traces</h1>
      <FilterBar
        key={JSON.stringify(filters)}
        filters={filters}
        change={change}
        queryBox={queryBox}
        live={live}
        busy={isFetching}
        refresh={() => void refetch()}
      />
      {problem && <QueryProblem problem={problem} text={problem.param === "q" ? filters.q : ""} />}
      {error && !problem && <Failure error={error} retry={() => void refetch()} />}
      {!error && !data && <Loading what="traces" />}
      {!error && data && shown.length === 0 && <Nothing filters={filters} change={change} />}
      {!error && data && shown.length > 0 && (
        <div className={css.results} inert={isPlaceholderData} aria-busy={isPlaceholderData}>
          <Scatter traces={shown} selected={traces[at]?.id} />
          <p className={css.count} role="status">
            {shown.length === 1 ? "1 trace" : `${shown.length} traces`}
            {data.limited && ", and more: narrow the search to see them"}
            <span className={css.views}>
              <button
                type="button"
                className={css.button}
                aria-pressed={why}
                onClick={() => setParams({ why: why ? "" : "1" })}
              >
                Why slow
              </button>
              <button
                type="button"
                className={css.button}
                aria-pressed={code}
                onClick={() => setParams({ code: code ? "" : "1" })}
              >
                In which code
              </button>
            </span>
            <span className={css.keys}>
              <kbd>j</kbd> <kbd>k</kbd> choose, <kbd>Enter</kbd> open, <kbd>/</kbd> query, <kbd>l</kbd> live
            </span>
          </p>
          {why && <WhySlow filters={filters} endpoint={search.get("endpoint") ?? ""} />}
          {code && !why && <Code filters={filters} />}
          <TraceRows traces={shown} cursor={at} />
        </div>
      )}
    </div>
  );
}

/** Where a trace is shown: with the span that matched, if it is not the root. */
export function traceHref(trace: TraceSummary): string {
  const matched = trace.matched[0];
  const span = matched && matched !== trace.root_id ? `?span=${matched}` : "";
  return `/trace/${trace.id}${span}`;
}

function open(trace: TraceSummary | undefined): void {
  if (trace) go(traceHref(trace));
}

function Nothing({ filters, change }: { filters: Filters; change: (changes: Partial<Filters>) => void }) {
  const status = useStatus();
  if (!status.data) return <Loading what="status" />;
  const { store } = status.data;
  if (store.stopped) {
    return (
      <Notice title="The store is not writing" tone="bad">
        <p>{store.stopped}</p>
      </Notice>
    );
  }
  if (store.spans === 0) {
    return (
      <Notice title="No spans yet">
        <p>Nothing was traced since this store was made. Trace a command and everything that it starts:</p>
        <pre>wirespan run -- curl http://localhost:8080/</pre>
        <p>
          or the services of this machine that you choose with <code>wirespan up</code>. What this kernel allows:{" "}
          <code>wirespan check</code>.
        </p>
      </Notice>
    );
  }
  return (
    <Notice title="No trace matches">
      <p>The store holds {store.spans.toLocaleString("en")} spans, but none that meets every condition.</p>
      {filters.range !== "all" && (
        <button type="button" className={css.button} onClick={() => change({ range: "all" })}>
          Search all time
        </button>
      )}
      {narrows(filters) && (
        <button type="button" className={css.button} onClick={() => change({ ...NO_FILTERS, range: filters.range })}>
          Clear the filters
        </button>
      )}
    </Notice>
  );
}
