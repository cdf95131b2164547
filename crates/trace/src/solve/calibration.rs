//! From the share of explanations that agree to the share of links that are right.
//!
//! The two differ most in the middle: where neither turn nor time tells much, several explanations that share a mistake
//! agree with each other. The points are what was measured over seven shapes (docs/accuracy.md); between
//! them it is a line.

/// Mean of what was computed, and how much of it was right.
const MEASURED: [(f64, f64); 9] = [
    (0.0, 0.0),
    (0.35, 0.45),
    (0.45, 0.52),
    (0.57, 0.74),
    (0.65, 0.77),
    (0.75, 0.79),
    (0.85, 0.87),
    (0.955, 0.96),
    (0.99, 0.99),
];

/// How likely a link is right on which this share of the explanations agrees.
pub(super) fn calibrated(share: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for (computed, right) in MEASURED {
        if share < computed {
            return before.1 + (right - before.1) * (share - before.0) / (computed - before.0);
        }
        before = (computed, right);
    }
    before.1
}

#[cfg(test)]
mod tests {
    use super::calibrated;

    #[test]
    fn it_rises_from_nothing_to_nearly_certain() {
        let all: Vec<f64> = (0..=100).map(|n| calibrated(f64::from(n) / 100.0)).collect();
        assert!(all.windows(2).all(|w| w[0] <= w[1]), "{all:?}");
        assert_eq!((all[0], all[100]), (0.0, 0.99));
        assert!((calibrated(0.75) - 0.79).abs() < 1e-9);
        assert!((calibrated(0.8) - 0.83).abs() < 1e-9);
    }
}
