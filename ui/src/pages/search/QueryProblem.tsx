import type { Problem } from "../../api/types";
import { splitAt } from "../../domain/filters";
import css from "./QueryProblem.module.css";

/** Which part of a query was not understood, and what to write instead. */
export function QueryProblem({ problem, text }: { problem: Problem; text: string }) {
  const parts = text && problem.offset != null ? splitAt(text, problem.offset, problem.part ?? "") : null;
  return (
    <section className={css.problem} role="alert" aria-label="The query cannot be understood">
      {parts && (
        <p className={css.text}>
          {parts[0]}
          <mark>{parts[1] || " "}</mark>
          {parts[2]}
        </p>
      )}
      <p>
        {problem.param && problem.param !== "q" && <strong>{problem.param}: </strong>}
        {problem.message}
      </p>
      {problem.hint && <p className={css.hint}>{problem.hint}</p>}
    </section>
  );
}
