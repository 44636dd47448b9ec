//! Control values that the renderers' tests start from.

use cede_wire::control::{
    ApprovalSummary, DeviceSummary, MoveReport, MoveSummary, Phase, Plan, Progress, SessionSummary, StatusReport,
    TransferState, TransferSummary,
};
use cede_wire::custody::FencingToken;
use cede_wire::handoff::{Disposition, InventoryItem};
use cede_wire::id::{ApprovalId, DeviceId, HandoffId, MeshId, SessionId, TransferId};
use cede_wire::member::Capability;
use cede_wire::record::PeerPolicy;
use cede_wire::session::{Activity, AgentKind};
use cede_wire::transfer::ShownPath;

/// The moment at which the samples are looked at.
pub(crate) const NOW: u64 = 1_800_000_000_000;

pub(crate) fn progress(phase: Phase) -> Progress {
    Progress {
        handoff: Some(HandoffId::new([0x3f; 16])),
        session: SessionId::new([0xa1; 16]),
        phase,
        round: 1,
        bytes: 1_200_000,
        total_bytes: 3_400_000,
        in_charge: "laptop".into(),
        at_ms: 1_240,
        note: "last delta".into(),
    }
}

pub(crate) fn session(title: &str) -> SessionSummary {
    SessionSummary {
        id: SessionId::new([0xa1; 16]),
        agent: AgentKind::ClaudeCode,
        native: "5d1c".into(),
        title: title.into(),
        directory: "/home/ada/project".into(),
        turns: 12,
        bytes: 345_678,
        version: "2.1.0".into(),
        updated_unix_ms: NOW - 300_000,
        activity: Some(Activity::Idle { evidence: "last turn complete".into() }),
        owner: "laptop".into(),
        here: true,
        token: FencingToken { generation: 0, epoch: 2 },
        state: "in charge here".into(),
        resume: "cd /home/ada/project && claude --resume 5d1c".into(),
        terminal: None,
    }
}

pub(crate) fn device(name: &str, this: bool) -> DeviceSummary {
    DeviceSummary {
        id: DeviceId::new([0xd0; 32]),
        name: name.into(),
        this,
        administrator: this,
        connected: true,
        address: Some("192.168.1.7:4242".into()),
        capabilities: vec![Capability::Presence, Capability::Handoff],
        policy: PeerPolicy::Ask,
    }
}

pub(crate) fn inventory() -> Vec<InventoryItem> {
    let item = |what: &str, disposition, count, bytes, note: &str| InventoryItem {
        what: what.into(),
        disposition,
        count,
        bytes,
        note: note.into(),
    };
    vec![
        item("conversation", Disposition::Transferred, 3, 345_678, ""),
        item("tracked files", Disposition::Rehydrated, 1_204, 0, "from the commits"),
        item("ignored files", Disposition::Stays, 88, 52_000_000, "--include-ignored"),
        item("provider credentials", Disposition::NeverTravels, 1, 0, ""),
    ]
}

pub(crate) fn approval() -> ApprovalSummary {
    ApprovalSummary {
        id: ApprovalId::new([0x7c; 8]),
        device: "laptop".into(),
        kind: "receive".into(),
        title: "Fix the login".into(),
        agent: Some(AgentKind::ClaudeCode),
        directory: "/home/ada/project".into(),
        inventory: inventory(),
        executables: (1..=51).map(|n| format!("bin/tool-{n}")).collect(),
        dotfiles: vec![".envrc".into()],
        configuration_as_code: vec![".claude/settings.json".into()],
        limit_bytes: 64_000_000,
        expires_in_s: 110,
        turns: 12,
        secret_looking: Vec::new(),
        asks: None,
        files: Vec::new(),
        note: String::new(),
        at: None,
        held: false,
    }
}

pub(crate) fn files_question() -> ApprovalSummary {
    let line = |path: &str, files, bytes| ShownPath { path: path.into(), files, bytes };
    ApprovalSummary {
        kind: "file".into(),
        title: "site and 1 more".into(),
        agent: None,
        directory: "/home/ada/Downloads/cede/laptop".into(),
        inventory: vec![InventoryItem {
            what: "files".into(),
            disposition: Disposition::Transferred,
            count: 3,
            bytes: 1_204_000,
            note: String::new(),
        }],
        executables: vec!["site/run.sh".into()],
        dotfiles: Vec::new(),
        configuration_as_code: Vec::new(),
        limit_bytes: 1_204_000,
        turns: 0,
        files: vec![line("notes.txt", 1, 4_000), line("site/", 2, 1_200_000)],
        note: "as you asked".into(),
        ..approval()
    }
}

pub(crate) fn transfer(state: TransferState) -> TransferSummary {
    TransferSummary {
        id: TransferId::new([0x5e; 16]),
        title: "report.pdf".into(),
        device: "server".into(),
        going: true,
        state,
        files: 1,
        bytes: 3_400_000,
        moved: 1_200_000,
        to_move: 3_400_000,
        carried: 1_200_000,
        place: String::new(),
        note: String::new(),
        at_unix_ms: NOW - 300_000,
        refusal: None,
        detail: String::new(),
    }
}

pub(crate) fn moving() -> MoveSummary {
    MoveSummary {
        handoff: HandoffId::new([0x3f; 16]),
        title: "Fix the login".into(),
        from: "laptop".into(),
        to: "server".into(),
        progress: progress(Phase::Transferring),
    }
}

pub(crate) fn status() -> StatusReport {
    StatusReport {
        device: device("laptop", true),
        software: "0.1.0".into(),
        mesh: Some(MeshId::new([0x9f; 32])),
        listening: "192.168.1.2:4242".into(),
        read_only: false,
        peers: vec![
            device("server", false),
            DeviceSummary { connected: false, address: None, ..device("desktop", false) },
        ],
        sessions: vec![
            session("Fix the login"),
            SessionSummary { owner: "server".into(), state: "moved to server".into(), here: false, ..session("Tests") },
        ],
        moves: vec![moving()],
        transfers: Vec::new(),
        approvals: vec![approval()],
        next: "cede allow 7c7c7c7c".into(),
        letters: 0,
        warnings: Vec::new(),
        evidence: Vec::new(),
    }
}

pub(crate) fn plan() -> Plan {
    Plan {
        session: session("Fix the login"),
        device: "server".into(),
        inventory: inventory(),
        bytes: 12_345_678,
        files: 1_204,
        secret_looking: vec![".env".into()],
        executables: vec!["run.sh".into()],
        configuration_as_code: Vec::new(),
        untracked_bytes: 120_000_000,
        needs: vec!["--yes-large".into(), "--yes-secrets".into()],
        history_bytes: 5_000_000,
    }
}

pub(crate) fn report() -> MoveReport {
    MoveReport {
        handoff: HandoffId::new([0x3f; 16]),
        session: SessionId::new([0xa1; 16]),
        now_at: "server".into(),
        directory: "/home/ada/project".into(),
        token: FencingToken { generation: 0, epoch: 3 },
        bytes_sent: 1_234_567,
        bytes_present: 7_654_321,
        took_ms: 1_430,
        pause_ms: 210,
        resume: "cd /home/ada/project && claude --resume 5d1c".into(),
        timeline: vec![progress(Phase::Offered), progress(Phase::Committed)],
        notes: vec!["the branch main was kept".into()],
    }
}

pub(crate) fn letter() -> cede_wire::control::LetterSummary {
    cede_wire::control::LetterSummary {
        id: "3fa2c1d9".into(),
        from: "server".into(),
        to: "laptop".into(),
        by: None,
        session: Some(SessionId::new([0xa1; 16])),
        title: "Fix the login".into(),
        state: "received".into(),
        standing: "received".into(),
        told_unix_ms: NOW - 300_000,
        bytes: 27,
        begins: "the artifact is ready".into(),
        in_reply_to: None,
        hops: 0,
    }
}

pub(crate) fn task() -> (cede_wire::control::tasks::TaskSummary, cede_wire::control::tasks::TaskReport) {
    let summary = cede_wire::control::tasks::TaskSummary {
        id: "5be0c1d9".into(),
        from: "laptop".into(),
        to: "server".into(),
        asked_here: true,
        session: None,
        state: "done".into(),
        standing: "done at server in 72 s".into(),
        told_unix_ms: NOW - 300_000,
        begins: "run the migration tests".into(),
        scope: cede_wire::task::TaskScope {
            directory: Some("db".into()),
            agent: None,
            read_only: true,
            tools: Vec::new(),
            turns: None,
            minutes: 20,
        },
        line: String::new(),
    };
    let report = cede_wire::control::tasks::TaskReport {
        text: "All 214 tests pass.".into(),
        agent: Some(AgentKind::ClaudeCode),
        directory: "/home/ada/db".into(),
        exit: Some(0),
        took_ms: 72_300,
        changes: "new      report.txt (214 bytes)\n".into(),
        cost_micro_usd: Some(123_400),
        turns: Some(3),
        output_bytes: 45_000,
        note: String::new(),
    };
    (summary, report)
}
