//! AMQP 0-9-1: methods in order, reply codes.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

/// Names of the methods that the captures have, by the numbers of the specification.
fn name(class: &str, method: &str) -> String {
    let (class, methods): (_, &[_]) = match class {
        "10" => (
            "connection",
            &[
                ("10", "start"),
                ("11", "start-ok"),
                ("30", "tune"),
                ("31", "tune-ok"),
                ("40", "open"),
                ("41", "open-ok"),
                ("50", "close"),
                ("51", "close-ok"),
            ],
        ),
        "20" => ("channel", &[("10", "open"), ("11", "open-ok"), ("40", "close"), ("41", "close-ok")]),
        "40" => ("exchange", &[("10", "declare"), ("11", "declare-ok")]),
        "60" => ("basic", &[("40", "publish"), ("50", "return"), ("60", "deliver")]),
        other => panic!("class {other}"),
    };
    let name = methods.iter().find(|(number, _)| *number == method).unwrap_or_else(|| panic!("{class} {method}"));
    format!("{class}.{}", name.1)
}

fn kind(operation: &str) -> Kind {
    match operation.split_once('.').map_or("", |(_, name)| name) {
        "publish" | "deliver" | "return" | "ack" | "nack" | "reject" | "recover-async" | "blocked" | "unblocked" => {
            Kind::OneWay
        }
        "get-empty" => Kind::Response,
        name if name.ends_with("-ok") => Kind::Response,
        _ => Kind::Request,
    }
}

#[test]
fn amqp_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("amqp_as_tshark_reads_it", "amqp");
    for capture in &captures {
        let mut theirs = Reading::new();
        let fields = ["amqp.method.class", "amqp.method.method", "amqp.method.arguments.reply_code"];
        for row in tshark::fields(capture, Ask { filter: "amqp", ..Ask::default() }, &fields) {
            for (class, method) in row.fields[0].iter().zip(&row.fields[1]) {
                let operation = name(class, method);
                let told = operation.ends_with(".close") || operation == "basic.return";
                let code = if told { row.one(2) } else { "" };
                theirs.entry(row.ends()).or_default().push(Said {
                    from: row.from,
                    kind: kind(&operation),
                    target: String::new(),
                    status: if code == "200" { String::new() } else { code.to_owned() },
                    operation,
                });
            }
        }
        let mine = ours::read(capture, "amqp", usize::MAX, &|m, from| {
            let mut said = ours::plain(m, from)?;
            let close = said.operation.ends_with(".close");
            // A close with an error is told twice: for itself, and as the answer to the method that failed.
            if close && m.kind == Kind::Response {
                return None;
            }
            let code = m.attrs.iter().find(|(k, _)| *k == "wirespan.amqp.reply_code").map(|(_, v)| v.to_value());
            said.status = match code {
                Some(code) => code.to_string(),
                None if said.operation == "basic.return" => said.status,
                None => String::new(),
            };
            said.target.clear();
            Some(said)
        });
        agreed += check(capture, &mine.said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed > 40, "{agreed} messages compared");
}
