// Labels of a picture that has more of them than room.

export interface Label {
  readonly id: string;
  /** Middle. */
  readonly x: number;
  readonly y: number;
  readonly width: number;
  /** If two labels overlap, the one with the greater weight keeps its place. */
  readonly weight: number;
}

/** Ids of the labels that would lie on one of more weight; `height` is how far two must be apart. */
export function crowdedOut(labels: readonly Label[], height: number): ReadonlySet<string> {
  const shown: Label[] = [];
  const out = new Set<string>();
  for (const label of [...labels].sort((a, b) => b.weight - a.weight)) {
    const covered = shown.some(
      (other) => Math.abs(other.x - label.x) < (other.width + label.width) / 2 && Math.abs(other.y - label.y) < height,
    );
    if (covered) out.add(label.id);
    else shown.push(label);
  }
  return out;
}
