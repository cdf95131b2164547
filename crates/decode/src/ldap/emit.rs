//! Operations → messages.

use super::filter;
use super::parse::{first_number, Envelope};
use crate::ber::elements;
use crate::text::visible;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Kind, Message, Outcome, Side};

/// Tags of a server's messages.
pub(super) const ENTRY: u8 = 0x64;
pub(super) const DONE: u8 = 0x65;
pub(super) const REFERENCE: u8 = 0x73;
pub(super) const INTERMEDIATE: u8 = 0x79;
const EXTENDED: u8 = 0x78;
/// How a client authenticates.
pub(super) const MECHANISM: &str = "wirespan.ldap.mechanism";

/// Masked texts of the last request; kept for their memory only.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    name: String,
    filter: String,
}

fn operation(tag: u8) -> Option<&'static str> {
    Some(match tag {
        0x60 => "bind",
        0x42 => "unbind",
        0x63 => "search",
        0x66 => "modify",
        0x68 => "add",
        0x4a => "delete",
        0x6c => "modifyDN",
        0x6e => "compare",
        0x50 => "abandon",
        0x77 => "extended",
        _ => return None,
    })
}

/// Whether a client sends this.
pub(super) fn asks(tag: u8) -> bool {
    operation(tag).is_some()
}

/// Whether anybody sends this.
pub(super) fn is_known(tag: u8) -> bool {
    asks(tag)
        || matches!(tag, 0x61 | ENTRY | DONE | REFERENCE | 0x67 | 0x69 | 0x6b | 0x6d | 0x6f | EXTENDED | INTERMEDIATE)
}

/// Names of extended operations.
fn extended(oid: &[u8]) -> &'static str {
    match oid {
        b"1.3.6.1.4.1.1466.20037" => "startTLS",
        b"1.3.6.1.4.1.4203.1.11.1" => "passwordModify",
        b"1.3.6.1.4.1.4203.1.11.3" => "whoAmI",
        b"1.3.6.1.1.8" => "cancel",
        b"1.3.6.1.1.21.1" => "startTransaction",
        b"1.3.6.1.1.21.3" => "endTransaction",
        _ => "extended",
    }
}

/// The message of a request.
pub(super) fn request<'a>(envelope: &Envelope<'a>, offset: u64, scratch: &'a mut Scratch) -> Message<'a> {
    let one_way = matches!(envelope.tag, 0x42 | 0x50);
    let mut m = Message::new("ldap", Side::Client, if one_way { Kind::OneWay } else { Kind::Request }, offset);
    m.id = (!one_way).then_some(envelope.id);
    m.operation = operation(envelope.tag).unwrap_or_default();
    let mut parts = elements(envelope.content);
    let mut named = false;
    let Scratch { name, filter: text } = scratch;
    match envelope.tag {
        0x60 => {
            parts.next();
            named = named_by(&mut parts, name);
            let mechanism = match parts.next() {
                Some((0x80, _)) => "simple",
                Some((0xa3, sasl)) => elements(sasl)
                    .next()
                    .and_then(|(_, text)| visible(text, 20))
                    .filter(|t| is_mechanism(t))
                    .unwrap_or("sasl"),
                // NTLM without SASL (MS-ADTS, section 5.1.1.1.3).
                Some((0x89..=0x8b, _)) => "sicily",
                _ => "",
            };
            if !mechanism.is_empty() {
                m.attrs.push((MECHANISM, AttrVal::from(mechanism)));
            }
        }
        0x63 => {
            named = named_by(&mut parts, name);
            let scope = match parts.next() {
                Some((10, [0])) => "base",
                Some((10, [1])) => "one",
                Some((10, [2])) => "sub",
                Some((10, [3])) => "children",
                _ => "",
            };
            if !scope.is_empty() {
                m.attrs.push(("wirespan.ldap.scope", AttrVal::from(scope)));
            }
            // Aliases, limits of size and time, types only; then the filter.
            if let Some((tag, content)) = parts.nth(4) {
                text.clear();
                filter::filter(tag, content, 0, text);
                m.attrs.push(("wirespan.ldap.filter", AttrVal::from(text.as_str())));
            }
        }
        0x4a => {
            filter::name(envelope.content, name);
            named = true;
        }
        0x66 | 0x68 | 0x6c | 0x6e => named = named_by(&mut parts, name),
        0x77 => {
            if let Some((0x80, oid)) = parts.next() {
                m.operation = extended(oid);
                let digits = |t: &&str| t.bytes().all(|b| b.is_ascii_digit() || b == b'.');
                if let Some(oid) = visible(oid, 64).filter(digits) {
                    m.attrs.push(("wirespan.ldap.oid", AttrVal::from(oid)));
                }
            }
        }
        _ => {}
    }
    if named && !name.is_empty() {
        m.target = Cow::Borrowed(name.as_str());
    }
    m
}

fn named_by<'a>(parts: &mut impl Iterator<Item = (u8, &'a [u8])>, name: &mut String) -> bool {
    match parts.next() {
        Some((4, dn)) => {
            filter::name(dn, name);
            true
        }
        _ => false,
    }
}

/// Names of SASL mechanisms are upper case (RFC 4422).
fn is_mechanism(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
}

/// The first of several messages that answer a search.
pub(super) fn part(envelope: &Envelope<'_>, offset: u64) -> Message<'static> {
    let mut m = Message::new("ldap", Side::Server, Kind::Response, offset);
    (m.id, m.body) = (Some(envelope.id), Body::Open);
    m
}

/// The fields of a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct LdapResult {
    pub(super) code: Option<i32>,
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
}

impl LdapResult {
    /// Text of the error, if it is one.
    pub(super) fn error(&self) -> &'static str {
        match self.outcome {
            Outcome::ClientError | Outcome::ServerError => self.name,
            _ => "",
        }
    }
}

/// Reads the code of a result.
pub(super) fn result(envelope: &Envelope<'_>) -> LdapResult {
    let code = first_number(envelope.content).and_then(|n| i32::try_from(n).ok());
    let (name, outcome) = code.map_or(("", Outcome::Unset), named);
    LdapResult { code, name, outcome }
}

/// The message of a result.
pub(super) fn response(envelope: &Envelope<'_>, result: &LdapResult, offset: u64) -> Message<'static> {
    // A notice of disconnection answers no request.
    let notice = envelope.tag == EXTENDED && envelope.id == 0;
    let mut m = Message::new("ldap", Side::Server, if notice { Kind::OneWay } else { Kind::Response }, offset);
    m.id = (!notice).then_some(envelope.id);
    if notice {
        m.operation = "notice";
    }
    (m.status_code, m.outcome) = (result.code, result.outcome);
    if !result.error().is_empty() {
        m.error = Cow::Borrowed(result.name);
        m.attrs.push(("error.type", AttrVal::from(result.name)));
    }
    m
}

fn named(code: i32) -> (&'static str, Outcome) {
    use Outcome::{ClientError, Ok, ServerError};
    match code {
        0 => ("success", Ok),
        1 => ("operationsError", ServerError),
        2 => ("protocolError", ClientError),
        3 => ("timeLimitExceeded", ServerError),
        4 => ("sizeLimitExceeded", ClientError),
        5 => ("compareFalse", Ok),
        6 => ("compareTrue", Ok),
        7 => ("authMethodNotSupported", ClientError),
        8 => ("strongerAuthRequired", ClientError),
        10 => ("referral", Ok),
        11 => ("adminLimitExceeded", ServerError),
        12 => ("unavailableCriticalExtension", ClientError),
        13 => ("confidentialityRequired", ClientError),
        14 => ("saslBindInProgress", Ok),
        16 => ("noSuchAttribute", ClientError),
        17 => ("undefinedAttributeType", ClientError),
        18 => ("inappropriateMatching", ClientError),
        19 => ("constraintViolation", ClientError),
        20 => ("attributeOrValueExists", ClientError),
        21 => ("invalidAttributeSyntax", ClientError),
        32 => ("noSuchObject", ClientError),
        33 => ("aliasProblem", ClientError),
        34 => ("invalidDNSyntax", ClientError),
        36 => ("aliasDereferencingProblem", ClientError),
        48 => ("inappropriateAuthentication", ClientError),
        49 => ("invalidCredentials", ClientError),
        50 => ("insufficientAccessRights", ClientError),
        51 => ("busy", ServerError),
        52 => ("unavailable", ServerError),
        53 => ("unwillingToPerform", ServerError),
        54 => ("loopDetect", ServerError),
        64 => ("namingViolation", ClientError),
        65 => ("objectClassViolation", ClientError),
        66 => ("notAllowedOnNonLeaf", ClientError),
        67 => ("notAllowedOnRDN", ClientError),
        68 => ("entryAlreadyExists", ClientError),
        69 => ("objectClassModsProhibited", ClientError),
        71 => ("affectsMultipleDSAs", ClientError),
        80 => ("other", ServerError),
        _ => ("_OTHER", ServerError),
    }
}
