import { type FormEvent, type RefObject, useState } from "react";
import { useNames } from "../../api/queries";
import { type Filters, NO_FILTERS, narrows, RANGES, STATUSES } from "../../domain/filters";
import { setParams } from "../../routing/url";
import css from "./FilterBar.module.css";

interface Props {
  filters: Filters;
  change: (changes: Partial<Filters>) => void;
  queryBox: RefObject<HTMLInputElement | null>;
  live: boolean;
  busy: boolean;
  refresh: () => void;
}

/** Filters; texts take effect on Enter or when they lose the focus, choices at once. */
export function FilterBar({ filters, change, queryBox, live, busy, refresh }: Props) {
  const [draft, setDraft] = useState({ q: filters.q, operation: filters.operation, min: filters.min });
  const services = useNames("service").data?.values ?? [];
  const operations = useNames("operation").data?.values ?? [];
  const protocols = useNames("protocol").data?.values ?? [];
  const commit = () => {
    if (draft.q !== filters.q || draft.operation !== filters.operation || draft.min !== filters.min) change(draft);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (draft.q === filters.q && draft.operation === filters.operation && draft.min === filters.min) refresh();
    else commit();
  };
  return (
    <form className={css.bar} role="search" onSubmit={submit}>
      <label className={css.query}>
        <span className="visually-hidden">Query</span>
        <input
          aria-label="Query"
          ref={queryBox}
          type="text"
          value={draft.q}
          spellCheck={false}
          autoComplete="off"
          placeholder="service=cart status=error duration>10ms http.route=/checkout"
          onChange={(event) => setDraft({ ...draft, q: event.target.value })}
          onBlur={commit}
          onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        />
        <kbd>/</kbd>
      </label>
      <button type="submit" className={css.search} data-busy={busy || undefined}>
        Search
      </button>
      <div className={css.fields}>
        <Choice
          label="Service"
          value={filters.service}
          values={services}
          any="any"
          pick={(service) => change({ service })}
        />
        <label className={css.field}>
          <span>Operation</span>
          <input
            type="text"
            list="operations"
            value={draft.operation}
            placeholder="any"
            spellCheck={false}
            onChange={(event) => setDraft({ ...draft, operation: event.target.value })}
            onBlur={commit}
          />
          <datalist id="operations">
            {operations.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </label>
        <Choice
          label="Protocol"
          value={filters.protocol}
          values={protocols}
          any="any"
          pick={(protocol) => change({ protocol })}
        />
        <Choice
          label="Status"
          value={filters.status}
          values={STATUSES}
          any="any"
          pick={(status) => change({ status })}
        />
        <label className={css.field} data-narrow>
          <span>At least</span>
          <input
            type="text"
            value={draft.min}
            placeholder="10ms"
            onChange={(event) => setDraft({ ...draft, min: event.target.value })}
            onBlur={commit}
          />
        </label>
        <label className={css.field}>
          <span>Time</span>
          <select value={filters.range} onChange={(event) => change({ range: event.target.value })}>
            {RANGES.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label className={css.field}>
          <span>Order</span>
          <select value={filters.order} onChange={(event) => change({ order: event.target.value })}>
            <option value="newest">newest</option>
            <option value="slowest">slowest</option>
          </select>
        </label>
        {narrows(filters) && (
          <button
            type="button"
            className={css.clear}
            onClick={() => change({ ...NO_FILTERS, range: filters.range, order: filters.order })}
          >
            Clear
          </button>
        )}
        <button
          type="button"
          className={css.live}
          aria-pressed={live}
          onClick={() => setParams({ live: live ? "" : "1" })}
        >
          <span className={css.dot} aria-hidden="true" />
          Live
        </button>
      </div>
    </form>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  values: readonly string[];
  any: string;
  pick: (value: string) => void;
}

function Choice({ label, value, values, any, pick }: ChoiceProps) {
  // A value from the URL that the server does not know (any more) must still be shown as chosen.
  const all = value && !values.includes(value) ? [value, ...values] : values;
  return (
    <label className={css.field} data-set={value ? true : undefined}>
      <span>{label}</span>
      <select value={value} onChange={(event) => pick(event.target.value)}>
        <option value="">{any}</option>
        {all.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
