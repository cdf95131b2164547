//! The header of a request (KIP-482 adds tagged fields to it).

use super::api::{self, Api};
use super::wire::{Reader, Stop};

/// Longest frame that is believed, bytes; brokers refuse more than 100 MiB unless told otherwise.
pub(super) const MAX_FRAME: u64 = 1 << 30;
/// Bytes of an API key, a version, a correlation id, and the length of a client id.
const FIXED: usize = 10;
/// Longest client id.
const MAX_CLIENT_ID: usize = 512;
/// Versions beyond the newest known that are believed: brokers are upgraded before this table is.
const NEWER: i16 = 4;

/// Header of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) key: i16,
    pub(super) version: i16,
    pub(super) correlation: i32,
    pub(super) client_id: Option<&'a [u8]>,
    /// The API of the key.
    pub(super) api: Option<&'static Api>,
}

impl Head<'_> {
    /// Whether this version uses compact encodings.
    pub(super) fn flexible(&self) -> bool {
        self.api.is_some_and(|api| self.version >= api.flexible)
    }

    /// A version whose body we know.
    pub(super) fn is_known(&self) -> bool {
        self.api.is_some_and(|api| self.version <= api.newest)
    }
}

/// Length of the frame at the start of `bytes`, its length field included.
pub(super) fn frame_len(bytes: &[u8]) -> Option<u64> {
    let len = u32::from_be_bytes(*bytes.first_chunk::<4>()?);
    Some(u64::from(len).saturating_add(4))
}

/// Reads the header of a frame, its length first. The cursor then stands at the body.
///
/// `sure` asks for one that cannot be anything else: a known key and version, a client id in visible ASCII, no tagged
/// fields (no client sends any).
pub(super) fn head(bytes: &[u8], sure: bool) -> Result<(Head<'_>, Reader<'_>), Stop> {
    let mut r = Reader::new(bytes, false);
    let len = r.i32()?;
    if !(8..=i32::try_from(MAX_FRAME).unwrap_or(i32::MAX)).contains(&len) {
        return Err(Stop::Bad);
    }
    let within = |n: usize| if n > usize::try_from(len).unwrap_or(0) { Err(Stop::Bad) } else { Ok(()) };
    let (key, version) = (r.i16()?, r.i16()?);
    let api = api::find(key);
    let newest = api.map_or(32, |api| api.newest.saturating_add(NEWER));
    if !(0..=if sure { 99 } else { 255 }).contains(&key) || !(0..=newest).contains(&version) {
        return Err(Stop::Bad);
    }
    if sure && api.is_none() {
        return Err(Stop::Bad);
    }
    let correlation = r.i32()?;
    if sure && correlation < 0 {
        return Err(Stop::Bad);
    }
    let mut head = Head { key, version, correlation, client_id: None, api };
    if key == api::CONTROLLED_SHUTDOWN && version == 0 {
        return Ok((head, r));
    }
    within(FIXED)?;
    // The client id has kept its old encoding.
    let id_len = r.i16()?;
    if id_len >= 0 {
        let id_len = usize::try_from(id_len).unwrap_or(0);
        within(id_len.saturating_add(FIXED))?;
        if id_len > MAX_CLIENT_ID {
            return Err(Stop::Bad);
        }
        let id = r.take(id_len)?;
        if sure && !id.iter().all(|b| b.is_ascii_graphic() || *b == b' ') {
            return Err(Stop::Bad);
        }
        head.client_id = Some(id);
    } else if id_len != -1 {
        return Err(Stop::Bad);
    }
    let mut body = Reader::new(r.rest(), head.flexible());
    if sure && head.flexible() && body.rest().first().is_some_and(|tags| *tags != 0) {
        return Err(Stop::Bad);
    }
    body.tags()?;
    Ok((head, body))
}
