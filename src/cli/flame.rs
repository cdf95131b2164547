//! Flame graphs of `wirespan explain`, as a picture or as folded text.

use super::client::{encode, ClientArgs};
use super::explain::chosen;
use crate::config::Config;
use anyhow::{bail, Context as _, Result};
use std::path::Path;
use wirespan_model::Trace;
use wirespan_trace::{folded, Flame, FlameBox};
use wirespan_view::draw;

/// Most requests of which slow and usual ones are compared.
const MOST: usize = 5_000;

/// Of one span.
pub(super) fn of_span(client: &ClientArgs, id: &str, file: &Path, config: &Config) -> Result<()> {
    let answer = client.get(config, &format!("/api/v1/trace/{}/model", encode(id)))?;
    let trace: Trace = serde_json::from_value(answer).context("the server is of another version")?;
    let Some(flame) = Flame::of_span(chosen(&trace, id)?) else {
        bail!("no flame graph: in which code this span was is not known. It is recorded with --threshold or trace-why");
    };
    write(file, &flame.boxes(), flame.spans())
}

/// Of the requests that meet conditions: slow ones beside usual ones.
pub(super) fn of_conditions(
    client: &ClientArgs,
    conditions: &str,
    from: &str,
    file: &Path,
    config: &Config,
) -> Result<()> {
    let conditions = format!("{conditions} tap=server-process");
    let path = format!("/api/v1/flame?q={}&from={}&limit={MOST}", encode(&conditions), encode(from));
    let answer = client.get(config, &path)?;
    let boxes: Vec<FlameBox> =
        serde_json::from_value(answer["boxes"].clone()).context("the server is of another version")?;
    let count = |key: &str| answer[key].as_u64().unwrap_or(0);
    write(file, &boxes, [count("slow_spans"), count("usual_spans")])
}

fn write(file: &Path, boxes: &[FlameBox], spans: [u64; 2]) -> Result<()> {
    let is_picture = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"));
    let text = if is_picture { draw::flame(boxes, spans) } else { folded(boxes, spans[1] > 0) };
    std::fs::write(file, text).with_context(|| format!("--flame {}", file.display()))?;
    let requests = match spans[0] + spans[1] {
        1 => "the request was".to_string(),
        n => format!("{n} requests were"),
    };
    eprintln!("wirespan: {} shows in which code {requests}", file.display());
    Ok(())
}
