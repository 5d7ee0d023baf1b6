//! Coordinators that are not reached, and ways to them that are none.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::bench::Bench;
use super::{case, check};

/// Answers every connection with these bytes, after the client's first ones. Returns the port.
fn answering(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(bytes);
        }
    });
    port
}

#[test]
fn coordinators_that_are_not_reached() {
    let bench = Bench::new();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let web = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let tls = answering(&[0x15, 0x03, 0x03, 0, 2, 2, 70]);
    let mute = answering(b"");
    fs::write(bench.path("mine.token"), "rustle_x").unwrap();
    bench.mode("mine.token", 0o400);
    bench.json("certs new --out certs");
    let at = |url: String, parts| case("job list --coordinator", &url, 1, parts);
    let over_tls = |port: u16, parts| {
        let url = format!("https://127.0.0.1:{port} --tls-dir certs/operator");
        case("job list --coordinator", &url, 1, parts)
    };
    let refused: &[&str] =
        &["http://127.0.0.1:", "connection refused", "is it running?", "RUSTLE_COORDINATOR"];
    check(
        &bench,
        &[
            at(format!("http://127.0.0.1:{closed}"), refused),
            at(format!("http://127.0.0.1:{web}"), &["web server", "status page", "gRPC address"]),
            at(format!("http://127.0.0.1:{tls}"), &["speaks TLS", "https://", "--tls-dir"]),
            at(format!("http://127.0.0.1:{mute}"), &["answers nothing"]),
            at("unix:///no/such.sock".into(), &["/no/such.sock", "there is no socket"]),
            at("http://127.0.0.1".into(), &["http://127.0.0.1", "port"]),
            at("http://127.0.0.1:99999".into(), &["99999"]),
            over_tls(closed, &["https://127.0.0.1:", "connection refused"]),
            over_tls(web, &["does not speak TLS", "http://"]),
            case(
                "fetch --steps 0..1 --range 0..1 --out x.npy --coordinator",
                &format!("http://127.0.0.1:{closed}"),
                1,
                refused,
            ),
            case("report --job j --coordinator", &format!("http://127.0.0.1:{closed}"), 1, refused),
            case("worker drain --worker w --coordinator", &format!("http://127.0.0.1:{closed}"), 1, refused),
        ],
    );
    assert!(!bench.path("x.npy").exists());
}

#[test]
fn ways_to_a_coordinator_that_are_none() {
    let bench = Bench::new();
    bench.json("certs new --out certs");
    fs::write(bench.path("open.token"), "rustle_x").unwrap();
    for (name, text) in [
        ("short.token", "rustle_x".to_owned()),
        ("long.token", "x".repeat(5000)),
        ("none.token", String::new()),
    ] {
        fs::write(bench.path(name), text).unwrap();
        bench.mode(name, 0o400);
    }
    fs::create_dir(bench.path("folder")).unwrap();
    let list = "job list --coordinator";
    let one_line: &[&str] = &["token file", "20 to 256"];
    let together: &[&str] = &["--tls-ca, --tls-cert and --tls-key together"];
    check(
        &bench,
        &[
            case(list, "nonsense", 2, &["--coordinator", "\"nonsense\"", "http://host:port"]),
            case(list, "127.0.0.1:7300", 2, &["--coordinator", "http://host:port"]),
            case(list, "ftp://127.0.0.1:7300", 2, &["--coordinator", "ftp://", "http://host:port"]),
            case(list, "grpc://127.0.0.1:7300", 2, &["http://host:port", "for Python"]),
            case(list, "http://", 2, &["--coordinator", "http://host:port"]),
            case(list, "http://127.0.0.1:1,ftp://x", 2, &["ftp://x", "http://host:port"]),
            case(list, "http://10.0.0.1:7300", 2, &["10.0.0.1", "--tls-dir", "--insecure-listen"]),
            case(list, "https://127.0.0.1:7300", 2, &["https://", "--tls-dir"]),
            case(list, "http://127.0.0.1:7300 --tls-dir certs/operator", 2, &["https://host:port"]),
            case(list, "https://127.0.0.1:7300 --tls-ca x", 2, together),
            case(list, "https://127.0.0.1:7300 --tls-dir certs/operator --tls-key x", 2, together),
            case(list, "https://127.0.0.1:7300 --tls-dir missing", 1, &["missing/ca.pem"]),
            case(list, "https://127.0.0.1:7300 --tls-dir folder", 1, &["folder/ca.pem"]),
            case("job list", "--token-file missing", 1, &["token file missing"]),
            case("job list", "--token-file folder", 1, &["token file folder", "0400"]),
            case("job list", "--token-file open.token", 1, &["token file open.token", "0644", "0400"]),
            case("job list", "--token-file short.token", 1, one_line),
            case("job list", "--token-file long.token", 1, one_line),
            case("job list", "--token-file none.token", 1, one_line),
            case("job list", "--token-command false", 1, &["token command", "exit status: 1"]),
            case("job list", "--token-command true", 1, &["0 bytes", "20 to 256"]),
            case("job list", "--token-file short.token --token-command true", 2, &["--token-command"]),
            case(
                "worker --key-file key --state-dir none",
                "--coordinator nonsense",
                2,
                &["--coordinator", "nonsense"],
            ),
            case(
                "fetch --steps 0..1 --range 0..1 --out x.npy --commitment c",
                "--otlp ftp://x",
                2,
                &["ftp://x", "http://host:port"],
            ),
            case(
                "fetch --steps 0..1 --range 0..1 --out x.npy --commitment c",
                "--deadline 0s",
                2,
                &["--deadline", "above 0"],
            ),
            case(
                "fetch --steps 0..1 --range 0..1 --out x.npy --commitment c",
                "--deadline 5",
                2,
                &["--deadline", "250ms"],
            ),
            case(
                "up --plan plan.toml --dimension 10",
                "--listen 0.0.0.0:7300",
                2,
                &["--listen is 0.0.0.0:7300", "--tls"],
            ),
            case(
                "up --plan plan.toml --dimension 10",
                "--listen 127.0.0.1:99999",
                2,
                &["--listen is", "ip:port"],
            ),
            case(
                "up --plan plan.toml --dimension 10",
                "--metrics-listen here",
                2,
                &["--metrics-listen is here"],
            ),
        ],
    );
    assert!(!bench.path("x.npy").exists() && !bench.path("rustle-data").exists());
}
