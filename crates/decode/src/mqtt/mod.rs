//! MQTT 3.1, 3.1.1 and 5 (OASIS standards), on TCP; over WebSocket it is seen as WebSocket.
//!
//! - **secrets**: user name, password, will, authentication data and payloads are skipped; of a CONNECT the client
//!   identifier is kept
//! - **publish**: QoS 0 is one-way; QoS 1 and 2 are requests of the publishing end, which may be the broker, answered
//!   by packet id (PUBACK, PUBREC); PUBREL and PUBCOMP are an exchange of their own
//! - **version**: from CONNECT or CONNACK; if joined later it is unknown, and the properties of MQTT 5 are not read
//! - **topic alias (5)**: resolved; after a gap the aliases of that side are forgotten, because they may have changed
//!   unseen
//! - **carried context**: user properties of PUBLISH (5)
//! - **failures**: CONNACK, SUBACK, UNSUBACK, PUBACK, PUBREC, DISCONNECT: the reason code and its name in the standard,
//!   never the broker's text
//! - **after a gap or nonsense**: the next chunk that starts like a packet
//!
//! Need: every call. A call carries many packets, and each has its topic at its start.

mod codes;
pub mod detect;
mod packet;
mod reader;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// MQTT.
#[derive(Clone, Copy, Debug)]
pub struct Mqtt;

impl Protocol for Mqtt {
    fn name(&self) -> L7 {
        "mqtt"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::WholeCalls
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<reader::MqttParser>::default()
    }
}
