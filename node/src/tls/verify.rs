//! Verification of servers: the certificate's role counts, if our authority signed it; the host name does not.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::expected::ExpectedServer;
use crate::auth::Identity;

/// Returns the one identity of a certificate; `None` where it has none of ours, or several.
pub fn identity_of(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut uris = parsed.valid_uri_names();
    let identity = Identity::parse(uris.next()?)?;
    uris.next().is_none().then_some(identity)
}

/// Accepts certificates that `roots` signed for servers and that name the expected one in our trust domain.
#[derive(Clone, Debug)]
pub(super) struct RoleVerifier {
    pub roots: Arc<RootCertStore>,
    pub provider: Arc<CryptoProvider>,
    pub trust_domain: String,
    /// `None` accepts no server.
    pub expected: Option<ExpectedServer>,
}

impl ServerCertVerifier for RoleVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        let is_expected = |identity: &Identity| {
            let is_it = self.expected.as_ref().is_some_and(|expected| expected.matches(&identity.role));
            identity.trust_domain == self.trust_domain && is_it
        };
        if identity_of(certificate).is_some_and(|identity| is_expected(&identity)) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
