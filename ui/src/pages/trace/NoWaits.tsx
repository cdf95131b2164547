import { useState } from "react";
import type { SpanView } from "../../api/types";
import { useWhy } from "../../api/why";
import { endpointOf, whySearch } from "../../domain/why";
import { Failure, Loading } from "../../parts/Notice";
import { RecordWaits } from "../../parts/RecordWaits";
import { Link } from "../../routing/Link";
import { href } from "../../routing/url";
import css from "./SpanPanel.module.css";

/** Of a request whose waits were not recorded: orders that those of others like it are. */
export function NoWaits({ span }: { span: SpanView }) {
  const [asks, setAsks] = useState(false);
  return (
    <>
      <p className={css.words}>What it waited for was not recorded.</p>
      {asks ? (
        <Order span={span} />
      ) : (
        <p className={css.link}>
          <button type="button" onClick={() => setAsks(true)}>
            Record requests like this one
          </button>
        </p>
      )}
      <p className={css.words}>
        <Link href={href("/", whySearch(span))}>Why requests like this are slow</Link>
      </p>
    </>
  );
}

function Order({ span }: { span: SpanView }) {
  const search = whySearch(span);
  const params = { q: search.get("q") ?? "", service: span.service, operation: span.operation, from: "-1h" };
  const filled = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== ""));
  const { data, error, refetch } = useWhy(filled);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading what="reasons" />;
  return (
    <>
      <RecordWaits service={span.service} endpoint={endpointOf(span)} now={data} />
      {data.recorded > 0 && (
        <p className={css.words}>
          {data.recorded} of {data.requests} requests of the last hour have their waits.
        </p>
      )}
    </>
  );
}
