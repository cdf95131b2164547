//! Reading with a deadline for the whole, not for each byte.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Reads from a connection until a time. A client that sends a byte now and then gains nothing.
pub(super) struct InTime<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl<'a> InTime<'a> {
    pub(super) fn new(stream: &'a TcpStream, time: Duration) -> Self {
        InTime { stream, until: Instant::now() + time }
    }

    /// Allows this much time from now on.
    pub(super) fn allow(&mut self, time: Duration) {
        self.until = Instant::now() + time;
    }
}

impl Read for InTime<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        self.stream.read(buf)
    }
}
