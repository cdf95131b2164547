import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { formatDuration, ticks } from "../../domain/duration";
import type { Row } from "../../domain/waterfall";
import css from "./Waterfall.module.css";
import { WaterfallRow } from "./WaterfallRow";

interface Props {
  rows: readonly Row[];
  totalNs: number;
  colours: ReadonlyMap<string, number>;
  cursor: number;
  selected: string;
  open: (id: string) => void;
  fold: (id: string, folded: boolean) => void;
}

const ROW_PX = 30;

/** The trace as a tree beside a time axis. Only the rows in sight exist. */
export function Waterfall({ rows, totalNs, colours, cursor, selected, open, fold }: Props) {
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
  const marks = ticks(totalNs, 6);
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
        <div role="columnheader" className={css.right} title="Time from the parent's observation point to this one, and back">
          Hop ↓ ↑
        </div>
        <div role="columnheader" className={css.axis} aria-label="Time">
          {marks.map((ns) => (
            <span key={ns} style={{ left: `${(ns / Math.max(1, totalNs)) * 100}%` }}>
              {formatDuration(ns)}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className={css.body} style={{ height: virtual.getTotalSize() }}>
        <div className={css.grid} aria-hidden="true">
          {marks.map((ns) => (
            <span key={ns} style={{ left: `${(ns / Math.max(1, totalNs)) * 100}%` }} />
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
                totalNs={totalNs}
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
