//! The TLS configurations, built by hand: TLS 1.3, raw keys on both sides, one exact protocol name, no ticket, no
//! resumption, no early data. Resumption would copy the peer's identity from a ticket without asking the gate, and
//! a device that was removed could come back.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cede_wire::id::DeviceKey;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

use crate::gate::Gate;
use crate::identity::{Identity, key_in};

/// What a connection is for. Its name is agreed in the handshake; nothing else is spoken on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Member,
    Pairing,
}

impl Purpose {
    const ALL: [Self; 2] = [Self::Member, Self::Pairing];

    pub(crate) const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Member => b"cede/1",
            Self::Pairing => b"cede-pair/1",
        }
    }

    pub(crate) fn of_alpn(alpn: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.alpn() == alpn)
    }
}

/// The configuration of one dial. Source: SPEC C-1, C-2.
pub(crate) fn dialing(identity: &Identity, purpose: Purpose, pin: Arc<Pin>) -> Result<ClientConfig, Error> {
    let mut config = ClientConfig::builder_with_provider(identity.provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(pin)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(identity.certified.clone())));
    config.alpn_protocols = vec![purpose.alpn().to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    Ok(config)
}

/// The configuration of one incoming connection. One each: its door remembers what the connection is for. Source: SPEC
/// C-1, C-2.
pub(crate) fn answering(identity: &Identity, gate: Arc<dyn Gate>) -> Result<ServerConfig, Error> {
    let door = Arc::new(Door {
        gate,
        certified: identity.certified.clone(),
        algorithms: identity.provider.signature_verification_algorithms,
        purpose: Mutex::new(None),
    });
    let mut config = ServerConfig::builder_with_provider(identity.provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(door.clone())
        .with_cert_resolver(door);
    config.alpn_protocols = Purpose::ALL.map(|purpose| purpose.alpn().to_vec()).into();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

/// The dialer's side: the key that must answer, and the one that did.
#[derive(Debug)]
pub(crate) struct Pin {
    expected: Option<DeviceKey>,
    seen: OnceLock<DeviceKey>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    /// With no expected key, any answers: for pairing, where the ceremony checks it.
    pub(crate) fn new(identity: &Identity, expected: Option<DeviceKey>) -> Arc<Self> {
        let algorithms = identity.provider.signature_verification_algorithms;
        Arc::new(Self { expected, seen: OnceLock::new(), algorithms })
    }

    /// The expected key, and the other one that answered in its place.
    pub(crate) fn impostor(&self) -> Option<(DeviceKey, DeviceKey)> {
        let (expected, seen) = (self.expected?, *self.seen.get()?);
        (seen != expected).then_some((expected, seen))
    }

    /// Whether anything answered.
    pub(crate) fn answered(&self) -> bool {
        self.seen.get().is_some()
    }
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = raw_key(end_entity, intermediates)?;
        let seen = self.seen.get_or_init(|| key);
        if *seen == key && self.expected.is_none_or(|expected| expected == key) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General(NOT_TLS12.to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The answering side of one connection. TLS tells a verifier of client keys nothing about the protocol name, but it
/// shows the names to whoever picks the server's key, and it does that first. So one value does both: it notes the
/// name there and judges the key by it here, within the handshake.
struct Door {
    gate: Arc<dyn Gate>,
    certified: Arc<CertifiedKey>,
    algorithms: WebPkiSupportedAlgorithms,
    purpose: Mutex<Option<Purpose>>,
}

impl Door {
    fn opens_to(&self, key: &DeviceKey) -> bool {
        match *self.purpose.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Purpose::Member) => self.gate.admits(key),
            Some(Purpose::Pairing) => self.gate.pairing_open(),
            None => false,
        }
    }
}

impl ResolvesServerCert for Door {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut known = hello.alpn().into_iter().flatten().filter_map(Purpose::of_alpn);
        let first = known.next();
        // Two names would let the caller be judged by one and speak the other.
        let only = if known.next().is_none() { first } else { None };
        *self.purpose.lock().unwrap_or_else(PoisonError::into_inner) = only;
        Some(self.certified.clone())
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Door {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let key = raw_key(end_entity, intermediates)?;
        if self.opens_to(&key) {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General(NOT_TLS12.to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl core::fmt::Debug for Door {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Door").field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

/// The one key of a handshake; a chain or anything but an ed25519 key is no identity here.
pub(crate) fn raw_key(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Result<DeviceKey, Error> {
    let key = key_in(end_entity).filter(|_| intermediates.is_empty());
    key.ok_or_else(|| CertificateError::BadEncoding.into())
}

const NOT_TLS12: &str = "only TLS 1.3 is spoken";
