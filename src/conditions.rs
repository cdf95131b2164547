//! What is wrong at present, in words: said once on stderr when it begins and when it ends, and shown by `wirespan
//! status` and on the status page as long as it lasts.

use crate::clock::now_ns;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wirespan_model::plain;

/// A change of the words while a condition lasts is said at most this often.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// A condition has ended when it has not come back for this long: what comes and goes is said once.
const ENDED_AFTER: Duration = Duration::from_secs(3);

/// Most subjects that are remembered: each agent that ever came is one.
const MAX_SUBJECTS: usize = 10_000;

/// Something that does not work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What is wrong, and with what: `the server 10.0.0.1:9474 does not answer: connection refused`.
    pub(crate) what: String,
    /// How much waits or is lost; changes all the time.
    pub(crate) waits: String,
    /// What to do.
    pub(crate) todo: String,
}

struct Lasting {
    trouble: Trouble,
    began: Instant,
    began_ns: u64,
    said: Instant,
    fine_since: Option<Instant>,
}

#[derive(Default)]
struct State {
    lasting: BTreeMap<String, Lasting>,
    /// Subjects that were fine once.
    fine: BTreeSet<String>,
}

/// Everything that is wrong at present, by subject.
#[derive(Default)]
pub(crate) struct Conditions(Mutex<State>);

impl Conditions {
    /// Notes how a subject is. `fine` is said when it is fine for the first time, and when a trouble has ended; an
    /// empty text is not said.
    pub(crate) fn set(&self, subject: &str, trouble: Option<Trouble>, fine: &str) {
        let Ok(mut state) = self.0.lock() else { return };
        let State { lasting, fine: known } = &mut *state;
        let now = Instant::now();
        match (lasting.get_mut(subject), trouble) {
            (None, None) => {
                if known.len() < MAX_SUBJECTS && known.insert(subject.to_string()) && !fine.is_empty() {
                    say(fine);
                }
            }
            (None, Some(trouble)) => {
                say(&line(&trouble));
                let began = Lasting { trouble, began: now, began_ns: now_ns(), said: now, fine_since: None };
                lasting.insert(subject.to_string(), began);
            }
            (Some(lasting), Some(trouble)) => {
                if lasting.trouble.what != trouble.what && now - lasting.said >= SAID_AGAIN {
                    say(&line(&trouble));
                    lasting.said = now;
                }
                lasting.trouble = trouble;
                lasting.fine_since = None;
            }
            (Some(ending), None) => {
                if now - *ending.fine_since.get_or_insert(now) < ENDED_AFTER {
                    return;
                }
                if !fine.is_empty() {
                    say(&format!("{fine}, after {}", length(ending.began.elapsed())));
                }
                known.insert(subject.to_string());
                lasting.remove(subject);
            }
        }
    }

    /// A sentence for each, with since when.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Ok(state) = self.0.lock() else { return Vec::new() };
        let note = |lasting: &Lasting| {
            let since = format!("since {} ({})", clock(lasting.began_ns), length(lasting.began.elapsed()));
            let Trouble { what, waits, todo } = &lasting.trouble;
            let parts = [what.as_str(), &since, waits, todo];
            let parts: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
            plain::line(&parts.join("; ")).into_owned()
        };
        state.lasting.values().filter(|l| l.fine_since.is_none()).map(note).collect()
    }
}

fn line(trouble: &Trouble) -> String {
    let parts = [trouble.what.as_str(), &trouble.waits, &trouble.todo];
    parts.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join("; ")
}

fn say(text: &str) {
    eprintln!("wirespan: {}: {}", clock(now_ns()), plain::line(text));
}

/// `17:05:03 UTC`.
fn clock(unix_ns: u64) -> String {
    let s = unix_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", s / 3600, s / 60 % 60, s % 60)
}

fn length(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_shown_as_long_as_it_lasts() {
        let conditions = Conditions::default();
        let trouble = |waits: &str| Trouble { what: "the x is gone".into(), waits: waits.into(), todo: "look".into() };
        conditions.set("x", None, "the x is there");
        assert_eq!(conditions.notes(), [""; 0]);
        conditions.set("x", Some(trouble("1 waits")), "");
        conditions.set("x", Some(trouble("2 \u{1b}[31mwait")), "");
        let notes = conditions.notes();
        assert!(notes.len() == 1 && notes[0].starts_with("the x is gone; since "), "{notes:?}");
        assert!(notes[0].ends_with("(0 s); 2 \\u{1b}[31mwait; look"), "{notes:?}");
        conditions.set("x", None, "the x is there");
        assert!(conditions.notes().is_empty());
        assert_eq!(clock(1_790_000_000_000_000_000), "14:13:20 UTC");
        assert_eq!(length(Duration::from_secs(200)), "3 min");
    }
}
