//! The client of a running wirespan's query API.

use crate::config::Config;
use anyhow::{bail, Context as _, Result};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    /// Address of the query API [default: 127.0.0.1:9473]
    #[arg(long, value_name = "ADDR", env = "WIRESPAN_SERVER")]
    server: Option<String>,
    /// Secret that the query API asks for
    #[arg(long, value_name = "TOKEN", env = "WIRESPAN_UI_TOKEN", hide_env_values = true)]
    ui_token: Option<String>,
    /// File whose first line is that secret; before --ui-token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Percent-encodes a query value.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(b)),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

/// A secret of a file.
fn first_line(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--token-file {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

impl ClientArgs {
    /// GET, JSON.
    pub(crate) fn get(&self, config: &Config, path: &str) -> Result<Value> {
        self.ask(config, path, None)
    }

    /// POST, JSON.
    pub(crate) fn post(&self, config: &Config, path: &str, body: &Value) -> Result<Value> {
        self.ask(config, path, Some(body))
    }

    fn ask(&self, config: &Config, path: &str, body: Option<&Value>) -> Result<Value> {
        let server = self.server.clone().unwrap_or_else(|| config.serve.ui.to_string());
        let base = if server.contains("://") { server.clone() } else { format!("http://{server}") };
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .into();
        let url = format!("{}{path}", base.trim_end_matches('/'));
        let of_file = self.token_file.as_ref().map(|path| first_line(path)).transpose()?;
        let token = of_file.as_deref().or(self.ui_token.as_deref()).or(Some(&config.serve.ui_token));
        let token = token.filter(|token| !token.is_empty());
        let token = token.map(|token| ("authorization", format!("Bearer {token}")));
        let answer = match body {
            None => token.into_iter().fold(agent.get(url), |r, (name, value)| r.header(name, value)).call(),
            Some(body) => {
                let request = agent.post(url).header("content-type", "application/json");
                let request = token.into_iter().fold(request, |r, (name, value)| r.header(name, value));
                request.send(body.to_string())
            }
        };
        let mut response = answer.with_context(|| {
            format!(
                "no wirespan answers on {server}: is `wirespan up` or `wirespan server` running? Give its address \
                with --server"
            )
        })?;
        let text = response.body_mut().with_config().limit(256 << 20).read_to_string().context("reading the answer")?;
        let value: Value =
            serde_json::from_str(&text).with_context(|| format!("{server} does not answer as wirespan does"))?;
        if !response.status().is_success() {
            bail!("{}", value["error"]["message"].as_str().or(value["message"].as_str()).unwrap_or(&text));
        }
        Ok(value)
    }
}
