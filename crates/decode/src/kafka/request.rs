//! Bodies of requests.

use super::api::Ask;
use super::facts::{Facts, Part, Topic};
use super::head::Head;
use super::records;
use super::wire::{Reader, Stop};

/// How far a body was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// To its end: nothing may follow.
    Whole,
    /// The beginning; the rest is not looked at.
    Part,
}

/// Reads a body into `facts`. Facts that were read before an error stay there.
pub(super) fn body<'a>(head: &Head<'_>, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<Read, Stop> {
    let Some(api) = head.api.filter(|_| head.is_known()) else { return Ok(Read::Part) };
    let v = head.version;
    match api.ask {
        Ask::Produce => produce(v, r, facts)?,
        Ask::Fetch => fetch(v, r, facts)?,
        Ask::ListOffsets => return list_offsets(v, r, facts),
        Ask::Metadata => metadata(v, r, facts)?,
        Ask::OffsetCommit => return offset_commit(v, r, facts),
        Ask::OffsetFetch => return offset_fetch(v, r, facts),
        Ask::FindCoordinator => find_coordinator(v, r, facts)?,
        Ask::ApiVersions => api_versions(v, r, facts)?,
        Ask::DeleteTopics => return delete_topics(v, r, facts),
        Ask::LeaderEpoch => {
            if v >= 3 {
                r.i32()?;
            }
            return topic_names(r, facts);
        }
        Ask::TxnGroup => {
            r.string()?;
            r.i64()?;
            r.i16()?;
            facts.group = Some(r.string()?);
            r.tags()?;
        }
        Ask::TxnOffsetCommit => {
            r.string()?;
            facts.group = Some(r.string()?);
            return Ok(Read::Part);
        }
        Ask::Group => {
            facts.group = Some(r.string()?);
            return Ok(Read::Part);
        }
        Ask::NullableGroup => {
            facts.group = r.nullable()?;
            return Ok(Read::Part);
        }
        Ask::Groups => {
            if r.elements()? > 0 {
                facts.group = Some(r.string()?);
            }
            return Ok(Read::Part);
        }
        Ask::TopicNames => return topic_names(r, facts),
        Ask::Secret | Ask::Unread => return Ok(Read::Part),
    }
    Ok(Read::Whole)
}

/// A topic by name, or by id from version `ids` on.
pub(super) fn topic<'a>(v: i16, ids: i16, r: &mut Reader<'a>) -> Result<Topic<'a>, Stop> {
    if v >= ids {
        return r.uuid().map(Topic::Id);
    }
    r.string().map(Topic::Name)
}

fn topic_names<'a>(r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<Read, Stop> {
    let n = r.elements()?;
    facts.topics = Some(n);
    if n > 0 {
        facts.topic = Topic::Name(r.string()?);
    }
    Ok(Read::Part)
}

fn produce<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    if v >= 3 {
        r.nullable()?;
    }
    let acks = r.i16()?;
    if !(-1..=1).contains(&acks) {
        return Err(Stop::Bad);
    }
    facts.acks = Some(acks);
    r.i32()?;
    let topics = r.elements()?;
    facts.topics = Some(topics);
    for _ in 0..topics {
        let topic = topic(v, 13, r)?;
        facts.topic = if facts.topic == Topic::None { topic } else { facts.topic };
        let partitions = r.elements()?;
        facts.begin(partitions);
        for _ in 0..partitions {
            facts.push(Part { topic, index: r.i32()?, ..Part::default() });
            let len = r.bytes_len()?.unwrap_or(0);
            records(r, len, false, facts)?;
            r.tags()?;
        }
        r.tags()?;
    }
    r.tags()
}

/// Looks at the batches of the partition that was pushed last, and passes over them.
pub(super) fn records<'a>(r: &mut Reader<'a>, len: u32, stored: bool, facts: &mut Facts<'a>) -> Result<(), Stop> {
    // A producer that gets an answer learns offsets, which name its records.
    let found = records::walk(*r, u64::from(len), stored || facts.acks == Some(0))?;
    if let Some(part) = facts.last_part() {
        part.records = found.records.filter(|_| found.whole);
        if stored {
            part.offset = found.first;
            part.last = found.last.filter(|_| found.whole);
        }
    }
    facts.name(found.named.unwrap_or_default());
    facts.codec = facts.codec.or(found.codec);
    if facts.context.is_none() {
        facts.context = found.context;
    }
    r.pass(u64::from(len))
}

fn fetch<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    if v <= 14 {
        facts.replica = r.i32()? >= 0;
    }
    facts.max_wait_ms = Some(r.i32()?);
    r.i32()?;
    if v >= 3 {
        facts.max_bytes = u32::try_from(r.i32()?).ok();
    }
    if v >= 4 {
        facts.committed = match r.i8()? {
            0 => false,
            1 => true,
            _ => return Err(Stop::Bad),
        };
    }
    if v >= 7 {
        r.i32()?;
        facts.epoch = Some(r.i32()?);
    }
    let topics = r.elements()?;
    facts.topics = Some(topics);
    for _ in 0..topics {
        let topic = topic(v, 13, r)?;
        facts.topic = if facts.topic == Topic::None { topic } else { facts.topic };
        let partitions = r.elements()?;
        facts.begin(partitions);
        for _ in 0..partitions {
            let index = r.i32()?;
            if v >= 9 {
                r.i32()?;
            }
            facts.push(Part { topic, index, offset: Some(r.i64()?), ..Part::default() });
            if v >= 12 {
                r.i32()?;
            }
            if v >= 5 {
                r.i64()?;
            }
            let bytes = u32::try_from(r.i32()?).unwrap_or(0);
            if let Some(part) = facts.last_part() {
                part.bytes = bytes;
            }
            r.tags()?;
        }
        r.tags()?;
    }
    if v >= 7 {
        let forgotten = r.elements()?;
        facts.forgets = forgotten > 0;
        for _ in 0..forgotten {
            topic_only(v, r)?;
            r.skip_fixed(4)?;
            r.tags()?;
        }
    }
    if v >= 11 {
        r.string()?;
    }
    r.tags()
}

fn topic_only(v: i16, r: &mut Reader<'_>) -> Result<(), Stop> {
    topic(v, 13, r).map(drop)
}

fn list_offsets<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<Read, Stop> {
    r.i32()?;
    if v >= 2 {
        r.i8()?;
    }
    let n = r.elements()?;
    facts.topics = Some(n);
    if n > 0 {
        let topic = Topic::Name(r.string()?);
        facts.topic = topic;
        if r.elements()? > 0 {
            facts.push(Part { topic, index: r.i32()?, ..Part::default() });
        }
    }
    Ok(Read::Part)
}

fn metadata<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    let topics = r.array()?;
    // Version 0 asks for all with an empty array, later ones with null.
    facts.topics = topics;
    for _ in 0..topics.unwrap_or(0) {
        let id = if v >= 10 { Some(r.uuid()?) } else { None };
        let name = if v >= 10 { r.nullable()? } else { Some(r.string()?) };
        if facts.topic == Topic::None {
            facts.topic = match (name, id) {
                (Some(name), _) => Topic::Name(name),
                (None, Some(id)) => Topic::Id(id),
                (None, None) => Topic::None,
            };
        }
        r.tags()?;
    }
    if v >= 4 {
        r.i8()?;
    }
    if (8..=10).contains(&v) {
        r.i8()?;
    }
    if v >= 8 {
        r.i8()?;
    }
    r.tags()
}

fn offset_commit<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<Read, Stop> {
    facts.group = Some(r.string()?);
    if v >= 1 {
        r.i32()?;
        r.string()?;
    }
    if v >= 7 {
        r.nullable()?;
    }
    if (2..=4).contains(&v) {
        r.i64()?;
    }
    let topics = r.elements()?;
    facts.topics = Some(topics);
    for _ in 0..topics {
        let topic = topic(v, 10, r)?;
        facts.topic = if facts.topic == Topic::None { topic } else { facts.topic };
        for _ in 0..r.elements()? {
            facts.push(Part { topic, index: r.i32()?, offset: Some(r.i64()?), ..Part::default() });
            if v >= 6 {
                r.i32()?;
            }
            if v == 1 {
                r.i64()?;
            }
            r.nullable()?;
            r.tags()?;
        }
        r.tags()?;
    }
    r.tags()?;
    Ok(Read::Whole)
}

fn offset_fetch<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<Read, Stop> {
    if v >= 8 && r.elements()? == 0 {
        return Ok(Read::Part);
    }
    facts.group = Some(r.string()?);
    if v >= 9 {
        r.nullable()?;
        r.i32()?;
    }
    let topics = r.elements()?;
    if topics > 0 {
        facts.topic = topic(v, 10, r)?;
    }
    facts.topics = Some(topics);
    Ok(Read::Part)
}

fn find_coordinator<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    let mut key = None;
    if v <= 3 {
        key = Some(r.string()?);
    }
    let kind = if v >= 1 { r.i8()? } else { 0 };
    if v >= 4 {
        for _ in 0..r.elements()? {
            let next = r.string()?;
            key = key.or(Some(next));
        }
    }
    // Other kinds look for a transaction or a share.
    facts.group = key.filter(|_| kind == 0);
    r.tags()
}

fn api_versions<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<(), Stop> {
    if v >= 3 {
        facts.software = Some((r.string()?, r.string()?));
    }
    r.tags()
}

fn delete_topics<'a>(v: i16, r: &mut Reader<'a>, facts: &mut Facts<'a>) -> Result<Read, Stop> {
    let n = r.elements()?;
    facts.topics = Some(n);
    if n > 0 {
        facts.topic = match if v >= 6 { r.nullable()? } else { Some(r.string()?) } {
            Some(name) => Topic::Name(name),
            None => Topic::Id(r.uuid()?),
        };
    }
    Ok(Read::Part)
}
