//! The protocols that the user adds: descriptions (TOML) and plug-ins (WebAssembly), read once at the start.

use crate::config::{Config, Mask};
use anyhow::{bail, Context as _, Result};
use std::path::{Path, PathBuf};
use wirespan_decode::custom::{Custom, Definition};
use wirespan_decode::{Keep, Protocol, Registry};
use wirespan_plugin::{Limits, Plugin, Settings};

/// The built-in protocols, then descriptions, then plug-ins, each in the order in which the configuration names them.
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

/// What `[mask]` lets through and takes out.
fn keep(mask: &Mask, registry: &Registry) -> Result<Keep> {
    let http = &mask.http;
    let kept = Keep::default().http(&http.request_headers, &http.response_headers, &http.query);
    let mut keep = kept.map_err(|why| anyhow::anyhow!("mask.http: {why}"))?;
    for (protocol, settings) in [("redis", &mask.redis), ("memcached", &mask.memcached)] {
        if settings.keys {
            keep = keep.keys(protocol);
        }
    }
    let kept = keep.fields("mongodb", &mask.mongodb.fields);
    keep = kept.map_err(|why| anyhow::anyhow!("mask.mongodb: {why}"))?;
    for (protocol, sql) in [
        ("postgresql", &mask.postgresql),
        ("mysql", &mask.mysql),
        ("microsoft.sql_server", &mask.mssql),
        ("clickhouse", &mask.clickhouse),
        ("cassandra", &mask.cassandra),
    ] {
        if sql.literals {
            keep = keep.literals(protocol);
        }
    }
    for (protocol, attributes) in &mask.hide {
        if registry.find(protocol).is_none() && protocol != "grpc" {
            let names: Vec<_> = registry.iter().map(|p| p.name()).collect();
            bail!("mask.hide: there is no protocol `{protocol}`; the protocols are grpc, {}", names.join(", "));
        }
        keep = keep.hide(protocol, attributes);
    }
    Ok(keep)
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

/// Every key must be one of a definition; those of `names` are the user's own.
fn check_keys(prefix: &str, table: &toml::Table, known: &toml::Table) -> Result<()> {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let Some(expected) = known.get(key) else {
            let best = known.keys().map(|k| (strsim::damerau_levenshtein(key, k), k)).min();
            match best {
                Some((distance, near)) if distance <= key.len().max(4) / 2 => {
                    bail!("unknown key `{path}`; did you mean `{near}`?")
                }
                _ => {
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
        // The bytes that the page shows, read as the page says.
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
