//! A TLS client that trusts any server, to test how servers react to its certificate.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, Stream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Showing the certificate of a `--tls-dir`, or none.
fn config(shown: Option<&Path>) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyServer));
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some(dir) => {
            let certificate = CertificateDer::from_pem_file(dir.join("cert.pem")).expect("a certificate");
            let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).expect("a key");
            config.with_client_auth_cert(vec![certificate], key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}

/// Opens HTTP/2 over TLS: the first bytes that the server sends, or why there are none.
pub fn open(address: &str, shown: Option<&Path>) -> io::Result<Vec<u8>> {
    let mut connection = ClientConnection::new(config(shown), localhost()).expect("a client");
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(PREFACE)?;
    let mut first = vec![0; 64];
    let length = stream.read(&mut first)?;
    first.truncate(length);
    if first.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(first) }
}

/// A connection to do with as one likes.
pub async fn connect(address: &str, shown: Option<&Path>) -> io::Result<TlsStream<tokio::net::TcpStream>> {
    connect_by(config(shown), address).await
}

async fn connect_by(
    config: Arc<ClientConfig>,
    address: &str,
) -> io::Result<TlsStream<tokio::net::TcpStream>> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(config).connect(localhost(), stream).await
}

/// Returns a gRPC channel that shows any certificate, even one that the client refuses. Call it inside a tokio runtime.
pub fn channel(address: &str, shown: &Path) -> Channel {
    let config = config(Some(shown));
    let address = address.to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let config = config.clone();
        let address = address.clone();
        async move { connect_by(config, &address).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

/// Sends a hello of TLS 1.2, the newest version offered, and returns the server's answer.
pub fn hello_of_tls12(address: &str) -> io::Result<Vec<u8>> {
    let suites: &[u8] = &[0xc0, 0x2b, 0xc0, 0x2f, 0x00, 0x9c];
    let extensions: &[u8] = &[
        0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x17, // groups: P-256
        0x00, 0x0d, 0x00, 0x06, 0x00, 0x04, 0x04, 0x03, 0x08, 0x04, // signatures
    ];
    let mut body = vec![0x03, 0x03];
    body.extend([7; 32]);
    body.push(0);
    body.extend((suites.len() as u16).to_be_bytes());
    body.extend(suites);
    body.extend([1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut hello = vec![0x16, 0x03, 0x01];
    hello.extend((body.len() as u16 + 4).to_be_bytes());
    hello.push(1);
    hello.extend(&(body.len() as u32).to_be_bytes()[1..]);
    hello.extend(body);
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    socket.write_all(&hello)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(answer)
}

#[derive(Debug)]
struct AcceptAnyServer;

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
