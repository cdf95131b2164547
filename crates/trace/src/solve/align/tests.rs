use super::*;

const MS: u64 = 1_000_000;

/// A simple generator of numbers: the same ones in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What a unit of each class calls.
const TEMPLATES: [&[u64]; 4] = [&[1, 2], &[3, 4, 1], &[5], &[]];

/// Units that come in groups, and calls of workers that take one unit after the other. Returns the unit of each call.
fn work(align: &mut Align, units: u64, workers: usize, seed: u64) -> Vec<u64> {
    let mut numbers = Numbers(seed);
    let (mut truth, mut free_ns) = (Vec::new(), vec![0; workers]);
    let (mut from_ns, mut exchange) = (0, 1);
    for name in 0..units {
        if numbers.below(6) == 0 {
            (from_ns, exchange) = (from_ns + 20 * MS, exchange + 1);
        }
        let class = numbers.below(4);
        align.add_unit(Unit { class, from_ns, exchange, place: (0, name), name });
        let worker = (0..workers).min_by_key(|worker| free_ns[*worker]).unwrap_or(0);
        let mut at_ns = free_ns[worker].max(from_ns) + MS;
        for call in TEMPLATES[class as usize] {
            let end_ns = at_ns + MS + numbers.below(3) * MS;
            let exchange = (numbers.below(10) > 1).then_some(exchange);
            align.add_call(Call {
                class: *call,
                start_ns: at_ns,
                end_ns,
                order: 0,
                exchange,
                name: truth.len() as u64,
            });
            truth.push(name);
            at_ns = end_ns + MS / 10;
        }
        free_ns[worker] = at_ns;
    }
    truth
}

fn right(given: &[Given], truth: &[u64]) -> usize {
    given.iter().filter(|one| one.unit == Some(truth[one.call as usize])).count()
}

#[test]
fn calls_of_units_in_a_row_are_given_to_them() {
    for seed in 1..6 {
        let mut align = Align::default();
        let truth = work(&mut align, 600, 1, seed);
        let mut given = Vec::new();
        let mut until_ns = 0;
        while given.len() < truth.len() {
            until_ns += 500 * MS;
            given.extend(align.decide(until_ns));
        }
        let (n, fit) = (right(&given, &truth), align.fit());
        assert!(n * 100 >= truth.len() * 99, "{n} of {} are right, seed {seed}", truth.len());
        assert!(fit > 0.5, "{fit}");
        assert!(align.is_trained && align.units.len() < 600 && align.past.is_empty());
    }
}

#[test]
fn units_side_by_side_are_not_explained() {
    let mut align = Align::default();
    let truth = work(&mut align, 600, 6, 1);
    let mut given = Vec::new();
    while given.len() < truth.len() {
        given.extend(align.decide(u64::MAX));
    }
    let fit = align.fit();
    assert!(fit < 0.3, "{fit}");
}

#[test]
fn a_mark_tells_how_far_the_work_is() {
    let mut align = Align::default();
    for name in 0..3 {
        align.add_unit(Unit { class: 1, from_ns: 0, exchange: 1, place: (7, name), name });
    }
    for name in 0..4 {
        align.add_call(Call { class: 1, start_ns: 10 + name, end_ns: 10 + name, order: 0, exchange: None, name });
    }
    // Two units were over before the third call; the third one makes two calls.
    align.add_mark(Mark { at_ns: 12, place: 7, number: 2 });
    let mut given = align.decide(11);
    given.extend(align.decide(u64::MAX));
    let units: Vec<Option<u64>> = given.iter().map(|one| one.unit).collect();
    assert!(units[1] <= Some(1) && units[3] >= Some(1), "{units:?}");
}

#[test]
fn what_is_kept_is_bounded() {
    let mut align = Align::default();
    for name in 0..3 * MAX_UNITS as u64 {
        align.add_unit(Unit { class: 1, from_ns: name, exchange: 1, place: (7, name), name });
        align.add_mark(Mark { at_ns: name, place: 7, number: name });
    }
    align.add_call(Call { class: 1, start_ns: u64::MAX, end_ns: u64::MAX, order: 0, exchange: None, name: 0 });
    align.decide(u64::MAX);
    assert!(align.units.len() <= MAX_UNITS && align.coming.len() <= MAX_UNITS && align.marks.len() <= MAX_MARKS);
}
