//! What is kept of the records of other devices: a small file for each, replaced as a whole.

use std::path::Path;

use cede_wire::audit::AuditAnchor;
use cede_wire::canonical::{decode, encode};
use cede_wire::id::DeviceId;

use crate::disk::{self, DiskFault};
use crate::home::Home;
use crate::limits::{MIRROR_BYTES, MIRRORS};

/// Everything that is kept. A file that cannot be read is as one that is not there.
pub fn kept(home: &Home) -> Vec<(DeviceId, AuditAnchor)> {
    let Ok(paths) = disk::list(&home.path(DIR), MIRRORS) else { return Vec::new() };
    paths.iter().filter_map(|path| read(path)).collect()
}

/// Keeps what is known of a device now; it is durable when this returns. Blocks.
///
/// # Errors
/// [`DiskFault`]; what was kept before is.
pub fn keep(home: &Home, device: DeviceId, anchor: &AuditAnchor) -> Result<(), DiskFault> {
    let dir = home.path(DIR);
    disk::make_dir(&dir)?;
    disk::replace_file(&dir, &device.to_string(), &encode(anchor))
}

/// Forgets a device. Blocks.
///
/// # Errors
/// [`DiskFault`]; it is not forgotten.
pub fn forget(home: &Home, device: DeviceId) -> Result<(), DiskFault> {
    disk::remove_file(&home.path(DIR).join(device.to_string()))
}

fn read(path: &Path) -> Option<(DeviceId, AuditAnchor)> {
    let device = path.file_name()?.to_str()?.parse().ok()?;
    let bytes = disk::read_small(path, MIRROR_BYTES).ok()??;
    Some((device, decode(&bytes).ok()?))
}

const DIR: &str = "mirrors";

#[cfg(test)]
mod tests {
    use cede_wire::canonical::Signed;
    use cede_wire::id::DeviceKey;

    use super::*;

    #[test]
    fn what_is_kept_of_a_device_comes_back_until_it_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(&place.path().join("state")).unwrap();
        assert_eq!(kept(&home), []);
        let device = DeviceId::new([7; 32]);
        let point = Signed::from_parts(vec![3; 80], DeviceKey::new([1; 32]), [9; 64]);
        let first = AuditAnchor { newest: point.clone(), against: None };
        let second = AuditAnchor { against: Some((point.clone(), point.clone())), newest: point };
        keep(&home, device, &first).unwrap();
        keep(&home, device, &second).unwrap();
        std::fs::write(home.path(DIR).join("junk"), b"junk").unwrap();
        assert_eq!(kept(&home), [(device, second)]);
        forget(&home, device).unwrap();
        forget(&home, device).unwrap();
        assert_eq!(kept(&home), []);
    }
}
