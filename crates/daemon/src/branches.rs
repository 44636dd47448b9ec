//! S6: another device seized a session. What only this device has is kept aside before anything comes in its place.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cede_agent::adapter::AgentError;
use cede_agent::tree::{TreeRefusal, root_of, set_aside};
use cede_wire::control::Check;
use cede_wire::custody::{FencingToken, Head};
use cede_wire::id::{DeviceId, SessionId};
use cede_wire::session::SessionKey;
use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::unix_ms;
use crate::context::{Context, Stopping, found};
use crate::fences::raise;
use crate::limits;
use crate::payload::PayloadError;

/// What was kept, as it stands beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Branch {
    session: SessionId,
    /// The token of the device that took it over.
    token: FencingToken,
    owner: String,
    /// The working tree as it was; it still lies there.
    directory: PathBuf,
    /// The branch that holds it, where it is a git tree.
    git_branch: Option<String>,
    /// Files of the conversation below `conversation`.
    files: usize,
    turn: u64,
    kept_unix_ms: u64,
}

/// Everything that it takes to keep a session aside.
struct Aside {
    key: SessionKey,
    directory: Option<PathBuf>,
    token: FencingToken,
    owner: String,
    /// What the new owner has: turns up to there are no branch.
    theirs: Head,
}

impl Actor {
    /// The fence goes up, then what this device has is kept, again and again until it is.
    pub(crate) fn seized(&mut self, session: SessionId, by: DeviceId, token: FencingToken, theirs: Head) {
        let owner = self.device_name(by);
        tracing::warn!(session = %session.short(), owner, %token, "another device took the session over");
        let Some(key) = self.key_of(session) else { return };
        let directory = self.placed.get(&session).map(|placed| crate::sessions::path_of(&placed.directory));
        let aside = Arc::new(Aside { key, directory, token, owner, theirs });
        self.end_tasks_in(session);
        self.give_up_arriving(session);
        self.moves.fences.begins(session);
        let context = self.context.clone();
        tokio::spawn(async move {
            let mut wait = limits::DIAL_FIRST;
            loop {
                // Once the session came back there is nothing to keep, and no fence to raise.
                if context.ask(move |actor| actor.custodian.to_branch(session)).await != Ok(true) {
                    break;
                }
                match keep_aside(&context, &aside).await {
                    Ok(Ok(place)) => {
                        context.tell(move |actor| actor.kept_aside(session, place)).await;
                        break;
                    }
                    Ok(Err(why)) => tracing::error!(session = %session.short(), why, "not kept aside yet"),
                    Err(Stopping::Fault) => tracing::error!(session = %session.short(), "not kept aside yet"),
                    Err(Stopping::Told) => return,
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(limits::DIAL_IDLE);
            }
            // It may have come back while the fence went up.
            context.raising_ends(aside.key.clone()).await;
        });
    }

    fn kept_aside(&mut self, session: SessionId, place: PathBuf) {
        tracing::warn!(session = %session.short(), place = %place.display(), "what only this device has is kept");
        self.seizes.branches.insert(session, place);
        self.custodian.branched(session);
        self.context.last_look.forget();
    }

    /// After a restart: what was kept before.
    pub(crate) fn find_branches(&mut self) {
        let all: Vec<SessionId> = self.custodian.sessions().map(|(id, _)| id).collect();
        for session in all {
            let mut kept = places_of(&self.context, session);
            kept.sort();
            if let Some(last) = kept.pop() {
                self.seizes.branches.insert(session, last);
            }
        }
    }

    /// A line of `cede doctor` for each.
    pub(crate) fn branch_checks(&self) -> Vec<Check> {
        let line = |(session, place): (&SessionId, &PathBuf)| Check {
            what: "branches".to_owned(),
            result: "warn".to_owned(),
            found: format!("what only this device has of session {} is kept in {}", session.short(), place.display()),
            cure: format!("read {}, take what you need, then remove the directory", place.join(README).display()),
        };
        self.seizes.branches.iter().filter(|(_, place)| place.is_dir()).map(line).collect()
    }

    /// Where the turns of a session lie that only this device has.
    pub(crate) fn branch_of(&self, session: SessionId) -> Option<&Path> {
        self.seizes.branches.get(&session).map(PathBuf::as_path).filter(|place| place.is_dir())
    }
}

fn places_of(context: &Context, session: SessionId) -> Vec<PathBuf> {
    let all = std::fs::read_dir(context.place("branches", &session.to_string())).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).filter(|place| place.join(BRANCH).is_file()).collect()
}

/// Raises the fence and keeps everything, durably. Again: nothing changes.
async fn keep_aside(context: &Context, aside: &Arc<Aside>) -> Result<Result<PathBuf, String>, Stopping> {
    let (session, key) = (aside.key.id(), aside.key.clone());
    let wanted =
        move |actor: &mut Actor| actor.custodian.to_branch(session).then(|| actor.tombstone(session)).flatten();
    let fenced = context.fencing(key.agent, wanted, move |context, tombstone| raise(context, &key, &tombstone));
    match fenced.await? {
        Some(Ok(()) | Err(PayloadError::Agent(AgentError::Unknown { .. }))) => {}
        Some(Err(error)) => return Ok(Err(error.to_string())),
        None => return Ok(Err("the session came back".to_owned())),
    }
    let aside = aside.clone();
    context.block(move |context| keep(context, &aside)).await
}

fn keep(context: &Context, aside: &Aside) -> Result<PathBuf, String> {
    let session = aside.key.id();
    let name = format!("{:020}", aside.token.generation);
    let place = context.place("branches", &session.to_string()).join(name);
    if place.join(BRANCH).is_file() {
        return Ok(place);
    }
    let io = |doing: &'static str| move |error: std::io::Error| format!("cannot {doing}: {error}");
    std::fs::create_dir_all(&place).map_err(io("make a directory"))?;
    let (files, head) = keep_conversation(context, aside, &place.join("conversation"))?;
    let git_branch = keep_tree(aside)?;
    // Everything before the word that it is kept.
    crate::receiving::sync_file_system(&place).map_err(io("flush"))?;
    let branch = Branch {
        session,
        token: aside.token,
        owner: aside.owner.clone(),
        directory: aside.directory.clone().unwrap_or_default(),
        git_branch,
        files,
        turn: head.map_or(0, |head| head.turn),
        kept_unix_ms: unix_ms(),
    };
    let json = serde_json::to_vec_pretty(&branch).map_err(|error| error.to_string())?;
    write_durably(&place, README, instructions(&branch, head, aside).as_bytes()).map_err(io("write"))?;
    write_durably(&place, BRANCH, &json).map_err(io("write"))?;
    // The place, the session's directory, that of all branches, and the state, where the first one appears.
    for directory in place.ancestors().take(4) {
        File::open(directory).and_then(|file| file.sync_all()).map_err(io("flush a directory"))?;
    }
    Ok(place)
}

/// Copies the conversation; none where the agent here has none.
fn keep_conversation(context: &Context, aside: &Aside, into: &Path) -> Result<(usize, Option<Head>), String> {
    let key = &aside.key;
    let scratch = context.place("scratch", &key.id().to_string());
    let capturing = context.capturing(key.id());
    let _held = capturing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
    let adapter = context.adapter(key.agent).ok_or("no adapter for this agent")?;
    let transcript = match adapter.capture(&key.native, &scratch) {
        Ok(transcript) => transcript,
        Err(AgentError::Unknown { .. } | AgentError::Link(_)) => return Ok((0, None)),
        Err(error) => return Err(error.to_string()),
    };
    for file in &transcript.files {
        use std::os::unix::ffi::OsStrExt;
        let to = into.join(std::ffi::OsStr::from_bytes(file.path.as_bytes()));
        copy(&file.local, &to).map_err(|error| format!("cannot copy {}: {error}", file.local.display()))?;
    }
    Ok((transcript.files.len(), Some(transcript.head)))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to.parent().unwrap_or(to))?;
    std::fs::copy(from, to).map(drop)
}

/// The working tree stays where it is; a git tree is kept on a branch besides, since somebody may work on in it.
fn keep_tree(aside: &Aside) -> Result<Option<String>, String> {
    let Some(directory) = &aside.directory else { return Ok(None) };
    let root = match root_of(directory) {
        Ok(root) => root,
        // What cannot be read now may hold what only this device has.
        Err(unread @ (TreeRefusal::NotAccessible { .. } | TreeRefusal::GitMissing(_))) => {
            return Err(unread.to_string());
        }
        Err(_) => return Ok(None),
    };
    let git = root.join(".git");
    let found = found(std::fs::metadata(&git)).map_err(|error| format!("cannot read {}: {error}", git.display()))?;
    if !found.is_some_and(|metadata| metadata.is_dir()) {
        return Ok(None);
    }
    let branch = format!("cede/{}-{}", aside.key.id().short(), aside.token.generation);
    let message = format!("What lay here when {} took the session over", aside.owner);
    set_aside(&root, &branch, &message).map_err(|error| error.to_string())?;
    Ok(Some(branch))
}

fn write_durably(place: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let new = place.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, place.join(name))
}

fn instructions(branch: &Branch, head: Option<Head>, aside: &Aside) -> String {
    let tree = match &branch.git_branch {
        Some(name) => format!(
            "The working tree as it was is the git branch {name} in\n    {}\nTo see what it has more: git log -p {name}\n\
             To take it over where the session goes on: fetch that branch there and merge it.\n",
            branch.directory.display()
        ),
        None => format!("The working tree still lies where it was:\n    {}\n", branch.directory.display()),
    };
    let same = head.is_some_and(|head| head == aside.theirs);
    let turns = if same {
        "The new owner has every turn of the conversation."
    } else {
        "Turns of it may be here alone: the new owner went on from an older copy."
    };
    // A plain directory has no conversation.
    let spoken = match branch.files {
        0 => String::new(),
        _ => format!(
            "The conversation as it was here, up to turn {}, lies in `conversation` beside this file. {turns}\n\n",
            branch.turn
        ),
    };
    format!(
        "{} took session {} over by force while this device was not reached.\n\n{spoken}{tree}\n\
         Nothing of this is read by cede any more. Remove the directory when you have what you need.\n",
        branch.owner, branch.session
    )
}

const BRANCH: &str = "branch.json";
const README: &str = "README.txt";
