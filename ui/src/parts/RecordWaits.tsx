import { type FormEvent, useEffect, useState } from "react";
import { ApiProblem } from "../api/client";
import type { Recording, WhySlow } from "../api/types";
import { useAskAnew, useWhyOrder } from "../api/why";
import { toMs } from "../domain/time";
import { agentsWords, recordingOf } from "../domain/why";
import css from "./RecordWaits.module.css";

const TIMES = [
  ["10s", "10 seconds"],
  ["30s", "30 seconds"],
  ["60s", "1 minute"],
  ["5m", "5 minutes"],
  ["30m", "30 minutes"],
] as const;
/** The last requests are in the store so much later: of this machine, or of a fleet. */
const SETTLE_MS = 4500;

interface Props {
  /** The service; empty: it must be chosen first. */
  service: string;
  endpoint: string;
  now: WhySlow;
}

/** Orders that what slow requests wait for is recorded for a time, and shows that it runs. */
export function RecordWaits({ service, endpoint, now }: Props) {
  const order = useWhyOrder();
  const [asked, setAsked] = useState({ endpoint, threshold: "auto", time: "60s" });
  const running =
    recordingOf(now.recording, service, asked.endpoint.trim()) ?? now.recording.find((one) => one.service === service);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    order.mutate({ service, endpoint: asked.endpoint.trim(), threshold: asked.threshold.trim(), for: asked.time });
  };
  if (running) {
    const end = () => order.mutate({ service, endpoint: running.endpoint, end: true });
    return <Running key={running.until_ns} of={running} nowNs={now.now_ns} end={end} agents={order.data?.agents} />;
  }
  if (!now.takes_orders) {
    return <p>Here is no wirespan that traces: ask one on the machine of the service, or a server with agents.</p>;
  }
  if (!service) return <p>Choose a service to record what its slow requests wait for.</p>;
  const problem = order.error instanceof ApiProblem ? order.error.problem : null;
  const none = order.data?.processes === 0;
  return (
    <form className={css.order} aria-label="Record waits" onSubmit={submit}>
      <label>
        Endpoint
        <input
          value={asked.endpoint}
          placeholder="all"
          spellCheck={false}
          onChange={(event) => setAsked({ ...asked, endpoint: event.target.value })}
        />
      </label>
      <label>
        Slow from
        <input
          className={css.short}
          value={asked.threshold}
          list="thresholds"
          spellCheck={false}
          title="50ms, or auto: longer than most requests of the endpoint"
          aria-invalid={problem?.param === "threshold" || undefined}
          onChange={(event) => setAsked({ ...asked, threshold: event.target.value })}
        />
        <datalist id="thresholds">
          {["auto", "10ms", "50ms", "200ms", "1s"].map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      </label>
      <label>
        For
        <select value={asked.time} onChange={(event) => setAsked({ ...asked, time: event.target.value })}>
          {TIMES.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <button type="submit" className={css.primary} disabled={order.isPending}>
        Record what slow requests of {service} wait for
      </button>
      {order.error && (
        <p role="alert" className={css.bad}>
          {order.error.message}
          {problem?.hint && ` – ${problem.hint}`}
        </p>
      )}
      {none && (order.data?.agents ?? []).length > 0 && (
        <p role="alert" className={css.bad}>
          No agent records it: {agentsWords(order.data?.agents ?? []).join("; ")}
        </p>
      )}
      <small>
        Meanwhile each switch of threads on its machine takes a little longer; other services record nothing.
      </small>
    </form>
  );
}

interface RunningProps {
  of: Recording;
  nowNs: string;
  end: () => void;
  agents: Parameters<typeof agentsWords>[0] | undefined;
}

/** Counts the time down, and asks for the result once the last requests have come. */
function Running({ of, nowNs, end, agents }: RunningProps) {
  const askAnew = useAskAnew();
  // By the server's clock: that of the browser may be another.
  const [endsMs] = useState(() => Date.now() + toMs(of.until_ns) - toMs(nowNs));
  const [left, setLeft] = useState(() => endsMs - Date.now());
  useEffect(() => {
    const clock = setInterval(() => setLeft(endsMs - Date.now()), 250);
    return () => clearInterval(clock);
  }, [endsMs]);
  useEffect(
    () => () => {
      setTimeout(askAnew, SETTLE_MS);
    },
    [askAnew],
  );
  const slow = of.threshold === "auto" ? "take longer than most" : `take ${of.threshold} or more`;
  return (
    <div className={css.running} role="status">
      <p>
        Records what requests of {of.service} {of.endpoint && `to ${of.endpoint} `}wait for that {slow}.
      </p>
      <p className={css.left}>
        <strong>{Math.max(0, Math.ceil(left / 1000))} s</strong> left
        <button type="button" onClick={end}>
          End it now
        </button>
      </p>
      {agents && agents.length > 0 && <small>{agentsWords(agents).join("; ")}</small>}
    </div>
  );
}
