import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { formatDuration, ticksBetween } from "../../domain/duration";
import type { Row, TimeWindow } from "../../domain/waterfall";
import css from "./Waterfall.module.css";
import { WaterfallRow } from "./WaterfallRow";

interface Props {
  rows: readonly Row[];
  window: TimeWindow;
  colours: ReadonlyMap<string, number>;
  cursor: number;
  selected: string;
  open: (id: string) => void;
  fold: (id: string, folded: boolean) => void;
}

const ROW_PX = 30;

/** The trace as a tree beside a time axis. Only the rows in sight exist. */
export function Waterfall({ rows, window, colours, cursor, selected, open, fold }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => rows[index]?.item.span.id ?? index,
    overscan: 16,
  });
  useEffect(() => {
    virtual.scrollToIndex(cursor, { align: "auto" });
  }, [cursor, virtual]);
  const current = rows[cursor];
  const marks = ticksBetween(window.from, window.to, 6);
  const left = (ns: number) => `${((ns - window.from) / (window.to - window.from)) * 100}%`;
  return (
    <div
      ref={scroller}
      className={css.scroller}
      role="treegrid"
      aria-label="Spans of the trace"
      aria-rowcount={rows.length + 1}
      aria-activedescendant={current ? `span-${current.item.span.id}` : undefined}
      tabIndex={0}
    >
      <div className={css.head} role="row" aria-rowindex={1} tabIndex={-1}>
        <div role="columnheader">Span</div>
        <div
          role="columnheader"
          className={css.right}
          title="Time from the parent's observation point to this one, and back"
        >
          Hop ↓ ↑
        </div>
        <div role="columnheader" className={css.axis} aria-label="Time">
          {marks.map((ns) => (
            <span key={ns} style={{ left: left(ns) }}>
              {formatDuration(ns)}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className={css.body} style={{ height: virtual.getTotalSize() }}>
        <div className={css.grid} aria-hidden="true">
          {marks.map((ns) => (
            <span key={ns} style={{ left: left(ns) }} />
          ))}
        </div>
        {virtual.getVirtualItems().map((place) => {
          const row = rows[place.index];
          return (
            row && (
              <WaterfallRow
                key={place.key}
                row={row}
                top={place.start}
                rowIndex={place.index + 2}
                window={window}
                hue={colours.get(row.item.span.service) ?? 195}
                current={place.index === cursor}
                selected={row.item.span.id === selected}
                open={open}
                fold={fold}
              />
            )
          );
        })}
      </div>
    </div>
  );
}
