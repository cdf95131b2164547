//! How often services call each other: by the map for what the kernel saw, by their parents for spans of SDKs.

use super::shape::Dependency;
use crate::error::ApiError;
use crate::evidence::service_map;
use crate::ViewState;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wirespan_map::NodeKind;
use wirespan_model::{SpanId, TapSide};
use wirespan_store::{Store, StoreError, TimeRange};

/// Most spans of SDKs whose parents are looked for. Each takes some 40 bytes while it is counted.
const MOST_SDK_SPANS: usize = 2_000_000;

type Calls = BTreeMap<(String, String), u64>;

/// Calls between services, of the kernel's spans and of SDKs'. If both saw the calls of two services, the larger number
/// counts.
pub(super) async fn calls(state: &ViewState, range: TimeRange) -> Result<Vec<Dependency>, ApiError> {
    let (map, sdk) = state.query(move |store| Ok((service_map(store, range)?, sdk_calls(store, range)?))).await?;
    let mut calls = Calls::new();
    for edge in &map.edges {
        let (Some(parent), Some(child)) = (map.nodes.get(edge.client), map.nodes.get(edge.server)) else { continue };
        if parent.kind == NodeKind::Service {
            *calls.entry((parent.name.clone(), child.name.clone())).or_default() += edge.total.count;
        }
    }
    for (pair, count) in sdk {
        let known = calls.entry(pair).or_default();
        *known = (*known).max(count);
    }
    Ok(calls.into_iter().map(|((parent, child), call_count)| Dependency { parent, child, call_count }).collect())
}

/// Spans of SDKs whose parent is a span of another service.
fn sdk_calls(store: &dyn Store, range: TimeRange) -> Result<Calls, StoreError> {
    let mut names: Vec<String> = Vec::new();
    let mut places: FxHashMap<String, u32> = FxHashMap::default();
    let mut services: FxHashMap<SpanId, u32> = FxHashMap::default();
    let mut children: Vec<(SpanId, u32)> = Vec::new();
    store.scan_parents(range, &mut |span| {
        if span.tap != TapSide::App || services.len() == MOST_SDK_SPANS {
            return;
        }
        let service = &*span.resource.service;
        let place = places.get(service).copied().unwrap_or_else(|| {
            let place = u32::try_from(names.len()).unwrap_or(u32::MAX);
            places.insert(service.to_owned(), place);
            names.push(service.to_owned());
            place
        });
        services.insert(span.id, place);
        children.extend(span.parent_span_id.map(|parent| (parent, place)));
    })?;
    let mut counts: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for (parent, child) in children {
        let parent = services.get(&parent).filter(|parent| **parent != child);
        parent.into_iter().for_each(|parent| *counts.entry((*parent, child)).or_default() += 1);
    }
    let name = |place: u32| names.get(place as usize).cloned().unwrap_or_default();
    Ok(counts.into_iter().map(|((parent, child), count)| ((name(parent), name(child)), count)).collect())
}
