//! An error in words.

/// What failed and why, from the outermost error to its root. Some errors tell their cause themselves: a cause that
/// has just been told is left out.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.ends_with(&cause) {
            continue;
        }
        if !told.is_empty() {
            told.push_str(": ");
        }
        told.push_str(&cause);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_store::StoreError;

    #[test]
    fn each_cause_is_told_once() {
        let source = std::io::Error::from_raw_os_error(2);
        let store = StoreError::Io { context: "create /x".into(), source };
        let error = anyhow::Error::from(store).context("store /x");
        assert_eq!(words(&error), "store /x: create /x: No such file or directory (os error 2)");
        assert_eq!(words(&anyhow::anyhow!("alone")), "alone");
    }
}
