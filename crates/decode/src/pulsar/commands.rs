//! The types of commands: their senders, their answers, and the places of their ids.

/// The role of a command; numbers are fields of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Asks, with a request id.
    Asks(u32),
    /// Answers, with a request id and an error code.
    Answers(u32, u32),
    /// Opens the connection.
    Connect,
    Connected,
    Ping,
    Pong,
    Send,
    Receipt,
    SendError,
    /// Asks only with a request id.
    Ack,
    /// Asks when the client sends it; a broker only tells.
    Close,
    Tells,
}

/// The sender of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Client,
    Broker,
    Both,
}

/// The names in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Nothing,
    /// A topic, in this field.
    Topic(u32),
    /// A namespace, in this field.
    Namespace(u32),
    /// A producer that was made before.
    Producer,
    /// A consumer that was made before, in this field.
    Consumer(u32),
}

/// One type of command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) from: Sender,
    pub(super) part: Part,
    pub(super) names: Names,
}

/// The command with this type.
pub(super) fn find(kind: u64) -> Option<Command> {
    use Names::{Consumer, Namespace, Nothing, Producer, Topic};
    use Part::{Ack, Answers, Asks, Close, Connect, Connected, Ping, Pong, Receipt, Send, SendError, Tells};
    use Sender::{Both, Broker, Client};
    let (name, from, part, names) = match kind {
        2 => ("CONNECT", Client, Connect, Nothing),
        3 => ("CONNECTED", Broker, Connected, Nothing),
        4 => ("SUBSCRIBE", Client, Asks(5), Topic(1)),
        5 => ("PRODUCER", Client, Asks(3), Topic(1)),
        6 => ("SEND", Client, Send, Producer),
        7 => ("SEND_RECEIPT", Broker, Receipt, Producer),
        8 => ("SEND_ERROR", Broker, SendError, Producer),
        9 => ("MESSAGE", Broker, Tells, Consumer(1)),
        10 => ("ACK", Client, Ack, Consumer(1)),
        11 => ("FLOW", Client, Tells, Consumer(1)),
        12 => ("UNSUBSCRIBE", Client, Asks(2), Consumer(1)),
        13 => ("SUCCESS", Broker, Answers(1, 0), Nothing),
        14 => ("ERROR", Broker, Answers(1, 2), Nothing),
        15 => ("CLOSE_PRODUCER", Both, Close, Producer),
        16 => ("CLOSE_CONSUMER", Both, Close, Consumer(1)),
        17 => ("PRODUCER_SUCCESS", Broker, Answers(1, 0), Nothing),
        18 => ("PING", Both, Ping, Nothing),
        19 => ("PONG", Both, Pong, Nothing),
        20 => ("REDELIVER_UNACKNOWLEDGED_MESSAGES", Client, Tells, Consumer(1)),
        21 => ("PARTITIONED_METADATA", Client, Asks(2), Topic(1)),
        22 => ("PARTITIONED_METADATA_RESPONSE", Broker, Answers(2, 4), Nothing),
        23 => ("LOOKUP", Client, Asks(2), Topic(1)),
        24 => ("LOOKUP_RESPONSE", Broker, Answers(4, 6), Nothing),
        25 => ("CONSUMER_STATS", Client, Asks(1), Consumer(4)),
        26 => ("CONSUMER_STATS_RESPONSE", Broker, Answers(1, 2), Nothing),
        27 => ("REACHED_END_OF_TOPIC", Broker, Tells, Consumer(1)),
        28 => ("SEEK", Client, Asks(2), Consumer(1)),
        29 => ("GET_LAST_MESSAGE_ID", Client, Asks(2), Consumer(1)),
        30 => ("GET_LAST_MESSAGE_ID_RESPONSE", Broker, Answers(2, 0), Nothing),
        31 => ("ACTIVE_CONSUMER_CHANGE", Broker, Tells, Consumer(1)),
        32 => ("GET_TOPICS_OF_NAMESPACE", Client, Asks(1), Namespace(2)),
        33 => ("GET_TOPICS_OF_NAMESPACE_RESPONSE", Broker, Answers(1, 0), Nothing),
        34 => ("GET_SCHEMA", Client, Asks(1), Topic(2)),
        35 => ("GET_SCHEMA_RESPONSE", Broker, Answers(1, 2), Nothing),
        36 => ("AUTH_CHALLENGE", Broker, Tells, Nothing),
        37 => ("AUTH_RESPONSE", Client, Tells, Nothing),
        38 => ("ACK_RESPONSE", Broker, Answers(6, 4), Nothing),
        39 => ("GET_OR_CREATE_SCHEMA", Client, Asks(1), Topic(2)),
        40 => ("GET_OR_CREATE_SCHEMA_RESPONSE", Broker, Answers(1, 2), Nothing),
        50 => ("NEW_TXN", Client, Asks(1), Nothing),
        51 => ("NEW_TXN_RESPONSE", Broker, Answers(1, 4), Nothing),
        52 => ("ADD_PARTITION_TO_TXN", Client, Asks(1), Nothing),
        53 => ("ADD_PARTITION_TO_TXN_RESPONSE", Broker, Answers(1, 4), Nothing),
        54 => ("ADD_SUBSCRIPTION_TO_TXN", Client, Asks(1), Nothing),
        55 => ("ADD_SUBSCRIPTION_TO_TXN_RESPONSE", Broker, Answers(1, 4), Nothing),
        56 => ("END_TXN", Client, Asks(1), Nothing),
        57 => ("END_TXN_RESPONSE", Broker, Answers(1, 4), Nothing),
        58 => ("END_TXN_ON_PARTITION", Client, Asks(1), Nothing),
        59 => ("END_TXN_ON_PARTITION_RESPONSE", Broker, Answers(1, 4), Nothing),
        60 => ("END_TXN_ON_SUBSCRIPTION", Client, Asks(1), Nothing),
        61 => ("END_TXN_ON_SUBSCRIPTION_RESPONSE", Broker, Answers(1, 4), Nothing),
        62 => ("TC_CLIENT_CONNECT_REQUEST", Client, Asks(1), Nothing),
        63 => ("TC_CLIENT_CONNECT_RESPONSE", Broker, Answers(1, 2), Nothing),
        64 => ("WATCH_TOPIC_LIST", Client, Asks(1), Namespace(3)),
        65 => ("WATCH_TOPIC_LIST_SUCCESS", Broker, Answers(1, 0), Nothing),
        66 => ("WATCH_TOPIC_UPDATE", Broker, Tells, Nothing),
        67 => ("WATCH_TOPIC_LIST_CLOSE", Client, Asks(1), Nothing),
        68 => ("TOPIC_MIGRATED", Broker, Tells, Nothing),
        _ => return None,
    };
    Some(Command { name, from, part, names })
}

/// Lengths and type at the start of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The frame on the wire, its length field included.
    pub(super) frame: u64,
    /// The command behind the two lengths.
    pub(super) size: u64,
    pub(super) kind: u64,
    pub(super) command: Command,
}

/// Longest frame that is believed, bytes.
const MAX_FRAME: u64 = 1 << 28;
/// Longest command that is believed, bytes.
const MAX_COMMAND: u64 = 1 << 24;
/// Bytes before the command.
pub(super) const BEFORE: usize = 8;
/// Bytes after which a start can be told.
pub(super) const TELLING: usize = 12;

/// Reads the start of a frame: `Err(true)` if more bytes are needed, `Err(false)` if no frame starts here.
pub(super) fn start(bytes: &[u8]) -> Result<Start, bool> {
    let (lengths, rest) = bytes.split_first_chunk::<BEFORE>().ok_or(true)?;
    let [a, b, c, d, e, f, g, h] = *lengths;
    let total = u64::from(u32::from_be_bytes([a, b, c, d]));
    let size = u64::from(u32::from_be_bytes([e, f, g, h]));
    if total > MAX_FRAME || !(3..=MAX_COMMAND).contains(&size) || size.saturating_add(4) > total {
        return Err(false);
    }
    // The type is the first field, and the number of the field that follows.
    let [tag, kind, next] = *rest.first_chunk::<3>().ok_or(true)?;
    let command = find(u64::from(kind)).filter(|_| tag == 0x08).ok_or(false)?;
    let key = u32::from(kind) << 3 | 2;
    let fits = if key < 128 {
        u32::from(next) == key
    } else {
        let behind = *rest.get(3).ok_or(size > 3)?;
        u32::from(next) == key & 0x7f | 0x80 && u32::from(behind) == key >> 7
    };
    // Only messages have something behind their command.
    let exact = total == size.saturating_add(4);
    if !fits || exact == matches!(kind, 6 | 9) {
        return Err(false);
    }
    Ok(Start { frame: total.saturating_add(4), size, kind: u64::from(kind), command })
}
