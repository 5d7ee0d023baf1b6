//! What a process on this host says of itself over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};

/// The body of an answer, from `host:port` or its URL.
pub fn get(base: &str, path: &str) -> anyhow::Result<String> {
    let address = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an HTTP answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status == "200", "{path}: {head}");
    Ok(body.to_owned())
}
