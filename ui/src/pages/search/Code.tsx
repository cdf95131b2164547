import { ApiProblem } from "../../api/client";
import { useFlame } from "../../api/queries";
import type { Filters } from "../../domain/filters";
import { Flame } from "../../parts/Flame";
import { Failure, Loading } from "../../parts/Notice";
import css from "./Code.module.css";

/** In which code the requests that meet the filters ran and waited: slow ones beside usual ones. */
export function Code({ filters }: { filters: Filters }) {
  const { data, error, refetch } = useFlame(filters);
  const unknown = error instanceof ApiProblem && error.problem.code === "not_found" ? error.problem : null;
  return (
    <section className={css.code} aria-label="In which code">
      <h2>In which code</h2>
      {unknown && (
        <p>
          {unknown.message}. {unknown.hint}
        </p>
      )}
      {error && !unknown && <Failure error={error} retry={() => void refetch()} />}
      {!error && !data && <Loading what="code" />}
      {!error && data && (
        <>
          <p>
            {data.slow_spans} slow beside {data.usual_spans} usual requests, as means.
          </p>
          <Flame boxes={data.boxes} compares />
        </>
      )}
    </section>
  );
}
