//! SQL Server's TDS, the PROXY protocol, SOCKS, the handshake of TLS.

use super::{c, s, talk, Secrets, Talk};

pub(super) fn talks(x: &mut Secrets) -> Vec<Talk> {
    vec![tds(x), proxy(x), proxy_text(x), socks(x), socks4(x), tls(x)]
}

fn packet(kind: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [&[kind, 1][..], &(body.len() as u16 + 8).to_be_bytes(), &[0, 0, 1, 0], body].concat()
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const HEADERS: &[u8] = &[0x16, 0, 0, 0, 0x12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

fn tds(x: &mut Secrets) -> Talk {
    let batch = |sql: String| packet(1, [HEADERS, &wide(&sql)].concat());
    let text = |value: &str| {
        let value = wide(value);
        let kind = [0, 0, 0xe7, 0x40, 0x1f, 9, 4, 0xd0, 0, 0x34];
        [&kind[..], &(value.len() as u16).to_le_bytes(), &value].concat()
    };
    let rpc = |id: u16, parameters: &[Vec<u8>]| {
        packet(3, [HEADERS, &[0xff, 0xff], &id.to_le_bytes(), &[0, 0], &parameters.concat()].concat())
    };
    let done = |token: u8, status: u16, rows: u64| {
        [&[token][..], &status.to_le_bytes(), &[0xc1, 0], &rows.to_le_bytes()].concat()
    };
    let failed = |number: i32, message: &str| {
        let head = [&number.to_le_bytes()[..], &[1, 14], &(message.len() as u16).to_le_bytes()].concat();
        let body = [head, wide(message), vec![0, 0, 1, 0, 0, 0]].concat();
        [&[0xaa][..], &(body.len() as u16).to_le_bytes(), &body].concat()
    };
    let prelogin = [0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff, 16, 0, 0, 0, 0, 0, 2];
    // The password is hidden with a key that everybody knows; here it is as it is.
    let login =
        [vec![0; 94], wide(&x.of("tds user")), wide(&x.of("tds password")), wide(&x.of("tds application"))].concat();
    let login = [&(login.len() as u32 + 4).to_le_bytes()[..], &login].concat();
    let rows = [&[0x81, 1, 0][..], x.of("tds row").as_bytes(), &wide(&x.of("tds wide row"))].concat();
    let query = format!(
        "SELECT a FROM dbo.t WHERE b = N'{}' AND c = \"{}\" /* {} */ -- {}",
        x.of("tds literal"),
        x.of("tds quoted literal"),
        x.of("tds comment"),
        x.of("tds line comment"),
    );
    let call = [
        text(&format!("UPDATE t SET a = @p WHERE b = '{}'", x.of("tds literal of a prepared statement"))),
        text("@p nvarchar(40)"),
        text(&x.of("tds parameter")),
    ];
    let told = format!("Violation of PRIMARY KEY constraint 'PK'. The duplicate key value is ({}).", x.of("tds error"));
    let password = format!("ALTER LOGIN sa WITH PASSWORD = '{}'", x.of("tds new password"));
    talk(
        "microsoft.sql_server",
        &["LOGIN", "SELECT dbo.t", "UPDATE t", "INSERT t"],
        vec![
            c(packet(0x12, prelogin)),
            s(packet(4, prelogin)),
            c(packet(0x10, login)),
            s(packet(4, done(0xfd, 0, 0))),
            c(batch(query)),
            s(packet(4, [rows, done(0xfd, 0x10, 7)].concat())),
            c(rpc(10, &call)),
            s(packet(4, [done(0xff, 0x11, 3), vec![0x79, 0, 0, 0, 0], done(0xfe, 0, 0)].concat())),
            c(batch(format!("INSERT INTO t VALUES ('{}')", x.of("tds inserted literal")))),
            s(packet(4, [failed(2627, &told), done(0xfd, 2, 0)].concat())),
            c(batch(password)),
            s(packet(4, done(0xfd, 0, 0))),
        ],
    )
}

fn proxy(x: &mut Secrets) -> Talk {
    let field = |kind: u8, value: &[u8]| [&[kind][..], &(value.len() as u16).to_be_bytes(), value].concat();
    let certificate = [&[7, 0, 0, 0, 0][..], &field(0x22, x.of("proxy common name").as_bytes())].concat();
    let ends = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 1, 187];
    let more = [
        field(5, x.of("proxy unique id").as_bytes()),
        field(0x20, &certificate),
        field(0xe0, x.of("proxy own field").as_bytes()),
    ];
    let body = [&ends[..], &more.concat()].concat();
    let head = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11", &(body.len() as u16).to_be_bytes()[..], &body].concat();
    let request = format!("GET /behind HTTP/1.1\r\nHost: h\r\nCookie: a={}\r\n\r\n", x.of("cookie behind proxy"));
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", x.of("answer behind proxy"));
    talk("http", &["GET /behind"], vec![c([head, request.into_bytes()].concat()), s(answer)])
}

fn proxy_text(x: &mut Secrets) -> Talk {
    let line = "PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
    let request =
        format!("{line}GET /line HTTP/1.1\r\nHost: h\r\nX-Token: {}\r\n\r\n", x.of("field behind proxy line"));
    talk("proxy", &["PROXY 198.51.100.1:443"], vec![c(request), s("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")])
}

fn socks(x: &mut Secrets) -> Talk {
    let word = |text: String| [&[text.len() as u8], text.as_bytes()].concat();
    let login = [vec![1], word(x.of("socks user")), word(x.of("socks password"))].concat();
    let request =
        format!("GET /through HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n\r\n", x.of("token behind socks"));
    talk(
        "socks",
        &["NEGOTIATE", "AUTH", "CONNECT shop.test:443"],
        vec![
            c(b"\x05\x02\x00\x02"),
            s(b"\x05\x02"),
            c(login),
            s(b"\x01\x00"),
            c(b"\x05\x01\x00\x03\x09shop.test\x01\xbb"),
            s(b"\x05\x00\x00\x01\x0a\x00\x00\x01\x04\x38"),
            c(request),
            s(format!("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", x.of("answer behind socks"))),
        ],
    )
}

fn socks4(x: &mut Secrets) -> Talk {
    let ask = [b"\x04\x01\x00\x50\x0a\x00\x00\x02", x.of("socks 4 user").as_bytes(), b"\0"].concat();
    talk("socks", &["CONNECT 10.0.0.2:80"], vec![c(ask), s(b"\x00\x5a\0\0\0\0\0\0")])
}

fn tls(x: &mut Secrets) -> Talk {
    let record = |kind: u8, body: &[u8]| [&[kind, 3, 3][..], &(body.len() as u16).to_be_bytes(), body].concat();
    let message = |kind: u8, body: &[u8]| [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat();
    let list16 = |body: &[u8]| [&(body.len() as u16).to_be_bytes()[..], body].concat();
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &list16(body)].concat();
    let random = |secret: String| [secret.as_bytes(), b"............"].concat();
    let name = extension(0, &list16(&[&[0][..], &list16(b"shop.test")].concat()));
    let ticket = extension(35, x.of("tls ticket").as_bytes());
    let cookie = extension(44, &list16(x.of("tls cookie").as_bytes()));
    let session = x.of("tls session id");
    let hello = [
        &[3, 3][..],
        &random(x.of("tls client random")),
        &[session.len() as u8],
        session.as_bytes(),
        &list16(&[0x13, 1, 0xc0, 0x2f]),
        &[1, 0],
        &list16(&[name, ticket, cookie].concat()),
    ]
    .concat();
    let chosen = [extension(43, &[3, 4]), extension(51, &[0, 0x1d, 0, 2, 9, 9])].concat();
    let answer = [
        &[3, 3][..],
        &random(x.of("tls server random")),
        &[session.len() as u8],
        session.as_bytes(),
        &[0x13, 1, 0],
        &list16(&chosen),
    ]
    .concat();
    let change: &[u8] = b"\x14\x03\x03\x00\x01\x01";
    let hidden = |secret: String| [secret.as_bytes(), &[7; 60]].concat();
    talk(
        "tls",
        &["handshake shop.test"],
        vec![
            c(record(22, &message(1, &hello))),
            s([record(22, &message(2, &answer)), change.to_vec(), record(23, &[7; 900]), record(23, &[7; 60])]
                .concat()),
            c([change.to_vec(), record(23, &[1; 60]), record(23, &hidden(x.of("tls data")))].concat()),
            s(record(23, &hidden(x.of("tls answered data")))),
        ],
    )
}
