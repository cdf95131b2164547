//! Orders to agents.

use super::{AgentStatus, Inner};
use crate::link::frame::{Frame, FrameError};
use crate::link::{Answer, Order};
use crate::lock;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

/// Takes an answer of the agent with this session. Must not block.
pub type AnswerSink = Arc<dyn Fn(u64, Answer) + Send + Sync>;

/// The way to one agent. Acknowledgements and orders come from different threads.
pub(super) struct Line {
    stream: Arc<TcpStream>,
    writing: Mutex<()>,
}

impl Line {
    pub(super) fn new(stream: Arc<TcpStream>) -> Self {
        Line { stream, writing: Mutex::default() }
    }

    /// Writes a whole frame before anybody else writes.
    pub(super) fn write(&self, frame: &Frame) -> Result<(), FrameError> {
        let _alone = lock(&self.writing);
        frame.write(&mut &*self.stream).inspect_err(|_| {
            // A part of the frame may have gone out, so nothing after it would be understood.
            let _ = self.stream.shutdown(Shutdown::Both);
        })
    }
}

/// The agents of a receiver, for orders.
#[derive(Clone)]
pub struct Agents(Arc<Inner>);

impl Agents {
    pub(super) fn of(inner: &Arc<Inner>) -> Self {
        Agents(Arc::clone(inner))
    }

    /// Sessions that are known, connected or not.
    pub fn list(&self) -> Vec<(u64, AgentStatus)> {
        lock(&self.0.sessions).iter().map(|(session, s)| (*session, lock(&s.status).clone())).collect()
    }

    /// Sends an order to the agent of a session. Blocks for at most ten seconds, where an agent does not read. Errors:
    /// it is not connected, or takes no orders.
    pub fn order(&self, session: u64, order: Order) -> Result<(), FrameError> {
        let session = lock(&self.0.sessions).get(&session).cloned();
        let Some(session) = session.filter(|s| lock(&s.status).agent.takes_orders) else {
            return Err(FrameError::Refused("the agent takes no orders".into()));
        };
        let line = lock(&session.line).clone().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        line.write(&Frame::Order(order.number, order.body))
    }
}
