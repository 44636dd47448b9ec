//! The steps of a pairing.

use cede_wire::control::DeviceSummary;
use cede_wire::id::MeshId;

use crate::page::{Page, plain, strong};
use crate::units;

/// What to do with the words.
pub(crate) fn before_words(expires_in_s: u64) -> Page {
    let left = match expires_in_s {
        0..120 => units::count(expires_in_s, "second", "seconds"),
        _ => units::count(expires_in_s / 60, "minute", "minutes"),
    };
    let mut page = Page::of("This device shows the words; `cede pair` alone is not typed on the other one.");
    page.line([plain(format!("On the new device, type this within {left}. It works once:"))]);
    page
}

/// The line to paste.
pub(crate) fn command(command: &str) -> Page {
    let mut page = Page::default();
    page.command("  ", command);
    page
}

/// The string that both screens show. The new device learns the name of the trusted one only in the end.
pub(crate) fn comparison(comparison: &str, name: &str) -> Page {
    let mut page = Page::default();
    if name.is_empty() {
        page.line([plain("Both screens show:")]);
    } else {
        page.line([plain("The device that knew the words calls itself "), strong(name), plain(". Both screens show:")]);
    }
    page.line([plain("  "), strong(comparison)]);
    page
}

/// The end.
pub(crate) fn paired(device: &DeviceSummary, mesh: MeshId) -> Page {
    let mut page = Page::default();
    page.line([
        plain("paired with "),
        strong(&device.name),
        plain(format!(" ({}) in mesh {}", device.id.short(), mesh.short())),
    ]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    #[test]
    fn pairing_reads_as_a_conversation() {
        let mut page = before_words(600);
        page.append(command("cede pair amber river stone --at 192.168.1.2:4242"));
        page.append(comparison("12-34-56", "server\u{202e}"));
        page.append(paired(&samples::device("server", false), MeshId::new([0x9f; 32])));
        insta::assert_snapshot!(page.render(false), @r"
        This device shows the words; `cede pair` alone is not typed on the other one.
        On the new device, type this within 10 minutes. It works once:
          cede pair amber river stone --at 192.168.1.2:4242
        The device that knew the words calls itself server\u{202e}. Both screens show:
          12-34-56
        paired with server (d0d0d0d0) in mesh 9f9f9f9f
        ");
    }
}
