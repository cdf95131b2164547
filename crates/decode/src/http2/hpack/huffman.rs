//! The Huffman code of HPACK (RFC 7541, appendix B). It is canonical, so that the lengths of its codes are all there is
//! to know.
// Only in constants, which the compiler computes.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

/// Code lengths of the 256 octets and of the end of string, bits.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];
/// Number of the symbol that ends a string; it must not appear.
const END_OF_STRING: u16 = 256;
const LONGEST: usize = 30;

/// Codes of one length: those from `first` on, `count` of them, stand for the symbols from `at` on.
#[derive(Clone, Copy)]
struct Codes {
    first: u64,
    count: u64,
    at: usize,
}

/// Symbols in the order of their codes.
const SYMBOLS: [u16; 257] = {
    let (mut symbols, mut n, mut length) = ([0u16; 257], 0, 0u8);
    while length as usize <= LONGEST {
        let mut symbol = 0u16;
        while symbol <= END_OF_STRING {
            if LENGTHS[symbol as usize] == length {
                symbols[n] = symbol;
                n += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    symbols
};

const CODES: [Codes; LONGEST + 1] = {
    let mut codes = [Codes { first: 0, count: 0, at: 0 }; LONGEST + 1];
    let (mut code, mut at, mut length) = (0u64, 0usize, 1usize);
    while length <= LONGEST {
        code <<= 1;
        let mut count = 0;
        while at + count < 257 && LENGTHS[SYMBOLS[at + count] as usize] as usize == length {
            count += 1;
        }
        codes[length] = Codes { first: code, count: count as u64, at };
        code += count as u64;
        at += count;
        length += 1;
    }
    codes
};

/// Symbol and length of the code that an octet begins with; length 0 if it is longer than 8 bits.
const SHORT: [(u16, u8); 256] = {
    let (mut short, mut octet) = ([(0u16, 0u8); 256], 0usize);
    while octet < 256 {
        let mut length = 5usize;
        while length <= 8 {
            let (code, of) = ((octet >> (8 - length)) as u64, CODES[length]);
            if code >= of.first && code - of.first < of.count {
                short[octet] = (SYMBOLS[of.at + (code - of.first) as usize], length as u8);
                break;
            }
            length += 1;
        }
        octet += 1;
    }
    short
};

/// Appends the decoded string to `out`. False if the code is broken: an end of string, or invalid padding.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    // The next bits, from the highest on, and how many there are.
    let (mut window, mut bits) = (0u64, 0u32);
    let mut input = input.iter();
    loop {
        while bits <= 56 {
            let Some(octet) = input.next() else { break };
            window |= u64::from(*octet) << 56u32.saturating_sub(bits);
            bits = bits.saturating_add(8);
        }
        let found = usize::try_from(window >> 56).ok().and_then(|octet| SHORT.get(octet)).copied();
        let (symbol, length) = match found.filter(|(_, length)| *length > 0) {
            Some(found) => found,
            None => long(window),
        };
        if u32::from(length) > bits {
            // The rest of the last octet is the beginning of the end of string: ones.
            return bits < 8 && window == !(u64::MAX.checked_shr(bits).unwrap_or(0));
        }
        let Ok(octet) = u8::try_from(symbol) else { return false };
        out.push(octet);
        window = window.checked_shl(u32::from(length)).unwrap_or(0);
        bits = bits.saturating_sub(u32::from(length));
    }
}

/// Symbol and length of a code of more than 8 bits.
fn long(window: u64) -> (u16, u8) {
    for (length, of) in (9u8..=30).zip(CODES.iter().skip(9)) {
        let code = window >> 64u32.saturating_sub(u32::from(length));
        if let Some(place) = code.checked_sub(of.first).filter(|place| *place < of.count) {
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            return (SYMBOLS.get(of.at.saturating_add(place)).copied().unwrap_or(END_OF_STRING), length);
        }
    }
    (END_OF_STRING, 30)
}
