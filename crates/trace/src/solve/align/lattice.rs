//! All alignments of a sequence of calls with a sequence of units, and their probabilities.

use super::table::{Counts, Table, MAX_STEPS};
use super::{Call, Unit};
use std::collections::VecDeque;

/// Entries of a unit in a layer: by the number of its calls. Without any it is the next that may begin.
const WIDTH: usize = MAX_STEPS + 1;
/// Most units of a layer.
const MAX_LAYER: usize = 160;
/// What is less likely than this is left out.
const TINY: f64 = 1e-10;
/// Factor of a unit that a mark excludes, and of a unit that begins while the one before waits for a call.
const EXCLUDED: f64 = 1e-3;
const OVERLAP: f64 = 0.05;
/// Calls before one that may still be under way.
const NEAR: usize = 8;

/// The units that may have made each call.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Number of units that had come.
    come: Vec<usize>,
    low: Vec<usize>,
    high: Vec<usize>,
}

impl Bounds {
    pub(super) fn of(units: &VecDeque<Unit>, calls: &[Call]) -> Self {
        let come = |call: &Call| units.partition_point(|unit| unit.from_ns <= call.start_ns);
        let come = calls.iter().map(come).collect();
        Bounds { come, low: vec![0; calls.len()], high: vec![usize::MAX; calls.len()] }
    }

    /// At a time this unit had begun, and that one had not.
    pub(super) fn mark(&mut self, calls: &[Call], at_ns: u64, begun: Option<usize>, first_not: Option<usize>) {
        let after = calls.partition_point(|call| call.start_ns < at_ns);
        if let Some(begun) = begun {
            self.low.iter_mut().skip(after).for_each(|low| *low = begun.max(*low));
        }
        if let Some(last) = first_not.and_then(|first_not| first_not.checked_sub(1)) {
            self.high.iter_mut().take(after).for_each(|high| *high = last.min(*high));
        }
    }
}

/// Where an alignment begins.
#[derive(Debug)]
pub(super) struct Start {
    /// Unit, number of its calls, and probability.
    states: Vec<(usize, usize, f64)>,
    /// When the calls before end.
    end_ns: u64,
}

impl Default for Start {
    fn default() -> Self {
        Start { states: vec![(0, 0, 1.0)], end_ns: 0 }
    }
}

impl Start {
    /// The first unit that may go on.
    pub(super) fn first(&self) -> usize {
        self.states.iter().map(|(unit, ..)| *unit).min().unwrap_or(0)
    }

    /// So many units were removed before the others.
    pub(super) fn shift(&mut self, units: usize) {
        for (unit, calls, _) in &mut self.states {
            *calls = if *unit < units { 0 } else { *calls };
            *unit = unit.saturating_sub(units);
        }
    }
}

/// Probabilities after a call, by unit and number of its calls.
#[derive(Debug, Default)]
struct Layer {
    first: usize,
    /// A unit has made the call; no unit has.
    made: Vec<f64>,
    none: Vec<f64>,
    /// The probability of the call, given those before.
    share: f64,
    /// How much more likely later calls make an entry.
    after: Vec<f64>,
}

impl Layer {
    fn units(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.made.len() / WIDTH
    }

    fn at(&self, unit: usize, calls: usize) -> Option<usize> {
        self.units().contains(&unit).then(|| (unit - self.first) * WIDTH + calls)
    }

    fn mass(&self, unit: usize, calls: usize) -> f64 {
        self.at(unit, calls).map_or(0.0, |at| self.made[at] + self.none[at])
    }

    fn after(&self, unit: usize, calls: usize) -> f64 {
        self.at(unit, calls).map_or(0.0, |at| self.after[at])
    }

    /// Leaves out unlikely units at both ends, and makes the sum 1.
    fn normalise(&mut self) {
        self.share = self.made.iter().chain(&self.none).sum::<f64>().max(f64::MIN_POSITIVE);
        let rows: Vec<f64> = self
            .made
            .chunks(WIDTH)
            .zip(self.none.chunks(WIDTH))
            .map(|(made, none)| made.iter().chain(none).sum::<f64>() / self.share)
            .collect();
        let likely = |row: &f64| *row >= TINY;
        let (Some(mut from), Some(mut to)) = (rows.iter().position(likely), rows.iter().rposition(likely)) else {
            return;
        };
        let best = rows.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(from, |(row, _)| row);
        (from, to) = (from.max(best.saturating_sub(MAX_LAYER / 2)), to.min(best + MAX_LAYER / 2));
        for list in [&mut self.made, &mut self.none] {
            list.truncate((to + 1) * WIDTH);
            list.drain(..from * WIDTH);
            list.iter_mut().for_each(|p| *p /= self.share);
        }
        self.first += from;
    }
}

#[derive(Debug)]
pub(super) struct Lattice<'a> {
    table: &'a Table,
    bounds: &'a Bounds,
    units: &'a VecDeque<Unit>,
    calls: &'a [Call],
    start: &'a Start,
    /// Before the first call, and after each one.
    layers: Vec<Layer>,
}

impl<'a> Lattice<'a> {
    pub(super) fn new(
        units: &'a VecDeque<Unit>,
        calls: &'a [Call],
        bounds: &'a Bounds,
        table: &'a Table,
        start: &'a Start,
    ) -> Self {
        let mut lattice = Lattice { table, bounds, units, calls, start, layers: Vec::with_capacity(calls.len() + 1) };
        lattice.layers.push(lattice.begin());
        for i in 0..calls.len() {
            let next = lattice.forward(i);
            lattice.layers.push(next);
        }
        lattice.backward();
        lattice
    }

    fn begin(&self) -> Layer {
        let first = self.start.first();
        let last = self.start.states.iter().map(|(unit, ..)| *unit).max().unwrap_or(0);
        let len = (last - first + 1) * WIDTH;
        let mut layer = Layer { first, made: vec![0.0; len], none: vec![0.0; len], share: 1.0, after: Vec::new() };
        for (unit, calls, share) in &self.start.states {
            layer.none[(unit - first) * WIDTH + calls] += share;
        }
        layer.normalise();
        layer
    }

    /// Factor of a unit for a call: whether the kernel and the marks speak for it.
    fn factor(&self, i: usize, unit: usize) -> f64 {
        let (call, bounds) = (&self.calls[i], self.bounds);
        let agrees = match call.exchange {
            Some(exchange) => self.table.agrees[usize::from(self.units[unit].exchange == exchange)],
            None => 1.0,
        };
        let fits = (bounds.low[i]..=bounds.high[i]).contains(&unit);
        agrees * if fits { 1.0 } else { EXCLUDED }
    }

    /// Factor of a unit that ends before this call.
    fn leaving(&self, i: usize) -> f64 {
        let before = &self.calls[i.saturating_sub(NEAR)..i];
        let end_ns = before.iter().map(|call| call.end_ns).max().unwrap_or(self.start.end_ns);
        if end_ns > self.calls[i].start_ns {
            OVERLAP
        } else {
            1.0
        }
    }

    fn act(&self, i: usize, unit: usize, step: usize) -> f64 {
        self.table.act(self.table.unit_class[unit], step, self.table.call_class[i])
    }

    fn end(&self, unit: usize, step: usize) -> f64 {
        self.table.end(self.table.unit_class[unit], step)
    }

    fn forward(&self, i: usize) -> Layer {
        let before = &self.layers[i];
        let (come, none, leaving) = (self.bounds.come[i], self.table.none(self.table.call_class[i]), self.leaving(i));
        let mut layer = Layer { first: before.first, ..Layer::default() };
        let mut carried = 0.0;
        for unit in before.first.. {
            let is_old = before.units().contains(&unit);
            if !is_old && (unit >= come || carried < TINY || unit - before.first > 2 * MAX_LAYER) {
                break;
            }
            let mut rows = [[0.0; WIDTH]; 2];
            let [made, other] = &mut rows;
            for (calls, slot) in other.iter_mut().enumerate() {
                *slot = before.mass(unit, calls) * none;
            }
            if unit < come {
                let factor = self.factor(i, unit);
                let begins = carried + before.mass(unit, 0);
                made[1] += begins * self.act(i, unit, 0) * factor;
                carried = begins * self.end(unit, 0);
                for calls in 1..WIDTH {
                    let mass = before.mass(unit, calls);
                    if mass > 0.0 {
                        made[(calls + 1).min(MAX_STEPS)] += mass * self.act(i, unit, calls) * factor;
                        carried += mass * self.end(unit, calls) * leaving;
                    }
                }
            }
            layer.made.extend(rows[0]);
            layer.none.extend(rows[1]);
        }
        layer.normalise();
        layer
    }

    /// By unit from the first of layer `i` on: how likely what comes from call `i` on is, if the unit is the next that
    /// may begin.
    fn beginnings(&self, i: usize) -> Vec<f64> {
        let (first, next) = (self.layers[i].first, &self.layers[i + 1]);
        let to = next.units().end.min(self.bounds.come[i]).max(first);
        let mut all = vec![0.0; to - first + 2];
        for unit in (first..to).rev() {
            let begins = self.act(i, unit, 0) * self.factor(i, unit) * next.after(unit, 1);
            all[unit - first] = begins + self.end(unit, 0) * all[unit - first + 1];
        }
        all
    }

    fn backward(&mut self) {
        if let Some(last) = self.layers.last_mut() {
            last.after = vec![1.0; last.made.len()];
        }
        for i in (0..self.calls.len()).rev() {
            let (layer, next) = (&self.layers[i], &self.layers[i + 1]);
            let (beginnings, leaving) = (self.beginnings(i), self.leaving(i));
            let none = self.table.none(self.table.call_class[i]);
            let mut after = vec![0.0; layer.made.len()];
            for unit in layer.units() {
                let has_come = unit < self.bounds.come[i];
                let factor = if has_come { self.factor(i, unit) } else { 0.0 };
                for calls in 0..WIDTH {
                    if layer.mass(unit, calls) == 0.0 {
                        continue;
                    }
                    let mut sum = none * next.after(unit, calls);
                    if has_come && calls == 0 {
                        sum += beginnings[unit - layer.first];
                    } else if has_come {
                        let stays = (calls + 1).min(MAX_STEPS);
                        sum += self.act(i, unit, calls) * factor * next.after(unit, stays);
                        let behind = beginnings.get(unit + 1 - layer.first).unwrap_or(&0.0);
                        sum += self.end(unit, calls) * leaving * behind;
                    }
                    after[(unit - layer.first) * WIDTH + calls] = sum / next.share;
                }
            }
            self.layers[i].after = after;
        }
    }

    /// ln of the probability of a call, given those before.
    pub(super) fn likelihood(&self, i: usize) -> f64 {
        self.layers[i + 1].share.ln()
    }

    /// The unit that has most probably made a call, and how probable that is. `None` if none has.
    pub(super) fn likeliest(&self, i: usize) -> Option<(usize, f64)> {
        let layer = &self.layers[i + 1];
        let share = |unit: usize, list: &[f64]| -> f64 {
            let at = (unit - layer.first) * WIDTH;
            (at..at + WIDTH).map(|at| list[at] * layer.after[at]).sum()
        };
        let none: f64 = layer.units().map(|unit| share(unit, &layer.none)).sum();
        let best = layer.units().map(|unit| (unit, share(unit, &layer.made))).max_by(|a, b| a.1.total_cmp(&b.1))?;
        (best.1 > none).then_some(best)
    }

    /// Where an alignment of the calls from this one on begins.
    pub(super) fn start_after(&self, i: usize) -> Start {
        let layer = &self.layers[i];
        let mut states = Vec::new();
        for unit in layer.units() {
            for calls in 0..WIDTH {
                let mass = layer.mass(unit, calls);
                if mass > TINY {
                    states.push((unit, calls, mass));
                }
            }
        }
        let end_ns = self.calls[i.saturating_sub(NEAR)..i].iter().map(|call| call.end_ns).max().unwrap_or(0);
        Start { states, end_ns }
    }

    /// Counts what units do, in all alignments of the calls up to this one.
    pub(super) fn count(&self, to: usize, table: &Table, counts: &mut Counts) {
        for i in 0..to {
            let (layer, next) = (&self.layers[i], &self.layers[i + 1]);
            let (beginnings, leaving, call) = (self.beginnings(i), self.leaving(i), table.call_class[i]);
            let behind = |unit: usize| beginnings.get(unit - layer.first).copied().unwrap_or(0.0) / next.share;
            let mut carried = 0.0;
            for unit in layer.first..next.units().end.max(layer.units().end) {
                for calls in 0..WIDTH {
                    let share = layer.mass(unit, calls) * table.none(call) * next.after(unit, calls) / next.share;
                    counts.add_none(call, share);
                }
                if unit >= self.bounds.come[i] {
                    continue;
                }
                let (class, factor) = (table.unit_class[unit], self.factor(i, unit) / next.share);
                let begins = carried + layer.mass(unit, 0);
                let mut made = begins * self.act(i, unit, 0) * factor * next.after(unit, 1);
                counts.add_act(class, 0, call, made);
                carried = begins * self.end(unit, 0);
                counts.add_end(class, 0, carried * behind(unit + 1));
                for calls in 1..WIDTH {
                    let mass = layer.mass(unit, calls);
                    if mass == 0.0 {
                        continue;
                    }
                    let stays = (calls + 1).min(MAX_STEPS);
                    let share = mass * self.act(i, unit, calls) * factor * next.after(unit, stays);
                    counts.add_act(class, calls, call, share);
                    made += share;
                    let ends = mass * self.end(unit, calls) * leaving;
                    counts.add_end(class, calls, ends * behind(unit + 1));
                    carried += ends;
                }
                if let Some(exchange) = self.calls[i].exchange {
                    counts.add_agreement(self.units[unit].exchange == exchange, made);
                }
            }
        }
    }
}
