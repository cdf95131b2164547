import { useCallback, useEffect, useMemo, useState } from "react";
import { useHues, useTrace } from "../../api/queries";
import type { TraceView } from "../../api/types";
import {
  ancestors,
  around,
  foldable,
  isNetworkTap,
  readWindow,
  rows,
  type TimeWindow,
  tree,
} from "../../domain/waterfall";
import { Failure, Loading } from "../../parts/Notice";
import { useKeys } from "../../routing/keys";
import { setParams, useUrl } from "../../routing/url";
import { Minimap } from "./Minimap";
import { SpanPanel } from "./SpanPanel";
import { TraceHeader } from "./TraceHeader";
import css from "./TracePage.module.css";
import { Waterfall } from "./Waterfall";

export function TracePage({ id }: { id: string }) {
  const { data, error, refetch } = useTrace(id);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading what="the trace" />;
  return <Loaded trace={data} />;
}

function Loaded({ trace }: { trace: TraceView }) {
  const { search } = useUrl();
  const selected = search.get("span") ?? "";
  const hideNetwork = search.get("net") === "0";
  const t = useMemo(() => tree(trace), [trace]);
  const colours = useHues(useMemo(() => trace.services.map((s) => s.service), [trace]));
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  const [cursorId, setCursorId] = useState(selected || (trace.spans[0]?.span.id ?? ""));
  const visible = useMemo(() => rows(t, collapsed, hideNetwork), [t, collapsed, hideNetwork]);
  const found = visible.findIndex((row) => row.item.span.id === cursorId);
  const cursor = Math.max(found, 0);

  // A span that is linked to must be seen: what folds it away is opened.
  useEffect(() => {
    if (!selected) return;
    setCursorId(selected);
    const above = ancestors(t, selected);
    setCollapsed((old) =>
      above.some((id) => old.has(id)) ? new Set([...old].filter((id) => !above.includes(id))) : old,
    );
  }, [selected, t]);

  const fold = useCallback((id: string, folded: boolean) => {
    setCollapsed((old) => {
      const next = new Set(old);
      if (folded) next.add(id);
      else next.delete(id);
      return next;
    });
  }, []);
  const place = (index: number) => {
    const row = visible[Math.max(0, Math.min(visible.length - 1, index))];
    if (!row) return;
    setCursorId(row.item.span.id);
    if (selected) setParams({ span: row.item.span.id });
  };
  const zoomed = search.get("zoom") ?? "";
  const part = useMemo(() => readWindow(zoomed, trace.duration_ns), [zoomed, trace]);
  const zoom = (to: TimeWindow | null) => setParams({ zoom: to ? `${Math.floor(to.from)}-${Math.ceil(to.to)}` : "" });
  const row = visible[cursor];
  const toParent = () => {
    const parent = row?.item.parent?.span_id;
    const at = visible.findIndex((other) => other.item.span.id === parent);
    if (at >= 0) place(at);
  };
  useKeys({
    "j ArrowDown": () => place(cursor + 1),
    "k ArrowUp": () => place(cursor - 1),
    PageDown: () => place(cursor + 20),
    PageUp: () => place(cursor - 20),
    Home: () => place(0),
    End: () => place(visible.length - 1),
    "l ArrowRight": () =>
      row && (row.collapsed ? fold(row.item.span.id, false) : row.children > 0 && place(cursor + 1)),
    "h ArrowLeft": () => row && (row.children > 0 && !row.collapsed ? fold(row.item.span.id, true) : toParent()),
    "Enter Space": () => row && setParams({ span: row.item.span.id }, false),
    Escape: () => setParams({ span: "" }),
    z: () => row && zoom(around(row.item, trace.duration_ns)),
    "0": () => zoom(null),
    e: () => {
      const next = visible.findIndex((other, at) => at > cursor && (other.item.span.error || other.hiddenError));
      place(next >= 0 ? next : visible.findIndex((other) => other.item.span.error || other.hiddenError));
    },
  });

  const index = t.byId.get(selected);
  const item = index === undefined ? undefined : trace.spans[index];
  const parent = item ? trace.spans[t.parents[index ?? -1] ?? -1] : undefined;
  return (
    <div className={css.page} data-panel={item ? true : undefined}>
      <div className={css.top}>
        <TraceHeader
          trace={trace}
          colours={colours}
          hideNetwork={hideNetwork}
          hasNetwork={trace.spans.some((s) => isNetworkTap(s.span.tap))}
          anyCollapsed={collapsed.size > 0}
          zoomed={zoomed !== ""}
          resetZoom={() => zoom(null)}
          toggleNetwork={() => setParams({ net: hideNetwork ? "" : "0" })}
          toggleAll={() => setCollapsed(collapsed.size > 0 ? new Set() : new Set(foldable(t)))}
        />
        <Minimap trace={trace} colours={colours} window={part} zoom={zoom} />
      </div>
      <Waterfall
        rows={visible}
        window={part}
        colours={colours}
        cursor={cursor}
        selected={selected}
        open={(id) => {
          setCursorId(id);
          setParams({ span: id }, !!selected);
        }}
        fold={fold}
      />
      {item && (
        <SpanPanel
          item={item}
          parent={parent}
          trace={trace}
          hue={colours.get(item.span.service)}
          close={() => setParams({ span: "" })}
          show={(span) => setParams({ span }, false)}
        />
      )}
    </div>
  );
}
