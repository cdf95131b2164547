//! What units of each class call, and when they end: counts, and the probabilities that follow.

use super::{Call, Unit};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Calls of a unit that are told apart: later ones are like the last of these.
pub(super) const MAX_STEPS: usize = 12;
/// Most classes of units, and of calls; all others are one.
const MAX_CLASSES: usize = 64;
/// Number of observations that the first belief counts as.
const BELIEF: f64 = 0.5;
/// Number of observations of an early end that are added.
const EARLY: f64 = 0.5;
/// How much less probable before it is learnt that a unit makes the call again with which its class begins.
const BEGINS: f64 = 0.9;
/// Share of calls that no unit made, before anything is learnt.
const NO_UNIT: f64 = 0.002;
/// How often the kernel names the right exchange, before anything is learnt, and what that counts as.
const AGREES: [f64; 2] = [3.0, 7.0];
/// Counted acts from which on old ones count half.
const MANY: f64 = 4_000.0;

/// What a unit of a class does next, by the number of its calls so far.
type Steps = [FxHashMap<u16, f64>; MAX_STEPS];

/// The act that ends a unit.
const END: u16 = u16::MAX;

/// What is believed of units before anything is learnt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Belief {
    /// Calls of a unit; 0: any number.
    pub(super) calls: usize,
    /// Share of units that make no call.
    pub(super) empty: f64,
}

impl Belief {
    /// Share of units that end after so many calls.
    fn ends(self, step: usize) -> f64 {
        match step {
            0 => self.empty,
            _ if self.calls == 0 => 0.5,
            made if made >= self.calls => 0.9,
            _ => 0.1,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Counts {
    belief: Belief,
    units: FxHashMap<u64, u16>,
    calls: FxHashMap<u64, u16>,
    steps: Vec<Steps>,
    /// Calls of each class that no unit made.
    none: FxHashMap<u16, f64>,
    /// Calls that the kernel gave to the wrong exchange, and to the right one.
    agrees: [f64; 2],
    all: f64,
    /// The share of units without calls is settled.
    is_settled: bool,
}

impl Default for Counts {
    fn default() -> Self {
        Counts::new(super::BELIEFS[0])
    }
}

/// Probabilities for one sequence of units and calls.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) unit_class: Vec<u16>,
    pub(super) call_class: Vec<u16>,
    /// By class of unit, step and class of call.
    acts: Vec<f64>,
    ends: Vec<f64>,
    none: Vec<f64>,
    width: usize,
    /// Two factors for a unit: the kernel names another exchange for the call, and it names the unit's own.
    pub(super) agrees: [f64; 2],
}

impl Table {
    pub(super) fn act(&self, unit: u16, step: usize, call: u16) -> f64 {
        self.acts[(usize::from(unit) * MAX_STEPS + step.min(MAX_STEPS - 1)) * self.width + usize::from(call)]
    }

    pub(super) fn end(&self, unit: u16, step: usize) -> f64 {
        self.ends[usize::from(unit) * MAX_STEPS + step.min(MAX_STEPS - 1)]
    }

    pub(super) fn none(&self, call: u16) -> f64 {
        self.none[usize::from(call)]
    }
}

fn class(known: &mut FxHashMap<u64, u16>, name: u64) -> u16 {
    let next = known.len() + 1;
    match known.get(&name) {
        Some(class) => *class,
        None if next >= MAX_CLASSES => 0,
        None => {
            known.insert(name, next as u16);
            next as u16
        }
    }
}

impl Counts {
    /// Nothing is counted.
    pub(super) fn new(belief: Belief) -> Self {
        Counts {
            belief,
            units: FxHashMap::default(),
            calls: FxHashMap::default(),
            steps: Vec::new(),
            none: FxHashMap::default(),
            agrees: AGREES,
            all: 0.0,
            is_settled: false,
        }
    }

    /// From now on the share of units without calls stays: where the end of a batch is not seen yet, any number of
    /// units may have made none.
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// The same classes, with nothing counted.
    pub(super) fn emptied(&self) -> Self {
        Counts { units: self.units.clone(), calls: self.calls.clone(), ..Counts::new(self.belief) }
    }

    /// The probabilities for these units and calls.
    pub(super) fn table(&mut self, units: &VecDeque<Unit>, calls: &[Call], table: &mut Table) {
        table.unit_class = units.iter().map(|unit| class(&mut self.units, unit.class)).collect();
        table.call_class = calls.iter().map(|call| class(&mut self.calls, call.class)).collect();
        let (classes, width) = (self.units.len() + 1, self.calls.len() + 1);
        self.steps.resize_with(classes, Default::default);
        table.width = width;
        table.acts = vec![0.0; classes * MAX_STEPS * width];
        table.ends = vec![0.0; classes * MAX_STEPS];
        for (unit, steps) in self.steps.iter().enumerate() {
            for (step, counted) in steps.iter().enumerate() {
                let at = unit * MAX_STEPS + step;
                let ends = self.belief.ends(step);
                // What has begun may always end early.
                let early = if step == 0 { 0.0 } else { EARLY };
                let all = counted.values().sum::<f64>() + BELIEF + early;
                let share = |act: u16, belief: f64| (counted.get(&act).unwrap_or(&0.0) + belief * BELIEF) / all;
                table.ends[at] = share(END, ends) + early / all;
                let other = (1.0 - ends) / width as f64;
                for call in 0..width {
                    // What units of a class begin with is rather the beginning of the next one.
                    let first = if step == 0 { 0.0 } else { table.acts[unit * MAX_STEPS * width + call] };
                    table.acts[at * width + call] = share(call as u16, other * (1.0 - BEGINS * first.min(1.0)));
                }
            }
        }
        let none = |call: usize| {
            let counted = self.none.get(&(call as u16)).unwrap_or(&0.0);
            NO_UNIT.max(counted / (self.all + 100.0)) / width as f64
        };
        table.none = (0..width).map(none).collect();
        let agrees = self.agrees[0] + self.agrees[1];
        table.agrees = [self.agrees[0] / agrees, self.agrees[1] / agrees];
    }

    pub(super) fn add_act(&mut self, unit: u16, step: usize, call: u16, share: f64) {
        let first = self.steps.get(usize::from(unit)).map(|steps| &steps[0]).filter(|_| step == 0 && self.is_settled);
        let empty = first.map_or(0.0, |first| {
            let empty = first.get(&END).copied().unwrap_or(0.0);
            empty / (first.values().sum::<f64>() - empty).max(1.0)
        });
        self.add(unit, step, call, share);
        if empty > 0.0 {
            self.add(unit, step, END, share * empty);
        }
    }

    pub(super) fn add_end(&mut self, unit: u16, step: usize, share: f64) {
        if step > 0 || !self.is_settled {
            self.add(unit, step, END, share);
        }
    }

    pub(super) fn add_none(&mut self, call: u16, share: f64) {
        *self.none.entry(call).or_default() += share;
        self.all += share;
    }

    pub(super) fn add_agreement(&mut self, agrees: bool, share: f64) {
        self.agrees[usize::from(agrees)] += share;
    }

    fn add(&mut self, unit: u16, step: usize, act: u16, share: f64) {
        let unit = usize::from(unit);
        if self.steps.len() <= unit {
            self.steps.resize_with(unit + 1, Default::default);
        }
        *self.steps[unit][step.min(MAX_STEPS - 1)].entry(act).or_default() += share;
        self.all += share;
    }

    /// Once much is counted, what is old counts less.
    pub(super) fn fade(&mut self) {
        if self.all < MANY {
            return;
        }
        self.steps.iter_mut().flatten().flat_map(|step| step.values_mut()).for_each(|n| *n /= 2.0);
        self.none.values_mut().for_each(|n| *n /= 2.0);
        self.agrees.iter_mut().for_each(|n| *n /= 2.0);
        self.all /= 2.0;
    }
}
