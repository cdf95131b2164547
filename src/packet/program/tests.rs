//! Programs as they are written, and wrong ones.

use super::*;
use wirespan_capture::packet::Headers;

#[test]
fn a_program_is_read_as_it_is_written() {
    let text = "filter:\n  protocol: tcp\n  address: 10.0.0.0/8\n  port: 80\n  tcp_flags: [syn, rst]\n  \
                device: eth0\nwhere: [queue, xmit]\naction: [count]\nfor: 500ms\nat_most: 7\none_flow_of: 4\n";
    let program = Program::parse(text).expect("valid");
    assert_eq!((program.time, &program.actions[..]), (Duration::from_millis(500), &[Action::Count][..]));
    let options = program.options(&[]).expect("valid");
    assert_eq!(options.points, [Point::Queue, Point::Xmit]);
    assert_eq!((options.at_most, options.one_flow_of), (7, 4));
    let filter = options.filter;
    assert_eq!((filter.protocol, filter.port, filter.tcp_flags, filter.devices), (6, 80, 6, vec!["eth0".into()]));
    assert!(filter.address.has([10, 1, 2, 3].into()) && filter.source.is_any());
}

#[test]
fn connections_are_asked_for_by_trace_service_and_endpoint() {
    let asks = |text| Program::parse(text).expect("valid").asks().expect("valid");
    let trace = asks("filter: {trace: 'abcdef0123456789'}\n").expect("asks");
    assert_eq!(trace, ("/api/v1/trace/abcdef0123456789/model".into(), true));
    let (path, _) = asks("filter: {service: a shop, endpoint: /pay}\n").expect("asks");
    assert!(path.ends_with("&service=a%20shop&endpoint=%2Fpay"), "{path}");
    assert_eq!(asks("filter: {port: 80}\n"), None);
    let options = Program::parse("filter: {service: shop}\n").expect("valid").options(&[]).expect("valid");
    assert!(options.only_ends);
}

#[test]
fn what_is_left_out_has_a_default() {
    let program = Program::parse("").expect("valid");
    assert_eq!(program.actions, [Action::Latency, Action::Drops]);
    let options = program.options(&[]).expect("valid");
    assert!(options.filter.is_everything());
    assert_eq!((options.points.len(), options.at_most), (Point::FIXED.len(), AT_MOST));
}

#[test]
fn a_wrong_key_names_the_nearest_and_the_line() {
    let wrong = |text| Program::parse(text).expect_err("wrong").to_string();
    assert_eq!(wrong("for: 1s\nfliter: {}\n"), "line 2: unknown key `fliter`; did you mean `filter`?");
    assert_eq!(
        wrong("filter:\n  port: 1\n  adress: 10.0.0.1\n"),
        "line 3: unknown key `adress`; did you mean `address`?"
    );
    assert_eq!(wrong("where:\n- queue\n- xmitt\n"), "line 3: unknown value `xmitt`; did you mean `xmit`?");
    assert!(wrong("frobnicate: 1\n").contains("there are: globals, filter, where, action, by, for"));
}

#[test]
fn a_wrong_value_is_an_error_that_names_its_key() {
    let wrong = |text| format!("{:#}", Program::parse(text).expect_err("wrong"));
    assert!(wrong("filter: {address: 10.0.0.0/99}").starts_with("filter.address: "));
    assert!(wrong("filter:\n  port: 1\n  source: ten\n").ends_with("at line 3 column 11"));
    assert_eq!(wrong("filter:\n  port: 1\n  protocol: tpc\n"), "line 3: unknown value `tpc`; did you mean `tcp`?");
    assert!(wrong("filter: {protocol: 256}").ends_with("icmpv6, a number below 256"));
    assert!(wrong("for: soon").contains("500ms"));
    assert!(wrong("action: [count]\nfor: 10").ends_with("write 500ms, 10s or 2m at line 2 column 6"));
    assert!(wrong("filter: {port: 70000}").contains("`70000` is no port: write a number up to 65535 at line 1"));
    assert!(wrong("filter: {port: 1}\nwhere: []").starts_with("line 2: `where` is empty"));
    assert!(wrong("for: 1s\n\naction: []").starts_with("line 3: `action` is empty"));
    assert!(wrong("at_most: 0").starts_with("line 1: `at_most` is 0"));
    assert!(
        wrong("[1, 2]").ends_with("each with a value: globals, filter, where, action, by, for, at_most, one_flow_of")
    );
    assert!(wrong("for: 1s\nfilter: {trace: checkout}").starts_with("line 2: filter.trace: `checkout` is no id"));
    assert!(wrong("filter: {trace: checkout}").contains("32 hex digits"));
    let id = "0123456789abcdef";
    let twice = format!("filter: {{trace: '{id}', service: shop}}");
    assert!(wrong(&twice).starts_with("line 1: filter.trace names"));
    assert!(wrong(&twice).contains("leave out `service`"));
}

#[test]
fn actions_and_points_may_have_a_value() {
    let text =
        "where: [queue, kprobe: ip_rcv, uprobe: /usr/bin/shop:pay]\naction: [record, snap: 64, stack, throughput]\n";
    let program = Program::parse(text).expect("valid");
    assert_eq!(program.actions, [Action::Record, Action::Count]);
    assert!(program.names_functions());
    let options = program.options(&[]).expect("valid");
    assert_eq!(options.points, [Point::Queue, Point::Function, Point::Mark]);
    assert_eq!((options.snap, options.stack, &options.functions[..]), (64, true, &["ip_rcv".to_owned()][..]));
    let mark = &options.marks[0];
    assert_eq!((mark.path.to_str(), mark.function.as_str()), (Some("/usr/bin/shop"), "pay"));
    let by_flow = Program::parse("action: [loss]\nby: flow\n").expect("valid");
    assert_eq!(by_flow.actions, [Action::Loss, Action::Flows]);
}

#[test]
fn a_device_has_a_hook_of_its_own_in_each_chosen_namespace() {
    let program = Program::parse("where: [{tc: eth0}, tcp]\nfilter: {netns: /proc/self/ns/net}\n").expect("valid");
    assert!(!program.names_functions(), "a page may name devices");
    let own = std::process::id();
    let options = program.options(&[format!("pid:{own}")]).expect("valid");
    assert_eq!(options.points, [Point::Egress, Point::Ingress, Point::Tcp]);
    let netns: Vec<_> = options.devices.iter().map(|device| device.netns.display().to_string()).collect();
    assert_eq!(netns, ["/proc/self/ns/net".to_owned(), format!("/proc/{own}/ns/net")]);
    let wrong = |text: &str| format!("{:#}", Program::parse(text).expect_err("wrong"));
    assert!(wrong("where:\n- tc: 'eth 0'\n").contains("the name of one device, such as eth0 at line 2"));
    assert!(wrong("where:\n- tc: a-name-of-sixteen\n").contains("the name of one device"));
}

#[test]
fn a_wrong_item_of_a_list_is_told_with_its_line() {
    let wrong = |text: &str| format!("{:#}", Program::parse(text).expect_err("wrong"));
    assert_eq!(wrong("action:\n- record\n- snapp: 4\n"), "line 3: unknown key `snapp`; did you mean `snap`?");
    assert_eq!(wrong("action:\n- recrod\n"), "line 2: unknown value `recrod`; did you mean `record`?");
    assert!(wrong("action:\n- record\n- snap: 500\n").contains("from 1 to 192 at line 3"));
    assert!(wrong("action: [snap: 64]").contains("`snap` and `stack` go with `record`"));
    assert_eq!(wrong("where:\n- krobe: ip_rcv\n"), "line 2: unknown key `krobe`; did you mean `kprobe`?");
    assert!(wrong("where: [uprobe: nginx]").contains("write the whole path and the function"));
    assert!(wrong("where: [kprobe: 'ip rcv']").contains("the name of one function"));
    let two = wrong("where:\n- kprobe: ip_rcv\n  uprobe: /a:b\n");
    assert!(two.contains("`uprobe` needs a dash of its own"), "{two}");
    assert_eq!(wrong("by: flows"), "line 1: unknown value `flows`; did you mean `flow`?");
}

#[test]
fn kinds_of_frames_have_no_keys_of_ip() {
    let options = |text: &str| Program::parse(text).expect("valid").options(&[]).expect("valid");
    let arp = options("filter: {ether_type: arp, address: 10.0.0.1}");
    assert_eq!((arp.filter.ether_type, &arp.points[..]), (0x0806, &OF_FRAMES[..]));
    assert_eq!(options("filter: {ether_type: 0x88cc}").filter.ether_type, 0x88cc);
    let v6 = options("filter: {ether_type: ipv6, port: 80}");
    assert_eq!((v6.filter.ether_type, v6.points.len()), (0x86dd, Point::FIXED.len()));
    let wrong = |text: &str| format!("{:#}", Program::parse(text).expect_err("wrong"));
    assert!(wrong("filter:\n  ether_type: arp\n  port: 80").contains("line 2: filter.ether_type: such a frame"));
    assert!(wrong("filter: {ether_type: 0x88cc, address: 10.0.0.1}").contains("leave out `address`"));
    assert!(wrong("filter: {ether_type: arp}\nwhere: [queue, tcp]").starts_with("line 2: `where`: at `tcp` there is"));
    assert_eq!(wrong("filter: {ether_type: arpp}"), "line 1: unknown value `arpp`; did you mean `arp`?");
    assert!(wrong("filter: {ether_type: 12}").contains("a number from 0x600"));
}

#[test]
fn a_filter_names_the_headers_of_a_packet_in_a_tunnel() {
    let headers = |text: &str| Program::parse(text).expect("valid").options(&[]).expect("valid").filter.headers;
    assert_eq!(headers("filter: {headers: outer, port: 80}"), Headers::Outer);
    assert_eq!(headers("filter: {headers: inner, port: 80}"), Headers::Inner);
    assert_eq!(headers("filter: {port: 80}"), Headers::Either);
    let wrong = Program::parse("filter: {headers: iner}").expect_err("wrong");
    assert_eq!(format!("{wrong:#}"), "line 1: unknown value `iner`; did you mean `inner`?");
}

#[test]
fn globals_are_put_where_they_are_used() {
    let text = "globals:\n  web: 10.0.0.1\n  api_port: 8080\n  spots: [queue, xmit]\n\
                filter: {address: $web, port: $api_port, service: 'a$$b'} # $not_this\nwhere: $spots\n";
    let options = Program::parse(text).expect("valid").options(&[]).expect("valid");
    assert_eq!((options.filter.port, &options.points[..]), (8080, &[Point::Queue, Point::Xmit][..]));
    assert!(options.filter.address.has([10, 0, 0, 1].into()));
    assert_eq!(Program::parse(text).expect("valid").keys.filter.service.as_deref(), Some("a$b"));
    let wrong = |text: &str| format!("{:#}", Program::parse(text).expect_err("wrong"));
    let near = wrong("globals: {web: 10.0.0.1}\nfilter:\n  address: $wbe\n");
    assert_eq!(near, "line 3: unknown global `$wbe`; did you mean `$web`?");
    assert!(wrong("filter:\n  port: $port\n").contains("line 2: unknown global `$port`; name it under `globals`"));
    // A value that does not fit has the line at which it is used.
    assert!(wrong("globals: {p: http}\nfilter:\n  port: $p\n")
        .contains("`http` is no port: write a number up to 65535 at line 3"));
    assert!(wrong("globals:\n  a: 1\n  b: 'x # y'\n").starts_with("line 3: globals.b: `x # y` has a character"));
    assert!(wrong("globals:\n  a-b: 1\n").starts_with("line 2: globals.a-b: a name has letters"));
    assert!(wrong("globals:\n  a: {b: 1}\n").contains("globals.a: a global is a text"));
}
