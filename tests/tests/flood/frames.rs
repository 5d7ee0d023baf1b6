//! HTTP/2 by hand (RFC 9113, and RFC 7541 for headers): frames that no client of ours would send.

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the first bytes of every connection.
pub fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat()
}

/// Returns the headers of a call, none of which the decoder stores.
pub fn headers_of_a_call(path: &str) -> Vec<u8> {
    // :method POST, :scheme https; the others literal, by the names' places in the static table.
    let mut block = vec![0x83, 0x87];
    for (name, value) in [(&[0x04][..], path), (&[0x01], "localhost"), (&[0x0f, 0x10], "application/grpc")] {
        block.extend(name);
        block.extend(text(value));
    }
    block.push(0);
    block.extend([text("te"), text("trailers")].concat());
    block
}

/// A header that the decoder keeps, at place 62 of its table, of nearly all the 4,096 bytes that it has room for.
pub fn kept_header() -> Vec<u8> {
    [vec![0x40], text("x"), text(&"y".repeat(4_000))].concat()
}

/// That header again: one byte each.
pub fn kept_again(times: usize) -> Vec<u8> {
    vec![0x80 | 62; times]
}

/// Returns a string literal without Huffman coding.
pub fn text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if text.len() < 127 {
        bytes.push(text.len() as u8);
    } else {
        bytes.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            bytes.push((rest % 128) as u8 | 0x80);
            rest /= 128;
        }
        bytes.push(rest as u8);
    }
    bytes.extend(text.as_bytes());
    bytes
}

/// Kinds of the frames in what a server sent, with the first four bytes of what each holds, and what is left over.
pub fn parse(mut bytes: &[u8]) -> (Vec<(u8, Vec<u8>)>, usize) {
    let all = bytes.len();
    let mut frames = Vec::new();
    while bytes.len() >= 9 {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let Some(payload) = bytes.get(9..9 + length) else { break };
        frames.push((bytes[3], payload.to_vec()));
        bytes = &bytes[9 + length..];
    }
    (frames, all - bytes.len())
}
