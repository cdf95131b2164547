//! A configuration file (TOML) overrides the defaults of [`keys`], the command line overrides the file.
//!
//! Unknown keys are errors that name the nearest key that exists.

mod keys;
mod page;

pub(crate) use keys::{Config, Inference, Mask, Plugin, Serve, Store};
pub(crate) use page::reference;

use anyhow::{bail, Context as _, Result};
use std::path::Path;

/// Where the configuration is looked for if no file is named.
const DEFAULT_FILE: &str = "/etc/wirespan/wirespan.toml";

/// Reads the named file, or the default file if it exists, or nothing.
pub(crate) fn load(named: Option<&Path>) -> Result<Config> {
    let path = match named {
        Some(path) => path,
        None if Path::new(DEFAULT_FILE).exists() => Path::new(DEFAULT_FILE),
        None => return Ok(Config::default()),
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("configuration file {}", path.display()))?;
    parse(&text).with_context(|| format!("configuration file {}", path.display()))
}

fn parse(text: &str) -> Result<Config> {
    let table: toml::Table = text.parse()?;
    check_keys("", &table, &template()?)?;
    Ok(toml::Table::try_into(table)?)
}

/// Tables whose keys are the user's own.
const FREE: &[&str] = &["export.otlp_headers", "mask.hide"];

/// Every key with its default; of a list of tables, one.
fn template() -> Result<toml::Table> {
    let config = Config { plugin: vec![Plugin::default()], ..Config::default() };
    Ok(toml::Table::try_from(config)?)
}

/// The table that a list of tables has one of.
fn only(list: &[toml::Value]) -> Option<&toml::Table> {
    list.first().and_then(toml::Value::as_table)
}

fn check_keys(prefix: &str, table: &toml::Table, known: &toml::Table) -> Result<()> {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (value, known.get(key)) {
            (_, None) => bail!("unknown key `{path}`{}", nearest(&path)),
            (toml::Value::Table(_), Some(_)) if FREE.contains(&path.as_str()) => {}
            (toml::Value::Table(inner), Some(toml::Value::Table(known))) => check_keys(&path, inner, known)?,
            (value, Some(toml::Value::Array(list))) if only(list).is_some() => {
                let tables =
                    value.as_array().and_then(|a| a.iter().map(toml::Value::as_table).collect::<Option<Vec<_>>>());
                let (Some(tables), Some(known)) = (tables, only(list)) else {
                    bail!("`{path}` is a list of tables: write [[{path}]]")
                };
                tables.into_iter().try_for_each(|table| check_keys(&path, table, known))?;
            }
            (_, Some(toml::Value::Table(_))) => bail!("`{path}` is a section: write [{path}]"),
            _ => {}
        }
    }
    Ok(())
}

/// Every key as `section.key`.
pub(crate) fn names() -> Vec<String> {
    fn walk(prefix: &str, table: &toml::Table, out: &mut Vec<String>) {
        for (key, value) in table {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(inner) if !FREE.contains(&path.as_str()) => walk(&path, inner, out),
                toml::Value::Array(list) if only(list).is_some_and(|t| !t.is_empty()) => {
                    if let Some(inner) = only(list) {
                        walk(&path, inner, out);
                    }
                }
                _ => out.push(path),
            }
        }
    }
    let mut out = Vec::new();
    if let Ok(table) = template() {
        walk("", &table, &mut out);
    }
    out
}

fn nearest(path: &str) -> String {
    let keys = names();
    // A section may be misspelled, too.
    let sections = keys.iter().filter_map(|key| key.rsplit_once('.')).map(|(section, _)| section.to_string());
    let known = keys.iter().cloned().chain(sections);
    match known.map(|k| (strsim::damerau_levenshtein(path, &k), k)).min() {
        Some((distance, key)) if distance <= path.len().max(4) / 2 => format!("; did you mean `{key}`?"),
        _ => format!("; the keys are: {}", keys.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::keys::Join;
    use super::*;

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error = parse("[capture]\npayload_byte = 7\n").expect_err("unknown");
        assert_eq!(error.to_string(), "unknown key `capture.payload_byte`; did you mean `capture.payload_bytes`?");
        let error = parse("[captur]\nrung = 'x'\n").expect_err("unknown");
        assert_eq!(error.to_string(), "unknown key `captur`; did you mean `capture`?");
        assert!(parse("[xyzzy]\nq=1\n").expect_err("unknown").to_string().contains("serve.ui"));
    }

    #[test]
    fn defaults_survive_and_values_override() {
        let config = parse("[join]\nwindow_s = 5\n[export.otlp_headers]\nauthorization = \"x\"\n").expect("valid");
        assert_eq!(config.join.window_s, 5);
        assert_eq!(config.join.max_connections, Join::default().max_connections);
        assert_eq!(config.export.otlp_headers.len(), 1);
        assert!(parse("[join]\nwindow_s = \"soon\"\n").is_err());
    }
}
