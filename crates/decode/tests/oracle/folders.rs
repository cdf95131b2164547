//! Checks for every connection of every capture that it is not taken for another protocol.

use super::ours;
use std::path::Path;

/// Folders of captures, and the protocols that may be seen in them; a connection may always stay unknown.
///
/// A name stands here only if tshark, or a look at the bytes, says that the folder holds it.
const FOLDERS: &[(&str, &[&str])] = &[
    ("amqp", &["amqp"]),
    ("brpc", &["brpc"]),
    ("common", &["dns", "http", "http2", "tls"]),
    ("dns", &["dns"]),
    ("dubbo", &["dubbo"]),
    ("fastcgi", &["fastcgi"]),
    ("http", &["http", "http2", "grpc", "tls", "websocket"]),
    ("kafka", &["kafka"]),
    ("krpc", &["krpc"]),
    ("memcached", &["memcached"]),
    ("mongo", &["mongodb"]),
    ("mqtt", &["mqtt"]),
    ("mysql", &["mysql"]),
    ("nats", &["nats"]),
    ("openwire", &["openwire", "activemq"]),
    ("postgre", &["postgresql"]),
    ("pulsar", &["pulsar"]),
    ("redis", &["redis"]),
    ("rocketmq", &["rocketmq"]),
    ("sofarpc", &["sofarpc", "sofa_rpc", "bolt"]),
    ("some_ip", &["some_ip", "someip"]),
    ("tars", &["tars"]),
    ("tcp", &["http", "http2", "dns", "tls", "redis", "mysql"]),
    ("zmtp", &["zmtp"]),
];

#[test]
fn no_message_is_taken_for_one_of_another_protocol() {
    let test = "no_message_is_taken_for_one_of_another_protocol";
    let mut wrong = Vec::new();
    for (folder, allowed) in FOLDERS {
        for capture in super::captures(test, folder) {
            for copy in [usize::MAX, 512, 64] {
                let name = capture.file_name().unwrap_or_default();
                for (ends, said) in ours::read(&capture, "", copy, &|_, _| None).verdicts {
                    if !said.is_empty() && !allowed.contains(&said) {
                        wrong.push(format!(
                            "{folder}/{}: {} <-> {} is {said}",
                            Path::new(name).display(),
                            ends.0,
                            ends.1
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
