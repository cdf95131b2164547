//! The user's protocols: descriptions (TOML) and plug-ins (WebAssembly), read once at the start.

use crate::config::{self, Config};
use anyhow::{bail, Context as _, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wirespan_decode::custom::{Custom, Definition};
use wirespan_decode::{Keep, Mask, Protocol, Registry};
use wirespan_model::near::nearest;
use wirespan_plugin::{Limits, Plugin, Settings};

/// The built-in protocols, then descriptions, then plug-ins, in the order of the configuration.
pub(crate) fn registry(config: &Config) -> Result<Registry> {
    let settings = &config.protocols;
    let mut added: Vec<&'static dyn Protocol> = Vec::new();
    let mut files = listed(&settings.dir)?;
    files.extend(settings.files.iter().cloned());
    for file in &files {
        let text = std::fs::read_to_string(file).with_context(|| format!("protocol file {}", file.display()))?;
        for protocol in parse(&text).with_context(|| format!("protocol file {}", file.display()))? {
            added.push(Box::leak(Box::new(protocol)));
        }
    }
    for plugin in &config.plugin {
        let d = Limits::default();
        let settings = Settings {
            path: plugin.path.clone(),
            name: plugin.name.clone(),
            ports: plugin.ports.clone(),
            limits: Limits {
                fuel: plugin.fuel.clamp(1_000, 1_000_000_000),
                memory_bytes: usize::try_from(plugin.memory_mib.saturating_mul(1 << 20)).unwrap_or(d.memory_bytes),
                faults: plugin.faults.max(1),
            },
        };
        added.push(Box::leak(Box::new(Plugin::load(&settings)?)));
    }
    for (i, protocol) in added.iter().enumerate() {
        if added.iter().take(i).any(|p| p.name() == protocol.name()) {
            bail!("two added protocols have the name `{}`", protocol.name());
        }
    }
    let registry = Registry::with(added);
    let keep = keep(&config.mask, &registry)?;
    Ok(registry.keeping(keep))
}

/// Checks the settings of `[mask]`: each protocol must be in the registry and must read the keys that are set.
fn keep(masks: &BTreeMap<String, config::Mask>, registry: &Registry) -> Result<Keep> {
    let mut keep = Keep::default();
    for (name, settings) in masks {
        // The HTTP parsers read gRPC, so the registry has no gRPC. Its spans have attributes to mask all the same.
        let keepable = match registry.find(name) {
            Some(protocol) => protocol.keepable(),
            None if name == "grpc" => &[],
            None => bail!("mask: there is no protocol `{name}`{}", nearest_protocol(name, registry)),
        };
        let mask = Mask {
            request_headers: settings.request_headers.clone(),
            response_headers: settings.response_headers.clone(),
            query: settings.query.clone(),
            literals: settings.literals,
            keys: settings.keys,
            fields: settings.fields.clone(),
            hide: settings.hide.clone(),
        };
        if let Some(key) = mask.keep_keys().find(|key| !keepable.contains(key)) {
            let readers = registry.iter().filter(|p| p.keepable().contains(&key)).map(|p| p.name());
            let mut readers: Vec<_> = readers.collect();
            readers.dedup();
            bail!("mask.{name}: `{}` is read by these protocols only: {}", key.name(), readers.join(", "));
        }
        keep = keep.with(name, &mask).map_err(|why| anyhow::anyhow!("mask.{name}: {why}"))?;
    }
    Ok(keep)
}

/// The nearest name of a protocol, or all names.
fn nearest_protocol(wrong: &str, registry: &Registry) -> String {
    let mut names: Vec<_> = registry.iter().map(|p| p.name()).chain(["grpc"]).collect();
    names.dedup();
    match nearest(wrong, &names) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; the protocols are: {}", names.join(", ")),
    }
}

/// The `*.toml` of a directory, sorted; none if there is no such directory.
fn listed(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).with_context(|| format!("protocols in {}", dir.display())),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The protocols of one file: `[[protocol]]` tables.
fn parse(text: &str) -> Result<Vec<Custom>> {
    let mut file: toml::Table = text.parse()?;
    let known = toml::Table::try_from(Definition::full())?;
    let Some(toml::Value::Array(tables)) = file.remove("protocol") else {
        bail!("no [[protocol]] in it");
    };
    if let Some(key) = file.keys().next() {
        bail!("unknown key `{key}`; a file has [[protocol]] tables only");
    }
    let mut protocols = Vec::new();
    for table in tables {
        let toml::Value::Table(table) = table else { bail!("`protocol` is a list of tables: write [[protocol]]") };
        let name = table.get("name").and_then(toml::Value::as_str).unwrap_or("without a name").to_owned();
        let read = || -> Result<Custom> {
            check_keys("", &table, &known)?;
            Ok(Custom::new(toml::Table::try_into(table)?)?)
        };
        protocols.push(read().with_context(|| format!("protocol `{name}`"))?);
    }
    Ok(protocols)
}

/// Every key must be one of a definition, except the keys of `names`, which the user chooses.
fn check_keys(prefix: &str, table: &toml::Table, known: &toml::Table) -> Result<()> {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let Some(expected) = known.get(key) else {
            match nearest(key, known.keys()) {
                Some(near) => bail!("unknown key `{path}`; did you mean `{near}`?"),
                None => {
                    let keys: Vec<_> = known.keys().map(String::as_str).collect();
                    bail!("unknown key `{path}`; the keys are: {}", keys.join(", "))
                }
            }
        };
        let inner = match expected {
            toml::Value::Table(inner) if key != "names" => Some(inner),
            toml::Value::Array(list) => list.first().and_then(toml::Value::as_table),
            _ => None,
        };
        let Some(inner) = inner else { continue };
        match value {
            toml::Value::Table(value) => check_keys(&path, value, inner)?,
            toml::Value::Array(values) => {
                for value in values.iter().filter_map(toml::Value::as_table) {
                    check_keys(&path, value, inner)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_true() {
        let page = include_str!("../docs/protocols/custom.md");
        let example = page.split("```toml\n").nth(1).and_then(|p| p.split("```").next()).expect("an example");
        let protocols = parse(example).expect("it is valid");
        assert_eq!(protocols.len(), 1);
        // Reads the example bytes of the documentation page in the way that the page describes.
        let hex = |title: &str| -> Vec<u8> {
            let line = page.lines().find(|l| l.contains(title)).expect(title);
            let bytes = line.split('`').nth(1).expect("bytes").split(' ');
            bytes.map(|b| u8::from_str_radix(b, 16).expect("hexadecimal")).collect()
        };
        let mut parser = protocols[0].parser(wirespan_model::Transport::Tcp);
        let mut said = Vec::new();
        for (side, title) in [(wirespan_model::Side::Client, "request:"), (wirespan_model::Side::Server, "response:")] {
            parser.feed(wirespan_model::Chunk { side, bytes: &hex(title), missing: 0 }, &mut |item| {
                if let wirespan_model::Item::Message(m) = item {
                    said.push(format!("{:?} {} {} {:?} {}", m.kind, m.operation, m.target, m.outcome, m.error));
                }
            });
        }
        assert_eq!(said, ["Request reserve seat-map Unset ", "Response reserve  ClientError sold-out"]);
    }

    #[test]
    fn a_mask_of_an_unknown_protocol_names_the_nearest() {
        let refused = |protocol: &str, mask: config::Mask| {
            let config = Config { mask: [(protocol.to_owned(), mask)].into(), ..Config::default() };
            let registry = Registry::default();
            keep(&config.mask, &registry).expect_err("wrong").to_string()
        };
        let none = config::Mask::default;
        assert_eq!(refused("postgres", none()), "mask: there is no protocol `postgres`; did you mean `postgresql`?");
        assert!(refused("xyzzyxyzzy", none()).contains("; the protocols are: http, http2, "));
        let literals = config::Mask { literals: true, ..none() };
        let readers = "postgresql, mysql, microsoft.sql_server, clickhouse, cassandra";
        let why = format!("mask.redis: `literals` is read by these protocols only: {readers}");
        assert_eq!(refused("redis", literals), why);
        let headers = config::Mask { request_headers: vec!["x y".into()], ..none() };
        assert_eq!(refused("http", headers), "mask.http: `x y` is no name of a header field");
    }

    #[test]
    fn masks_of_known_protocols_are_kept() {
        let hide = config::Mask { hide: vec!["target".into()], ..config::Mask::default() };
        let literals = config::Mask { literals: true, ..config::Mask::default() };
        let masks = [("grpc".to_owned(), hide), ("microsoft.sql_server".to_owned(), literals)].into();
        let kept = keep(&masks, &Registry::default()).expect("valid");
        assert!(kept != Keep::default());
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let wrong = |text: &str| format!("{:#}", parse(text).expect_err("wrong"));
        let said = wrong("[[protocol]]\nname = \"x\"\n[protocol.frame]\nlenght_size = 2\n");
        assert_eq!(said, "protocol `x`: unknown key `frame.lenght_size`; did you mean `length_size`?");
        let said = wrong("[[protocol]]\nname = \"x\"\nkind = { field = { ofset = 2 } }\n");
        assert!(said.contains("`kind.field.ofset`; did you mean `offset`?"), "{said}");
        let said = wrong("[[protocol]]\nname = \"x\"\n[[protocol.magic]]\nhexx = \"00\"\n");
        assert!(said.contains("`magic.hexx`; did you mean `hex`?"), "{said}");
        assert!(wrong("[[protocol]]\nname = \"x\"\nports = [1]\n").contains("length_size"));
        assert!(wrong("name = \"x\"\n").contains("no [[protocol]]"));
    }
}
