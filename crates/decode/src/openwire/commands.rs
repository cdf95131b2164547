//! Types of commands: their names, and which end sends them.

use wirespan_model::Side;

pub(super) const WIRE_FORMAT_INFO: u8 = 1;
pub(super) const CONNECTION_INFO: u8 = 3;
pub(super) const CONSUMER_INFO: u8 = 5;
pub(super) const PRODUCER_INFO: u8 = 6;
pub(super) const DESTINATION_INFO: u8 = 8;
pub(super) const CONNECTION_ERROR: u8 = 16;
pub(super) const MESSAGE_PULL: u8 = 20;
pub(super) const MESSAGE_DISPATCH: u8 = 21;
pub(super) const MESSAGE_ACK: u8 = 22;
pub(super) const RESPONSE: u8 = 30;
pub(super) const EXCEPTION_RESPONSE: u8 = 31;

/// Name of a type, and the end that sends it if only one does (a broker that bridges is a client).
pub(super) fn command(kind: u8) -> Option<(&'static str, Option<Side>)> {
    use Side::{Client, Server};
    Some(match kind {
        1 => ("WireFormatInfo", None),
        2 => ("BrokerInfo", None),
        3 => ("ConnectionInfo", Some(Client)),
        4 => ("SessionInfo", Some(Client)),
        5 => ("ConsumerInfo", None),
        6 => ("ProducerInfo", None),
        7 => ("TransactionInfo", Some(Client)),
        8 => ("DestinationInfo", None),
        9 => ("RemoveSubscriptionInfo", Some(Client)),
        10 => ("KeepAliveInfo", None),
        11 => ("ShutdownInfo", None),
        12 => ("RemoveInfo", None),
        14 => ("ControlCommand", None),
        15 => ("FlushCommand", None),
        16 => ("ConnectionError", None),
        17 => ("ConsumerControl", None),
        18 => ("ConnectionControl", None),
        19 => ("ProducerAck", Some(Server)),
        20 => ("MessagePull", Some(Client)),
        21 => ("MessageDispatch", Some(Server)),
        22 => ("MessageAck", Some(Client)),
        23 => ("ActiveMQMessage", None),
        24 => ("ActiveMQBytesMessage", None),
        25 => ("ActiveMQMapMessage", None),
        26 => ("ActiveMQObjectMessage", None),
        27 => ("ActiveMQStreamMessage", None),
        28 => ("ActiveMQTextMessage", None),
        29 => ("ActiveMQBlobMessage", None),
        30 => ("Response", None),
        31 => ("ExceptionResponse", None),
        32 => ("DataResponse", None),
        33 => ("DataArrayResponse", None),
        34 => ("IntegerResponse", None),
        40 => ("DiscoveryEvent", None),
        _ => return None,
    })
}

/// A message that is sent, of any kind of content.
pub(super) fn is_message(kind: u8) -> bool {
    (23..=29).contains(&kind)
}

/// An answer.
pub(super) fn is_response(kind: u8) -> bool {
    (30..=34).contains(&kind)
}
