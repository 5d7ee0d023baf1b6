//! Mutations of an input: of bits, of bytes, and of parts of formats (lengths, varints, numbers in text).

use dice::Dice;

/// Longest input that a mutation makes, in bytes. Longer seeds keep their length.
const MAX_INPUT: usize = 1 << 16;

const EDGES: [u64; 14] = [
    0,
    1,
    2,
    127,
    128,
    255,
    512,
    65_535,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

const WORDS: [&str; 12] =
    ["-1", "0", "1e308", "nan", "inf", "-0.0", "18446744073709551615", "1e-400", "{", "[[", "\"", "\u{0}"];

/// Returns `input` after one to four changes, which may copy pieces of `other`.
pub fn mutate(input: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + dice.below(4) {
        change(&mut bytes, other, dice);
    }
    if input.len() <= MAX_INPUT {
        bytes.truncate(MAX_INPUT);
    }
    bytes
}

fn place(bytes: &[u8], dice: &mut Dice) -> usize {
    dice.below(bytes.len() as u64 + 1) as usize
}

/// Returns a range of the input, more often a short one than a long one.
fn range(bytes: &[u8], dice: &mut Dice) -> std::ops::Range<usize> {
    let start = place(bytes, dice);
    let longest = 1u64 << dice.below(11);
    start..(start + 1 + dice.below(longest) as usize).min(bytes.len()).max(start)
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes.iter_mut().skip(at).zip(new).for_each(|(byte, new)| *byte = *new);
}

fn change(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = place(bytes, dice);
    let edge = dice.pick(&EDGES).wrapping_add(dice.below(3)).wrapping_sub(1);
    match dice.below(13) {
        0 => {
            let flipped = bytes.get(at).copied().unwrap_or(0) ^ (1 << dice.below(8));
            put(bytes, at, &[flipped]);
        }
        1 => put(bytes, at, &[dice.roll() as u8]),
        2 => put(bytes, at, &(edge as u32).to_le_bytes()),
        3 => put(bytes, at, &edge.to_le_bytes()),
        4 => put(bytes, at, &(edge as u32).to_be_bytes()),
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(range(bytes, dice))),
        7 => {
            let again = bytes[range(bytes, dice)].to_vec();
            bytes.splice(at..at, again);
        }
        8 => {
            let from = other[range(other, dice)].to_vec();
            bytes.splice(at..at, from);
        }
        9 => {
            let from = other[range(other, dice)].to_vec();
            put(bytes, at, &from);
        }
        10 => {
            bytes.splice(at..at, varint(edge));
        }
        11 => number(bytes, at, dice),
        _ => {
            let byte = dice.roll() as u8;
            let range = range(bytes, dice);
            bytes[range].fill(byte);
        }
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Replaces the first number in text at or after `at`.
fn number(bytes: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let Some(start) = bytes.iter().skip(at).position(is_part).map(|found| at + found) else { return };
    let len = bytes[start..].iter().take_while(|byte| is_part(byte)).count();
    let new = if dice.one_in(2) {
        dice.pick(&WORDS).as_bytes().to_vec()
    } else {
        dice.pick(&EDGES).to_string().into_bytes()
    };
    bytes.splice(start..start + len, new);
}
