//! Keys of Initial packets (RFC 9001, section 5): they follow from the connection id that the client chose, so that
//! every observer can read these packets. All later packets have secret keys.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::Aes128;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of the tag behind a packet's content.
pub(super) const TAG: usize = 16;
/// Bytes behind the packet number's place from which its mask is made.
const SAMPLE_BEHIND: usize = 4;
const BLOCK: usize = 16;

/// What differs between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    salt: &'static [u8; 20],
    /// Names of key, vector and mask.
    labels: [&'static str; 3],
    /// The second version counts its types of packets from another place.
    pub(super) second: bool,
}

const LABELS: [&str; 3] = ["quic key", "quic iv", "quic hp"];
const ONE: Version = version(b"\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a");
const DRAFT_29: Version = version(b"\xaf\xbf\xec\x28\x99\x93\xd2\x4c\x9e\x97\x86\xf1\x9c\x61\x11\xe0\x43\x90\xa8\x99");
const DRAFT_23: Version = version(b"\xc3\xee\xf7\x12\xc7\x2e\xbb\x5a\x11\xa7\xd2\x43\x2b\xb4\x63\x65\xbe\xf9\xf5\x02");
const DRAFT_22: Version = version(b"\x7f\xbc\xdb\x0e\x7c\x66\xbb\xe9\x19\x3a\x96\xcd\x21\x51\x9e\xbd\x7a\x02\x64\x4a");
const TWO: Version = Version {
    salt: b"\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9",
    labels: ["quicv2 key", "quicv2 iv", "quicv2 hp"],
    second: true,
};

const fn version(salt: &'static [u8; 20]) -> Version {
    Version { salt, labels: LABELS, second: false }
}

impl Version {
    /// The versions that this number may stand for (RFC 9000, RFC 9369, the drafts, and those of mvfst). A client that
    /// wants the server to say its versions sends a reserved number, and otherwise what it speaks.
    pub(super) fn of(number: u32) -> &'static [Version] {
        match number {
            1 | 0xff00_0021 | 0xff00_0022 => &[ONE],
            0x6b33_43cf => &[TWO],
            0xff00_001d..=0xff00_0020 => &[DRAFT_29],
            0xff00_0017..=0xff00_001c | 0xface_b002 | 0xface_b00e => &[DRAFT_23],
            0xff00_0016 | 0xface_b001 => &[DRAFT_22],
            reserved if reserved & 0x0f0f_0f0f == 0x0a0a_0a0a => &[ONE, DRAFT_29],
            _ => &[],
        }
    }
}

/// Keys of one direction.
pub(super) struct Keys {
    key: Aes128,
    mask: Aes128,
    vector: [u8; 12],
}

/// Keys are no secret here, and say nothing.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// The keys of client and server for the connection id that the client's first packet is sent to.
pub(super) fn initial(version: &Version, id: &[u8]) -> Option<[Keys; 2]> {
    let secret = hmac(version.salt, &[id])?;
    let of = |label: &str| {
        let secret = expand(&secret, label)?;
        let [key, vector, mask] = version.labels.map(|label| expand(&secret, label));
        // Of what a label gives, a key takes 16 bytes and a vector 12; the length is part of what is hashed.
        let key = Aes128::new(&Array(*key?.first_chunk()?));
        let mask = Aes128::new(&Array(*mask?.first_chunk()?));
        Some(Keys { key, mask, vector: *vector?.first_chunk()? })
    };
    Some([of("client in")?, of("server in")?])
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Option<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac.finalize().into_bytes().into())
}

/// HKDF-Expand-Label (RFC 8446, section 7.1) for at most 32 bytes.
fn expand(secret: &[u8; 32], label: &str) -> Option<[u8; 32]> {
    let len: u8 = match label.rsplit(' ').next()? {
        "in" => 32,
        "iv" => 12,
        _ => 16,
    };
    let size = u8::try_from(label.len()).ok()?.checked_add(6)?;
    hmac(secret, &[&[0, len, size], b"tls13 ", label.as_bytes(), &[0, 1]])
}

impl Keys {
    /// Decrypts the packet that `packet` begins with, as far as it was captured. `number` is the place of the packet
    /// number, `len` the bytes from there to the packet's end. Nothing is authenticated: whether the key was right
    /// shows in what comes out.
    pub(super) fn open(&self, packet: &[u8], number: usize, len: usize) -> Option<Vec<u8>> {
        let at = packet.get(number..)?;
        let sample = at.get(SAMPLE_BEHIND..)?.first_chunk::<BLOCK>()?;
        let mut block = Array(*sample);
        self.mask.encrypt_block(&mut block);
        let [m0, m1, m2, m3, m4, ..] = block.0;
        let digits = usize::from((packet.first()? ^ m0) & 3).checked_add(1)?;
        let mut nonce = self.vector;
        let numbers = at.first_chunk::<4>()?.iter().zip([m1, m2, m3, m4]).take(digits).map(|(a, b)| a ^ b);
        for (to, from) in nonce.iter_mut().skip(12usize.checked_sub(digits)?).zip(numbers) {
            *to ^= from;
        }
        let content = at.get(digits..len.checked_sub(TAG)?.min(at.len()))?;
        let mut text = content.to_vec();
        self.stream(&nonce, &mut text);
        Some(text)
    }

    /// Encrypts or decrypts: the cipher is a stream that both add to the text (AES in counter mode, as in GCM).
    fn stream(&self, nonce: &[u8; 12], text: &mut [u8]) {
        for (block, counter) in text.chunks_mut(BLOCK).zip(2u32..) {
            let mut stream = [0; BLOCK];
            let (head, tail) = stream.split_at_mut(12);
            head.copy_from_slice(nonce);
            tail.copy_from_slice(&counter.to_be_bytes());
            let mut stream = Array(stream);
            self.key.encrypt_block(&mut stream);
            block.iter_mut().zip(stream.0).for_each(|(b, s)| *b ^= s);
        }
    }

    /// The opposite of [`Keys::open`] for a packet with a number of two bytes and room for a tag, which stays empty.
    #[cfg(test)]
    #[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
    pub(super) fn seal(&self, clear: &[u8], number: usize) -> Vec<u8> {
        let mut packet = clear.to_vec();
        let mut nonce = self.vector;
        nonce[10] ^= clear[number];
        nonce[11] ^= clear[number + 1];
        let end = clear.len() - TAG;
        self.stream(&nonce, &mut packet[number + 2..end]);
        let mut mask = Array(*packet[number + SAMPLE_BEHIND..].first_chunk::<BLOCK>().unwrap());
        self.mask.encrypt_block(&mut mask);
        packet[0] ^= mask[0] & 0x0f;
        packet[number] ^= mask[1];
        packet[number + 1] ^= mask[2];
        packet
    }
}

/// RFC 9001, appendix A.1.
#[cfg(test)]
#[test]
fn secrets_are_those_of_the_standard() {
    let id = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
    let of = |label: &str, len: usize| {
        let secret = hmac(ONE.salt, &[&id]).and_then(|all| expand(&all, "client in"));
        let value = secret.and_then(|secret| expand(&secret, label)).unwrap_or_default();
        value.iter().take(len).map(|b| format!("{b:02x}")).collect::<String>()
    };
    assert_eq!(of("quic key", 16), "1f369613dd76d5467730efcbe3b1a22d");
    assert_eq!(of("quic iv", 12), "fa044b2f42a3fd3b46fb255c");
    assert_eq!(of("quic hp", 16), "9f50449e04a0e810283a1e9933adedd2");
}
