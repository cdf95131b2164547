//! What both ends of an AMQP connection owe each other.

use super::methods::Id;
use std::collections::VecDeque;
use wirespan_model::Side;

/// Most methods that are remembered without their answer.
const MAX_ASKED: usize = 256;
/// Most publications of a channel that are remembered without their confirmation.
const MAX_UNCONFIRMED: usize = 4096;
/// Most channels in confirm mode that are remembered.
const MAX_CHANNELS: usize = 256;

/// An unanswered method.
#[derive(Clone, Debug)]
struct Asked {
    by: Side,
    channel: u16,
    method: Id,
    /// The reply code and text of a close.
    failed: Option<(u16, Box<str>)>,
}

/// Publications of one channel that wait for their confirmation.
#[derive(Debug)]
struct Confirms {
    channel: u16,
    next: u64,
    waiting: VecDeque<u64>,
}

/// State of the session.
#[derive(Debug, Default)]
pub(super) struct Session {
    asked: VecDeque<Asked>,
    confirms: Vec<Confirms>,
    /// Largest frame, as agreed.
    pub(super) frame_max: Option<u32>,
}

/// Pairing id of a method that asks, or of its answer.
pub(super) fn method_id(channel: u16, method: Id) -> u64 {
    u64::from(channel) | u64::from(method.0) << 16 | u64::from(method.1) << 32
}

/// Pairing id of a publication and its confirmation.
fn confirm_id(channel: u16, tag: u64) -> u64 {
    1 << 63 | u64::from(channel) << 40 | (tag & 0xff_ffff_ffff)
}

impl Session {
    /// A method that waits for its answer.
    pub(super) fn ask(&mut self, by: Side, channel: u16, method: Id, failed: Option<(u16, Box<str>)>) {
        if self.asked.len() >= MAX_ASKED {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked { by, channel, method, failed });
    }

    /// An answer of `by.peer()`: forgets the method, and tells how a close had failed.
    pub(super) fn answer(&mut self, by: Side, channel: u16, method: Id) -> Option<(u16, Box<str>)> {
        let found = |a: &Asked| a.by == by && a.channel == channel && a.method == method;
        let at = self.asked.iter().position(found)?;
        self.asked.remove(at)?.failed
    }

    /// The method of `by` that a close names, if exactly one is waiting. Returns its channel and forgets it.
    pub(super) fn refused(&mut self, by: Side, channel: u16, method: Id) -> Option<u16> {
        // A connection is closed on channel 0, whatever the channel of the cause.
        let found = |a: &Asked| a.by == by && a.method == method && (channel == 0 || a.channel == channel);
        let at = self.asked.iter().position(found)?;
        if self.asked.iter().filter(|a| found(a)).count() > 1 {
            return None;
        }
        self.asked.remove(at).map(|a| a.channel)
    }

    /// A channel is opened or closed: it starts afresh.
    pub(super) fn forget_channel(&mut self, channel: u16) {
        self.confirms.retain(|c| c.channel != channel);
    }

    /// A channel is put in confirm mode.
    pub(super) fn confirm(&mut self, channel: u16) {
        if self.confirms.len() < MAX_CHANNELS && !self.confirms.iter().any(|c| c.channel == channel) {
            self.confirms.push(Confirms { channel, next: 1, waiting: VecDeque::new() });
        }
    }

    /// A publication: its tag and pairing id, if it will be confirmed.
    pub(super) fn published(&mut self, channel: u16) -> Option<(u64, u64)> {
        let c = self.confirms.iter_mut().find(|c| c.channel == channel)?;
        let tag = c.next;
        c.next = tag.saturating_add(1);
        if c.waiting.len() >= MAX_UNCONFIRMED {
            c.waiting.pop_front();
        }
        c.waiting.push_back(tag);
        Some((tag, confirm_id(channel, tag)))
    }

    /// A confirmation: the pairing ids of the publications that it answers.
    pub(super) fn confirmed(&mut self, channel: u16, tag: u64, multiple: bool) -> Vec<u64> {
        let Some(c) = self.confirms.iter_mut().find(|c| c.channel == channel) else { return Vec::new() };
        let mut ids = Vec::new();
        c.waiting.retain(|waiting| {
            // Tag 0 with the flag: all of them.
            let meant = if multiple { tag == 0 || *waiting <= tag } else { *waiting == tag };
            if meant {
                ids.push(confirm_id(channel, *waiting));
            }
            !meant
        });
        ids
    }

    /// Frames of this side may not have been seen.
    pub(super) fn lost(&mut self, side: Side) {
        if side == Side::Client {
            // Publications can no longer be counted off.
            self.confirms.clear();
        }
        self.asked.clear();
    }
}
