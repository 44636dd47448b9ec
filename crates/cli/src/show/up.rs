//! What the person who starts a daemon sees first.

use std::path::Path;

use cede_daemon::Up;

use crate::page::{Page, faint, plain, strong};

/// Who it is, where it is reached, where it keeps what it knows, and what to type next.
pub(crate) fn page(up: &Up, state: &Path) -> Page {
    let mut page = Page::default();
    page.line([strong(&up.name), plain(format!(" ({}) is up", up.device.short()))]);
    page.line([plain(format!("  its state lies in {}", state.display()))]);
    page.line([plain(format!("  it listens on {}; other machines reach it at ", up.listening)), strong(&up.reachable)]);
    if up.peers.is_empty() {
        page.line([
            plain("  it is paired with none; in another terminal type "),
            strong("cede pair"),
            plain(", and on the other machine what that shows"),
        ]);
    } else {
        page.line([plain(format!("  it is paired with {}", up.peers.join(", ")))]);
    }
    page.line([faint("  see what goes on: cede status; stop it: Ctrl-C here, or cede stop")]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use cede_wire::id::DeviceId;

    fn up(peers: &[&str]) -> Up {
        Up {
            name: "laptop".into(),
            device: DeviceId::new([0xd0; 32]),
            peers: peers.iter().map(|name| (*name).to_owned()).collect(),
            listening: "0.0.0.0:4455".into(),
            reachable: "192.168.1.2:4455".into(),
        }
    }

    #[test]
    fn first_look_says_where_it_is_and_how_to_pair() {
        let state = Path::new("/home/ada/.local/state/cede");
        insta::assert_snapshot!(page(&up(&[]), state).render(false));
        let paired = page(&up(&["server", "desktop"]), state).render(false);
        assert!(
            paired.contains("\n  it is paired with server, desktop\n") && !paired.contains("cede pair"),
            "{paired}"
        );
    }
}
