//! An etcd whose tokens say at which revision of its users they were given, as etcd's documentation wants them in
//! production. It refuses them all, as an invalid argument, once a user or a role has changed.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ledger::{
    Ledger,
    etcd::{Candidacy, Election, EtcdConfig, EtcdUser},
};

use crate::{LEASE, commitment, elected, id, job, ports::free_address, rows, two_shards};

const PASSWORD: &str = "correct horse";
const START: Duration = Duration::from_secs(30);

struct Etcd {
    address: String,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Etcd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("tokens.key");
        fs::write(&key, "a key for the test's tokens alone").unwrap();
        let [address, peer] = [free_address(), free_address()];
        let process = spawn(folder.path(), &key, &address, &format!("http://{peer}"));
        let etcd = Self { address, process, _folder: folder };
        let deadline = Instant::now() + START;
        while !etcd.runs(&[], &["endpoint", "health"]) {
            assert!(Instant::now() < deadline, "etcd is not healthy after {START:?}");
            thread::sleep(Duration::from_millis(50));
        }
        etcd
    }

    fn runs(&self, user: &[&str], arguments: &[&str]) -> bool {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.address]).args(user).args(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    fn ask_for_passwords(&self) {
        for arguments in [
            &["user", "add", "root:root's own"][..],
            &["user", "grant-role", "root", "root"],
            &["user", "add", &format!("rustle:{PASSWORD}")],
            &["role", "add", "ledger"],
            &["role", "grant-permission", "--prefix=true", "ledger", "readwrite", "ours/"],
            &["user", "grant-role", "rustle", "ledger"],
            &["auth", "enable"],
        ] {
            assert!(self.runs(&[], arguments), "{arguments:?}");
        }
    }

    /// Makes every token issued so far old.
    fn add_user(&self, name: &str) {
        assert!(self.runs(&["--user", "root:root's own"], &["user", "add", &format!("{name}:password")]));
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(folder: &Path, key: &Path, address: &str, peer: &str) -> Child {
    let client = format!("http://{address}");
    let tokens = format!("jwt,priv-key={},sign-method=HS256,ttl=1h", key.display());
    // Ends with the thread that started it, however that ends.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "etcd", "--name", "m0", "--auth-token", &tokens, "--data-dir"])
        .arg(folder.join("m0"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster", &format!("m0={peer}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("m0.log")).unwrap())
        .spawn()
        .expect("etcd starts: install etcd-server (tests/setup/etcd.sh)")
}

#[test]
fn who_leads_goes_on_when_etcds_users_change() {
    let etcd = Etcd::start();
    etcd.ask_for_passwords();
    let user = Some(EtcdUser { name: "rustle".into(), password: PASSWORD.to_owned().into() });
    let config = EtcdConfig {
        user,
        ..EtcdConfig::parse(&format!("etcd://{}/ours", etcd.address), None, LEASE).unwrap()
    };
    let leads = Election::connect(&config).unwrap();
    let stands_by = Election::connect(&config).unwrap();
    let ledger = Ledger::lead(elected(&leads)).unwrap();
    ledger.create_job(&job("j"), &two_shards()).unwrap();
    let bind =
        |row| ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment("c")]).map(|bound| bound.newly);
    for row in 0..3 {
        assert_eq!(bind(2 * row).unwrap(), 1);
        etcd.add_user(&format!("user-{row}"));
        // The change itself, and the lead.
        assert_eq!(bind(2 * row + 1).unwrap(), 1);
        assert!(matches!(stands_by.campaign("http://there").unwrap(), Candidacy::LedBy(_)));
    }
    thread::sleep(LEASE + LEASE / 2);
    assert_eq!(bind(6).unwrap(), 1);
    drop(ledger);
    etcd.add_user("another-user");
    let ledger = Ledger::lead(elected(&stands_by)).unwrap();
    assert_eq!(ledger.bindings(&id("j"), 0, 0..100).unwrap().len(), 7);
}
