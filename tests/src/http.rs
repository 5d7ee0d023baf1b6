//! An HTTP client for metrics pages.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// Body of `GET url`; panics on anything but 200.
pub fn get(base: &str, path: &str) -> String {
    let (status, body) = get_any(base, path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Status and body of `GET url`.
pub fn get_any(base: &str, path: &str) -> (u16, String) {
    let address = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("the endpoint listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a header").1.to_owned())
}
