//! `--pcapng` with `--fleet`: what agents record, in one file.

use crate::packet::{Names, Pcapng};
use anyhow::{Context as _, Result};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use wirespan_model::packet::Sighting;
use wirespan_model::plain;

/// The file, and what agents call their namespaces.
pub(super) struct Copy {
    file: Pcapng<BufWriter<File>>,
    names: BTreeMap<String, Names>,
}

impl Copy {
    pub(super) fn to(path: &Path) -> Result<Self> {
        let named = || format!("writing {}", path.display());
        let file = Pcapng::new(BufWriter::new(File::create(path).with_context(named)?)).with_context(named)?;
        Ok(Copy { file, names: BTreeMap::new() })
    }

    /// Writes the packet of a line; other lines are none.
    pub(super) fn write(&mut self, line: &str) -> Result<()> {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return Ok(()) };
        let text = |key: &str| plain::line(line[key].as_str().unwrap_or_default()).into_owned();
        if line["kind"] != "packet" {
            return Ok(());
        }
        let Ok(s) = Sighting::deserialize(&line) else { return Ok(()) };
        let (agent, dropped) = (text("agent"), text("drop_reason"));
        let names = self.names.entry(agent.clone()).or_default();
        names.call(s.netns, &text("netns_name"));
        self.file.write_of(&agent, &s, names, &|_| dropped.clone()).context("writing the pcapng file")
    }

    pub(super) fn finish(self) -> Result<()> {
        self.file.finish().context("writing the pcapng file")
    }
}
