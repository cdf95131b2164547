//! Sessions, links and deliveries that both ends have named.

use std::collections::VecDeque;
use wirespan_model::Side;

/// Most links and sessions that are remembered.
const MAX_NAMED: usize = 256;
/// Most deliveries that are remembered without their disposition.
const MAX_UNSETTLED: usize = 4096;

/// A link: the ends' channels and handles, by side.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: u64,
    name: Box<str>,
    ends: [Option<(u16, u64)>; 2],
    pub(super) address: Option<Box<str>>,
    /// Which side began to detach it.
    detaching: Option<Side>,
}

/// A delivery that waits for its disposition.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    by: Side,
    channel: u16,
    id: u64,
}

/// State of the connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Channels of client and server.
    sessions: Vec<(u16, u16)>,
    links: Vec<Link>,
    last_link: u64,
    unsettled: VecDeque<Delivery>,
}

fn ix(side: Side) -> usize {
    usize::from(side == Side::Server)
}

/// Pairing id of a delivery.
pub(super) fn delivery_id(channel: u16, id: u64) -> u64 {
    1 << 63 | u64::from(channel) << 32 | (id & 0xffff_ffff)
}

impl Session {
    /// A session was answered.
    pub(super) fn begun(&mut self, client: u16, server: u16) {
        self.ended(client);
        if self.sessions.len() < MAX_NAMED {
            self.sessions.push((client, server));
        }
    }

    /// A session of this channel of the client is over.
    pub(super) fn ended(&mut self, client: u16) {
        self.sessions.retain(|s| s.0 != client);
        self.links.retain(|l| l.ends.first().copied().flatten().is_none_or(|(c, _)| c != client));
    }

    /// The channel that the other end uses for the session of this channel.
    pub(super) fn other_channel(&self, side: Side, channel: u16) -> Option<u16> {
        let own = |s: &&(u16, u16)| if side == Side::Client { s.0 == channel } else { s.1 == channel };
        self.sessions.iter().find(own).map(|s| if side == Side::Client { s.1 } else { s.0 })
    }

    /// An attach. Returns the link and whether it answers one of the other end.
    pub(super) fn attach(&mut self, side: Side, channel: u16, handle: u64, name: &str) -> Option<(&mut Link, bool)> {
        let waits = |l: &Link| {
            *l.name == *name
                && l.ends.get(ix(side)).copied().flatten().is_none()
                && l.ends.get(ix(side.peer())).copied().flatten().is_some()
        };
        let at = self.links.iter().position(waits);
        let answers = at.is_some();
        let at = match at {
            Some(at) => at,
            None => {
                if self.links.len() >= MAX_NAMED {
                    self.links.remove(0);
                }
                self.last_link = self.last_link.saturating_add(1);
                let id = self.last_link;
                self.links.push(Link { id, name: name.into(), ends: [None, None], address: None, detaching: None });
                self.links.len().checked_sub(1)?
            }
        };
        let link = self.links.get_mut(at)?;
        if let Some(end) = link.ends.get_mut(ix(side)) {
            *end = Some((channel, handle));
        }
        Some((link, answers))
    }

    /// The link of a handle.
    pub(super) fn link(&self, side: Side, channel: u16, handle: u64) -> Option<&Link> {
        self.links.iter().find(|l| l.ends.get(ix(side)).copied().flatten() == Some((channel, handle)))
    }

    /// A detach: id and address of the link, and whether it answers.
    pub(super) fn detach(&mut self, side: Side, channel: u16, handle: u64) -> Option<(u64, Option<Box<str>>, bool)> {
        let at = self.links.iter().position(|l| l.ends.get(ix(side)).copied().flatten() == Some((channel, handle)))?;
        let link = self.links.get_mut(at)?;
        let answers = link.detaching == Some(side.peer());
        let told = (link.id, link.address.clone(), answers);
        if answers {
            self.links.remove(at);
        } else {
            link.detaching = Some(side);
        }
        Some(told)
    }

    /// A delivery that is to be settled.
    pub(super) fn sent(&mut self, by: Side, channel: u16, id: u64) {
        if self.unsettled.len() >= MAX_UNSETTLED {
            self.unsettled.pop_front();
        }
        self.unsettled.push_back(Delivery { by, channel, id });
    }

    /// A disposition: pairing ids of the deliveries of `by` that it settles.
    pub(super) fn settled(&mut self, by: Side, channel: u16, first: u64, last: u64) -> Vec<u64> {
        let mut ids = Vec::new();
        self.unsettled.retain(|d| {
            let meant = d.by == by && d.channel == channel && (first..=last).contains(&d.id);
            if meant {
                ids.push(delivery_id(channel, d.id));
            }
            !meant
        });
        ids
    }

    /// Frames of this side may not have been seen: its names may mean something else now.
    pub(super) fn lost(&mut self, side: Side) {
        for link in &mut self.links {
            if let Some(end) = link.ends.get_mut(ix(side)) {
                *end = None;
            }
        }
        self.links.retain(|l| l.ends.iter().any(Option::is_some));
    }
}
