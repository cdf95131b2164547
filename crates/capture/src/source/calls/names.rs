//! System calls by number and by name, of this architecture. Each line of the table is a number and a name.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("x86_64.txt");
#[cfg(not(target_arch = "x86_64"))]
const TABLE: &str = include_str!("aarch64.txt");

/// A call of a kernel that is newer than the table.
const UNKNOWN: &str = "unknown";

/// All calls, by number.
pub(super) fn all() -> &'static [(u16, &'static str)] {
    static ALL: OnceLock<Vec<(u16, &'static str)>> = OnceLock::new();
    ALL.get_or_init(|| read(TABLE))
}

fn read(table: &'static str) -> Vec<(u16, &'static str)> {
    let line = |line: &'static str| line.split_once(' ').and_then(|(n, name)| Some((n.parse().ok()?, name)));
    table.lines().filter_map(line).collect()
}

/// The name of a call.
pub(super) fn of(number: u16) -> &'static str {
    all().binary_search_by_key(&number, |(own, _)| *own).map_or(UNKNOWN, |at| all()[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_are_in_order_and_name_each_call_once() {
        for table in [include_str!("x86_64.txt"), include_str!("aarch64.txt")] {
            let all = read(table);
            assert_eq!(all.len(), table.lines().count(), "each line is a number and a name");
            assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let mut names: Vec<_> = all.iter().map(|(_, name)| *name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all.len());
            let number = |name| all.iter().find(|(_, own)| *own == name).map(|(number, _)| *number);
            assert!(matches!(number("getppid"), Some(110 | 173)) && number("file_setattr") == Some(469));
        }
        assert_eq!((of(511), of(437)), (UNKNOWN, "openat2"));
    }
}
