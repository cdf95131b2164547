//! Messages of the server → answers, by their place in the queue.

use super::client::message;
use super::message::{tag, Count, Failure};
use super::session::{PgSession, Unit, What};
use crate::framing::exchange::Frame;
use crate::framing::{Cursor, Out};
use crate::mask::Backslash;
use crate::text::visible;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Outcome, Side};

impl PgSession {
    pub(super) fn answers(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        // The server answers the group, so no message will be added to it.
        self.tell_group(None, out);
        let body = frame.bytes.get(5..).unwrap_or_default();
        let kind = frame.bytes.first().copied().unwrap_or_default();
        if let Some(What::Encryption { tls }) = self.queue.front().map(|u| u.what) {
            if frame.len == 1 {
                return self.encrypts(frame, kind, tls, out);
            }
        }
        match kind {
            b'S' => return self.parameter(body),
            b'N' => {
                if let Some(unit) = self.queue.front_mut() {
                    unit.notices = unit.notices.saturating_add(1);
                }
                return;
            }
            b'A' => return self.notifies(frame, body, out),
            b'K' => return,
            b'Z' => return self.ready(frame, out),
            b'E' => return self.fails(frame, body, out),
            _ if self.streaming => return,
            _ => {}
        }
        self.begin(frame, None, out);
        let Some(unit) = self.queue.front_mut() else { return };
        match kind {
            b'D' => unit.rows = true,
            b'C' => {
                match tag(body) {
                    Count::Returned(n) => unit.returned = Some(unit.returned.unwrap_or(0).saturating_add(n)),
                    Count::Affected(n) => {
                        unit.affected = Some(unit.affected.unwrap_or(0).saturating_add(n));
                        if unit.rows {
                            unit.returned = Some(unit.returned.unwrap_or(0).saturating_add(n));
                        }
                    }
                    Count::Nothing => {}
                }
                unit.rows = false;
                self.completed(frame, out);
            }
            b's' | b'I' => self.completed(frame, out),
            b'n' | b'T' | b't' | b'3' | b'1' if unit.what == What::Prepare => {}
            b'G' => self.copying = true,
            b'W' => {
                self.streaming = true;
                self.end_front(frame.end(), None, out);
            }
            _ => {}
        }
    }

    /// Begins the answer to the first in the queue, if it has not begun.
    fn begin(&mut self, frame: &Frame<'_>, failure: Option<&Failure<'_>>, out: Out<'_>) {
        // A preparation that was flushed has no end of its own: the answer to the next request ends it.
        if self.queue.len() > 1 && matches!(frame.bytes.first(), Some(b'1' | b'2')) {
            if let Some(front) = self.queue.front().filter(|u| u.what == What::Prepare && u.begun && !u.sync) {
                let done = *front;
                self.queue.pop_front();
                end(&done, frame.offset, None, out);
            }
        }
        if self.queue.is_empty() {
            self.queue.push_back(Unit::new(What::Unseen));
        }
        let Some(unit) = self.queue.front_mut() else { return };
        if unit.begun {
            return;
        }
        unit.begun = true;
        let mut m = message(frame, Kind::Response);
        m.outcome = Outcome::Ok;
        if let Some(failure) = failure {
            unit.failed = true;
            m.outcome = failure.outcome();
            m.error = Cow::Borrowed(&*failure.text);
            if !failure.code.is_empty() {
                m.attrs.push(("db.response.status_code", AttrVal::from(failure.code)));
                m.attrs.push(("error.type", AttrVal::from(failure.code)));
            }
        }
        out(Item::Message(&m));
    }

    /// One statement is done. Without a `Sync` behind it that is the end.
    fn completed(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        self.copying = false;
        if self.queue.front().is_some_and(|u| !u.sync && u.what == What::Execute) {
            self.end_front(frame.end(), None, out);
        }
    }

    fn end_front(&mut self, offset: u64, failure: Option<&Failure<'_>>, out: Out<'_>) {
        let Some(unit) = self.queue.pop_front() else { return };
        end(&unit, offset, failure, out);
    }

    fn fails(&mut self, frame: &Frame<'_>, body: &[u8], out: Out<'_>) {
        let failure = Failure::read(body);
        if self.queue.is_empty() && self.client_seen {
            // No request is answered: the server closes the connection.
            let mut m = message(frame, Kind::OneWay);
            m.operation = "ERROR";
            m.error = Cow::Borrowed(&*failure.text);
            m.outcome = failure.outcome();
            m.attrs.push(("db.system.name", AttrVal::from("postgresql")));
            if !failure.code.is_empty() {
                m.attrs.push(("db.response.status_code", AttrVal::from(failure.code)));
            }
            return out(Item::Message(&m));
        }
        let begun = self.queue.front().is_some_and(|u| u.begun);
        self.begin(frame, Some(&failure), out);
        self.copying = false;
        let Some(unit) = self.queue.front_mut() else { return };
        let late = (begun && !unit.failed).then_some(&failure);
        unit.failed = true;
        let over = failure.fatal || matches!(unit.what, What::Startup | What::Encryption { .. });
        if over || !unit.sync {
            self.aborted = !over;
            self.end_front(frame.end(), late, out);
        } else if let Some(failure) = late {
            // Told now, although the end is yet to come: it may not be captured.
            let (offset, unit) = (frame.end(), *unit);
            self.queue.pop_front();
            end(&unit, offset, Some(failure), out);
            self.queue.push_front(Unit { begun: true, ..Unit::new(What::Sync { silent: true }) });
        }
    }

    /// `ReadyForQuery`: everything up to the next `Sync` is over.
    fn ready(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        self.streaming = false;
        self.copying = false;
        let synced = self.queue.iter().position(|u| u.sync);
        let last = synced.unwrap_or(0);
        let aborted = std::mem::take(&mut self.aborted) || self.queue.front().is_some_and(|u| u.failed);
        for _ in 0..=last {
            let Some(unit) = self.queue.pop_front() else { return };
            match unit.what {
                What::Sync { silent: true } => {}
                _ if unit.begun => end(&unit, frame.end(), None, out),
                // The pool or the capture lost the beginning, or the server skipped it.
                What::Execute | What::Prepare if aborted => {
                    let mut m = message(frame, Kind::Response);
                    m.body = Body::None;
                    m.outcome = Outcome::ClientError;
                    m.error = Cow::Borrowed("skipped: an earlier statement of the pipeline failed");
                    m.attrs.push(("error.type", AttrVal::from("pipeline_aborted")));
                    out(Item::Message(&m));
                }
                _ => {
                    let mut m = message(frame, Kind::Response);
                    m.body = Body::None;
                    m.outcome = Outcome::Ok;
                    out(Item::Message(&m));
                }
            }
        }
    }

    /// The one byte that says whether encryption begins.
    fn encrypts(&mut self, frame: &Frame<'_>, answer: u8, tls: bool, out: Out<'_>) {
        self.queue.pop_front();
        let mut m = message(frame, Kind::Response);
        m.body = Body::None;
        m.outcome = Outcome::Ok;
        let accepted = matches!(answer, b'S' | b'G');
        m.attrs.push(("wirespan.encryption.accepted", AttrVal::from(accepted)));
        out(Item::Message(&m));
        if accepted {
            self.over = true;
            out(Item::Upgrade(if tls { "tls" } else { "gss" }));
        }
    }

    /// A setting of the session. How strings are written decides how they are masked.
    fn parameter(&mut self, body: &[u8]) {
        let mut view = Cursor::new(body);
        if let (Some(b"standard_conforming_strings"), Some(value)) = (view.cstr(), view.cstr()) {
            self.backslash = if value == b"on" { Backslash::Plain } else { Backslash::Escapes };
        }
    }

    /// A notification; while an answer is under way it is part of that, since it would end it.
    fn notifies(&mut self, frame: &Frame<'_>, body: &[u8], out: Out<'_>) {
        if self.queue.front().is_some_and(|u| u.begun) {
            return;
        }
        let mut view = Cursor::new(body);
        view.u32();
        let channel = view.cstr().and_then(|name| visible(name, 63)).unwrap_or_default();
        let mut m = message(frame, Kind::OneWay);
        m.operation = "NOTIFY";
        m.target = Cow::Borrowed(channel);
        m.attrs.push(("db.system.name", AttrVal::from("postgresql")));
        m.attrs.push(("db.operation.name", AttrVal::from("NOTIFY")));
        out(Item::Message(&m));
    }
}

/// Emits the end of the answer to a request, with its counts.
fn end(unit: &Unit, offset: u64, failure: Option<&Failure<'_>>, out: Out<'_>) {
    let mut late = Late::default();
    if let Some(failure) = failure {
        late.outcome = failure.outcome();
        late.error = Cow::Borrowed(&*failure.text);
        if !failure.code.is_empty() {
            late.attrs.push(("db.response.status_code", AttrVal::from(failure.code)));
            late.attrs.push(("error.type", AttrVal::from(failure.code)));
        }
    }
    if let Some(n) = unit.returned {
        late.attrs.push(("db.response.returned_rows", AttrVal::Int(n)));
    }
    if let Some(n) = unit.affected {
        late.attrs.push(("wirespan.db.affected_rows", AttrVal::Int(n)));
    }
    if unit.notices > 0 {
        late.attrs.push(("wirespan.db.notices", AttrVal::Int(i64::from(unit.notices))));
    }
    out(Item::End { side: Side::Server, id: None, offset, late: &late });
}
