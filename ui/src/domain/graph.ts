// A layered drawing of a directed graph: callers left, callees right.
//
// Sugiyama's method: cut cycles, put each node into the layer of its longest path, order a layer by the mean place of
// the neighbours. An edge that crosses layers has a stop in each of them, so that the edge goes round the nodes there.
// Small on purpose: a service map has tens of nodes, so neither a library nor a worker is needed.

export interface Edge {
  readonly from: string;
  readonly to: string;
}

/** The layer, counted from the left, and the row, counted from the middle of the picture in heights of a node. */
export interface Place {
  readonly layer: number;
  readonly row: number;
}

export interface Layout {
  readonly nodes: ReadonlyMap<string, Place>;
  /** For each edge, in the order given: its stops in the layers between its ends. Neighbours and back edges: none. */
  readonly stops: readonly (readonly Place[])[];
}

const SWEEPS = 12;
/** Room of a stop, in heights of a node. */
const STOP = 0.45;

/** Something that takes room in a layer: a node, or an edge that passes. */
interface Item {
  readonly id: string;
  readonly size: number;
  readonly left: Item[];
  readonly right: Item[];
  row: number;
}

export function layout(ids: readonly string[], edges: readonly Edge[]): Layout {
  const known = new Set(ids);
  const usable = edges.filter((edge) => edge.from !== edge.to && known.has(edge.from) && known.has(edge.to));
  const layers = layering(ids, acyclic(ids, usable));
  const columns: Item[][] = [];
  const add = (layer: number, id: string, size: number): Item => {
    while (columns.length <= layer) columns.push([]);
    const item: Item = { id, size, left: [], right: [], row: 0 };
    columns[layer]?.push(item);
    return item;
  };
  const items = new Map(ids.map((id) => [id, add(layers.get(id) ?? 0, id, 1)]));
  const paths = edges.map((edge) => {
    const from = items.get(edge.from);
    const to = items.get(edge.to);
    const [first, last] = [layers.get(edge.from) ?? 0, layers.get(edge.to) ?? 0];
    if (!from || !to || last <= first) return [];
    const stops: Item[] = [];
    let before = from;
    for (let layer = first + 1; layer < last; layer += 1) {
      const stop = add(layer, `${edge.from} ${edge.to}`, STOP);
      connect(before, stop);
      stops.push(stop);
      before = stop;
    }
    connect(before, to);
    return stops.map((stop, n) => ({ stop, layer: first + 1 + n }));
  });
  order(columns);
  return {
    nodes: new Map(ids.map((id) => [id, { layer: layers.get(id) ?? 0, row: items.get(id)?.row ?? 0 }])),
    stops: paths.map((path) => path.map(({ stop, layer }) => ({ layer, row: stop.row }))),
  };
}

function connect(left: Item, right: Item): void {
  left.right.push(right);
  right.left.push(left);
}

/** Edges in a direction that has no cycle: an edge back to a node that is being visited is turned round. */
function acyclic(ids: readonly string[], edges: readonly Edge[]): Edge[] {
  const out = new Map<string, string[]>(ids.map((id) => [id, []]));
  const indegree = new Map<string, number>();
  for (const { from, to } of edges) {
    out.get(from)?.push(to);
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

function order(columns: Item[][]): void {
  columns.forEach(spread);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const column of down ? columns : [...columns].reverse()) {
      const wanted = new Map(
        column.map((item) => [
          item,
          mean(down ? item.left : item.right) ?? mean([...item.left, ...item.right]) ?? item.row,
        ]),
      );
      column.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
      spread(column);
    }
  }
}

/** Puts a layer's items under each other, around the middle. */
function spread(column: readonly Item[]): void {
  let top = -column.reduce((sum, item) => sum + item.size, 0) / 2;
  for (const item of column) {
    item.row = top + item.size / 2;
    top += item.size;
  }
}

function mean(items: readonly Item[]): number | null {
  if (items.length === 0) return null;
  return items.reduce((sum, item) => sum + item.row, 0) / items.length;
}
