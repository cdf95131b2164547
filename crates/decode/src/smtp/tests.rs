#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::Smtp;
use crate::testing::{c, claimed, cutting_changes_nothing, s, tcp};
use wirespan_model::Side;

#[test]
fn a_mail_is_one_exchange() {
    let turns = [
        s("220 mx.test ESMTP ready\r\n"),
        c("EHLO me.test\r\n"),
        s("250-mx.test\r\n250-PIPELINING\r\n250 AUTH PLAIN LOGIN\r\n"),
        c("AUTH LOGIN\r\n"),
        s("334 VXNlcm5hbWU6\r\n"),
        c("Z2VoZWlt geheim\r\n"),
        s("334 UGFzc3dvcmQ6\r\n"),
        c("QUIT geheim\r\n"),
        s("535 5.7.8 bad geheim\r\n"),
        c("MAIL FROM:<geheim@Shop.test> SIZE=9\r\nRCPT TO:<geheim@x.test>\r\nrcpt to:<geheim@y.test>\r\nDATA\r\n"),
        s("250 2.1.0 ok\r\n250 ok\r\n550 5.1.1 <geheim@y.test>: no such user \"geheim\" at 10.1.2.3\r\n354 go on\r\n"),
        c("Subject: geheim\r\n\r\nQUIT\r\n..\r\ngeheim\r\n.\r\n"),
        s("451 4.3.0 try later\r\n"),
        c("QUIT\r\n"),
        s("221 bye\r\n"),
    ];
    let said = cutting_changes_nothing(&Smtp, &turns, "geheim");
    assert_eq!(
        said,
        [
            "S oneway @0+25 greeting status=220 Ok",
            "C req @0+14 EHLO",
            "S resp @25+13 body=open status=250 Ok",
            "End Server @76 None",
            "C req @14+12 AUTH wirespan.smtp.mechanism=LOGIN",
            "S interim @76+18 status=334 Ok",
            "S interim @94+18 status=334 Ok",
            "S resp @112+22 status=535 ClientError error=\"535\" wirespan.smtp.enhanced_code=5.7.8 error.type=535",
            "C req @56+37 MAIL shop.test wirespan.smtp.domain=shop.test",
            "C req @93+25 RCPT x.test wirespan.smtp.domain=x.test",
            "C req @118+25 RCPT y.test wirespan.smtp.domain=y.test",
            "C req @143+6 body=open DATA",
            "S resp @134+14 status=250 Ok wirespan.smtp.enhanced_code=2.1.0",
            "S resp @148+8 status=250 Ok",
            "S resp @156+62 status=550 ClientError error=\"<?>: no such user \\\"?\\\" at ?\" \
             wirespan.smtp.enhanced_code=5.1.1 error.type=550",
            "S interim @218+11 status=354 Ok",
            "End Client @189 None",
            "S resp @229+21 status=451 ServerError error=\"try later\" wirespan.smtp.enhanced_code=4.3.0 \
            error.type=451",
            "C req @189+6 QUIT",
            "S resp @250+9 status=221 Ok",
        ]
    );
}

#[test]
fn a_mail_that_was_not_captured_ends_with_the_reply() {
    let said = tcp(
        &Smtp,
        &[
            c("DATA\r\n"),
            s("354 go\r\n"),
            (Side::Client, b"Subject: x\r\nQUIT".to_vec(), 90_000),
            (Side::Client, Vec::new(), 10_000),
            s("250 queued\r\n"),
            c("BDAT 7 LAST\r\nQUIT\r\n.QUIT\r\n"),
        ],
    );
    assert_eq!(
        said,
        [
            "C req @0+6 body=open DATA",
            "S interim @0+8 status=354 Ok",
            "S resp @8+12 status=250 Ok",
            "C req @100022+13 body=7 BDAT",
            "C req @100042+6 QUIT",
        ]
        .map(str::to_owned)
    );
}

#[test]
fn start_tls_gives_way_to_tls() {
    let said = tcp(&Smtp, &[c("STARTTLS\r\n"), s("220 go ahead\r\n"), c(b"\x16\x03\x01")]);
    assert_eq!(said, ["C req @0+10 STARTTLS", "S resp @0+14 status=220 Ok", "Upgrade tls"]);
    let said = tcp(&Smtp, &[c("STARTTLS\r\n"), s("454 no\r\n"), c("QUIT\r\n")]);
    assert_eq!(said[2], "C req @10+6 QUIT");
}

#[test]
fn a_greeting_behind_an_impatient_client_answers_nothing() {
    let said = tcp(
        &Smtp,
        &[
            c("EHLO me\r\nMAIL FROM: geheim@shop.test SIZE=9\r\n"),
            s("220 mx.test ready\r\n"),
            s("250 mx.test\r\n250 ok\r\n"),
        ],
    );
    assert_eq!(
        said,
        [
            "C req @0+9 EHLO",
            "C req @9+36 MAIL shop.test wirespan.smtp.domain=shop.test",
            "S oneway @0+19 greeting status=220 Ok",
            "S resp @19+13 status=250 Ok",
            "S resp @32+8 status=250 Ok",
        ]
    );
}

#[test]
fn sessions_of_other_kinds_are_recognised() {
    let banner = b"220 mx.test ESMTP ready\r\n".as_slice();
    for command in ["QUIT\r\n", "NOOP\r\n", "ehlo\r\n", "STARTTLS\r\n", "MAIL FROM:a@b\r\n", "RCPT TO: a@b\r\n"] {
        assert_eq!(claimed(banner, command.as_bytes()), Some(("smtp", false)), "{command}");
    }
    let long = format!("EHLO {}\r\n", "x".repeat(1500));
    assert_eq!(claimed(b"220 hello\r\n", long.as_bytes()), Some(("smtp", false)));
    let longer = format!("EHLO {}", "x".repeat(3000));
    assert_eq!(claimed(b"220 hello\r\n", longer.as_bytes()), Some(("smtp", false)));
    assert_eq!(claimed(b"MAIL FROM:a@b\r\n", b"250 ok\r\n"), Some(("smtp", true)));
    assert_eq!(claimed(b"NOOP\r\n", banner), Some(("smtp", true)));
    assert_eq!(claimed(b"220 ftp.test ready\r\n", b"QUIT\r\n"), None, "FTP");
    assert_eq!(claimed(b"220 ftp.test ready\r\n", b"AUTH TLS\r\n"), None, "FTP");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let banner = b"220 mx.test ESMTP\r\n".as_slice();
    assert_eq!(claimed(banner, b""), None);
    assert_eq!(claimed(banner, b"EHLO me\r\n"), Some(("smtp", false)));
    assert_eq!(claimed(banner, b"USER bob\r\n"), None, "FTP");
    assert_eq!(claimed(b"MAIL FROM:<a@b>\r\n", b"250 ok\r\n"), Some(("smtp", true)));
    assert_eq!(claimed(b"250 ok\r\n", b"RCPT TO:<a@b>\r\n"), Some(("smtp", false)));
    assert_eq!(claimed(b"HELP\r\n", b"250 ok\r\n"), None);
    assert_eq!(claimed(b"MAIL me\r\n", b"250 ok\r\n"), None);
}
