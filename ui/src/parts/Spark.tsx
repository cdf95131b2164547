import css from "./Spark.module.css";

interface Props {
  title: string;
  values: readonly number[];
  /** Drawn over the values, as a part of them: errors of calls. */
  over?: readonly number[];
  overTitle?: string;
  format: (value: number) => string;
  startMs: number;
  stepMs: number;
}

const WIDTH = 300;
const HEIGHT = 44;

/** A small chart of bars over time. Says its largest value, and each value where the pointer is. */
export function Spark({ title, values, over, overTitle, format, startMs, stepMs }: Props) {
  const top = Math.max(0, ...values, ...(over ?? []));
  const sum = over?.reduce((a, b) => a + b, 0) ?? 0;
  const width = WIDTH / Math.max(1, values.length);
  const overText = (count: number) => `${format(count)} ${overTitle ?? ""}`;
  const clock = (n: number) => new Date(startMs + n * stepMs).toLocaleTimeString("en-GB");
  const bars = (of: readonly number[], bad: boolean) =>
    of.map((value, n) => {
      if (value <= 0) return null;
      const height = Math.max(1.5, (value / top) * HEIGHT);
      // Steps of time have no other name than their place.
      const key = `${bad} ${n}`;
      return (
        <rect
          key={key}
          data-bad={bad || undefined}
          x={n * width}
          y={HEIGHT - height}
          width={Math.max(0.8, width - 0.8)}
          height={height}
        />
      );
    });
  return (
    <figure className={css.spark}>
      <figcaption>
        <span>
          {title}
          {sum > 0 && <span className={css.bad}> · {overText(sum)}</span>}
        </span>
        <span>{top > 0 ? `at most ${format(top)}` : "none"}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title} over time, ${top > 0 ? `at most ${format(top)}` : "none"}`}
      >
        {bars(values, false)}
        {over && bars(over, true)}
        {values.map((value, n) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: steps of time have no other name than their place
          <rect key={n} className={css.hit} x={n * width} y="0" width={width} height={HEIGHT}>
            <title>{`${clock(n)}: ${format(value)}${over?.[n] ? `, ${overText(over[n])}` : ""}`}</title>
          </rect>
        ))}
      </svg>
      <div className={css.times} aria-hidden="true">
        <span>{clock(0)}</span>
        <span>{clock(values.length)}</span>
      </div>
    </figure>
  );
}
