//! Why a coordinator could not be reached: each step of a connection tried by itself, once a call has failed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest time for one step.
const PATIENCE: Duration = Duration::from_secs(2);

/// The first bytes of HTTP/2: its preface and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Returns the failed step and what to do about it, given the text of the call's own error.
pub fn reason(url: &str, error: &str) -> String {
    let other = "--coordinator or RUSTLE_COORDINATOR names another";
    if let Some(path) = url.strip_prefix("unix:") {
        let path = path.trim_start_matches("//");
        return match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                format!("there is no socket {path}; is it running there? {other}")
            }
            Err(error) => format!("socket {path}: {error}; is it running? {other}"),
            Ok(_) => format!("socket {path} answers, but not as a coordinator: {error}"),
        };
    }
    let is_tls = url.starts_with("https://");
    let authority = url.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let Some((_, port)) = authority.rsplit_once(':') else {
        return format!(
            "the URL has no port; a coordinator's is 7300 unless --listen says otherwise; {other}"
        );
    };
    if port.parse::<u16>().is_err() {
        return format!("port {port} is not from 1 to 65535; {other}");
    }
    let addresses: Vec<SocketAddr> = match authority.to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(error) => return format!("the name of {authority} is unknown ({error}); {other}"),
    };
    let mut last = format!("the name of {authority} has no address; {other}");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) if is_tls => return of_tls(stream, authority, error),
            Ok(stream) => return of_plain(stream, authority, error),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                last = format!("nothing listens on {address} (connection refused); is it running? {other}");
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                last = format!(
                    "no answer from {address} within {PATIENCE:?}; a firewall, or a wrong address? {other}"
                );
            }
            Err(error) => last = format!("{address}: {error}; {other}"),
        }
    }
    last
}

/// The peer's first bytes after ours; empty where it closes or says nothing.
fn first_bytes(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = [0; 9];
    let read = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all(PREFACE))
        .and_then(|()| stream.read(&mut bytes));
    bytes[..read.unwrap_or(0)].to_vec()
}

fn of_plain(stream: TcpStream, authority: &str, error: &str) -> String {
    match first_bytes(stream).as_slice() {
        [0x15, 0x03, ..] => format!("{authority} speaks TLS; use https:// and --tls-dir"),
        [b'H', b'T', b'T', b'P', ..] => {
            format!(
                "{authority} is a web server, such as a status page; --coordinator takes the gRPC address"
            )
        }
        [] => format!("{authority} accepts connections and answers nothing: {error}"),
        _ => format!("the call failed on its way, though {authority} answers: {error}"),
    }
}

fn of_tls(stream: TcpStream, authority: &str, error: &str) -> String {
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if says(&["BadSignature", "UnknownIssuer"]) {
        return format!(
            "{authority} has a certificate of another authority than ca.pem (--tls-dir, --tls-ca): {error}"
        );
    }
    if says(&["ApplicationVerificationFailure"]) {
        return format!(
            "{authority} is no coordinator by its certificate; is it a worker's address? {error}"
        );
    }
    if says(&["CertificateExpired", "Expired"]) {
        return format!(
            "a certificate has expired, of {authority} or of this command; renew it by rustle certs issue: {error}"
        );
    }
    if says(&["CertificateRequired", "CertificateUnknown", "BadCertificate", "UnknownCA", "alert"]) {
        return format!(
            "{authority} refuses the certificate of this command (--tls-dir, --tls-cert): {error}"
        );
    }
    match first_bytes(stream).as_slice() {
        [0x15, 0x03, ..] => format!("the TLS connection to {authority} failed: {error}"),
        _ => format!("{authority} does not speak TLS; use http:// without --tls-dir: {error}"),
    }
}
