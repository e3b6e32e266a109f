//! Encryption: whose certificate is believed.

use std::path::PathBuf;
use std::sync::Arc;

use resurgam_store::{Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What is asked of the server's certificate. The driver knows nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// Whether there must be one.
    pub(crate) require: bool,
    /// Whether somebody whom we trust must have signed it.
    pub(super) authority: bool,
    /// Whether it must be for the server's name.
    pub(super) name: bool,
    /// Whom we trust; the system's authorities unless set.
    pub(super) roots: Option<PathBuf>,
}

/// What encrypts connections.
pub(crate) fn connector(check: Option<Check>) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(check.unwrap_or_default(), &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::unusable("prepare encryption").because(error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(check: Check, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>> {
    let algorithms = provider.signature_verification_algorithms;
    if !check.authority {
        return Ok(Arc::new(Lenient { trusted: None, algorithms }));
    }
    let roots = Arc::new(roots(check.roots)?);
    let trusted = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
    let trusted = trusted.map_err(|error| {
        Error::unusable("read the trusted authorities; set sslrootcert to a file").because(error)
    })?;
    Ok(match check.name {
        true => trusted,
        false => Arc::new(Lenient { trusted: Some(trusted), algorithms }),
    })
}

fn roots(file: Option<PathBuf>) -> Result<RootCertStore> {
    let certificates: Vec<CertificateDer<'static>> = match &file {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let failed = |error| {
                Error::unusable(format!("read sslrootcert {}", file.display())).because(error)
            };
            let found = CertificateDer::pem_file_iter(file).map_err(failed)?;
            found.collect::<std::result::Result<_, _>>().map_err(failed)?
        }
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    Ok(roots)
}

/// Asks less of a certificate than usual, as PostgreSQL's own programs do: a certificate at all, or
/// one that was signed by somebody trusted for whatever name.
#[derive(Debug)]
struct Lenient {
    trusted: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        match trusted.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
