//! What all connections share: limits, counters, and what they leave for others.

use crate::config::JoinConfig;
use crate::conn::{Ctx, Facts};
use crate::datagrams::DatagramSockets;
use crate::joiner::Resources;
use crate::order::Orders;
use crate::session::Out;
use crate::stats::JoinStats;
use crate::verdict::Verdict;
use wirespan_model::sdk::SdkSpan;
use wirespan_model::{SocketId, Span};

/// Most verdicts kept while none are fetched.
const MAX_VERDICTS: usize = 65_536;

/// State that all connections share.
pub(crate) struct Env {
    pub(crate) config: JoinConfig,
    pub(crate) host_id: u64,
    pub(crate) resources: Box<dyn Resources + Send>,
    pub(crate) stats: JoinStats,
    pub(crate) verdicts: Vec<(SocketId, Verdict)>,
    pub(crate) datagrams: DatagramSockets,
    pub(crate) orders: Orders,
    pub(crate) sdk_spans: Vec<SdkSpan>,
    /// Counts up when processes may have another resource.
    pub(crate) epoch: u32,
    /// Captured bytes kept over all connections.
    pub(crate) buffered: usize,
    pub(crate) scratch: [Vec<u8>; 2],
}

impl Env {
    /// Lends the limits, the counters and the sink for the pairing of a connection's messages.
    pub(crate) fn lend<'a>(&'a mut self, conn: &'a Facts, sink: &'a mut dyn FnMut(Span)) -> (Ctx<'a>, Out<'a>) {
        let ctx = Ctx { config: &self.config, host_id: self.host_id, conn };
        (ctx, Out { stats: &mut self.stats, orders: &mut self.orders, sink })
    }

    /// Adds a verdict. Beyond [`MAX_VERDICTS`], as nobody fetches them, it is dropped.
    pub(crate) fn verdict(&mut self, socket: SocketId, verdict: Verdict) {
        if self.verdicts.len() < MAX_VERDICTS {
            self.verdicts.push((socket, verdict));
        }
    }
}
