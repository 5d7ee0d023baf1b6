//! A TLS client that trusts anyone, to see what servers make of it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, Stream};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Opens HTTP/2 over TLS, showing the certificate of a `--tls-dir` or none: the first bytes that the server sends,
/// or why there are none.
pub fn open(address: &str, shown: Option<&Path>) -> io::Result<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone));
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some(dir) => {
            let certificate = CertificateDer::from_pem_file(dir.join("cert.pem")).expect("a certificate");
            let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).expect("a key");
            config.with_client_auth_cert(vec![certificate], key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let mut connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(PREFACE)?;
    let mut first = vec![0; 64];
    let length = stream.read(&mut first)?;
    first.truncate(length);
    match first.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(first),
    }
}

/// What a server answers to a client that speaks nothing newer than TLS 1.2.
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
struct Anyone;

impl ServerCertVerifier for Anyone {
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
