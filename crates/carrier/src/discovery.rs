//! Who is near: devices announce themselves on the local network by multicast DNS. Answers are hints where to dial; they
//! prove nothing, and a device is reached without them by an explicit address. Source: SPEC C-6.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use cede_wire::id::{DeviceId, MeshId};
use mdns_sd::{IfKind, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo};
use tokio::sync::mpsc;

use crate::limits::{HINT_ADDRESSES, HINTS};

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Nowhere: nothing is announced and nothing is heard.
    Off,
    /// This machine alone.
    Loopback,
    /// The local networks.
    Lan,
}

/// What a device tells its network: the beginnings of two hashes and a port. No name and no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// The device.
    pub device: DeviceId,
    /// Its mesh.
    pub mesh: MeshId,
    /// The port of its endpoint.
    pub port: u16,
}

/// Somebody says that a device of this mesh can be dialed there. Anybody may say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    device: String,
    /// Where to dial.
    pub address: SocketAddr,
}

impl Hint {
    /// Whether the hint can mean this device.
    pub fn may_be(&self, device: &DeviceId) -> bool {
        self.device == device.short()
    }
}

/// The announcing and the listening. Dropping it ends both.
pub struct Discovery {
    daemon: Option<ServiceDaemon>,
    hints: mpsc::Receiver<Hint>,
}

impl Discovery {
    /// Announces this device and listens for others of its mesh. Where there is no multicast it says so in the log and
    /// finds nobody. Must be called within an async runtime.
    pub fn start(announcement: Announcement, scope: Scope) -> Self {
        let (sender, hints) = mpsc::channel(HINTS);
        if scope == Scope::Off || tokio::runtime::Handle::try_current().is_err() {
            return Self { daemon: None, hints };
        }
        let daemon = begin(announcement, scope, sender);
        if let Err(error) = &daemon {
            tracing::info!(%error, "devices on the local network are not looked for");
        }
        Self { daemon: daemon.ok(), hints }
    }

    /// Waits for the next hint; for ever, when nothing is looked for. It can be cancelled and called again.
    pub async fn next(&mut self) -> Hint {
        match self.hints.recv().await {
            Some(hint) => hint,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            let _already_gone = daemon.shutdown();
        }
    }
}

fn begin(announcement: Announcement, scope: Scope, hints: mpsc::Sender<Hint>) -> mdns_sd::Result<ServiceDaemon> {
    let daemon = ServiceDaemon::new()?;
    if scope == Scope::Loopback {
        daemon.disable_interface(IfKind::All)?;
        daemon.enable_interface(IfKind::LoopbackV4)?;
    }
    daemon.register(service(&announcement, scope)?)?;
    let found = daemon.browse(SERVICE)?;
    tokio::spawn(async move {
        while let Ok(event) = found.recv_async().await {
            if let ServiceEvent::ServiceResolved(service) = event {
                pass_on(&announcement, &service, &hints);
            }
        }
        tracing::debug!("the search of the local network has ended");
    });
    Ok(daemon)
}

fn service(announcement: &Announcement, scope: Scope) -> mdns_sd::Result<ServiceInfo> {
    let name = announcement.device.short();
    let host = format!("{name}.local.");
    let mesh = [(MESH, announcement.mesh.short())];
    let address = (scope == Scope::Loopback).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let service = ServiceInfo::new(SERVICE, &name, &host, address.as_slice(), announcement.port, &mesh[..])?;
    Ok(if scope == Scope::Lan { service.enable_addr_auto() } else { service })
}

/// Keeps hints for the daemon while there is room; a device that is missed announces itself again.
fn pass_on(ours: &Announcement, service: &ResolvedService, hints: &mpsc::Sender<Hint>) {
    let device = service.fullname.split('.').next().unwrap_or_default();
    let other_mesh = service.txt_properties.get_property_val_str(MESH) != Some(ours.mesh.short().as_str());
    if other_mesh || device == ours.device.short() || service.port == 0 {
        return;
    }
    for address in service.addresses.iter().take(HINT_ADDRESSES) {
        if let Some(address) = dialable(address, service.port) {
            let _full = hints.try_send(Hint { device: device.to_owned(), address });
        }
    }
}

/// The address with its port; a link-local one needs the interface that it was heard on.
fn dialable(address: &ScopedIp, port: u16) -> Option<SocketAddr> {
    match address {
        ScopedIp::V4(v4) => Some(SocketAddr::from((*v4.addr(), port))),
        ScopedIp::V6(v6) => {
            let scope = if v6.addr().is_unicast_link_local() { v6.scope_id().index } else { 0 };
            Some(SocketAddrV6::new(*v6.addr(), port, 0, scope).into())
        }
        _ => None,
    }
}

/// The hints that one announcement gives, whoever made it.
#[cfg(feature = "decoders")]
pub fn hints(ours: &Announcement, name: &str, txt: &[(&str, &str)], addresses: &[IpAddr], port: u16) -> Vec<Hint> {
    let Ok(service) = ServiceInfo::new(SERVICE, name, "x.local.", addresses, port, txt) else { return Vec::new() };
    let (sender, mut kept) = mpsc::channel(HINTS);
    pass_on(ours, &service.as_resolved_service(), &sender);
    drop(sender);
    std::iter::from_fn(|| kept.try_recv().ok()).collect()
}

const SERVICE: &str = "_cede._udp.local.";
/// The property that holds the beginning of the mesh id.
const MESH: &str = "m";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    fn announcement(device: u8, port: u16) -> Announcement {
        Announcement { device: DeviceId::new([device; 32]), mesh: MeshId::new([9; 32]), port }
    }

    fn heard(from: &Announcement) -> (mpsc::Sender<Hint>, mpsc::Receiver<Hint>, ResolvedService) {
        let (sender, receiver) = mpsc::channel(HINTS);
        (sender, receiver, service(from, Scope::Loopback).unwrap().as_resolved_service())
    }

    /// Shows: C-6
    #[test]
    fn hint_names_the_device_and_where_to_dial() {
        let (sender, mut receiver, service) = heard(&announcement(2, 4000));
        pass_on(&announcement(1, 1), &service, &sender);
        let hint = receiver.try_recv().unwrap();
        assert_eq!(hint.address, SocketAddr::from(([127, 0, 0, 1], 4000)));
        assert!(hint.may_be(&DeviceId::new([2; 32])));
        assert!(!hint.may_be(&DeviceId::new([3; 32])));
    }

    #[test]
    fn own_announcement_and_other_meshes_are_no_hints() {
        let other_mesh = Announcement { mesh: MeshId::new([8; 32]), ..announcement(2, 4000) };
        for from in [announcement(1, 4000), other_mesh, announcement(2, 0)] {
            let (sender, mut receiver, service) = heard(&from);
            pass_on(&announcement(1, 1), &service, &sender);
            assert!(receiver.try_recv().is_err(), "{from:?}");
        }
    }

    #[test]
    fn flood_of_announcements_keeps_a_bounded_number_of_hints() {
        let (sender, mut receiver, _) = heard(&announcement(2, 4000));
        for port in 1..=2 * HINTS as u16 {
            let (_, _, service) = heard(&announcement(2, port));
            pass_on(&announcement(1, 1), &service, &sender);
        }
        drop(sender);
        let mut kept = 0;
        while receiver.try_recv().is_ok() {
            kept += 1;
        }
        assert_eq!(kept, HINTS);
    }

    #[tokio::test]
    async fn switched_off_it_waits_and_finds_nobody() {
        let mut off = Discovery::start(announcement(1, 1), Scope::Off);
        assert!(timeout(Duration::from_millis(50), off.next()).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn devices_on_one_machine_find_each_other_where_multicast_works() {
        let mut first = Discovery::start(announcement(1, 4001), Scope::Loopback);
        let _second = Discovery::start(announcement(2, 4002), Scope::Loopback);
        match timeout(Duration::from_secs(5), first.next()).await {
            Ok(hint) => assert_eq!(hint.address, SocketAddr::from(([127, 0, 0, 1], 4002))),
            Err(_) => println!("skipped: no multicast on the loopback interface"),
        }
    }
}
