import type { SpanLink } from "../../api/types";
import { formatConfidence } from "../../domain/evidence";
import { Link } from "../../routing/Link";
import { href } from "../../routing/url";
import { Evidence } from "./Evidence";
import css from "./SpanPanel.module.css";

/** Rows shown at once: one fetch can bring the messages of hundreds of producers. */
const SHOWN = 50;

const WAYS: Record<string, string> = {
  "from-producer": "Sent what this span received",
  "to-consumer": "Received what this span sent",
};

/** Spans of other traces that moved the same messages through a broker. */
export function Messages({ links }: { links: readonly SpanLink[] }) {
  return (
    <>
      {Object.entries(WAYS).map(([way, words]) => {
        const these = links.filter((link) => link.way === way);
        if (these.length === 0) return null;
        return (
          <div key={way}>
            <p className={css.words}>
              {words}
              {these.length > SHOWN && ` (the first ${SHOWN} of ${these.length})`}:
            </p>
            <ul className={css.links}>
              {these.slice(0, SHOWN).map((link) => (
                <li key={link.span_id} className={css.link}>
                  <Link
                    href={href(`/trace/${link.trace_id ?? link.span_id}`, new URLSearchParams({ span: link.span_id }))}
                  >
                    {way === "from-producer" ? "←" : "→"} span {link.span_id}
                  </Link>
                  <Evidence link={link} />
                  <span>confidence {formatConfidence(link.confidence)}</span>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </>
  );
}
