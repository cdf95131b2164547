import type { SdkTold } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { Link } from "../../routing/Link";
import { href } from "../../routing/url";
import css from "./SdkTold.module.css";
import panel from "./SpanPanel.module.css";

/** What the program noted during the span: exceptions first to the eye, each with its attributes. */
export function SdkEvents({ of }: { of: SdkTold }) {
  return (
    <>
      <ul className={css.events}>
        {of.events.map((event) => (
          <li key={`${event.offset_ns} ${event.name} ${JSON.stringify(event.attributes)}`}>
            <h4 data-failed={event.name === "exception" || undefined}>
              {event.name}
              <time>{since(event.offset_ns)}</time>
            </h4>
            <Values of={event.attributes} />
          </li>
        ))}
      </ul>
      <LeftOut number={of.events_left_out} of="events" />
    </>
  );
}

/** Other spans that the SDK named. */
export function SdkLinks({ of }: { of: SdkTold }) {
  return (
    <>
      <ul className={css.events}>
        {of.links.map((link) => (
          <li key={`${link.trace_id} ${link.span_id} ${JSON.stringify(link.attributes)}`}>
            <p className={panel.link}>
              <Link href={href(`/trace/${link.trace_id}`, new URLSearchParams({ span: link.span_id }))}>
                span {link.span_id}
              </Link>
            </p>
            <Values of={link.attributes} />
          </li>
        ))}
      </ul>
      <LeftOut number={of.links_left_out} of="links" />
    </>
  );
}

function since(offsetNs: number): string {
  return offsetNs < 0 ? `−${formatDuration(-offsetNs)}` : `+${formatDuration(offsetNs)}`;
}

function Values({ of }: { of: Readonly<Record<string, unknown>> }) {
  return (
    <dl>
      {Object.entries(of).map(([key, value]) => (
        <div key={key}>
          <dt>{key}</dt>
          <dd>{String(value).includes("\n") ? <pre>{String(value)}</pre> : String(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

function LeftOut({ number, of }: { number: number; of: string }) {
  return number > 0 ? (
    <p className={panel.words}>
      {number} further {of} were left out.
    </p>
  ) : null;
}
