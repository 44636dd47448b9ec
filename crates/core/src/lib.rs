//! Who may act: custody of sessions and the handoff.
