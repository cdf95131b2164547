use super::*;

fn span(operation: &str, attrs: &[(&'static str, Value)]) -> Span {
    let attrs = attrs.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
    Span { protocol: "kafka".into(), operation: operation.into(), attrs, status: Status::Ok, ..Span::default() }
}

fn at(topic: &str, partition: &str, first: i64, last: i64) -> [(&'static str, Value); 4] {
    [
        ("messaging.destination.name", topic.into()),
        ("messaging.destination.partition.id", partition.into()),
        ("kafka.offset", first.into()),
        ("wirespan.kafka.last_offset", last.into()),
    ]
}

#[test]
fn batches_meet_where_they_share_an_offset() {
    let one = |operation, attrs: &[_]| message_ranges(&span(operation, attrs))[0];
    let sent = one("Produce", &at("orders", "0", 60, 70));
    let shared = |other: MessageRange| {
        let keys: Vec<Key> = sent.keys().collect();
        assert_eq!(keys.len(), 2, "60–70 touches two blocks");
        other.keys().any(|k| keys.contains(&k)) && sent.overlaps(&other)
    };
    assert!(shared(one("Fetch", &at("orders", "0", 70, 500))));
    assert!(shared(one("Fetch", &at("orders", "0", 0, 60))));
    assert!(!shared(one("Fetch", &at("orders", "0", 71, 500))));
    assert!(!shared(one("Fetch", &at("orders", "1", 60, 70))));
    assert!(!shared(one("Fetch", &at("bills", "0", 60, 70))));
}

#[test]
fn several_partitions_are_read_from_their_list() {
    let list = ("wirespan.kafka.partitions", Value::from("orders/0:5-7 orders/11:9-"));
    let all = message_ranges(&span("Fetch", &[list]));
    assert_eq!(all.iter().map(|p| (p.first, p.last)).collect::<Vec<_>>(), [(5, 7), (9, 9)]);
    assert_ne!(all[0].place, all[1].place);
}

#[test]
fn a_batch_without_an_offset_is_found_by_its_name() {
    let batches = |list: &str| message_ranges(&span("Fetch", &[(KAFKA_BATCHES, Value::from(list))]));
    let sent = message_ranges(&span("Produce", &[(KAFKA_BATCHES, "orders/0:0-1=ab".into())]))[0];
    let got = batches("orders/0:40-41=ab,42-44=cd bills/3:7-7=ef");
    assert_eq!(got.iter().map(|range| range.overlaps(&sent)).collect::<Vec<_>>(), [true, false, false]);
    assert!(got[0].keys().eq(sent.keys()));
    let of = span("Fetch", &[(KAFKA_BATCHES, "a/b/0:40-41=ab,42-44=cd bills/3:7-7=ef".into())]);
    let all: Vec<_> = kafka_batches(&of).map(|(part, name)| (part.topic, part.first, part.last, name)).collect();
    assert_eq!(all, [("a/b", 40, 41, 0xab), ("a/b", 42, 44, 0xcd), ("bills", 7, 7, 0xef)]);
    assert!(batches("orders/0:40-=ab x:,1 /").is_empty());
}

#[test]
fn other_and_failed_requests_move_no_message() {
    assert!(message_ranges(&span("Metadata", &at("orders", "0", 1, 2))).is_empty());
    assert!(message_ranges(&span("Fetch", &at("orders", "0", 1, 2)[..2])).is_empty());
    let mut failed = span("Produce", &at("orders", "0", 1, 2));
    failed.status = Status::ServerError;
    assert!(message_ranges(&failed).is_empty());
    let huge = message_ranges(&span("Fetch", &at("orders", "0", 0, i64::MAX)))[0];
    assert_eq!(huge.keys().count() as u64, MAX_KEYS);
}

#[test]
fn a_message_without_an_id_is_known_by_its_conversation_and_destination() {
    let said = |operation_type: &str, to: &str, id: Option<&str>| {
        let mut attrs = vec![
            ("messaging.operation.type", Value::from(operation_type)),
            ("messaging.destination.name", to.into()),
            ("messaging.message.conversation_id", "task".into()),
        ];
        attrs.extend(id.map(|id| ("messaging.message.id", id.into())));
        Span { protocol: "amqp".into(), ..span("", &attrs) }
    };
    let place = |span: &Span| message_ranges(span)[0].place;
    let sent = said("send", "jobs", None);
    assert_eq!(place(&sent), place(&said("process", "jobs", None)));
    assert!(may_share_names(&sent));
    assert_ne!(place(&sent), place(&said("process", "replies", None)), "the answer has the same conversation");
    let named = said("send", "jobs", Some("m1"));
    assert_ne!(place(&named), place(&said("process", "jobs", Some("m2"))));
    assert!(!may_share_names(&named));
}
