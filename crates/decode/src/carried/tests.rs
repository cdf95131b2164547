#![allow(clippy::unwrap_used)]

use crate::carried::{traceparent, Context};
use proptest::prelude::*;
use wirespan_model::Carried;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn carried<'a>(fields: &[(&str, &'a str)]) -> Carried<'a> {
    let mut context = Context::default();
    for (name, value) in fields {
        context.field(name.as_bytes(), value.as_bytes());
    }
    context.finish()
}

#[test]
fn traceparent_is_validated_strictly() {
    let ok = |text: &str| traceparent(text.as_bytes()).is_some();
    assert!(ok(&format!("00-{TRACE}-{SPAN}-01")));
    assert!(ok(&format!("01-{TRACE}-{SPAN}-01")));
    assert!(ok(&format!("01-{TRACE}-{SPAN}-01-more")));
    for bad in [
        format!("00-{TRACE}-{SPAN}-01-more"),
        format!("01-{TRACE}-{SPAN}-01more"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{}-{SPAN}-01", "0".repeat(32)),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!("00-{TRACE}-{SPAN}-0"),
        format!("00-{TRACE}-{SPAN}-0x"),
        format!("00_{TRACE}-{SPAN}-01"),
        format!(" 00-{TRACE}-{SPAN}-01"),
        String::new(),
    ] {
        assert!(!ok(&bad), "{bad}");
    }
    assert_eq!(traceparent(format!("00-{TRACE}-{SPAN}-02").as_bytes()).unwrap().2, Some(false));
}

#[test]
fn two_different_traceparents_carry_nothing() {
    let (a, b) = (format!("00-{TRACE}-{SPAN}-01"), format!("00-{TRACE}-{}-01", "1".repeat(16)));
    assert_eq!(carried(&[("traceparent", &a), ("traceparent", &b)]), Carried::default());
    assert!(carried(&[("traceparent", &a), ("Traceparent", &a)]).trace_id.is_some());
}

#[test]
fn b3_is_read_from_one_field() {
    let full = format!("{TRACE}-{SPAN}-1-{SPAN}");
    let c = carried(&[("b3", &full)]);
    assert!(c.trace_id.is_some() && c.span_id.is_some());
    assert_eq!(c.sampled, Some(true));
    assert_eq!(carried(&[("B3", "0")]).sampled, Some(false));
    assert_eq!(carried(&[("b3", &format!("{TRACE}-{SPAN}"))]).sampled, None);
    for bad in
        [TRACE.to_owned(), format!("{TRACE}-{SPAN}-x"), format!("{TRACE}-short"), format!("{full}-1"), "x".into()]
    {
        assert_eq!(carried(&[("b3", &bad)]), Carried::default(), "{bad}");
    }
}

#[test]
fn b3_is_read_from_several_fields_and_ranks_behind_traceparent() {
    let fields = [("X-B3-TraceId", SPAN), ("x-b3-spanid", SPAN), ("X-B3-Flags", "1")];
    let c = carried(&fields);
    assert_eq!(c.trace_id.unwrap()[..8], [0; 8]);
    assert_eq!(c.sampled, Some(true));
    let w3c = format!("00-{TRACE}-{SPAN}-00");
    let both = carried(&[fields[0], fields[1], ("traceparent", &w3c)]);
    assert_ne!(both.trace_id.unwrap()[..8], [0; 8]);
    // Half a context is none.
    assert_eq!(carried(&fields[..1]).trace_id, None);
}

#[test]
fn skywalking_trace_ids_are_decoded() {
    let sw8 = "1-YWJjLjEuMg==-c2VnbWVudA==-3-c3Zj-aW5zdA==-L2VuZA==-MTAuMC4wLjE6ODA=";
    let c = carried(&[("sw8", sw8)]);
    assert_eq!(c.foreign_trace_id.as_deref(), Some("abc.1.2"));
    assert_eq!(c.sampled, Some(true));
    for bad in ["1-YWJj", "2-YWJj-a-1-a-a-a-a", "1-Y*Jj-a-1-a-a-a-a", "1-Y-a-1-a-a-a-a", "1-AAAA-a-1-a-a-a-a"] {
        assert_eq!(carried(&[("sw8", bad)]).foreign_trace_id, None, "{bad}");
    }
}

#[test]
fn skywalking_names_a_span_by_segment_and_number() {
    let sw8 =
        |trace: &str, segment: &str, span: &str| format!("1-{trace}-{segment}-{span}-c3Zj-aW5zdA==-L2VuZA==-YTo4MA==");
    let span = |text: &str| carried(&[("sw8", text)]).span_id;
    let one = span(&sw8("YWJjLjEuMg==", "c2VnbWVudA==", "3"));
    assert!(one.is_some());
    assert_eq!(one, span(&sw8("YWJjLjEuMg==", "c2VnbWVudA==", "3")));
    assert_ne!(one, span(&sw8("YWJjLjEuMg==", "c2VnbWVudA==", "4")));
    assert_ne!(one, span(&sw8("YWJjLjEuMg==", "b3RoZXI=", "3")));
    for bad in [sw8("YWJjLjEuMg==", "", "3"), sw8("YWJjLjEuMg==", "c2VnbWVudA==", "x"), sw8("Y*", "c2VnbWVudA==", "3")]
    {
        assert_eq!(span(&bad), None, "{bad}");
    }
    // A W3C context counts more.
    let w3c = format!("00-{TRACE}-{SPAN}-01");
    let text = sw8("YWJjLjEuMg==", "c2VnbWVudA==", "3");
    let both = carried(&[("sw8", &text), ("traceparent", &w3c)]);
    assert_eq!(both.span_id, traceparent(w3c.as_bytes()).map(|ids| ids.1));
}

#[test]
fn jaegers_context_is_read() {
    let full = format!("{TRACE}:{SPAN}:0:1");
    let w3c = traceparent(format!("00-{TRACE}-{SPAN}-01").as_bytes()).unwrap();
    for text in [full.clone(), full.replace(':', "%3A")] {
        let c = carried(&[("Uber-Trace-Id", &text)]);
        assert_eq!((c.trace_id, c.span_id, c.sampled), (Some(w3c.0), Some(w3c.1), Some(true)));
    }
    let c = carried(&[("uber-trace-id", "abc:1:1:0")]);
    assert_eq!((c.trace_id.unwrap()[14..].to_vec(), c.sampled), (vec![0x0a, 0xbc], Some(false)));
    assert_eq!(carried(&[("uber-trace-id", &full), ("b3", &format!("{SPAN}-{SPAN}-0"))]).sampled, Some(false));
    let long = format!("{TRACE}1:{SPAN}:0:1");
    for bad in ["1:1:0", "0:1:0:1", "1:0:0:1", "1:x:0:1", "1:1:0:", "1:1:0:1:1", &long] {
        assert_eq!(carried(&[("uber-trace-id", bad)]), Carried::default(), "{bad}");
    }
}

#[test]
fn request_ids_are_read() {
    assert_eq!(carried(&[("X-Correlation-ID", "c"), ("X-Request-Id", "r")]).request_id, Some("r"));
    assert_eq!(carried(&[("X-Correlation-ID", "c")]).request_id, Some("c"));
    assert_eq!(carried(&[("X-Request-Id", "two words")]).request_id, None);
    assert_eq!(carried(&[("X-Request-Id", &"r".repeat(129))]).request_id, None);
}

proptest! {
    #[test]
    fn no_value_panics(name in "(traceparent|b3|sw8|uber-trace-id|x-b3-traceid|x-request-id)", value in ".{0,80}") {
        carried(&[(&name, &value)]);
    }
}
