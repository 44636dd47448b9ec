//! A peer made from the QUIC library alone, with papers of its own making.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cede_tests::anyone::Anyone;
use cede_tests::carrier_contract::{device, hello};
use cede_wire::id::DeviceKey;
use cede_wire::message::PeerMessage;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::SignatureScheme;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;

use super::{A, LOCALHOST, SOON};

/// What a rogue shows, and what it signs with.
#[derive(Clone)]
pub(super) struct Papers {
    /// The keys it shows, the first one as its own.
    pub(super) shown: Vec<Vec<u8>>,
    /// The device whose key signs the handshake.
    pub(super) signer: u8,
    /// Says that what it shows are raw keys; else certificates.
    pub(super) raw: bool,
    /// The protocols that it names.
    pub(super) alpn: Vec<Vec<u8>>,
    /// Shows anything at all.
    pub(super) shows: bool,
    /// The signatures that it takes.
    pub(super) schemes: Vec<SignatureScheme>,
}

impl Papers {
    /// Honest papers of this device.
    pub(super) fn of(secret: u8) -> Self {
        Self {
            shown: vec![spki(&device(secret).key())],
            signer: secret,
            raw: true,
            alpn: vec![b"cede/1".to_vec()],
            shows: true,
            schemes: vec![SignatureScheme::ED25519],
        }
    }

    fn certified(&self) -> Arc<CertifiedKey> {
        let der = device(self.signer).pkcs8_der();
        let signer = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der.as_slice())).unwrap();
        let chain = self.shown.iter().map(|shown| CertificateDer::from(shown.clone())).collect();
        Arc::new(CertifiedKey::new(chain, signer))
    }
}

/// A key as a SubjectPublicKeyInfo.
pub(super) fn spki(key: &DeviceKey) -> Vec<u8> {
    [&[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00], &key.as_bytes()[..]].concat()
}

#[derive(Debug)]
struct Shower {
    certified: Arc<CertifiedKey>,
    raw: bool,
    shows: bool,
}

impl Shower {
    fn of(papers: &Papers) -> Arc<Self> {
        Arc::new(Self { certified: papers.certified(), raw: papers.raw, shows: papers.shows })
    }
}

impl ResolvesClientCert for Shower {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.shows.then(|| self.certified.clone())
    }
    fn only_raw_public_keys(&self) -> bool {
        self.raw
    }
    fn has_certs(&self) -> bool {
        self.shows
    }
}

impl ResolvesServerCert for Shower {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.shows.then(|| self.certified.clone())
    }
    fn only_raw_public_keys(&self) -> bool {
        self.raw
    }
}

/// A client that would resume and send early if it could.
pub(super) struct Client {
    endpoint: quinn::Endpoint,
    config: quinn::ClientConfig,
}

impl Client {
    pub(super) fn with(papers: &Papers) -> Self {
        let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(papers.schemes.clone())))
            .with_client_cert_resolver(Shower::of(papers));
        config.alpn_protocols.clone_from(&papers.alpn);
        config.resumption = Resumption::in_memory_sessions(16);
        config.enable_early_data = true;
        let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
        Self { endpoint: quinn::Endpoint::client(LOCALHOST).unwrap(), config }
    }

    pub(super) async fn connect(&self, to: SocketAddr) -> Result<quinn::Connection, quinn::ConnectionError> {
        self.endpoint.connect_with(self.config.clone(), to, "cede.invalid").unwrap().await
    }

    pub(super) fn can_send_early(&self, to: SocketAddr) -> bool {
        self.endpoint.connect_with(self.config.clone(), to, "cede.invalid").unwrap().into_0rtt().is_ok()
    }

    /// Connects, says what it has to say at once, and gives the code with which it was turned away.
    pub(super) async fn turned_away(&self, to: SocketAddr, first: &[u8]) -> Result<u64, String> {
        let error = match self.connect(to).await {
            Err(error) => error,
            Ok(connection) => {
                if let Ok((mut send, _)) = connection.open_bi().await {
                    drop(send.write_all(first).await);
                }
                tokio::time::timeout(SOON, connection.closed())
                    .await
                    .map_err(|_| "it was not turned away".to_owned())?
            }
        };
        match error {
            quinn::ConnectionError::ConnectionClosed(close) => Ok(close.error_code.into()),
            quinn::ConnectionError::ApplicationClosed(close) => Ok(close.error_code.into_inner()),
            // Our own side gave up in the handshake.
            quinn::ConnectionError::TransportError(error) => Ok(error.code.into()),
            other => Err(format!("{other:?}")),
        }
    }
}

/// A greeting as a frame.
pub(super) fn greeting() -> Vec<u8> {
    PeerMessage::Hello(hello(A)).to_frame().unwrap()
}

/// A server that takes everybody and counts what it is told.
pub(super) struct Server {
    endpoint: quinn::Endpoint,
    told: Arc<AtomicUsize>,
}

impl Server {
    pub(super) fn with(papers: &Papers) -> Self {
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(Anyone(papers.schemes.clone())))
            .with_cert_resolver(Shower::of(papers));
        config.alpn_protocols.clone_from(&papers.alpn);
        let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).unwrap()));
        let endpoint = quinn::Endpoint::server(config, LOCALHOST).unwrap();
        let (accepting, told) = (endpoint.clone(), Arc::new(AtomicUsize::new(0)));
        let count = told.clone();
        tokio::spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                let Ok(connection) = incoming.await else { continue };
                while let Ok((_send, mut receive)) = connection.accept_bi().await {
                    while let Ok(Some(chunk)) = receive.read_chunk(1_024, true).await {
                        count.fetch_add(chunk.bytes.len(), Ordering::SeqCst);
                    }
                }
            }
        });
        Self { endpoint, told }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.endpoint.local_addr().unwrap()
    }

    /// Bytes of the application that came here.
    pub(super) fn told(&self) -> usize {
        self.told.load(Ordering::SeqCst)
    }
}
