//! Two readings of one capture, side by side.

use super::{Reading, Said};
use std::fmt::Write;
use std::path::Path;

/// Differences that are no fault of ours: exactly so many lines of a capture, for a reason that the document has.
pub struct Explained {
    /// File name of the capture.
    pub capture: &'static str,
    /// Messages that only tshark reads.
    pub only_theirs: usize,
    /// Messages that only we read.
    pub only_ours: usize,
    /// Why; stands in the same words in `docs/protocols/differences.md`, on a line with the name of the capture.
    pub why: &'static str,
}

/// Compares and panics with a readable difference, unless `explained` names exactly so many lines for this capture.
/// Returns how many messages both agree on.
pub fn check(capture: &Path, ours: &Reading, theirs: &Reading, explained: &[Explained]) -> usize {
    let (mut same, mut only_theirs, mut only_ours) = (0, 0, 0);
    let mut text = String::new();
    let mut keys: Vec<_> = ours.keys().chain(theirs.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let none = Vec::new();
        let (a, b) = (theirs.get(key).unwrap_or(&none), ours.get(key).unwrap_or(&none));
        let lines = diff(a, b);
        same += lines.iter().filter(|l| matches!(l, Line::Both(_))).count();
        only_theirs += lines.iter().filter(|l| matches!(l, Line::Theirs(_))).count();
        only_ours += lines.iter().filter(|l| matches!(l, Line::Ours(_))).count();
        show(&lines, &format!("{} <-> {}", key.0, key.1), &mut text);
    }
    let name = capture.file_name().unwrap().to_str().unwrap();
    let reason = explained.iter().find(|e| e.capture == name);
    let expected = reason.map_or((0, 0), |e| (e.only_theirs, e.only_ours));
    assert!(
        (only_theirs, only_ours) == expected,
        "{}: {same} messages agree, {only_theirs} only tshark reads (-), {only_ours} only we read (+); expected are \
         {expected:?}\n{text}",
        capture.display(),
    );
    if let Some(e) = reason {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/differences.md");
        let document = std::fs::read_to_string(&path).unwrap();
        let told = document.lines().any(|line| line.contains(name) && line.contains(e.why));
        assert!(told, "{}: no line has both {name} and {:?}", path.display(), e.why);
    }
    same
}

enum Line<'a> {
    Both(&'a Said),
    Theirs(&'a Said),
    Ours(&'a Said),
}

/// Most messages of the differing middle that are aligned as well as can be; in longer ones the next place is looked
/// for where both go on alike.
const MAX_ALIGNED: usize = 3000;

fn diff<'a>(theirs: &'a [Said], ours: &'a [Said]) -> Vec<Line<'a>> {
    let head = theirs.iter().zip(ours).take_while(|(a, b)| a == b).count();
    let (a, b) = (&theirs[head..], &ours[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, end) = a.split_at(a.len() - tail);
    let b = &b[..b.len() - tail];
    let mut lines: Vec<Line<'_>> = theirs[..head].iter().map(Line::Both).collect();
    if a.len().max(b.len()) > MAX_ALIGNED {
        go_on(a, b, &mut lines);
    } else {
        // Lengths of the longest common rest, from every place on.
        let mut longest = vec![vec![0u32; b.len() + 1]; a.len() + 1];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                longest[i][j] =
                    if a[i] == b[j] { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            if i < a.len() && j < b.len() && a[i] == b[j] {
                lines.push(Line::Both(&a[i]));
                (i, j) = (i + 1, j + 1);
            } else if j == b.len() || (i < a.len() && longest[i + 1][j] >= longest[i][j + 1]) {
                lines.push(Line::Theirs(&a[i]));
                i += 1;
            } else {
                lines.push(Line::Ours(&b[j]));
                j += 1;
            }
        }
    }
    lines.extend(end.iter().map(Line::Both));
    lines
}

/// Aligns long lists: at a difference the fewest lines of both are left out behind which so many are the same.
fn go_on<'a>(mut a: &'a [Said], mut b: &'a [Said], lines: &mut Vec<Line<'a>>) {
    const ALIKE: usize = 3;
    const FAR: usize = 64;
    while !a.is_empty() && !b.is_empty() {
        if a[0] == b[0] {
            lines.push(Line::Both(&a[0]));
            (a, b) = (&a[1..], &b[1..]);
            continue;
        }
        let alike = |i: usize, j: usize| {
            let (Some(x), Some(y)) = (a.get(i..), b.get(j..)) else { return false };
            let n = ALIKE.min(x.len()).min(y.len());
            n > 0 && x[..n] == y[..n]
        };
        let near = (1..FAR).find_map(|sum| (0..=sum).map(|i| (i, sum - i)).find(|(i, j)| alike(*i, *j)));
        let Some((i, j)) = near else { break };
        lines.extend(a[..i].iter().map(Line::Theirs).chain(b[..j].iter().map(Line::Ours)));
        (a, b) = (&a[i..], &b[j..]);
    }
    lines.extend(a.iter().map(Line::Theirs).chain(b.iter().map(Line::Ours)));
}

/// Lines that differ, each with two before and behind.
fn show(lines: &[Line<'_>], title: &str, text: &mut String) {
    let near = |i: usize| {
        let from = i.saturating_sub(2);
        lines[from..(i + 3).min(lines.len())].iter().any(|l| !matches!(l, Line::Both(_)))
    };
    if (0..lines.len()).any(near) {
        writeln!(text, "  {title}").unwrap();
    }
    for (i, line) in lines.iter().enumerate().filter(|(i, _)| near(*i)) {
        match line {
            Line::Both(said) => writeln!(text, "    {i:5}   {said}").unwrap(),
            Line::Theirs(said) => writeln!(text, "    {i:5} - {said}").unwrap(),
            Line::Ours(said) => writeln!(text, "    {i:5} + {said}").unwrap(),
        }
    }
}

#[test]
fn differences_are_found() {
    use wirespan_model::{Endpoint, Kind};
    let said = |op: &str| Said {
        from: Endpoint::UNSPECIFIED,
        kind: Kind::Request,
        operation: op.into(),
        target: String::new(),
        status: String::new(),
    };
    let list = |ops: &[&str]| ops.iter().map(|o| said(o)).collect::<Vec<_>>();
    let marks = |a: &[&str], b: &[&str]| {
        let (a, b) = (list(a), list(b));
        let marks: String = diff(&a, &b)
            .iter()
            .map(|l| match l {
                Line::Both(_) => '=',
                Line::Theirs(_) => '-',
                Line::Ours(_) => '+',
            })
            .collect();
        marks
    };
    assert_eq!(marks(&["a", "b", "c"], &["a", "b", "c"]), "===");
    assert_eq!(marks(&["a", "b", "c"], &["a", "c"]), "=-=");
    assert_eq!(marks(&["a", "c"], &["a", "b", "c", "d"]), "=+=+");
    assert_eq!(marks(&["a", "x", "c", "y"], &["b", "c", "z"]), "--+=-+");
    assert_eq!(marks(&[], &["a"]), "+");
    let long: Vec<String> = (0..2 * MAX_ALIGNED).map(|n| n.to_string()).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let (some, half) =
        ([&["x"], &long[..MAX_ALIGNED], &["y", "z"], &long[MAX_ALIGNED..], &["u"]].concat(), MAX_ALIGNED);
    let marked = marks(&some, &[&["v"], long.as_slice()].concat());
    assert_eq!(marked, format!("-+{}--{}-", "=".repeat(half), "=".repeat(half)));
}
