//! Changes by chance: what libFuzzer does, without its eyes.

use crate::devices::trees::Numbers;

/// How much longer than the longest of the corpus an input gets.
const LONGER: usize = 4 << 10;

/// One of the corpus with one to eight changes.
pub(super) fn changed(corpus: &[Vec<u8>], tokens: &[&str], numbers: &mut Numbers) -> Vec<u8> {
    let mut input = one(corpus, numbers).clone();
    for _ in 0..1 + numbers.below(3) * numbers.below(4) {
        change(&mut input, corpus, tokens, numbers);
    }
    input.truncate(corpus.iter().map(Vec::len).max().unwrap_or_default() + LONGER);
    input
}

fn one<'a>(corpus: &'a [Vec<u8>], numbers: &mut Numbers) -> &'a Vec<u8> {
    &corpus[numbers.below(corpus.len() as u64) as usize]
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], tokens: &[&str], numbers: &mut Numbers) {
    let at = numbers.below(input.len() as u64 + 1) as usize;
    let end = at + numbers.below((input.len() - at) as u64 + 1) as usize;
    match numbers.below(9) {
        0 => flip(input, at, numbers),
        1 => set(input, at, numbers),
        2 => input.truncate(at),
        3 => drop(input.drain(at..end.min(at + 16))),
        4 => drop(input.splice(at..at, numbers.next().to_le_bytes().into_iter().take(1 + at % 8))),
        5 => {
            let piece: Vec<u8> = input[at..end.min(at + 256)].to_vec();
            let to = numbers.below(input.len() as u64 + 1) as usize;
            drop(input.splice(to..to, piece));
        }
        6 if !tokens.is_empty() => {
            let token = tokens[numbers.below(tokens.len() as u64) as usize];
            drop(input.splice(at..at, token.bytes()));
        }
        7 => {
            let other = one(corpus, numbers);
            let from = numbers.below(other.len() as u64 + 1) as usize;
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => number(input, at, numbers),
    }
}

fn flip(input: &mut [u8], at: usize, numbers: &mut Numbers) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << numbers.below(8);
    }
}

fn set(input: &mut [u8], at: usize, numbers: &mut Numbers) {
    const BYTES: [u8; 10] = [0, 1, 0x7f, 0x80, 0xff, b'/', b'.', b'"', b'\\', b'\n'];
    if let Some(byte) = input.get_mut(at) {
        *byte = BYTES[numbers.below(10) as usize];
    }
}

/// Writes a number that lies at an edge, in one of the widths that formats use.
fn number(input: &mut [u8], at: usize, numbers: &mut Numbers) {
    const EDGES: [u64; 8] = [0, 1, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];
    let edge = EDGES[numbers.below(8) as usize].to_le_bytes();
    let width = [1, 2, 4, 8][numbers.below(4) as usize];
    for (byte, new) in input.iter_mut().skip(at).zip(edge.iter().take(width)) {
        *byte = *new;
    }
}
