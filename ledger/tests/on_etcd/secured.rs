//! An etcd that requires certificates and passwords: a coordinator with them leads, and one without gets a clear error.

use std::path::{Path, PathBuf};

use ledger::{
    Ledger, LedgerError,
    etcd::{Election, EtcdConfig, EtcdTls, EtcdUser},
};

use crate::{
    LEASE, commitment, elected,
    etcd::{Etcd, Security},
    etcd_tls::Authority,
    id, job, rows, two_shards,
};

const PASSWORD: &str = "correct horse";

fn tls(dir: &Path, is_shown: bool) -> Option<EtcdTls> {
    let identity = is_shown.then(|| (dir.join("cert.pem"), dir.join("key.pem")));
    Some(EtcdTls { ca: dir.join("ca.pem"), identity })
}

fn user(password: &str) -> Option<EtcdUser> {
    Some(EtcdUser { name: "rustle".into(), password: password.to_owned().into() })
}

fn config(etcd: &Etcd, prefix: &str, tls: Option<EtcdTls>, user: Option<EtcdUser>) -> EtcdConfig {
    EtcdConfig { user, ..EtcdConfig::parse(&etcd.url(prefix), tls, LEASE).unwrap() }
}

fn binds(config: &EtcdConfig, row: u64) {
    let ledger = Ledger::lead(elected(&Election::connect(config).unwrap())).unwrap();
    if row == 0 {
        ledger.create_job(&job("j"), &two_shards()).unwrap();
    }
    assert_eq!(ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment("c")]).unwrap().newly, 1);
}

fn refused(config: &EtcdConfig) -> LedgerError {
    Election::connect(config).err().expect("etcd let in whom it should not")
}

struct Secured {
    etcd: Etcd,
    ours: PathBuf,
    theirs: PathBuf,
    _folder: tempfile::TempDir,
}

impl Secured {
    fn start(asks_clients: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = Authority::generate();
        let other = Authority::generate();
        let server = own.issue(folder.path(), "server");
        let ours = own.issue(folder.path(), "coordinator");
        let theirs = other.issue(folder.path(), "outsider");
        let etcd = Etcd::start_secured(1, Security { dir: server, asks_clients });
        Self { etcd, ours, theirs, _folder: folder }
    }
}

#[test]
fn certificates_are_checked_both_ways() {
    let Secured { etcd, ours, theirs, _folder } = &Secured::start(true);
    binds(&config(etcd, "tls", tls(ours, true), None), 0);
    // Another authority's ca.pem: this side refuses etcd.
    let error = refused(&config(etcd, "tls", tls(theirs, true), None));
    assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("invalid peer certificate") && text.contains("ca.pem"), "{text}");
    // The right ca.pem and nothing to show, or what another authority signed: etcd refuses this side.
    let nothing = refused(&config(etcd, "tls", tls(ours, false), None));
    let identity = Some((theirs.join("cert.pem"), theirs.join("key.pem")));
    let strange = EtcdTls { ca: ours.join("ca.pem"), identity };
    let strange = refused(&config(etcd, "tls", Some(strange), None));
    for error in [nothing, strange] {
        assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
    }
    let plain = refused(&config(etcd, "tls", None, None));
    assert!(matches!(plain, LedgerError::Unreachable { .. }), "{plain}");
    let missing = EtcdTls { ca: ours.join("no.pem"), identity: None };
    let missing = refused(&config(etcd, "tls", Some(missing), None)).to_string();
    assert!(missing.contains("no.pem"), "{missing}");
}

#[test]
fn a_user_leads_with_its_password_and_within_its_rights() {
    let mut secured = Secured::start(false);
    let ca_alone = tls(&secured.ours, false);
    secured.etcd.ask_for_passwords("rustle", PASSWORD, "ours/");
    let ours = config(&secured.etcd, "ours", ca_alone.clone(), user(PASSWORD));
    binds(&ours, 0);
    for (what, prefix, user, says) in [
        ("no user", "ours", None, "user name is empty"),
        ("a wrong password", "ours", user("wrong horse"), "authentication failed"),
        ("the prefix of another user", "theirs", user(PASSWORD), "permission denied"),
    ] {
        let error = refused(&config(&secured.etcd, prefix, ca_alone.clone(), user));
        assert!(matches!(error, LedgerError::Io { .. }), "{what}: {error}");
        let text = error.to_string();
        assert!(text.contains(says) && !text.contains("horse"), "{what}: {text}");
    }

    // etcd forgets whom it has let in: the leader introduces itself again.
    let ledger = Ledger::lead(elected(&Election::connect(&ours).unwrap())).unwrap();
    secured.etcd.kill(0);
    secured.etcd.restart(0);
    assert_eq!(ledger.bind(&id("j"), 0, rows(1, 2), &[commitment("c")]).unwrap().newly, 1);
}
