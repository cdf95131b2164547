//! One connection of a sender: a thread that connects, says hello and writes, and one that reads acknowledgements.
//! Both end when the stream is shut down or the channel to them is closed.

use super::frame::{read_preamble, write_batch, write_preamble, Frame, FrameError, Hello};
use super::Order;
use crossbeam_channel::{Receiver, Sender};
use std::io::{self, BufReader};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// The server answers a ping that is sent every [`super::sender::PING_EVERY`]. A longer silence means that the server
/// is gone.
const READ_TIMEOUT: Duration = Duration::from_secs(40);

/// Reports of a connection to its sender. `generation` distinguishes a late report of an older connection.
pub(super) enum News {
    /// Connected and welcomed, with the last batch of this session that the server has.
    Up { generation: u64, stream: TcpStream, stored: u64 },
    /// The server has taken every batch up to `number`.
    Ack { generation: u64, number: u64 },
    /// The server cannot take batches now.
    Busy { generation: u64, why: String },
    /// The connection has ended.
    Down { generation: u64, error: FrameError },
}

/// Requests to the writer.
pub(super) enum Out {
    Batch(u8, u64, Arc<Vec<u8>>),
    Frame(Frame),
}

/// What a connection hands on.
#[derive(Clone)]
pub(super) struct To {
    pub(super) news: Sender<News>,
    /// `None`: an order ends the connection.
    pub(super) orders: Option<Sender<Order>>,
}

/// Starts a connection. It reports to `to.news`; the last report is `Down`.
pub(super) fn start(addr: String, hello: Hello, generation: u64, out: Receiver<Out>, to: To) {
    let failed = to.news.clone();
    let thread = thread::Builder::new().name("link-out".into());
    let spawned = thread.spawn(move || {
        let served = connect(&addr, hello).and_then(|(stream, stored)| serve(&stream, stored, generation, out, &to));
        if let Err(error) = served {
            let _ = to.news.send(News::Down { generation, error });
        }
    });
    if let Err(e) = spawned {
        let _ = failed.try_send(News::Down { generation, error: e.into() });
    }
}

fn connect(addr: &str, hello: Hello) -> Result<(TcpStream, u64), FrameError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{addr}: no address"));
    for ip in addr.to_socket_addrs()? {
        match TcpStream::connect_timeout(&ip, CONNECT_TIMEOUT) {
            Ok(mut stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                write_preamble(&mut stream)?;
                Frame::Hello(hello).write(&mut stream)?;
                read_preamble(&mut stream)?;
                return match Frame::read(&mut stream)? {
                    Frame::Welcome(stored) => Ok((stream, stored)),
                    Frame::Refused(why) => Err(FrameError::Refused(why)),
                    other => Err(FrameError::Malformed(if other == Frame::Ping { "ping" } else { "welcome" })),
                };
            }
            Err(e) => last = e,
        }
    }
    Err(last.into())
}

/// Serves a connection to its end and reports the end. Errors: the connection could not start.
fn serve(stream: &TcpStream, stored: u64, generation: u64, out: Receiver<Out>, to: &To) -> Result<(), FrameError> {
    let news = &to.news;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let _ = news.send(News::Up { generation, stream: stream.try_clone()?, stored });
    thread::scope(|scope| {
        scope.spawn(move || {
            for item in out {
                let written = match item {
                    Out::Batch(kind, number, batch) => write_batch(&mut writer, kind, number, &batch),
                    Out::Frame(frame) => frame.write(&mut writer),
                };
                if written.is_err() {
                    break;
                }
            }
            // This wakes the reader. After an error the next connection sends the batches that were not acknowledged.
            let _ = writer.shutdown(Shutdown::Both);
        });
        let error = loop {
            match Frame::read(&mut reader) {
                Ok(Frame::Ack(number)) => {
                    if news.send(News::Ack { generation, number }).is_err() {
                        break io::Error::from(io::ErrorKind::ConnectionAborted).into();
                    }
                }
                Ok(Frame::Busy(why)) => {
                    if news.send(News::Busy { generation, why }).is_err() {
                        break io::Error::from(io::ErrorKind::ConnectionAborted).into();
                    }
                }
                Ok(Frame::Order(number, body)) => {
                    let taken = to.orders.as_ref().map(|orders| orders.try_send(Order { number, body }));
                    // A server that goes on sending orders which are not carried out is not obeyed any more.
                    if !matches!(taken, Some(Ok(()))) {
                        break FrameError::Malformed("order: this agent takes none now");
                    }
                }
                Ok(Frame::Refused(why)) => break FrameError::Refused(why),
                Ok(_) => break FrameError::Malformed("acknowledgement"),
                Err(e) => break e,
            }
        };
        // A blocked write returns and the next one fails.
        let _ = stream.shutdown(Shutdown::Both);
        // Report the end inside the scope. The scope waits for the writer, the writer waits until the sender closes its
        // channel, and the sender closes it on this report.
        let _ = news.send(News::Down { generation, error });
    });
    Ok(())
}
