import { type ReactNode, useState } from "react";
import type { SpanView, TraceSpan, TraceView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { explain, formatConfidence, tapWords } from "../../domain/evidence";
import { condition } from "../../domain/filters";
import { corrected, stops } from "../../domain/hops";
import { parts } from "../../domain/parts";
import { formatExact } from "../../domain/time";
import { timeWords } from "../../domain/times";
import { whySearch } from "../../domain/why";
import { Copy } from "../../parts/Copy";
import { Flame } from "../../parts/Flame";
import { Service } from "../../parts/Service";
import { Way } from "../../parts/Way";
import { Link } from "../../routing/Link";
import { href } from "../../routing/url";
import { Evidence } from "./Evidence";
import { Messages } from "./Messages";
import { NoWaits } from "./NoWaits";
import { PartsList } from "./Parts";
import { SdkEvents, SdkLinks } from "./SdkTold";
import css from "./SpanPanel.module.css";
import { SystemCalls } from "./SystemCalls";
import { Waits } from "./Waits";

interface Props {
  item: TraceSpan;
  parent: TraceSpan | undefined;
  trace: TraceView;
  hue: number | undefined;
  close: () => void;
  show: (id: string) => void;
}

/** Everything that is known about a span. */
export function SpanPanel({ item, parent, trace, hue, close, show }: Props) {
  const { span } = item;
  const where = parts(span);
  const way = stops(trace, item, formatDuration);
  const clock = corrected(span, formatDuration);
  const network = networkFacts(span);
  const children = trace.spans.filter((other) => other.parent?.span_id === span.id);
  return (
    <aside className={css.panel} aria-label={`Span ${span.name}`}>
      <header className={css.header}>
        <div>
          {span.service && <Service name={span.service} hue={hue} />}
          <h2>{span.name}</h2>
        </div>
        <button type="button" className={css.close} onClick={close} aria-label="Close the span's details">
          ✕
        </button>
      </header>
      <div className={css.actions}>
        <Copy label="Copy link" text={() => window.location.href} />
        <Copy label="Copy JSON" text={() => JSON.stringify(item, null, 2)} />
        <Copy label="Copy id" text={() => span.id} />
      </div>

      <p className={css.status} data-error={span.error || undefined}>
        <strong>{span.status}</strong>
        {span.status_code !== undefined && span.status_code !== null && <span> {span.status_code}</span>}
        {span.error_text && <span>: {span.error_text}</span>}
      </p>

      {item.told && item.told.events.length + item.told.events_left_out > 0 && (
        <Section title={`Events (${item.told.events.length})`}>
          <SdkEvents of={item.told} />
        </Section>
      )}

      <Section title="Time">
        <Facts
          rows={[
            ["Duration", formatDuration(span.duration_ns)],
            ...firstByte(item),
            ["Since the trace began", formatDuration(item.offset_ns)],
            ["Start", formatExact(span.start_ns)],
            ...(clock ? [["Clock of its host", clock] as const] : []),
            ...hopFacts(item, parent),
          ]}
        />
      </Section>

      {where.length > 0 && (
        <Section title="Where the time went">
          <PartsList list={where} waitsSayMore={Boolean(item.waits)} />
        </Section>
      )}

      {item.waits ? (
        <Section title="What it waited for">
          <Waits of={item.waits} durationNs={span.duration_ns} />
          <p className={css.words}>
            <Link href={href("/", whySearch(span))}>Why requests like this are slow</Link>
          </p>
        </Section>
      ) : (
        isServed(span) && (
          <Section title="What it waited for">
            <NoWaits span={span} />
          </Section>
        )
      )}

      {item.syscalls && (
        <Section title="System calls">
          <SystemCalls of={item.syscalls} />
        </Section>
      )}

      {item.waits && item.waits.flame.length > 0 && (
        <Section title="In which code">
          <Flame boxes={item.waits.flame} />
        </Section>
      )}

      {way.length > 0 && (
        <Section title="Way of the request">
          <Way points={way} current={span.id} show={show} />
        </Section>
      )}

      <Section title={item.parent ? "Why it is here" : "Where it comes from"}>
        <p className={css.words}>{explain(item, parent?.span)}</p>
        {item.parent && (
          <p className={css.link}>
            <Evidence link={item.parent} />
            <span>confidence {formatConfidence(item.parent.confidence)}</span>
            {parent && (
              <button type="button" onClick={() => show(parent.span.id)}>
                ↑ {parent.span.service || parent.span.tap} {parent.span.name}
              </button>
            )}
          </p>
        )}
        <p className={css.words}>
          {tapWords(span.tap).replace(/^./, (c) => c.toUpperCase())}
          {span.pid > 0 && `, process ${span.pid}, thread ${span.tid}`}.
          {children.length > 0 &&
            ` ${children.length} ${children.length === 1 ? "span follows" : "spans follow"} from it.`}
        </p>
      </Section>

      {item.links && item.links.length > 0 && (
        <Section title={`Messages (${item.links.length})`}>
          <Messages links={item.links} />
        </Section>
      )}

      {item.told && item.told.links.length + item.told.links_left_out > 0 && (
        <Section title={`Links (${item.told.links.length})`}>
          <SdkLinks of={item.told} />
        </Section>
      )}

      {network.length > 0 && (
        <Section title="Network">
          <Facts rows={network} />
        </Section>
      )}

      <Attributes span={span} />
    </aside>
  );
}

/** Whether it is a request whose waits can be recorded. */
function isServed({ service, tap }: SpanView): boolean {
  return service !== "" && tap === "server-process";
}

type Fact = readonly [string, ReactNode];

function hopFacts({ hop }: TraceSpan, parent: TraceSpan | undefined): Fact[] {
  if (!hop || !parent) return [];
  const { there, back, both } = hop;
  const from = parent.span.tap;
  const facts: Fact[] = [[`Request from ${from}`, timeWords(there, formatDuration)]];
  if (both) {
    facts.push([`Response to ${from}`, timeWords(back, formatDuration)]);
    if (there?.ns == null) facts.push(["Both together", timeWords(both, formatDuration)]);
  }
  return facts;
}

/** An SDK does not say when the response began. */
function firstByte({ span, offset_ns, response_offset_ns }: TraceSpan): Fact[] {
  if (span.tap === "app") return [];
  const after = response_offset_ns == null ? "no response" : formatDuration(response_offset_ns - offset_ns);
  return [["To the first byte", after]];
}

function networkFacts(span: SpanView): Fact[] {
  const { tcp } = span;
  const facts: Fact[] = [];
  if (span.client) facts.push(["Client", span.client]);
  if (span.server) facts.push(["Server", span.server]);
  if (span.tap !== "app") {
    facts.push(["Request", formatBytes(span.request_bytes)], ["Response", formatBytes(span.response_bytes)]);
  }
  if (tcp.srtt_ns > 0) facts.push(["Round trip (smoothed)", formatDuration(tcp.srtt_ns)]);
  if (tcp.connect_ns > 0) facts.push(["Handshake", formatDuration(tcp.connect_ns)]);
  if (tcp.queue_ns > 0) facts.push(["Waited in the socket", formatDuration(tcp.queue_ns)]);
  if (tcp.srtt_ns > 0 || tcp.retransmits > 0) facts.push(["Segments retransmitted", String(tcp.retransmits)]);
  if (tcp.resets > 0) facts.push(["Resets", String(tcp.resets)]);
  if (tcp.request_seq != null) facts.push(["Sequence of the request", String(tcp.request_seq)]);
  if (tcp.response_seq != null) facts.push(["Sequence of the response", String(tcp.response_seq)]);
  return facts;
}

function formatBytes(bytes: number): string {
  if (bytes < 10_000) return `${bytes} B`;
  return bytes < 10e6 ? `${(bytes / 1e3).toPrecision(3)} kB` : `${(bytes / 1e6).toPrecision(3)} MB`;
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={css.section}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Facts({ rows }: { rows: readonly Fact[] }) {
  return (
    <dl className={css.facts}>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Attributes({ span }: { span: SpanView }) {
  const [filter, setFilter] = useState("");
  const all = Object.entries(span.attributes).sort(([a], [b]) => a.localeCompare(b));
  const shown = all.filter(([key, value]) => `${key}=${value}`.toLowerCase().includes(filter.toLowerCase()));
  return (
    <Section title={`Attributes (${all.length})`}>
      {all.length > 8 && (
        <input
          type="search"
          className={css.filter}
          placeholder="Filter attributes"
          aria-label="Filter attributes"
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
        />
      )}
      <table className={css.attributes}>
        <thead className="visually-hidden">
          <tr>
            <th>Name</th>
            <th>Value</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(([key, value]) => (
            <tr key={key}>
              <th scope="row">{key}</th>
              <td>
                <span>{String(value)}</span>
                <Link
                  href={href(
                    "/",
                    new URLSearchParams({ q: condition(key === "service.name" ? "service" : key, String(value)) }),
                  )}
                  title={`Search for ${key}=${value}`}
                  aria-label={`Search for ${key}=${value}`}
                >
                  ⌕
                </Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length === 0 && <p className={css.words}>No attribute contains “{filter}”.</p>}
    </Section>
  );
}
