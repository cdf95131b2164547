//! Real servers with real clients, traced: each span against what the client did, on both ends, and no secret anywhere.
//!
//! Each server is one file `tests/apps/servers/NAME.py` and one word of the table below. `tests/apps/serving/stage.py`
//! says what such a file does. Only the script and its descendants are traced. Protocols without a server: [`spoken`].
//! A server that is not installed is skipped with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code)]
#[path = "../e2e/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../e2e/running.rs"]
mod running;

mod leak;
mod session;
mod spoken;
mod truth;

macro_rules! servers {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            session::compare(stringify!($name));
        })*

        const TABLE: &[&str] = &[$(stringify!($name)),*];
    };
}

servers! {
    activemq activemq_amqp brpc cassandra clickhouse dante dnsmasq dubbo etcd grpc_go grpc_java haproxy http2_late
    kafka mariadb memcached microsocks mongodb mosquitto nats nginx openldap php_fpm postgresql proxied pulsar quic
    rabbitmq redis rocketmq smtp sofarpc someip tars thrift unbound unknown websockets zeromq zookeeper
}

/// Scripts that drive their server well (`serve.py NAME --alone`) and are not in the table yet, and why.
const WAITING: &[(&str, &str)] = &[];

#[test]
fn every_script_is_in_the_table() {
    let scripts = std::fs::read_dir(harness::root().join("tests/apps/servers")).unwrap();
    let mut names: Vec<_> =
        scripts.filter_map(|f| f.unwrap().file_name().to_str()?.strip_suffix(".py").map(str::to_string)).collect();
    names.sort();
    let mut table: Vec<_> = TABLE.iter().copied().chain(WAITING.iter().map(|(name, _)| *name)).collect();
    table.sort_unstable();
    assert_eq!(names, table);
}
