#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::Ldap;
use crate::testing::{c, claimed, cutting_changes_nothing, s, tcp};

/// An element; lengths of the form that OpenLDAP writes.
fn ber(tag: u8, body: &[u8]) -> Vec<u8> {
    match body.len() {
        n @ 0..=127 => [&[tag, n as u8], body].concat(),
        n => [&[tag, 0x82], &(n as u16).to_be_bytes()[..], body].concat(),
    }
}

fn message(id: u8, tag: u8, body: &[&[u8]]) -> Vec<u8> {
    ber(0x30, &[ber(2, &[id]), ber(tag, &body.concat())].concat())
}

fn bind(id: u8) -> Vec<u8> {
    message(id, 0x60, &[&ber(2, &[3]), &ber(4, b"cn=geheim,dc=shop"), &ber(0x80, b"geheim")])
}

fn search(id: u8) -> Vec<u8> {
    let equals = ber(0xa3, &[ber(4, b"uid"), ber(4, b"geheim")].concat());
    let present = ber(0x87, b"objectClass");
    let filter = ber(0xa0, &[equals, ber(0xa2, &present)].concat());
    let numbers = [ber(10, &[2]), ber(10, &[0]), ber(2, &[0]), ber(2, &[5]), ber(1, &[0])].concat();
    message(id, 0x63, &[&ber(4, br"ou=a\,geheim,dc=shop"), &numbers, &filter, &ber(0x30, &ber(4, b"mail"))])
}

fn result(id: u8, tag: u8, code: u8) -> Vec<u8> {
    message(id, tag, &[&ber(10, &[code]), &ber(4, b"cn=geheim"), &ber(4, b"geheim is wrong")])
}

fn entry(id: u8) -> Vec<u8> {
    message(id, 0x64, &[&ber(4, b"uid=geheim"), &ber(0x30, &vec![b'x'; 2000])])
}

#[test]
fn a_session_is_read_from_bind_to_unbind() {
    let extended = message(5, 0x77, &[&ber(0x80, b"1.3.6.1.4.1.4203.1.11.3")]);
    let turns = [
        c(bind(1)),
        s(result(1, 0x61, 0)),
        c([search(2), search(3)].concat()),
        s([entry(3), entry(2), entry(3), result(3, 0x65, 4), result(2, 0x65, 0)].concat()),
        c([message(4, 0x66, &[&ber(4, b"uid=geheim"), &ber(0x30, b"")]), extended].concat()),
        s([result(5, 0x78, 0), result(4, 0x67, 50)].concat()),
        c([message(6, 0x4a, &[b"cn=geheim+sn=x,dc=y"]), search(7)].concat()),
        s([result(7, 0x65, 32), result(6, 0x6b, 0)].concat()),
        c(message(8, 0x42, &[])),
        s(result(0, 0x78, 52)),
    ];
    let said = cutting_changes_nothing(&Ldap, &turns, "geheim");
    let search = "search ou=?,dc=? wirespan.ldap.scope=sub wirespan.ldap.filter=(&(uid=?)(!(objectClass=*)))";
    assert_eq!(
        said,
        [
            "C req @0+37 id=1 bind cn=?,dc=? wirespan.ldap.mechanism=simple".to_owned(),
            "S resp @0+38 id=1 status=0 Ok".to_owned(),
            format!("C req @37+84 id=2 {search}"),
            format!("C req @121+84 id=3 {search}"),
            "S resp @38+1024 body=open id=3".to_owned(),
            "S resp @2065+1024 body=open id=2".to_owned(),
            "End Server @6157 Some(3) status=4 ClientError error=\"sizeLimitExceeded\" error.type=sizeLimitExceeded \
             wirespan.ldap.entries=2"
                .to_owned(),
            "End Server @6195 Some(2) status=0 Ok wirespan.ldap.entries=1".to_owned(),
            "C req @205+21 id=4 modify uid=?".to_owned(),
            "C req @226+32 id=5 whoAmI wirespan.ldap.oid=1.3.6.1.4.1.4203.1.11.3".to_owned(),
            "S resp @6195+38 id=5 status=0 Ok".to_owned(),
            "S resp @6233+38 id=4 status=50 ClientError error=\"insufficientAccessRights\" \
             error.type=insufficientAccessRights"
                .to_owned(),
            "C req @258+26 id=6 delete cn=?,sn=?,dc=?".to_owned(),
            format!("C req @284+84 id=7 {search}"),
            "S resp @6271+38 id=7 status=32 ClientError error=\"noSuchObject\" error.type=noSuchObject \
             wirespan.ldap.entries=0"
                .to_owned(),
            "S resp @6309+38 id=6 status=0 Ok".to_owned(),
            "C oneway @368+7 unbind".to_owned(),
            "S oneway @6347+38 notice status=52 ServerError error=\"unavailable\" error.type=unavailable".to_owned(),
        ]
    );
}

#[test]
fn start_tls_gives_way_to_tls() {
    let start = message(1, 0x77, &[&ber(0x80, b"1.3.6.1.4.1.1466.20037")]);
    let hello = b"\x16\x03\x01\x02\x00";
    let said = tcp(&Ldap, &[c(&start), s(result(1, 0x78, 0)), c(hello)]);
    assert_eq!(said.len(), 3);
    assert_eq!(said[2], "Upgrade tls");
    let said = tcp(&Ldap, &[c(&start), s(result(1, 0x78, 2)), c(bind(2))]);
    assert!(said[2].contains("id=2 bind"), "{said:?}");
}

/// Binds with SASL or NTLM, and what a layer makes of the messages behind them.
#[test]
fn what_a_layer_signs_is_read_and_what_it_encrypts_is_stepped_over() {
    let sasl = |mechanism: &[u8]| ber(0xa3, &[ber(4, mechanism), ber(4, b"geheim")].concat());
    let bind = |id: u8, how: &[u8]| message(id, 0x60, &[&ber(2, &[3]), &ber(4, b""), how]);
    let token = |parts: &[&[u8]]| {
        let body = parts.concat();
        [&(body.len() as u32).to_be_bytes()[..], &body].concat()
    };
    // RFC 4121: the flags, and the lengths of checksum and rotation.
    let kerberos = |flags: u8, rotated: u8, text: &[u8]| {
        let head = [5, 4, flags, 0xff, 0, 12, 0, rotated, 0, 0, 0, 0, 0, 0, 0, 9];
        let sum = [0x5a; 12];
        if rotated == 0 {
            token(&[&head, text, &sum])
        } else {
            token(&[&head, &sum, text])
        }
    };
    let ntlm = |text: &[u8]| token(&[&[1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 2, 0, 0, 0], text]);
    let digest = |text: &[u8]| token(&[text, &[7; 10], &[0, 1, 0, 0, 0, 3]]);
    let oid = b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
    let old = |text: &[u8]| {
        let rest = [&oid[..], &[2, 1, 0, 0, 0xff, 0xff, 0xff, 0xff], &[8; 24], text, &[1]].concat();
        token(&[&ber(0x60, &rest)])
    };
    let done = |id| [entry(id), result(id, 0x65, 0)].concat();
    let turns = [
        c(bind(1, &sasl(b"GSSAPI"))),
        s(result(1, 0x61, 14)),
        c(bind(2, &ber(0x8a, b"NTLMSSP geheim"))),
        s(result(2, 0x61, 0)),
        c([kerberos(0, 0, &search(3)), kerberos(2, 28, b"geheim geheim geheim geheim geheim")].concat()),
        s([kerberos(1, 12, &done(3)), kerberos(3, 28, &[b'x'; 3000])].concat()),
        c([ntlm(&search(4)), digest(&search(5)), old(&search(6))].concat()),
        s([ntlm(&done(4)), digest(&done(5)), old(&result(6, 0x65, 32))].concat()),
        c(message(7, 0x42, &[])),
    ];
    let said = cutting_changes_nothing(&Ldap, &turns, "geheim");
    let short: Vec<String> = said
        .iter()
        .map(|line| {
            let words = line.split(' ').filter(|w| !w.starts_with(['@', 'o', 'w']) && !w.starts_with("error"));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        short,
        [
            "C req id=1 bind",
            "S resp id=1 status=14 Ok",
            "C req id=2 bind",
            "S resp id=2 status=0 Ok",
            "C req id=3 search",
            "S resp body=open id=3",
            "End Server Some(3) status=0 Ok",
            "C req id=4 search",
            "C req id=5 search",
            "C req id=6 search",
            "S resp body=open id=4",
            "End Server Some(4) status=0 Ok",
            "S resp body=open id=5",
            "End Server Some(5) status=0 Ok",
            "S resp id=6 status=32 ClientError",
            "C unbind",
        ]
    );
    assert!(said[0].ends_with("=GSSAPI") && said[2].ends_with("=sicily"), "{said:?}");
    // A token that cannot be read is no message unless a bind announced it.
    assert_eq!(tcp(&Ldap, &[c(kerberos(2, 28, &[7; 99]))]), ["Malformed Client ldap_bad_message"]);
    assert_eq!(claimed(&ntlm(&search(4)), &ntlm(&done(4))), Some(("ldap", true)));
    assert_eq!(claimed(&kerberos(1, 12, &search(3)), b""), Some(("ldap", true)));
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    assert_eq!(claimed(&bind(1), b""), Some(("ldap", true)));
    assert_eq!(claimed(&search(9), b""), Some(("ldap", true)));
    assert_eq!(claimed(&search(9), &entry(9)), Some(("ldap", true)));
    assert_eq!(claimed(&entry(8), &search(9)), Some(("ldap", false)));
    let delete = message(6, 0x4a, &[b"cn=x"]);
    assert_eq!(claimed(&delete, b""), None);
    assert_eq!(claimed(&delete, &result(6, 0x6b, 0)), Some(("ldap", true)));
    assert_eq!(claimed(&delete, &result(7, 0x6b, 0)), None);
    assert_eq!(claimed(&delete, &result(6, 0x69, 0)), None);
    // SNMP's community stands where the operation would.
    assert_eq!(claimed(b"\x30\x26\x02\x01\x01\x04\x06public\xa0\x19\x02\x04", b""), None);
}
