//! Percent-encoding (RFC 3986, section 2.1), as W3C baggage, gRPC's `grpc-message` and OTLP's environment use it.

/// Decodes each `%XX`; any other `%` stays as it is.
pub fn percent_decode(text: &[u8]) -> Vec<u8> {
    let hex = |digit: &u8| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let octet = match behind {
            [a, b, ..] if *first == b'%' => hex(a).zip(hex(b)).map(|(a, b)| a << 4 | b),
            _ => None,
        };
        out.push(octet.unwrap_or(*first));
        rest = if octet.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::percent_decode;

    #[test]
    fn only_two_digits_behind_a_percent_sign_are_decoded() {
        let texts: [(&str, &str); 6] =
            [("a%20b%2C", "a b,"), ("50%", "50%"), ("%2", "%2"), ("%zz%41", "%zzA"), ("%+f", "%+f"), ("%25%32", "%2")];
        for (encoded, decoded) in texts {
            assert_eq!(percent_decode(encoded.as_bytes()), decoded.as_bytes(), "{encoded}");
        }
    }
}
