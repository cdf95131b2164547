//! A layered drawing of a directed graph: callers left, callees right.
//!
//! The layer of a node is the longest path to it, over the edges that are left when cycles are cut. Within a layer,
//! nodes are ordered by the mean place of their neighbours (Sugiyama's method). An edge that crosses layers has a stop
//! in each, so that it goes round the nodes there.

use std::collections::BTreeMap;

const SWEEPS: usize = 12;
/// Room of a stop, in heights of a node.
const STOP: f64 = 0.45;

/// A place: the layer, counted from the left, and the row, counted from the middle of the picture, in heights of a
/// node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// Layer.
    pub layer: usize,
    /// Row.
    pub row: f64,
}

/// The places of all nodes and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// For each node.
    pub nodes: Vec<Place>,
    /// For each edge: its stops in the layers between its ends. Empty for neighbouring layers and for edges back.
    pub stops: Vec<Vec<Place>>,
}

/// An item that takes room in a layer: a node, or the stop of an edge.
struct Item {
    size: f64,
    left: Vec<usize>,
    right: Vec<usize>,
    row: f64,
}

/// Lays out `nodes` nodes and the edges between them; edges to nodes that do not exist are left out.
pub fn layout(nodes: usize, edges: &[(usize, usize)]) -> Layout {
    let known: Vec<(usize, usize)> =
        edges.iter().copied().filter(|(a, b)| a != b && *a < nodes && *b < nodes).collect();
    let layers = layering(nodes, &acyclic(nodes, &known));
    let mut items: Vec<Item> = Vec::new();
    let mut columns: Vec<Vec<usize>> = Vec::new();
    let add = |columns: &mut Vec<Vec<usize>>, items: &mut Vec<Item>, layer: usize, size: f64| {
        while columns.len() <= layer {
            columns.push(Vec::new());
        }
        items.push(Item { size, left: Vec::new(), right: Vec::new(), row: 0.0 });
        columns[layer].push(items.len() - 1);
        items.len() - 1
    };
    for layer in &layers {
        add(&mut columns, &mut items, *layer, 1.0);
    }
    // Edges between the same two nodes go the same way.
    let mut paths: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (from, to) in known.iter().copied() {
        if paths.contains_key(&(from, to)) || layers[to] <= layers[from] {
            continue;
        }
        let mut before = from;
        let mut path = Vec::new();
        for layer in layers[from] + 1..layers[to] {
            let stop = add(&mut columns, &mut items, layer, STOP);
            connect(&mut items, before, stop);
            path.push(stop);
            before = stop;
        }
        connect(&mut items, before, to);
        paths.insert((from, to), path);
    }
    order(&mut columns, &mut items);
    let stops = edges.iter().map(|edge| {
        let path = paths.get(edge).into_iter().flatten();
        path.enumerate().map(|(n, stop)| Place { layer: layers[edge.0] + 1 + n, row: items[*stop].row }).collect()
    });
    let places = layers.iter().zip(&items).map(|(layer, item)| Place { layer: *layer, row: item.row });
    Layout { stops: stops.collect(), nodes: places.collect() }
}

fn connect(items: &mut [Item], left: usize, right: usize) {
    items[left].right.push(right);
    items[right].left.push(left);
}

/// Edges in a direction that has no cycle: an edge back to a node that is being visited is turned round.
fn acyclic(nodes: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut indegree = vec![0; nodes];
    for (from, to) in edges.iter().copied() {
        out[from].push(to);
        indegree[to] += 1;
    }
    let mut state = vec![State::New; nodes];
    let mut result = Vec::with_capacity(edges.len());
    // Sources first, so that a cycle is entered where calls enter it.
    let mut starts: Vec<usize> = (0..nodes).collect();
    starts.sort_by_key(|n| indegree[*n]);
    for start in starts {
        if state[start] != State::New {
            continue;
        }
        state[start] = State::Open;
        let mut stack = vec![(start, 0)];
        while let Some((node, next)) = stack.pop() {
            let Some(to) = out[node].get(next).copied() else {
                state[node] = State::Done;
                continue;
            };
            stack.push((node, next + 1));
            if state[to] == State::Open {
                result.push((to, node));
                continue;
            }
            result.push((node, to));
            if state[to] == State::New {
                state[to] = State::Open;
                stack.push((to, 0));
            }
        }
    }
    result
}

fn layering(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; nodes];
    // Longest path by relaxation: without cycles it settles after at most as many rounds as there are nodes.
    for _ in 0..nodes {
        let mut changed = false;
        for (from, to) in edges.iter().copied() {
            if layers[to] < layers[from] + 1 {
                layers[to] = layers[from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    layers
}

fn order(columns: &mut [Vec<usize>], items: &mut [Item]) {
    columns.iter().for_each(|column| spread(column, items));
    let mean = |items: &[Item], of: &[usize]| {
        (!of.is_empty()).then(|| of.iter().map(|n| items[*n].row).sum::<f64>() / of.len() as f64)
    };
    let count = columns.len();
    for sweep in 0..SWEEPS {
        for step in 0..count {
            let down = sweep % 2 == 0;
            let column = &mut columns[if down { step } else { count - 1 - step }];
            let wanted = |n: &usize| {
                let item = &items[*n];
                let side = if down { &item.left } else { &item.right };
                mean(items, side)
                    .or_else(|| mean(items, if down { &item.right } else { &item.left }))
                    .unwrap_or(item.row)
            };
            let mut sorted: Vec<(f64, usize)> = column.iter().map(|n| (wanted(n), *n)).collect();
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
            *column = sorted.into_iter().map(|(_, n)| n).collect();
            spread(column, items);
        }
    }
}

/// Puts a layer's items under each other, around the middle.
fn spread(column: &[usize], items: &mut [Item]) {
    let mut top = -column.iter().map(|n| items[*n].size).sum::<f64>() / 2.0;
    for n in column {
        let item = &mut items[*n];
        item.row = top + item.size / 2.0;
        top += item.size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
        layout(nodes, edges).nodes.iter().map(|p| p.layer).collect()
    }

    #[test]
    fn callers_stand_left_of_callees_by_the_longest_way() {
        assert_eq!(layers(4, &[(0, 1), (1, 2), (0, 2), (2, 3)]), [0, 1, 2, 3]);
        assert_eq!(layers(3, &[(0, 1), (1, 0), (1, 2), (0, 0), (9, 9), (0, 9)]), [0, 1, 2]);
        assert_eq!(layout(0, &[]), Layout::default());
    }

    #[test]
    fn an_order_without_crossings_is_found_where_there_is_one() {
        let n = layout(4, &[(0, 3), (1, 2)]).nodes;
        assert!((n[0].row - n[1].row) * (n[3].row - n[2].row) > 0.0, "{n:?}");
    }

    #[test]
    fn a_long_edge_goes_round_the_nodes_between_its_ends() {
        let l = layout(3, &[(0, 1), (1, 2), (0, 2)]);
        assert_eq!(l.stops.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 1]);
        assert!((l.stops[2][0].row - l.nodes[1].row).abs() > 0.5);
    }

    #[test]
    fn a_long_chain_and_a_dense_graph() {
        let chain: Vec<_> = (1..1000).map(|n| (n - 1, n)).collect();
        assert_eq!(layers(1000, &chain).into_iter().max(), Some(999));
        let dense: Vec<_> = (0..40).flat_map(|a| (0..40).map(move |b| (a, b))).collect();
        assert_eq!(layout(40, &dense).nodes.len(), 40);
    }
}
