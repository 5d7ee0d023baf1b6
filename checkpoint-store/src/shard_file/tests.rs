use super::*;

fn header() -> ShardHeader {
    ShardHeader {
        job: "j".to_owned(),
        branch: 0,
        plan_digest: [1; 32],
        key_commitment: [2; 32],
        stream_version: 1,
        range: CoordinateRange { start: 0, end: 512 },
        next_row: 1,
        window_start: 1,
        block_state_len: 4,
        element: ElementType::F32,
    }
}

/// Written out by hand: an object of one build is read by every other build of the same version.
#[test]
fn the_bytes_of_a_header_are_frozen() {
    let seal = Seal { segment_bytes: 64, salt: [9; 32] };
    let body = [
        &1u64.to_le_bytes()[..], // length of the job's name
        b"j",
        &0u64.to_le_bytes(),   // branch
        &[1; 32],              // plan digest
        &[2; 32],              // key commitment
        &1u32.to_le_bytes(),   // stream version
        &0u64.to_le_bytes(),   // start
        &512u64.to_le_bytes(), // end
        &1u64.to_le_bytes(),   // next row
        &1u64.to_le_bytes(),   // start of the window
        &4u64.to_le_bytes(),   // values of state for each block
        &[1],                  // f32
        &64u32.to_le_bytes(),  // bytes of a segment
        &[9; 32],              // salt
    ]
    .concat();
    let expected = [&b"RUSTLESH\x03\0\0\0"[..], &(body.len() as u32).to_le_bytes(), &body].concat();
    assert_eq!(encode(&header(), &seal).unwrap(), expected);
    // Four values of state and the tag of their segment follow.
    let parsed = decode(&expected, expected.len() as u64 + 16 + 16).unwrap();
    assert_eq!((parsed.header, parsed.seal), (header(), seal));
}

#[test]
fn another_version_or_element_type_is_refused_by_name() {
    let good = encode(&header(), &Seal { segment_bytes: 64, salt: [0; 32] }).unwrap();
    let refused = |bytes: &[u8]| decode(bytes, bytes.len() as u64 + 16 + 16).err().unwrap_or_default();
    assert_eq!(refused(&good), "");
    let mut old = good.clone();
    old[8] = 2;
    assert!(refused(&old).contains("container version 2; this build reads version 3"), "{}", refused(&old));
    // The element type is the byte before the segments' length and the salt.
    let at = good.len() - 37;
    assert_eq!(good[at], 1);
    for (number, word) in [(0, "is 0"), (2, "bf16"), (7, "is 7")] {
        let mut other = good.clone();
        other[at] = number;
        assert!(refused(&other).contains(word), "{number}: {}", refused(&other));
    }
    for segment in [0u32, 60, 66, 1 << 25, u32::MAX] {
        let mut other = good.clone();
        other[at + 1..at + 5].copy_from_slice(&segment.to_le_bytes());
        assert!(refused(&other).contains(&segment.to_string()), "{segment}: {}", refused(&other));
    }
    assert!(ShardHeader { element: ElementType::Bf16, ..header() }.shape().is_err());
}
