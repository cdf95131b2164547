import { type FormEvent, type KeyboardEvent, type ReactNode, useState } from "react";
import { ApiProblem } from "../../api/client";
import { programOf, type Subject } from "../../domain/packetProgram";
import { setParams, useUrl } from "../../routing/url";
import css from "./PacketsPage.module.css";

const EXAMPLE = `filter: {protocol: tcp, port: 8080}
action: [latency, drops, count]
for: 60s
`;

const SUBJECTS = [
  ["service", "Service", "shop"],
  ["endpoint", "Endpoint", "/pay"],
  ["trace", "or trace", "id of a trace or span"],
] as const;

export interface ProgramFormProps {
  readonly now: { readonly state: string; readonly program: string };
  readonly order: {
    /** An empty program ends the one that runs. */
    readonly give: (program: string, done?: () => void) => void;
    readonly isPending: boolean;
    readonly error: Error | null;
  };
  /** What else there is to choose. */
  readonly children?: ReactNode;
}

/** The program: runs it, changes the one that runs, ends it. */
export function ProgramForm({ now, order, children }: ProgramFormProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const running = now.state === "running";
  const { search } = useUrl();
  const named = (key: string) => search.get(key) ?? "";
  const subject: Subject = { trace: named("trace"), service: named("service"), endpoint: named("endpoint") };
  const text = draft ?? programOf(subject) ?? (now.program || EXAMPLE);
  const same = running && text === now.program;
  const run = () => {
    if (!same && text.trim()) order.give(text, () => setDraft(null));
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    run();
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  };
  const problem = order.error instanceof ApiProblem ? order.error.problem : null;
  return (
    <form className={css.form} onSubmit={submit}>
      <fieldset className={css.subject}>
        <legend>Packets from and to the servers of</legend>
        {SUBJECTS.map(([key, label, example]) => (
          <label key={key}>
            {label}
            <input
              value={subject[key]}
              placeholder={example}
              spellCheck={false}
              autoCapitalize="off"
              onChange={(event) => {
                setDraft(null);
                setParams({ [key]: event.target.value });
              }}
            />
          </label>
        ))}
      </fieldset>
      {children}
      <label htmlFor="program">Program (YAML)</label>
      <textarea
        id="program"
        rows={Math.min(16, Math.max(5, text.split("\n").length))}
        spellCheck={false}
        autoCapitalize="off"
        value={text}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={press}
        aria-invalid={order.error ? true : undefined}
        aria-describedby={order.error ? "program-error" : undefined}
      />
      <p className={css.buttons}>
        <button type="submit" className={css.primary} disabled={order.isPending || same || !text.trim()}>
          {running ? "Change" : "Run"}
        </button>
        {running && (
          <button type="button" onClick={() => order.give("")} disabled={order.isPending}>
            End
          </button>
        )}
        <small>Ctrl+Enter runs it, too.</small>
        <small>
          Keys: <code>filter</code>, <code>where</code>, <code>action</code>, <code>by</code>, <code>for</code>,{" "}
          <code>at_most</code>
        </small>
      </p>
      {order.error && (
        <p id="program-error" className={css.alarm} role="alert">
          {order.error.message}
          {problem?.hint && ` – ${problem.hint}`}
        </p>
      )}
    </form>
  );
}
