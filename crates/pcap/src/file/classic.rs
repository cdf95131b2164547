//! The classic pcap format: one header, then records. Times are microseconds or nanoseconds, in either byte order.

use super::{Frame, Got, Input, Order, MAX_RECORD};
use crate::error::PcapError;
use crate::packet::Link;
use crate::stats::Stats;

pub(super) struct Classic {
    order: Order,
    /// Nanoseconds per unit of a time's fraction.
    fraction_ns: u64,
    /// Length of a record's header, bytes. The "modified" format of old Linux versions has eight bytes more.
    header_len: usize,
    link: Link,
}

impl Classic {
    /// Reads the file's header. `None` if the magic number is of another format.
    pub(super) fn open(magic: [u8; 4], input: &mut Input<'_>) -> Result<Option<Self>, PcapError> {
        let (order, (fraction_ns, header_len)) =
            match (known(u32::from_be_bytes(magic)), known(u32::from_le_bytes(magic))) {
                (Some(kind), _) => (Order::Big, kind),
                (None, Some(kind)) => (Order::Little, kind),
                (None, None) => return Ok(None),
            };
        let mut header = [0; 24];
        if input.fill(&mut header)? != Got::All {
            return Err(input.damaged(0, "the file ends inside its header"));
        }
        // The upper half of the field holds the length of a frame check sequence.
        let link = input.link((order.u32(&header, 20) & 0xffff) as u16)?;
        Ok(Some(Classic { order, fraction_ns, header_len, link }))
    }

    pub(super) fn next(
        &mut self,
        input: &mut Input<'_>,
        frame: &mut Frame,
        stats: &mut Stats,
    ) -> Result<bool, PcapError> {
        let mut header = [0; 24];
        match header.get_mut(..self.header_len).map_or(Ok(Got::Nothing), |h| input.fill(h))? {
            Got::All => {}
            Got::Nothing => return Ok(false),
            Got::Part => {
                stats.bump("file_cut_short");
                return Ok(false);
            }
        }
        let captured = self.order.u32(&header, 8);
        if captured > MAX_RECORD {
            return Err(input.damaged(self.header_len as u64, format!("a packet of {captured} bytes")));
        }
        let seconds = u64::from(self.order.u32(&header, 0));
        let fraction = u64::from(self.order.u32(&header, 4)) * self.fraction_ns;
        frame.time_ns = seconds * 1_000_000_000 + fraction;
        frame.link = self.link;
        frame.wire_len = (self.order.u32(&header, 12) as usize).max(captured as usize);
        if input.fill_vec(&mut frame.data, captured as usize)? != Got::All {
            stats.bump("file_cut_short");
            return Ok(false);
        }
        Ok(true)
    }
}

/// Unit of the fraction (ns) and length of the record header (bytes), by magic number.
fn known(magic: u32) -> Option<(u64, usize)> {
    match magic {
        0xa1b2_c3d4 => Some((1_000, 16)),
        0xa1b2_3c4d => Some((1, 16)),
        0xa1b2_cd34 => Some((1_000, 24)),
        _ => None,
    }
}
