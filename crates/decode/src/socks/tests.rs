#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::Socks;
use crate::testing::{c, claimed, cutting_changes_nothing, s, tcp, tcp_to_the_end};

#[test]
fn version_5_with_a_password_is_read() {
    let turns = [
        c(b"\x05\x02\x00\x02"),
        s(b"\x05\x02"),
        c(b"\x01\x03bob\x06geheim"),
        s(b"\x01\x00"),
        c(b"\x05\x01\x00\x03\x09shop.test\x01\xbb"),
        s(b"\x05\x00\x00\x01\x0a\x00\x00\x01\x04\x38HTTP or anything"),
        c(b"GET"),
    ];
    assert_eq!(
        cutting_changes_nothing(&Socks, &turns, "geheim"),
        [
            "C req @0+4 NEGOTIATE network.protocol.version=5",
            "S resp @0+2 status=2 Ok",
            "C req @4+12 AUTH network.protocol.version=5",
            "S resp @2+2 status=0 Ok",
            "C req @16+16 CONNECT shop.test:443 network.protocol.version=5 wirespan.socks.target=shop.test:443",
            "S resp @4+10 status=0 Ok",
            "Upgrade ",
        ]
    );
    let refused = tcp(
        &Socks,
        &[
            c(b"\x05\x01\x00"),
            s(b"\x05\x00"),
            c(b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"),
            s(b"\x05\x05\0\x01\0\0\0\0\0\0"),
        ],
    );
    assert_eq!(
        refused[3],
        "S resp @2+10 status=5 ServerError error=\"connection_refused\" error.type=connection_refused"
    );
    // The client leaves as soon as it has read the code.
    for (answer, said) in [(&b"\x05\x05\0"[..], "status=5 ServerError"), (b"\x05\x02", "status=2 ClientError")] {
        let turns = [c(b"\x05\x01\x00"), s(b"\x05\x00"), c(b"\x05\x01\x00\x01\x7f\0\0\x01\0\x50"), s(answer)];
        let told = tcp_to_the_end(&Socks, &turns);
        assert!(told[3].starts_with(&format!("S resp @2+{} {said}", answer.len())), "{told:?}");
    }
    let granted = [c(b"\x05\x01\x00"), s(b"\x05\x00"), c(b"\x05\x01\x00\x01\x7f\0\0\x01\0\x50"), s(b"\x05\0\0\x01")];
    assert_eq!(
        tcp_to_the_end(&Socks, &granted)[3..],
        ["S resp @2+4 status=0 Ok"],
        "where the tunnel begins is not known"
    );
    let denied = tcp(&Socks, &[c(b"\x05\x01\x00"), s(b"\x05\xff")]);
    assert_eq!(
        denied[1],
        "S resp @0+2 status=255 ClientError error=\"no_acceptable_method\" error.type=no_acceptable_method"
    );
}

#[test]
fn version_4_is_read_with_an_address_and_with_a_name() {
    let granted = s(b"\x00\x5a\0\0\0\0\0\0");
    let said =
        cutting_changes_nothing(&Socks, &[c(b"\x04\x01\x00\x50\x0a\x00\x00\x02geheim\x00"), granted.clone()], "geheim");
    assert_eq!(said[0], "C req @0+15 CONNECT 10.0.0.2:80 network.protocol.version=4 wirespan.socks.target=10.0.0.2:80");
    assert_eq!(&said[1..], ["S resp @0+8 status=90 Ok", "Upgrade "]);
    let said = tcp(&Socks, &[c(b"\x04\x01\x00\x50\x00\x00\x00\x07\x00a.test\x00"), s(b"\x00\x5b\0\0\0\0\0\0")]);
    assert!(said[0].starts_with("C req @0+16 CONNECT a.test:80"), "{}", said[0]);
    assert_eq!(said[1], "S resp @0+8 status=91 ServerError error=\"rejected\" error.type=rejected");
}

#[test]
fn answers_of_both_ends_decide() {
    let yes = Some(("socks", true));
    assert_eq!(claimed(b"\x05\x01\x00", b""), None);
    assert_eq!(claimed(b"\x05\x01\x00", b"\x05\x00"), yes);
    assert_eq!(claimed(b"\x05\x02\x00\x02", b"\x05\x02"), yes);
    assert_eq!(claimed(b"\x05\x01\x00", b"\x05\x02"), None, "a method that was not offered");
    assert_eq!(claimed(b"\x05\x00\x0b\x03\x10\x00\x00\x00", b"\x05\x00"), None, "DCE/RPC");
    assert_eq!(claimed(b"\x04\x01\x00\x50\x0a\x00\x00\x02\x00", b"\x00\x5a\0\0\0\0\0\0"), yes);
    assert_eq!(claimed(b"\x04\x01\x00\x50\x0a\x00\x00\x02\x00", b"\x00\x00\0\0\0\0\0\0"), None);
}
