//! The devices of the mesh.

use cede_wire::control::DeviceSummary;
use cede_wire::record::PeerPolicy;

use crate::page::{Ink, Page, Span, faint, plain, strong};

/// The devices as a table.
pub(crate) fn page(devices: &[DeviceSummary]) -> Page {
    let headings = ["id", "name", "link", "address"].map(faint).to_vec();
    let mut page = Page::default();
    page.table(0, std::iter::once(headings).chain(devices.iter().map(row)).collect(), &[1, 3]);
    page
}

/// The devices at which a person may answer for this one.
pub(crate) fn approvers(devices: &[DeviceSummary]) -> Page {
    if devices.is_empty() {
        return Page::of("what waits here is answered here alone: cede approvers add <device>");
    }
    page(devices)
}

/// One peer as `status` shows it: id, name, link, address, and what it is answered that wants to move a session.
pub(crate) fn peer(device: &DeviceSummary) -> Vec<Span> {
    let mut row = row(device);
    row.push(plain(policy(device.policy)));
    row
}

/// One device as a row: id, name, link, address.
pub(crate) fn row(device: &DeviceSummary) -> Vec<Span> {
    let trusted = if device.administrator { " (trusted)" } else { "" };
    vec![
        plain(device.id.short()),
        strong(format!("{}{trusted}", device.name)),
        link(device),
        plain(device.address.as_deref().unwrap_or("-")),
    ]
}

const fn policy(policy: PeerPolicy) -> &'static str {
    match policy {
        PeerPolicy::Ask => "asks you first",
        PeerPolicy::Yes => "gets a yes",
    }
}

fn link(device: &DeviceSummary) -> Span {
    match (device.this, device.connected) {
        (true, _) => plain("this one"),
        (false, true) => Span::new(Ink::Good, "connected"),
        (false, false) => faint("not connected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    #[test]
    fn devices_are_a_table_of_eighty_columns() {
        let text = page(&[samples::device("laptop", true), samples::device(&"server".repeat(12), false)]).render(false);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
