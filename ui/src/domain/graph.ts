// A layered drawing of a directed graph: callers left, callees right.
//
// Layers by longest path over the edges that are left when cycles are cut, order within a layer by the mean place of the
// neighbours (Sugiyama's method). Small on purpose: a service map has tens of nodes, and needs no worker for them.

export interface Edge {
  readonly from: string;
  readonly to: string;
}

export interface Placed {
  readonly id: string;
  readonly layer: number;
  /** Place within the layer, counted from its middle: a layer of three has -1, 0, 1. */
  readonly row: number;
}

const SWEEPS = 8;

export function layout(ids: readonly string[], edges: readonly Edge[]): Placed[] {
  const known = new Set(ids);
  const usable = edges.filter((edge) => edge.from !== edge.to && known.has(edge.from) && known.has(edge.to));
  const forward = acyclic(ids, usable);
  const layers = layering(ids, forward);
  const columns: string[][] = [];
  for (const id of ids) {
    const layer = layers.get(id) ?? 0;
    while (columns.length <= layer) columns.push([]);
    columns[layer]?.push(id);
  }
  order(columns, usable);
  return columns.flatMap((column, layer) => column.map((id, n) => ({ id, layer, row: n - (column.length - 1) / 2 })));
}

/** Edges in a direction that has no cycle: an edge back to a node that is being visited is turned round. */
function acyclic(ids: readonly string[], edges: readonly Edge[]): Edge[] {
  const out = new Map<string, string[]>();
  const indegree = new Map<string, number>();
  for (const { from, to } of edges) {
    out.set(from, [...(out.get(from) ?? []), to]);
    indegree.set(to, (indegree.get(to) ?? 0) + 1);
  }
  const state = new Map<string, "open" | "done">();
  const result: Edge[] = [];
  const visit = (start: string) => {
    const stack: { id: string; next: number }[] = [{ id: start, next: 0 }];
    state.set(start, "open");
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      const to = out.get(top.id)?.[top.next];
      top.next += 1;
      if (to === undefined) {
        state.set(top.id, "done");
        stack.pop();
      } else if (state.get(to) === "open") {
        result.push({ from: to, to: top.id });
      } else {
        result.push({ from: top.id, to });
        if (!state.has(to)) {
          state.set(to, "open");
          stack.push({ id: to, next: 0 });
        }
      }
    }
  };
  // Sources first, so that a cycle is entered where calls enter it.
  for (const id of [...ids].sort((a, b) => (indegree.get(a) ?? 0) - (indegree.get(b) ?? 0))) {
    if (!state.has(id)) visit(id);
  }
  return result;
}

function layering(ids: readonly string[], edges: readonly Edge[]): Map<string, number> {
  const layers = new Map(ids.map((id) => [id, 0]));
  // Longest path by relaxation: without cycles it settles after at most as many rounds as there are nodes.
  for (let round = 0; round < ids.length; round += 1) {
    let changed = false;
    for (const { from, to } of edges) {
      const wanted = (layers.get(from) ?? 0) + 1;
      if ((layers.get(to) ?? 0) < wanted) {
        layers.set(to, wanted);
        changed = true;
      }
    }
    if (!changed) break;
  }
  return layers;
}

function order(columns: string[][], edges: readonly Edge[]): void {
  const neighbours = new Map<string, string[]>();
  for (const { from, to } of edges) {
    neighbours.set(from, [...(neighbours.get(from) ?? []), to]);
    neighbours.set(to, [...(neighbours.get(to) ?? []), from]);
  }
  const rows = new Map<string, number>();
  const number = (column: string[]) => {
    column.forEach((id, n) => {
      rows.set(id, n - (column.length - 1) / 2);
    });
  };
  columns.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const wanted = new Map(column.map((id) => [id, mean(neighbours.get(id) ?? [], rows) ?? rows.get(id) ?? 0]));
      column.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
      number(column);
    }
  }
}

function mean(ids: readonly string[], rows: ReadonlyMap<string, number>): number | null {
  if (ids.length === 0) return null;
  return ids.reduce((sum, id) => sum + (rows.get(id) ?? 0), 0) / ids.length;
}
