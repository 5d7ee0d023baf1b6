//! A real Prometheus with the configuration of `deploy/prometheus`, looking every second.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tests::ports::free_address;

use super::{path, read};

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: String,
    dir: TempDir,
}

/// One sample of an answer.
#[derive(Clone, Debug)]
pub struct Sample {
    pub labels: Value,
    pub value: f64,
}

impl Prometheus {
    /// Addresses are host:port. Nothing of the configuration is changed but how often it looks.
    pub fn start(coordinator: &str, workers: &[String]) -> Self {
        let dir = TempDir::new().unwrap();
        for rules in ["rules.yml", "alerts.yml"] {
            std::fs::copy(path(&format!("deploy/prometheus/{rules}")), dir.path().join(rules)).unwrap();
        }
        let config = read("deploy/prometheus/prometheus.yml");
        let quick = config.replace("_interval: 15s", "_interval: 1s");
        assert_eq!(
            quick.matches("_interval: 1s").count(),
            2,
            "scrape_interval and evaluation_interval are 15s"
        );
        std::fs::write(dir.path().join("prometheus.yml"), quick).unwrap();
        std::fs::create_dir(dir.path().join("targets")).unwrap();
        for (name, addresses) in [("coordinator", &[coordinator.to_owned()][..]), ("workers", workers)] {
            let text = format!("- targets: {}\n", serde_json::to_string(addresses).unwrap());
            std::fs::write(dir.path().join(format!("targets/{name}.yml")), text).unwrap();
        }
        let address = free_address();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", dir.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus ({error}): run tests/setup/deploy.sh first"));
        let prometheus = Self { child, address, dir };
        prometheus.wait_ready();
        prometheus
    }

    fn wait_ready(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while get(&self.address, "/-/ready").is_none_or(|(status, _)| status != 200) {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "prometheus is not ready after {TIMEOUT:?}:\n{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn api(&self, call: &str) -> Value {
        let (status, body) = get(&self.address, &format!("/api/v1/{call}")).expect("prometheus answers");
        assert_eq!(status, 200, "{call}: {body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["data"].clone()
    }

    /// Returns the present value of the expression. Panics if it is invalid.
    pub fn query(&self, expression: &str) -> Vec<Sample> {
        let data = self.api(&format!("query?query={}", encoded(expression)));
        let sample = |sample: &Value| Sample {
            labels: sample["metric"].clone(),
            value: sample["value"][1].as_str().unwrap().parse().unwrap(),
        };
        data["result"].as_array().unwrap().iter().map(sample).collect()
    }

    /// Returns whether the expression has a value.
    pub fn has_data(&self, expression: &str) -> bool {
        self.query(expression).iter().any(|sample| sample.value.is_finite())
    }

    /// Every rule with its state, as Prometheus holds it.
    pub fn rules(&self) -> Vec<Value> {
        let groups = self.api("rules");
        let groups = groups["groups"].as_array().unwrap();
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).cloned().collect()
    }

    pub fn alert_state(&self, name: &str) -> String {
        let rules = self.rules();
        let alert =
            rules.iter().find(|rule| rule["name"] == name).unwrap_or_else(|| panic!("no alert {name}"));
        alert["state"].as_str().unwrap().to_owned()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body. HTTP/1.0, so that the body is not cut into chunks.
pub fn get(address: &str, target: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {target} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn encoded(text: &str) -> String {
    let letter = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(letter).collect()
}
