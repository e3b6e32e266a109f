//! TLS, with a certificate and a key in PEM.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate and its key, with which connections are encrypted.
///
/// ```
/// use resurgam_server::Tls;
///
/// let wrong = Tls::from_pem(b"no certificate", b"no key").unwrap_err();
/// assert!(wrong.to_string().contains("certificate"));
/// ```
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Those in these texts: a certificate with those that signed it, and its key.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> io::Result<Self> {
        let wrong = |what: &str, error: &dyn fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| wrong("read the certificate", &error))?;
        if chain.is_empty() {
            return Err(wrong("read the certificate", &"there is none in PEM"));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| wrong("read the key of the certificate", &error))?;
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        let config = config.map_err(|error| wrong("use the certificate", &error))?;
        Ok(Tls(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
