//! What the secret of a session keeps from others. It is tested without Python, which no test of the package links.

#[path = "../src/secret.rs"]
mod secret;

use ledger::{Head, JobCursor};
use proto::Nonce;
use secret::{Secret, SumPlace};
use sha2::{Digest, Sha256};

const PLACE: SumPlace = SumPlace { branch: 1, row: 2, start: 3, divide_by: 1.5 };

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    Sha256::digest(parts.concat()).into()
}

/// HMAC-SHA256 as RFC 2104 defines it, for a key of 32 bytes.
fn hmac(key: [u8; 32], message: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    sha256(&[&padded(0x5c), &sha256(&[&padded(0x36), message])])
}

/// Returns a ledger's cursor, of a job whose name is as long as a name may be.
fn cursor() -> Vec<u8> {
    let cursor = JobCursor {
        job_nonce: Nonce::from_bytes([1; 32]),
        plan_digest: [2; 32],
        layout_digest: [3; 32],
        job: "j".repeat(64).parse().expect("a name"),
        branch: 4,
        next_row: 5,
        coordinator_epoch: 6,
        head: Head { entries: 7, hash: [8; 32] },
    };
    cursor.to_bytes()
}

#[test]
fn digests_are_keyed_and_cover_the_place() {
    let pieces: [&[u8]; 2] = [&[1, 2, 3, 4], &[5, 6, 7, 8]];
    let mut message = b"rustle exact sum v2".to_vec();
    [1_u64, 2, 3].iter().for_each(|number| message.extend(number.to_le_bytes()));
    message.extend(1.5_f32.to_le_bytes());
    for piece in pieces {
        message.extend((piece.len() as u64).to_le_bytes());
        message.extend(piece);
    }
    let mut found = vec![sha256(&[message.as_slice()])];
    for key in [[0; 32], [9; 32]] {
        assert_eq!(Secret::new(key).digest(PLACE, &pieces), hmac(key, &message));
        found.push(hmac(key, &message));
    }
    for place in [
        SumPlace { branch: 0, ..PLACE },
        SumPlace { row: 0, ..PLACE },
        SumPlace { start: 0, ..PLACE },
        SumPlace { divide_by: 2.0, ..PLACE },
    ] {
        found.push(Secret::new([9; 32]).digest(place, &pieces));
    }
    found.push(Secret::new([9; 32]).digest(PLACE, &[pieces.concat().as_slice()]));
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 8);
}

#[test]
fn a_cursor_comes_back_with_its_secret() {
    let secret = Secret::draw().unwrap();
    assert!(secret.to_bytes() != Secret::draw().unwrap().to_bytes());
    let whole = secret.with_cursor(&cursor());
    // With the digest of batches behind it, 50 bytes, it stays below the 512 that the documentation names.
    assert_eq!(whole.len(), 37 + 234);
    for replay in [false, true] {
        let parts = Secret::of_cursor(&whole, replay).unwrap();
        assert!(parts.0.as_ref() == Some(&secret) && parts.1 == cursor());
    }
    assert_eq!(Secret::of_cursor(&cursor(), false).unwrap(), (None, cursor().as_slice()));
    assert!(Secret::of_cursor(&cursor(), true).unwrap_err().to_string().contains("without a secret"));
}

#[test]
fn no_damaged_cursor_takes_its_secret_along() {
    let whole = Secret::new([9; 32]).with_cursor(&cursor());
    for first in (0..=u8::MAX).filter(|first| *first != whole[0]) {
        let damaged = [&[first][..], &whole[1..]].concat();
        assert_eq!(Secret::of_cursor(&damaged, false).unwrap_err().kind(), "invalid_argument");
    }
    for at in 1..37 {
        let damaged = [&whole[..at], &[whole[at] ^ 1], &whole[at + 1..]].concat();
        assert_eq!(Secret::of_cursor(&damaged, false).unwrap_err().kind(), "invalid_argument");
    }
    for length in 0..37 {
        assert!(Secret::of_cursor(&whole[..length], false).is_err());
    }
}

#[test]
fn dither_is_another_for_each_secret_branch_and_row() {
    let [one, other] = [[1; 32], [2; 32]].map(Secret::new);
    let mut seeds: Vec<[u8; 32]> = vec![one.dither_seed(0, 0), one.dither_seed(1, 0), one.dither_seed(0, 1)];
    seeds.push(other.dither_seed(0, 0));
    assert_eq!(one.dither_seed(1, 0), seeds[1]);
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 4);
}
