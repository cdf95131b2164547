//! The name that somebody meant who has written a wrong one.

/// The nearest of these names, if so few characters differ that it was probably meant.
pub fn nearest<T: AsRef<str> + Ord>(wrong: &str, known: impl IntoIterator<Item = T>) -> Option<T> {
    let distance = |name: &T| strsim::damerau_levenshtein(wrong, name.as_ref());
    let (distance, name) = known.into_iter().map(|name| (distance(&name), name)).min()?;
    (distance <= wrong.len().max(4) / 2).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_if_few_characters_differ() {
        let known = ["address", "port", "protocol"];
        assert_eq!([nearest("adress", known), nearest("prot", known)], [Some("address"), Some("port")]);
        assert_eq!([nearest("colour", known), nearest("", known)], [None, None]);
    }
}
