import { evidenceLabel, evidenceTitle, formatConfidence, strength } from "../../domain/evidence";
import css from "./Evidence.module.css";

interface Props {
  link: { readonly evidence: string; readonly confidence: number };
}

/** Why the parent is the parent, and how sure that is: full, half or empty mark beside the words. */
export function Evidence({ link }: Props) {
  const how = strength(link.evidence, link.confidence);
  return (
    <span
      className={css.badge}
      data-strength={how}
      title={`${evidenceTitle(link.evidence)} (confidence ${formatConfidence(link.confidence)})`}
    >
      <span aria-hidden="true">{{ strong: "●", fair: "◐", weak: "○" }[how]}</span> {evidenceLabel(link.evidence)}
      {link.confidence < 0.995 && ` ${formatConfidence(link.confidence)}`}
    </span>
  );
}
