import { type ReactNode, useEffect } from "react";
import { useStatus } from "../../api/queries";
import type { StatusView } from "../../api/types";
import { formatAgo, formatExact, toMs } from "../../domain/time";
import { Failure, Loading } from "../../parts/Notice";
import css from "./StatusPage.module.css";

export function StatusPage() {
  const { data, error, refetch } = useStatus(true);
  useEffect(() => {
    document.title = "Status – wirespan";
  }, []);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading what="status" />;
  return <Shown status={data} />;
}

function Shown({ status }: { status: StatusView }) {
  const { store, agent } = status;
  const stages = agent.stages.filter((stage) => stage.counters.length > 0);
  const lost = stages
    .filter((stage) => stage.name !== "view")
    .flatMap(({ name, counters }) => counters.map((c) => ({ ...c, stage: name })))
    .filter((c) => c.loss && c.value > 0);
  const now = toMs(status.now_ns);
  return (
    <div className={css.page}>
      <h1>Status</h1>
      {store.stopped && (
        <p className={css.alarm} role="alert">
          The store is not writing: {store.stopped}
        </p>
      )}
      {agent.notes.length + store.damaged.length > 0 && (
        <ul className={css.notes} aria-label="Notes">
          {agent.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
          {store.damaged.map((file) => (
            <li key={file}>Damaged: {file}</li>
          ))}
        </ul>
      )}
      {agent.targets && (
        <p className={css.targets}>
          Traces <strong>{agent.targets}</strong>
        </p>
      )}
      <dl className={css.cards}>
        <Card name="wirespan">
          {status.version} <small>{agent.mode || "view only"}</small>
        </Card>
        <Card name="Spans in the store">{store.spans.toLocaleString("en")}</Card>
        <Card name="On disk">{formatSize(store.disk_bytes)}</Card>
        {agent.memory.resident > 0 && (
          <Card name="In memory">
            {formatSize(agent.memory.resident + agent.memory.kernel_tables + agent.memory.kernel_programs)}{" "}
            <small>{formatSize(agent.memory.kernel_tables + agent.memory.kernel_programs)} in the kernel</small>
          </Card>
        )}
        {store.newest_ns && (
          <Card name="Newest span">
            <time dateTime={formatExact(store.newest_ns)}>{formatAgo(store.newest_ns, now)}</time>
          </Card>
        )}
        {store.oldest_ns && (
          <Card name="Oldest span">
            <time dateTime={formatExact(store.oldest_ns)}>{formatAgo(store.oldest_ns, now)}</time>
          </Card>
        )}
        <Card name="Lost" bad={lost.length > 0}>
          {lost.length === 0 ? "nothing" : lost.reduce((sum, c) => sum + c.value, 0).toLocaleString("en")}
        </Card>
      </dl>
      {lost.length > 0 && (
        <ul className={css.notes} aria-label="Lost">
          {lost.map((c) => (
            <li key={`${c.stage} ${c.name}`}>
              {c.stage}: {c.name.replaceAll("_", " ")}: {c.value.toLocaleString("en")}
              {c.todo && `; ${c.todo}`}
            </li>
          ))}
        </ul>
      )}
      <details>
        <summary>Details: what each part counted</summary>
        <div className={css.stages}>
          {stages.map((stage) => (
            <section key={stage.name} className={css.stage}>
              <h2 id={`stage-${stage.name}`}>{stage.name}</h2>
              <table aria-labelledby={`stage-${stage.name}`}>
                <thead className="visually-hidden">
                  <tr>
                    <th>Counter</th>
                    <th>Since the start</th>
                  </tr>
                </thead>
                <tbody>
                  {stage.counters.map((counter) => (
                    <tr key={counter.name} data-loss={(counter.loss && counter.value > 0) || undefined}>
                      <th scope="row">{counter.name}</th>
                      <td>{counter.value.toLocaleString("en")}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          ))}
        </div>
      </details>
    </div>
  );
}

function Card({ name, bad, children }: { name: string; bad?: boolean; children: ReactNode }) {
  return (
    <div data-bad={bad || undefined}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function formatSize(bytes: number): string {
  if (bytes === 0) return "nothing";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}
