import { memo } from "react";
import { formatDuration } from "../../domain/duration";
import { tapLabel, tapWords } from "../../domain/evidence";
import { housekeeping, statement } from "../../domain/housekeeping";
import { parts } from "../../domain/parts";
import { device, hopText, isNetworkTap, place, type Row, type TimeWindow } from "../../domain/waterfall";
import { hueStyle } from "../../parts/Service";
import { Evidence } from "./Evidence";
import { PartsBar } from "./Parts";
import css from "./WaterfallRow.module.css";

interface Props {
  row: Row;
  top: number;
  rowIndex: number;
  window: TimeWindow;
  hue: number;
  current: boolean;
  selected: boolean;
  open: (id: string) => void;
  fold: (id: string, folded: boolean) => void;
}

/** Steps of indent that are drawn; deeper rows say their depth instead of leaving the column. */
const MAX_INDENT = 16;

export const WaterfallRow = memo(function WaterfallRow({
  row,
  top,
  rowIndex,
  window,
  hue,
  current,
  selected,
  open,
  fold,
}: Props) {
  const { item, depth, children, collapsed, below, hop } = row;
  const { span } = item;
  const bar = place(item, window);
  const driver = housekeeping(span);
  const network = isNetworkTap(span.tap);
  const where = parts(span);
  const end = bar.left + bar.width;
  const way = hop && hopText(hop, formatDuration);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the page handles keys for the row with the cursor
    <div
      id={`span-${span.id}`}
      className={`service-colour ${css.row}`}
      style={{ ...hueStyle(hue), transform: `translateY(${top}px)` }}
      role="row"
      tabIndex={-1}
      aria-level={depth + 1}
      aria-rowindex={rowIndex}
      aria-expanded={children > 0 ? !collapsed : undefined}
      aria-selected={selected}
      data-current={current || undefined}
      data-error={span.error || undefined}
      data-network={network || undefined}
      onClick={() => open(span.id)}
    >
      <div role="gridcell" className={css.name} style={{ paddingLeft: `${Math.min(depth, MAX_INDENT) * 16 + 6}px` }}>
        {Array.from({ length: Math.min(depth, MAX_INDENT) }, (_, step) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a guide is its step
          <span key={step} className={css.guide} style={{ left: `${step * 16 + 14}px` }} />
        ))}
        {children > 0 ? (
          <button
            type="button"
            className={css.fold}
            tabIndex={-1}
            aria-label={collapsed ? `Expand ${below} spans` : "Collapse"}
            onClick={(event) => {
              event.stopPropagation();
              fold(span.id, !collapsed);
            }}
          >
            {collapsed ? "▸" : "▾"}
          </button>
        ) : (
          <span className={css.leaf} />
        )}
        <span className={css.swatch} />
        {span.error && (
          <span className={css.bad} role="img" aria-label={`error: ${span.status}`} title={span.status}>
            !
          </span>
        )}
        <span className={css.service}>{span.service || (network ? device(span) : span.protocol)}</span>
        <span className={css.text} title={statement(span)}>
          {span.name}
        </span>
        {driver && (
          <span className={css.driver} role="img" aria-label={driver.words} title={driver.words}>
            ⚙ {driver.count}
          </span>
        )}
        {span.waits_for_work && (
          <span className={css.driver} title="It waits for work by its nature: how long it takes is no speed">
            waits for work
          </span>
        )}
        {collapsed && (
          <span className={css.below} data-error={row.hiddenError || undefined}>
            +{below}
          </span>
        )}
        <span className={css.badges}>
          <span className={css.tap} title={tapWords(span.tap)}>
            {tapLabel(span.tap)}
          </span>
          {item.parent && <Evidence link={item.parent} />}
        </span>
      </div>
      <div role="gridcell" className={css.hop} title={way?.words}>
        {way?.short}
      </div>
      <div role="gridcell" className={css.time}>
        {bar.hidden === null && (
          <span className={css.track}>
            <span
              className={css.bar}
              data-unanswered={span.response_ns === undefined && span.status === "no-response" ? true : undefined}
              style={{ left: `${bar.left}%`, width: `max(2px, ${bar.width}%)` }}
            >
              {bar.response !== null && <span className={css.wait} style={{ width: `${bar.response}%` }} />}
              {where.length > 0 && (
                <span className={css.parts}>
                  <PartsBar list={where} />
                </span>
              )}
            </span>
          </span>
        )}
        <span
          className={css.label}
          data-hidden={bar.hidden ?? undefined}
          style={{ left: `calc(${Math.min(100, Math.max(0, end))}% + 6px)` }}
        >
          {bar.hidden === "before" && "◂ "}
          {formatDuration(span.duration_ns)}
          {bar.hidden === "after" && " ▸"}
        </span>
      </div>
    </div>
  );
});
