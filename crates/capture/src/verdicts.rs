//! Verdicts about connections on their way to the kernel programs, which take them with the next message.

use crate::boxes;
use crate::error::{bpf, CaptureError};
use crate::object::WirespanSkel;
use crate::wire;
use crate::Verdict;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use wirespan_model::SocketId;

/// Verdicts that have room from the start, and once many were told. The kernel drops old ones if there are more.
const FEW: u32 = 4_096;
const MANY: u32 = 32_768;

/// The table of verdicts. It is there before the first connection: the kernel takes tens of milliseconds to put a table
/// into a box, and what a new connection sends meanwhile would be copied only in part.
pub(crate) struct Verdicts {
    place: MapHandle,
    table: MapHandle,
    told: u32,
    entries: u32,
}

impl Verdicts {
    /// `messages`: messages are recorded, else there is nothing to decide.
    pub(crate) fn open(skel: &WirespanSkel<'static>, messages: bool) -> Result<Verdicts, CaptureError> {
        let place = MapHandle::try_from(&skel.maps.verdicts).map_err(bpf("opening the table of verdicts"))?;
        let entries = if messages { FEW } else { 1 };
        let table = new(entries)?;
        boxes::put(&table, &place).map_err(bpf("putting the table of verdicts into its box"))?;
        Ok(Verdicts { place, table, told: 0, entries })
    }

    pub(crate) fn tell(&mut self, verdicts: &[(SocketId, Verdict)]) -> Result<(), CaptureError> {
        self.told = self.told.saturating_add(verdicts.len().try_into().unwrap_or(u32::MAX));
        if self.told > self.entries / 2 && self.entries < MANY {
            self.grow();
        }
        for (socket, verdict) in verdicts {
            self.table
                .update(&socket.0.to_ne_bytes(), &wire::verdict(verdict).to_bytes(), MapFlags::ANY)
                .map_err(bpf("deciding about a connection"))?;
        }
        Ok(())
    }

    fn grow(&mut self) {
        let grown = new(MANY).and_then(|table| {
            boxes::replace(&self.table, &table, &self.place).map_err(bpf("replacing the table of verdicts"))?;
            Ok(table)
        });
        self.entries = MANY; // also if there is no memory: it is not tried again
        match grown {
            Ok(table) => self.table = table,
            Err(error) => tracing::warn!(%error, "no memory for more verdicts about connections: old ones are dropped"),
        }
    }
}

fn new(entries: u32) -> Result<MapHandle, CaptureError> {
    let sizes = (8, wire::contract::Verdict::SIZE as u32);
    boxes::new_table("verdicts", sizes, entries).map_err(bpf("making the table of verdicts"))
}
