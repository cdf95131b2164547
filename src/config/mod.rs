//! A configuration file (TOML) overrides the defaults of [`keys`], the command line ([`options`]) overrides the file.
//!
//! Unknown keys are errors that name the nearest key that exists.

mod export;
mod keys;
mod options;
mod page;
mod stages;

pub(crate) use export::{export_config, metrics_exporter};
pub(crate) use keys::{Config, Mask, Packets, Plugin, Serve};
pub(crate) use options::{
    AttachArgs, CallArgs, KnobArgs, MapFileArgs, OutputArgs, ProgramArgs, PropagateArgs, UiArgs, WaitArgs, WatchArgs,
};
pub(crate) use page::reference;
pub(crate) use stages::{capture_options, flow_rhythm, join_config, slow, solver_config, store_options, stream_config};

use anyhow::{bail, Context as _, Result};
use keys::WaitsOf;
use std::path::Path;

/// The default configuration file.
const DEFAULT_FILE: &str = "/etc/wirespan/wirespan.toml";

/// Reads the named file, else the default file if it exists, else an empty configuration.
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
    refuse_old_keys(&table)?;
    let masked = table.get("mask").and_then(toml::Value::as_table);
    let protocols = masked.into_iter().flat_map(toml::Table::keys).map(String::as_str);
    let template = template(protocols)?;
    check_keys("", &table, &template, &template)?;
    Ok(toml::Table::try_into(table)?)
}

/// Tables with keys that the user chooses.
const FREE: &[&str] = &["export.otlp_headers"];

/// A placeholder for the name of any protocol in the keys of `[mask]`.
const PROTOCOL: &str = "PROTOCOL";

/// Every key with its default. A list of tables has one table. `[mask]` has one table for each of these protocols, and
/// one for [`PROTOCOL`]. `protocols.rs` knows the protocols and checks their names.
fn template<'a>(protocols: impl IntoIterator<Item = &'a str>) -> Result<toml::Table> {
    let protocols = protocols.into_iter().chain([PROTOCOL]);
    let mask = protocols.map(|name| (name.to_owned(), Mask::default())).collect();
    let mut config = Config { plugin: vec![Plugin::default()], mask, ..Config::default() };
    config.waits.endpoint.push(WaitsOf::default());
    Ok(toml::Table::try_from(config)?)
}

/// Keys of earlier versions are errors that name the new key.
fn refuse_old_keys(table: &toml::Table) -> Result<()> {
    let Some(toml::Value::Table(mask)) = table.get("mask") else { return Ok(()) };
    if let Some(hide) = mask.get("hide") {
        let protocol = hide.as_table().and_then(|hide| hide.keys().next()).map_or(PROTOCOL, String::as_str);
        let section = section("mask", protocol);
        bail!("`mask.hide` is now a key of each protocol: write `hide = […]` under [{section}]");
    }
    if mask.contains_key("mssql") {
        bail!("`mask.mssql` is now `{}`", section("mask", "microsoft.sql_server"));
    }
    Ok(())
}

/// The name of a section in TOML's notation.
fn section(parent: &str, name: &str) -> String {
    let bare = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if bare {
        format!("{parent}.{name}")
    } else {
        format!("{parent}.\"{name}\"")
    }
}

/// The one table in the template of a list of tables.
fn only(list: &[toml::Value]) -> Option<&toml::Table> {
    list.first().and_then(toml::Value::as_table)
}

/// Checks the keys of a table against those of `known`, the table at the same place in the template `all`.
fn check_keys(prefix: &str, table: &toml::Table, known: &toml::Table, all: &toml::Table) -> Result<()> {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (value, known.get(key)) {
            (_, None) => bail!("unknown key `{path}`{}", nearest(&path, all)),
            (toml::Value::Table(_), Some(_)) if FREE.contains(&path.as_str()) => {}
            (toml::Value::Table(inner), Some(toml::Value::Table(known))) => check_keys(&path, inner, known, all)?,
            (value, Some(toml::Value::Array(list))) if only(list).is_some() => {
                let tables =
                    value.as_array().and_then(|a| a.iter().map(toml::Value::as_table).collect::<Option<Vec<_>>>());
                let (Some(tables), Some(known)) = (tables, only(list)) else {
                    bail!("`{path}` is a list of tables: write [[{path}]]")
                };
                tables.into_iter().try_for_each(|table| check_keys(&path, table, known, all))?;
            }
            (_, Some(toml::Value::Table(_))) => bail!("`{path}` is a section: write [{path}]"),
            _ => {}
        }
    }
    Ok(())
}

/// Every key of a template as `section.key`.
fn names(template: &toml::Table) -> Vec<String> {
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
    walk("", template, &mut out);
    out
}

fn nearest(path: &str, all: &toml::Table) -> String {
    let keys = names(all);
    // The name of a section may be misspelled, too.
    let sections = keys.iter().flat_map(|key| key.match_indices('.').filter_map(|(dot, _)| key.get(..dot)));
    let known = keys.iter().cloned().chain(sections.map(str::to_owned));
    match wirespan_model::near::nearest(path, known) {
        Some(key) => format!("; did you mean `{key}`?"),
        None => format!("; the keys are: {}", keys.join(", ")),
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
    fn masks_have_one_section_for_each_protocol() {
        let text = "[mask.http]\nquery = ['page']\n[mask.\"microsoft.sql_server\"]\nliterals = true\n";
        let config = parse(text).expect("valid");
        assert_eq!(config.mask["http"].query, ["page"]);
        assert!(config.mask["microsoft.sql_server"].literals);
        let error = parse("[mask.redis]\nkey = true\n").expect_err("unknown");
        assert_eq!(error.to_string(), "unknown key `mask.redis.key`; did you mean `mask.redis.keys`?");
        let error = parse("[maks.redis]\nkeys = true\n").expect_err("unknown");
        assert_eq!(error.to_string(), "unknown key `maks`; did you mean `mask`?");
    }

    #[test]
    fn thresholds_of_endpoints_are_a_list_of_tables() {
        let text = "[waits]\nthreshold = 'auto'\n[[waits.endpoint]]\nservice = 'shop'\nthreshold = '9ms'\n";
        let config = parse(text).expect("valid");
        assert_eq!((&*config.waits.endpoint[0].service, config.waits.endpoint.len()), ("shop", 1));
        let options = slow(&config).expect("rules").options().expect("waits are recorded");
        assert_eq!(options.threshold_ns, 9_000_000);
        assert!(slow(&Config::default()).expect("no rules").options().is_none());
        let error = parse("[[waits.endpoint]]\nservices = 'shop'\n").expect_err("unknown");
        assert_eq!(error.to_string(), "unknown key `waits.endpoint.services`; did you mean `waits.endpoint.service`?");
        let config = parse("[[waits.endpoint]]\nservice = 'shop'\n").expect("valid");
        let error = slow(&config).map(|_| ()).expect_err("no threshold").to_string();
        assert!(error.starts_with("waits.endpoint.threshold: `` is not a duration"), "{error}");
    }

    #[test]
    fn old_keys_of_masks_name_the_new_ones() {
        let error = parse("[mask.hide]\n\"microsoft.sql_server\" = ['target']\n").expect_err("old");
        let new = "`mask.hide` is now a key of each protocol: write `hide = […]` under [mask.\"microsoft.sql_server\"]";
        assert_eq!(error.to_string(), new);
        let error = parse("[mask.mssql]\nliterals = true\n").expect_err("old");
        assert_eq!(error.to_string(), "`mask.mssql` is now `mask.\"microsoft.sql_server\"`");
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
