//! The faults that `cargo xtask mutants` plants, each as pairs of what stands there and what stands there instead.

/// One fault.
pub(crate) struct Planted {
    /// What is wrong, as one would say it of a device.
    pub(crate) fault: &'static str,
    /// Short, for the command line.
    pub(crate) name: &'static str,
    pub(crate) edits: &'static [Edit],
}

/// A piece of a file that stands there exactly once, and what it becomes.
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) find: &'static str,
    pub(crate) replace: &'static str,
}

const fn edit(file: &'static str, find: &'static str, replace: &'static str) -> Edit {
    Edit { file, find, replace }
}

const fn planted(name: &'static str, fault: &'static str, edits: &'static [Edit]) -> Planted {
    Planted { fault, name, edits }
}

const ARRIVING: &str = "crates/core/src/custodian/arriving.rs";
const CHAIN: &str = "crates/core/src/chain.rs";
const CUSTODIAN: &str = "crates/core/src/custodian.rs";
const DESTINATION: &str = "crates/core/src/destination.rs";
const HOLDING: &str = "crates/core/src/custodian/holding.rs";
const LEAVING: &str = "crates/core/src/custodian/leaving.rs";
const OFFERED: &str = "crates/core/src/custodian/offered.rs";
const RESTORE: &str = "crates/core/src/custodian/restore.rs";
const SOURCE: &str = "crates/core/src/source.rs";
const TIMERS: &str = "crates/core/src/custodian/timers.rs";

/// The faults that the handoff is built against, then those of the parts around it.
pub(crate) const PLANTED: &[Planted] = &[
    planted(
        "acts-at-commit",
        "the destination acts at its own commit",
        &[edit(ARRIVING, "Ok(_) if state.is_designate() =>", "Ok(_) if state.is_designate() || session == session =>")],
    ),
    planted(
        "sends-before-fsync",
        "the source sends before its decision is durable",
        &[edit(
            LEAVING,
            "self.persist(vec![Record::Custody(certificate)]);\n        self.send_release(session, to, false);",
            "self.send_release(session, to, false);\n        self.persist(vec![Record::Custody(certificate)]);",
        )],
    ),
    planted(
        "activation-volatile",
        "the activation is not made durable",
        &[edit(
            HOLDING,
            "records.push(Record::Active { session, handoff, token: release.next_token });",
            "let _ = handoff;",
        )],
    ),
    planted(
        "ack-unbound",
        "the acknowledgement is not bound to head and root",
        &[
            edit(SOURCE, "(ack.head == head, \"head\")", "(true, \"head\")"),
            edit(SOURCE, "(ack.root == root, \"root\")", "(true, \"root\")"),
        ],
    ),
    planted(
        "turn-unseen",
        "a turn that was committed unseen during the offer is lost",
        &[edit(SOURCE, "if quiet.in_flight || quiet.head != head {", "if quiet.in_flight {")],
    ),
    planted(
        "no-tokens",
        "a release may name any token",
        &[edit(
            CHAIN,
            "let follows = Some(release.next_token) == self.token().next_epoch() && release.token == self.token();",
            "let follows = release.token <= release.next_token;",
        )],
    ),
    planted(
        "copy-let-go",
        "the source lets its copy go at the release",
        &[edit(
            LEAVING,
            "self.tell(Event::Released { session, handoff, to, token });",
            "self.tell(Event::Released { session, handoff, to, token });\n        self.tell(Event::Retired { session, handoff });",
        )],
    ),
    planted(
        "stale-ack",
        "an old acknowledgement is taken after an abort",
        &[
            edit(
                LEAVING,
                "if source.offer().handoff == handoff && source.offer().destination == from =>\n            {\n                match source",
                "if source.offer().destination == from =>\n            {\n                let handoff = source.offer().handoff;\n                match source",
            ),
            edit(SOURCE, "(handoff == self.offer.handoff, \"handoff\")", "(true, \"handoff\")"),
        ],
    ),
    planted(
        "manifest-for-another",
        "a manifest for another device is taken",
        &[edit(DESTINATION, "(manifest.destination == self.me, \"destination\")", "(true, \"destination\")")],
    ),
    planted(
        "ack-of-another",
        "an acknowledgement that names another device is taken",
        &[
            edit(SOURCE, "(destination == self.offer.destination, \"destination\")", "(true, \"destination\")"),
            edit(
                LEAVING,
                "if source.offer().handoff == handoff && source.offer().destination == from =>\n            {\n                match source",
                "if source.offer().handoff == handoff =>\n            {\n                match source",
            ),
        ],
    ),
    planted(
        "discard-undone",
        "a discard can be undone",
        &[edit(
            ARRIVING,
            "state.attempts.ended.push(handoff);\n        self.persist(vec![Record::Discarded { session, handoff }]);",
            "self.persist(vec![Record::Discarded { session, handoff }]);",
        )],
    ),
    planted(
        "two-commits",
        "two commits at once are two",
        &[
            edit(
                SOURCE,
                "        self.phase = SourcePhase::Committed;\n        Ok(certificate)",
                "        Ok(certificate)",
            ),
            edit(
                LEAVING,
                "state.role = Role::Released(Released::new(&release, now.after(limits::RELEASE_FIRST)));",
                "let _ = (&release, now, limits::RELEASE_FIRST, Released::new);",
            ),
        ],
    ),
    planted(
        "released-acts",
        "a device that released the session goes on acting",
        &[edit(
            CUSTODIAN,
            "Standing::InCharge | Standing::Leaving(_) => true,\n            Standing::Arriving\n            | Standing::ReleasedTo(_)",
            "Standing::InCharge | Standing::Leaving(_) | Standing::ReleasedTo(_) => true,\n            Standing::Arriving",
        )],
    ),
    planted(
        "replay-believed",
        "a release that is known is believed again",
        &[edit(
            HOLDING,
            "if known.is_some_and(|chain| chain.token() >= verified.token()) {",
            "if known.is_some_and(|chain| chain.token() > verified.token()) {",
        )],
    ),
    planted(
        "restart-owns",
        "a device that released the session is the owner after a restart",
        &[edit(
            RESTORE,
            "    Role::Released(Released::new(release, now.monotonic))",
            "    let _ = now;\n    Role::Owner { arrived: None }",
        )],
    ),
    planted(
        "restart-activates",
        "a designate is the owner after a restart",
        &[edit(
            RESTORE,
            "if facts.active == Some((release.handoff, release.next_token)) {",
            "if facts.active.is_none() || installed {",
        )],
    ),
    planted(
        "restart-forgets",
        "an owner that restarts is none",
        &[edit(
            RESTORE,
            "Trust::Whole => role,",
            "Trust::Whole => match role {\n                Role::Owner { .. } => Role::Bystander,\n                role => role,\n            },",
        )],
    ),
    planted(
        "restart-stageless",
        "a stage is forgotten at a restart",
        &[edit(
            RESTORE,
            "state.arriving = Some(HandoffDestination::restore_staged(me, attempt, *token, payload, now));",
            "let _ = (me, attempt, token, payload);\n                state.arriving = None;",
        )],
    ),
    planted(
        "old-word-retires",
        "any word of the new owner retires the source, also that of an earlier visit",
        &[edit(
            LEAVING,
            "if released.to == from && activated.token >= released.next_token {",
            "if released.to == from {",
        )],
    ),
    planted(
        "retired-volatile",
        "the retirement is not made durable",
        &[edit(LEAVING, "            self.persist(vec![Record::Retired { session, handoff }]);\n", "")],
    ),
    planted(
        "release-once",
        "a release that was lost is never repeated",
        &[edit(TIMERS, "                self.send_release(id, to, whole);", "                let _ = (to, whole);")],
    ),
    planted(
        "installed-volatile",
        "the new owner says that it acts before that is durable",
        &[edit(HOLDING, "        self.persist(vec![Record::Installed { session, handoff }]);\n", "")],
    ),
    planted(
        "staged-volatile",
        "the acknowledgement leaves before the stage is durable",
        &[edit(
            ARRIVING,
            "                self.persist(vec![Record::Staged { session, handoff, source, token, head, root }]);\n",
            "                let _ = (source, token, head, root);\n",
        )],
    ),
    planted(
        "approved-volatile",
        "the yes leaves before it is durable",
        &[edit(
            OFFERED,
            "        self.persist(vec![Record::Approved { session, handoff, source: attempt.source, scope }]);\n",
            "",
        )],
    ),
    planted(
        "fence-stays",
        "an attempt that is given up leaves its fence",
        &[edit(
            LEAVING,
            "        self.tell(Event::StillOwner { session, handoff, refusal, detail });",
            "        let _ = detail;",
        )],
    ),
    planted(
        "known-unanswered",
        "a release that is known is not answered, so its source never retires",
        &[edit(HOLDING, "            self.answer_known(from, session, &verified);\n", "")],
    ),
    planted(
        "chain-from-scratch",
        "a chain is merged from its beginning",
        &[edit(CHAIN, "known.insert(link.hash());", "known.remove(&link.hash());")],
    ),
    planted(
        "offers-unseen",
        "a session is offered before it stands in its place",
        &[edit(LEAVING, "if arrived.is_none_or(|a| a.installed) => *arrived,", "=> *arrived,")],
    ),
    planted(
        "chain-not-kept",
        "the decision is not in the chain that its device holds",
        &[edit(
            LEAVING,
            "        state.chain = Some(chain);\n        state.role = Role::Released",
            "        state.role = Role::Released",
        )],
    ),
    planted(
        "release-overdue",
        "a release that is due stays due",
        &[edit(TIMERS, "                released.send_at = now.after(released.wait);\n", "")],
    ),
    planted(
        "attempt-endless",
        "an attempt without a word never ends",
        &[edit(
            TIMERS,
            "self.abandon(id, Refusal::TimedOut, \"no word from the destination in time\".to_owned());",
            "let _ = Refusal::TimedOut;",
        )],
    ),
    planted(
        "any-stage-activates",
        "a release activates whatever payload lies there",
        &[edit(
            HOLDING,
            "if let Some(attempt) = arriving.filter(holds).map(|a| a.attempt()) {",
            "let _ = holds;\n        if let Some(attempt) = arriving.map(|a| a.attempt()) {",
        )],
    ),
    planted(
        "early-round-staged",
        "a round is staged that is not the last",
        &[edit(
            DESTINATION,
            "        if !manifest.last {\n            return Err(ReceiveError::Mismatch(\"round\"));\n        }\n",
            "",
        )],
    ),
    planted(
        "fence-outlasts-seize",
        "the fence of an attempt that a seize ended stands over what comes back",
        &[edit(HOLDING, "(state.unclaimed, state.fenced_for) = (None, None);", "state.unclaimed = None;")],
    ),
    planted(
        "seize-unheard",
        "a device that acts under a seized token is not told",
        &[edit(LEAVING, "            return self.send_custody(from, session);\n", "            return;\n")],
    ),
];
