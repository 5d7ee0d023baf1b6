//! URLs of `rustle.connect`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use node::auth::Bearer;
use node::net::dial::DialOptions;
use node::tls::{Credentials, TlsFiles};
use proto::model::BudgetedAccount;
use proto::{JobId, SweepId};
use pyo3::prelude::*;
use url::Url;

use crate::budgets::{AccountWords, account_of};
use crate::engine::Engine;
use crate::error::{Refused, Result};
use crate::in_process::{self, InProcess};
use crate::remote::{self, Remote};
use crate::session::Session;
use crate::wait::signals;

const SCHEMES: &str = "inproc://FOLDER, grpc://HOST:PORT, grpcs://HOST:PORT, unix:///SOCKET, shm://HOST:PORT, \
                       shm:///SOCKET or mpi://";

const INSIDE: [&str; 5] = ["plan", "job", "dimension", "key_file", "threads"];
const OUTSIDE: [&str; 5] = ["job", "tls_dir", "token_file", "insecure", "timeout"];

/// Opens a session. See `rustle.connect` for the URLs.
#[pyfunction]
#[pyo3(signature = (url, account=None, sweep=None, adopt=false))]
pub fn connect(
    py: Python<'_>,
    url: &str,
    account: Option<AccountWords>,
    sweep: Option<String>,
    adopt: bool,
) -> Result<Session> {
    let target = Target::parse(url)?;
    if adopt && target.scheme != "inproc" {
        return Err(Refused::invalid(
            "adopt",
            "True",
            "False for a cluster, whose coordinator is stopped and its ledger adopted by `rustle ledger adopt`",
        ));
    }
    let sweep = sweep.map(SweepId::new).transpose()?;
    let budgeted = account.map(account_of).transpose()?.map(|account| (account, sweep));
    py.detach(|| Session::open(target.open(adopt, budgeted)?))
}

struct Target {
    scheme: String,
    /// Host and port, or a path.
    rest: String,
    settings: Settings,
}

impl Target {
    fn parse(text: &str) -> Result<Self> {
        let bad = || Refused::invalid("url", format!("{text:?}"), SCHEMES);
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if rest.is_empty() {
            return Err(bad());
        }
        let known: &[&str] = match scheme {
            "inproc" => &INSIDE,
            "grpc" | "grpcs" | "unix" | "shm" => &OUTSIDE,
            _ => return Err(bad()),
        };
        // A path may hold what a URL's host may not, so only the query is read as one.
        let query = Url::parse(&format!("query:?{query}")).map_err(|_| bad())?;
        let mut settings = BTreeMap::new();
        for (name, value) in query.query_pairs() {
            if !known.contains(&&*name) {
                return Err(Refused::invalid("url", format!("…?{name}="), known.join(", ")));
            }
            settings.insert(name.into_owned(), value.into_owned());
        }
        Ok(Self { scheme: scheme.to_owned(), rest: rest.to_owned(), settings: Settings(settings) })
    }

    fn open(
        self,
        adopt: bool,
        budgeted: Option<(BudgetedAccount, Option<SweepId>)>,
    ) -> Result<Arc<dyn Engine>> {
        let job = self.settings.parsed("job", "a job's name")?.unwrap_or(JobId::new("default")?);
        if self.scheme == "inproc" {
            return Ok(Arc::new(InProcess::open(in_process::Options {
                folder: PathBuf::from(&self.rest),
                plan: self.settings.path("plan"),
                job,
                dimension: self.settings.parsed("dimension", "a number of coordinates")?,
                key_file: self.settings.path("key_file"),
                threads: self.settings.parsed("threads", "a number of threads")?,
                adopt,
                budgeted,
            })?));
        }
        if budgeted.is_some() {
            let allowed = "none for a coordinator's job, which names its data set when it is created: rustle job create \
                           --data-set";
            return Err(Refused::invalid("data_set", "given", allowed));
        }
        let seconds = self.settings.parsed("timeout", "seconds")?.unwrap_or(60.0);
        let timeout = Duration::try_from_secs_f64(seconds)
            .map_err(|_| Refused::invalid("timeout", seconds, "seconds, 0 or more"))?;
        let tls_dir = self.settings.path("tls_dir");
        let coordinator = self.coordinator(tls_dir.is_some())?;
        let options = remote::Options {
            coordinator,
            dialing: self.settings.dialing(tls_dir)?,
            job,
            timeout: timeout.min(Duration::from_secs(30 * 24 * 3600)),
            lend: self.scheme == "shm",
        };
        Ok(Arc::new(Remote::open(options, signals)?))
    }

    fn coordinator(&self, tls: bool) -> Result<String> {
        let rest = &self.rest;
        let is_path = rest.starts_with('/');
        match (self.scheme.as_str(), is_path) {
            ("unix" | "shm", true) => Ok(format!("unix://{rest}")),
            ("grpc", false) => Ok(format!("http://{rest}")),
            ("grpcs", false) if tls => Ok(format!("https://{rest}")),
            ("grpcs", false) => {
                Err(Refused::invalid("tls_dir", "missing", "a folder of ca.pem, cert.pem and key.pem"))
            }
            ("shm", false) if tls => Ok(format!("https://{rest}")),
            ("shm", false) => Ok(format!("http://{rest}")),
            (scheme, _) => Err(Refused::invalid("url", format!("{scheme}://{rest}"), SCHEMES)),
        }
    }
}

/// The settings in the query of the URL.
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).map(PathBuf::from)
    }

    fn parsed<T: FromStr>(&self, name: &str, allowed: &str) -> Result<Option<T>> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let parsed = text.parse().map_err(|_| Refused::invalid(name, format!("{text:?}"), allowed))?;
        Ok(Some(parsed))
    }

    fn dialing(&self, tls_dir: Option<PathBuf>) -> Result<DialOptions> {
        let refused = |error: &dyn ToString| Refused::Here("key", error.to_string());
        let credentials = match tls_dir {
            Some(dir) => Some(Credentials::load(TlsFiles::in_dir(&dir)).map_err(|error| refused(&error))?),
            None => None,
        };
        let bearer = match self.0.get("token_file") {
            Some(path) => Some(Bearer::from_file(Path::new(path)).map_err(|error| refused(&error))?),
            None => None,
        };
        let insecure = self.parsed("insecure", "true or false")?.unwrap_or(false);
        Ok(DialOptions { credentials, bearer, insecure })
    }
}
