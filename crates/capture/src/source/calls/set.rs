//! Lists of system calls, as users write them.

use super::names;
use crate::wire::contract::WS_CALL_WORDS;
use wirespan_model::near::nearest;

const WORDS: usize = WS_CALL_WORDS as usize;
/// The word for every call.
const ALL: &str = "all";

/// A set of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSet([u64; WORDS]);

impl CallSet {
    /// Reads names with commas between, or `all`. The error names the nearest name.
    pub fn read(text: &str) -> Result<CallSet, String> {
        let mut set = CallSet::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if word == ALL {
                return Ok(CallSet([u64::MAX; WORDS]));
            }
            match names::all().iter().find(|(_, name)| *name == word) {
                Some((number, _)) => set.add(*number),
                None => return Err(unknown(word)),
            }
        }
        match set == CallSet::default() {
            true => Err(format!("no system call is named; write names with commas between, or {ALL}")),
            false => Ok(set),
        }
    }

    fn add(&mut self, number: u16) {
        if let Some(word) = self.0.get_mut(usize::from(number) / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// These calls and those.
    pub fn with(mut self, other: CallSet) -> CallSet {
        self.0.iter_mut().zip(other.0).for_each(|(own, more)| *own |= more);
        self
    }

    pub(super) fn bits(self) -> [u64; WORDS] {
        self.0
    }
}

fn unknown(word: &str) -> String {
    let near = nearest(word, names::all().iter().map(|(_, name)| *name));
    let hint = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    format!("`{word}` is not a system call of this architecture{hint}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_calls_and_a_wrong_name_is_told_with_the_nearest() {
        let set = CallSet::read(" getpid, openat ,").unwrap();
        assert_eq!(set.bits().iter().map(|word| word.count_ones()).sum::<u32>(), 2);
        assert_eq!(set.with(CallSet::read("getpid").unwrap()), set);
        assert_eq!(CallSet::read("getpid,all").unwrap().bits(), [u64::MAX; WORDS]);
        let error = CallSet::read("read,getpidd").unwrap_err();
        assert_eq!(error, "`getpidd` is not a system call of this architecture; did you mean `getpid`?");
        assert!(CallSet::read("xyzzyxyzzy").unwrap_err().ends_with("architecture"));
        assert!(CallSet::read(" , ").unwrap_err().starts_with("no system call is named"));
    }
}
