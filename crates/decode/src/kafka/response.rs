//! Bodies of responses: error codes, offsets, and the ids of topics.

use super::api::{Answer, Api};
use super::facts::{Facts, Part, Topic};
use super::request::{records, topic};
use super::wire::{Reader, Stop};

/// First version of an offset commit that names topics by id.
const IDS_IN_COMMITS: i16 = 10;
/// First version of produce and fetch that does.
const IDS: i16 = 13;

/// Reads a body into `facts`. Facts that were read before an error stay there. `learn` gets the names of topic ids.
pub(super) fn body<'a>(
    api: &Api,
    v: i16,
    r: &mut Reader<'a>,
    facts: &mut Facts<'a>,
    learn: &mut dyn FnMut([u8; 16], &'a [u8]),
) -> Result<(), Stop> {
    let throttle = |since: i16, r: &mut Reader<'a>| if v >= since { r.i32().map(drop) } else { Ok(()) };
    match api.answer {
        Answer::Produce => produce(v, r, facts),
        Answer::Fetch => fetch(v, r, facts),
        Answer::Metadata => metadata(v, r, facts, learn),
        Answer::ListOffsets => {
            throttle(2, r)?;
            match v {
                0 => first_part(r, facts),
                1..=3 => topic_parts(false, 16, r, facts),
                _ => topic_parts(false, 20, r, facts),
            }
        }
        Answer::OffsetFetch => offset_fetch(v, r, facts),
        Answer::FindCoordinator => {
            throttle(1, r)?;
            if v >= 4 {
                if r.elements()? == 0 {
                    return Ok(());
                }
                r.string()?;
                r.i32()?;
                r.string()?;
                r.i32()?;
            }
            error(r, facts)
        }
        Answer::CreateTopics => {
            throttle(2, r)?;
            if r.elements()? > 0 {
                r.string()?;
                if v >= 7 {
                    r.uuid()?;
                }
                error(r, facts)?;
            }
            Ok(())
        }
        Answer::DeleteTopics => {
            throttle(1, r)?;
            if r.elements()? > 0 {
                r.nullable()?;
                if v >= 6 {
                    r.uuid()?;
                }
                error(r, facts)?;
            }
            Ok(())
        }
        Answer::LowWatermarks => {
            r.i32()?;
            if r.elements()? > 0 {
                r.string()?;
                if r.elements()? > 0 {
                    r.i32()?;
                    r.i64()?;
                    error(r, facts)?;
                }
            }
            Ok(())
        }
        Answer::LeaderEpoch => {
            throttle(2, r)?;
            if r.elements()? > 0 {
                r.string()?;
                if r.elements()? > 0 {
                    error(r, facts)?;
                }
            }
            Ok(())
        }
        Answer::AddPartitions => {
            r.i32()?;
            if v >= 4 {
                return error(r, facts);
            }
            topic_parts(false, 0, r, facts)
        }
        Answer::ElectLeaders => {
            r.i32()?;
            if v >= 1 {
                error(r, facts)
            } else {
                Ok(())
            }
        }
        Answer::Reassign => {
            r.i32()?;
            if v >= 1 {
                r.i8()?;
            }
            error(r, facts)
        }
        Answer::LogDirs => {
            r.i32()?;
            if v >= 3 {
                error(r, facts)
            } else {
                Ok(())
            }
        }
        Answer::Start => error(r, facts),
        Answer::Throttled(since) => {
            throttle(since, r)?;
            error(r, facts)
        }
        Answer::Array(since) => {
            throttle(since, r)?;
            if r.elements()? > 0 {
                error(r, facts)
            } else {
                Ok(())
            }
        }
        Answer::NamedArray(since) => {
            throttle(since, r)?;
            if r.elements()? > 0 {
                r.string()?;
                error(r, facts)?;
            }
            Ok(())
        }
        Answer::TopicParts(since) => {
            throttle(since, r)?;
            topic_parts(v >= IDS_IN_COMMITS, 0, r, facts)
        }
        Answer::Unread => Ok(()),
    }
}

fn error(r: &mut Reader<'_>, facts: &mut Facts<'_>) -> Result<(), Stop> {
    facts.code(r.i16()?);
    Ok(())
}

/// Topics of partitions: index, error code, and `tail` further bytes.
fn topic_parts<'a>(by_id: bool, tail: usize, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    for _ in 0..r.elements()? {
        let topic = if by_id { Topic::Id(r.uuid()?) } else { Topic::Name(r.string()?) };
        for _ in 0..r.elements()? {
            let (index, error) = (r.i32()?, r.i16()?);
            facts.push(Part { topic, index, ..Part::default() });
            facts.code(error);
            r.take(tail)?;
            r.tags()?;
        }
        r.tags()?;
    }
    Ok(())
}

/// The first partition only, where the size of an element varies.
fn first_part(r: &mut Reader<'_>, facts: &mut Facts<'_>) -> Result<(), Stop> {
    if r.elements()? > 0 {
        r.string()?;
        if r.elements()? > 0 {
            r.i32()?;
            error(r, facts)?;
        }
    }
    Ok(())
}

fn produce<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    let topics = r.elements()?;
    facts.topics = Some(topics);
    for _ in 0..topics {
        let topic = topic(v, IDS, r)?;
        let partitions = r.elements()?;
        facts.begin(partitions);
        for _ in 0..partitions {
            let (index, error, base) = (r.i32()?, r.i16()?, r.i64()?);
            facts.push(Part { topic, index, offset: (base >= 0).then_some(base), ..Part::default() });
            facts.code(error);
            if v >= 2 {
                r.i64()?;
            }
            if v >= 5 {
                r.i64()?;
            }
            if v >= 8 {
                for _ in 0..r.elements()? {
                    r.i32()?;
                    r.nullable()?;
                    r.tags()?;
                }
                // Not kept: brokers write values into it.
                r.nullable()?;
            }
            r.tags()?;
        }
        r.tags()?;
    }
    Ok(())
}

fn fetch<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    if v >= 1 {
        r.i32()?;
    }
    if v >= 7 {
        error(r, facts)?;
        r.i32()?;
    }
    let topics = r.elements()?;
    facts.topics = Some(topics);
    for _ in 0..topics {
        let topic = topic(v, IDS, r)?;
        let partitions = r.elements()?;
        facts.begin(partitions);
        for _ in 0..partitions {
            let (index, error) = (r.i32()?, r.i16()?);
            facts.code(error);
            let high = Some(r.i64()?).filter(|n| *n >= 0);
            let stable = if v >= 4 { Some(r.i64()?).filter(|n| *n >= 0) } else { None };
            if v >= 5 {
                r.i64()?;
            }
            if v >= 4 {
                for _ in 0..r.elements()? {
                    r.take(16)?;
                    r.tags()?;
                }
            }
            if v >= 11 {
                r.i32()?;
            }
            let len = r.bytes_len()?.unwrap_or(0);
            facts.push(Part { topic, index, high, stable, filled: len > 0, bytes: len, ..Part::default() });
            records(r, len, true, facts)?;
            r.tags()?;
        }
        r.tags()?;
    }
    r.tags()
}

fn offset_fetch<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    if v >= 3 {
        r.i32()?;
    }
    if v >= 8 {
        for _ in 0..r.elements()? {
            facts.group = Some(r.string()?);
            committed(v, r, facts)?;
            error(r, facts)?;
            r.tags()?;
        }
        return Ok(());
    }
    committed(v, r, facts)?;
    if v >= 2 {
        error(r, facts)
    } else {
        Ok(())
    }
}

fn committed<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    for _ in 0..r.elements()? {
        let topic = topic(v, IDS_IN_COMMITS, r)?;
        for _ in 0..r.elements()? {
            let (index, offset) = (r.i32()?, r.i64()?);
            if v >= 5 {
                r.i32()?;
            }
            r.nullable()?;
            let error = r.i16()?;
            facts.push(Part { topic, index, offset: (offset >= 0).then_some(offset), ..Part::default() });
            facts.code(error);
            r.tags()?;
        }
        r.tags()?;
    }
    Ok(())
}

fn metadata<'a>(
    v: i16,
    r: &mut Reader<'a>,
    facts: &mut Facts<'a>,
    learn: &mut dyn FnMut([u8; 16], &'a [u8]),
) -> Result<(), Stop> {
    if v >= 3 {
        r.i32()?;
    }
    for _ in 0..r.elements()? {
        r.i32()?;
        r.string()?;
        r.i32()?;
        if v >= 1 {
            r.nullable()?;
        }
        r.tags()?;
    }
    if v >= 2 {
        r.nullable()?;
    }
    if v >= 1 {
        r.i32()?;
    }
    let topics = r.elements()?;
    facts.topics = Some(topics);
    for _ in 0..topics {
        error(r, facts)?;
        let name = r.nullable()?;
        let id = if v >= 10 { Some(r.uuid()?) } else { None };
        if let (Some(name), Some(id)) = (name, id) {
            learn(id, name);
        }
        if let (Some(name), Topic::None) = (name, facts.topic) {
            facts.topic = Topic::Name(name);
        }
        if v >= 1 {
            r.i8()?;
        }
        for _ in 0..r.elements()? {
            r.take(if v >= 7 { 14 } else { 10 })?;
            for _ in 0..if v >= 5 { 3 } else { 2 } {
                r.skip_fixed(4)?;
            }
            r.tags()?;
        }
        if v >= 8 {
            r.i32()?;
        }
        r.tags()?;
    }
    Ok(())
}
