//! The end of a connection.

use crate::errno;
use crate::session::Ending;
use wirespan_model::event::SocketChange;
use wirespan_model::DataEvent;

/// Whether and how the connection has ended, and when it was last heard of.
#[derive(Default)]
pub(super) struct Closing {
    /// How it ended, and when (Unix ns). `None` while it is open.
    ended: Option<(Ending, u64)>,
    /// Errno of a call that shows the connection to be dead; 0 if none failed.
    fatal_errno: i32,
    /// Time of the latest event, Unix ns.
    pub(super) last_ns: u64,
}

impl Closing {
    /// Notes the time of a call, and an errno that means a dead connection.
    pub(super) fn call(&mut self, d: &DataEvent) {
        self.last_ns = self.last_ns.max(d.exit_ns);
        if d.errno != 0 && errno::is_fatal(d.errno) {
            self.fatal_errno = d.errno;
        }
    }

    /// Notes that the socket ended. A close after a fatal error counts as a reset.
    pub(super) fn end(&mut self, change: SocketChange, at_ns: u64) {
        let ending = match change {
            SocketChange::Open => return,
            SocketChange::Close if self.fatal_errno != 0 => Ending::Reset(self.fatal_errno),
            SocketChange::Close => Ending::Closed,
            SocketChange::Reset(errno) => Ending::Reset(errno),
            SocketChange::ConnectFailed(_) => Ending::Abandoned,
        };
        self.ended = Some((ending, at_ns));
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// True if the connection ended, and late events have had `wait_ns` to arrive.
    pub(super) fn is_over(&self, now_ns: u64, wait_ns: u64) -> bool {
        self.ended.is_some_and(|(_, at)| now_ns.saturating_sub(at.max(self.last_ns)) >= wait_ns)
    }

    /// How and when the connection ended. An open connection is abandoned at its latest event.
    pub(super) fn ending(&self) -> (Ending, u64) {
        self.ended.unwrap_or((Ending::Abandoned, self.last_ns))
    }
}
