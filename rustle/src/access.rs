//! The flags with which a command reaches a coordinator: its address, TLS and a bearer token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use client::{Client, Connections};
use node::auth::{Bearer, BearerError};
use node::net::dial::DialOptions;
use node::tls::{Credentials, TlsFiles};

use crate::output::bad_use;

/// Maximum run time of the command that prints a token.
const TOKEN_COMMAND_LIMIT: Duration = Duration::from_secs(30);

#[derive(Args, Clone, Debug)]
pub struct CoordinatorArg {
    /// URL of the coordinator, or URLs of all coordinators, separated by commas
    #[arg(long, value_name = "URL", env = "RUSTLE_COORDINATOR", default_value = "http://127.0.0.1:7300")]
    pub coordinator: String,
    #[command(flatten)]
    pub access: AccessArgs,
}

#[derive(Args, Clone, Debug, Default)]
pub struct AccessArgs {
    /// Folder of ca.pem, cert.pem and key.pem for TLS [default: no TLS]
    #[arg(long, env = "RUSTLE_TLS_DIR", value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// File of the authority's certificate, instead of ca.pem in --tls-dir
    #[arg(long, env = "RUSTLE_TLS_CA", value_name = "FILE", hide_short_help = true)]
    tls_ca: Option<PathBuf>,
    /// File of this command's certificate, instead of cert.pem in --tls-dir
    #[arg(long, env = "RUSTLE_TLS_CERT", value_name = "FILE", hide_short_help = true)]
    tls_cert: Option<PathBuf>,
    /// File of this command's private key, instead of key.pem in --tls-dir
    #[arg(long, env = "RUSTLE_TLS_KEY", value_name = "FILE", hide_short_help = true)]
    tls_key: Option<PathBuf>,
    /// File of a bearer token, mode 0400 [default: no token]
    #[arg(long, env = "RUSTLE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Command that prints a bearer token, within 30 s
    #[arg(
        long,
        value_name = "COMMAND",
        env = "RUSTLE_TOKEN_COMMAND",
        conflicts_with = "token_file",
        hide_short_help = true
    )]
    token_command: Option<String>,
    /// Allow connections beyond loopback without TLS, which anyone on the path can alter
    #[arg(long, env = "RUSTLE_INSECURE_LISTEN", hide_short_help = true)]
    insecure_listen: bool,
}

/// Returns the error without its source, which a key has in common with a token and which is worded for keys.
fn of_token(error: BearerError) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

impl CoordinatorArg {
    pub async fn client(&self) -> anyhow::Result<Client> {
        let connections = Connections::dialing(self.access.dialing().await?);
        Ok(Client::with_connections(&self.coordinator, connections)?)
    }
}

impl AccessArgs {
    /// Returns what a command shows to a coordinator, without any secret.
    pub fn shown(&self) -> String {
        let certificate = self.tls_cert.as_ref().map(|file| format!("the certificate {}", file.display()));
        let certificate = certificate
            .or_else(|| self.tls_dir.as_ref().map(|dir| format!("the certificate in {}", dir.display())));
        let token = self.token_file.as_ref().map(|file| format!("the token in {}", file.display()));
        let token =
            token.or_else(|| self.token_command.as_ref().map(|_| "the token of --token-command".to_owned()));
        match (certificate, token) {
            (Some(certificate), Some(token)) => format!("{certificate} and {token}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => "neither a certificate nor a token".to_owned(),
        }
    }

    /// Returns the TLS files that the flags name; `None` without TLS.
    pub fn tls_files(&self) -> anyhow::Result<Option<TlsFiles>> {
        let Self { tls_dir, tls_ca, tls_cert, tls_key, .. } = self.clone();
        TlsFiles::choose(tls_dir, tls_ca, tls_cert, tls_key).map_err(bad_use)
    }

    /// Returns the file of the bearer token, if there is one.
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    pub async fn dialing(&self) -> anyhow::Result<DialOptions> {
        let files = self.tls_files()?;
        let bearer = match (&self.token_file, &self.token_command) {
            (Some(path), _) => Some(Bearer::from_file(path).map_err(of_token)?),
            (_, Some(command)) => {
                Some(Bearer::from_command(command, TOKEN_COMMAND_LIMIT).await.map_err(of_token)?)
            }
            _ => None,
        };
        let credentials = files.map(Credentials::load).transpose()?;
        Ok(DialOptions { credentials, bearer, insecure: self.insecure_listen })
    }
}
