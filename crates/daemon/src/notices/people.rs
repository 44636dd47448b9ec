//! `cede notify`: what a person does with the ways to call.

use std::sync::{Arc, Mutex};

use cede_wire::control::notify::{NOTICE_SCHEMA, Notice, NotifyRequest, Sink};
use cede_wire::control::{Answer, Check, Failure, exit};

use super::{Call, Health, Kept, address, lock, make, write};
use crate::actor::Actor;
use crate::context::Context;
use crate::control::Replies;
use crate::limits;
use crate::offering::failure;

impl Actor {
    /// Does what a person asks about the ways to call.
    pub(crate) fn notify(&self, request: NotifyRequest, replies: Replies) {
        let (context, device) = (self.context.clone(), self.name.clone());
        tokio::spawn(async move {
            let done = match request {
                NotifyRequest::List => list(&context),
                NotifyRequest::Add { name, sink } => add(&context, name, sink).await,
                NotifyRequest::Remove { name } => remove(&context, &name).await,
                NotifyRequest::Test { name } => test(&context, device, name.as_deref()).await,
            };
            replies.settle(done);
        });
    }

    /// What `cede doctor` says of the ways to call.
    pub(crate) fn notice_checks(&self) -> Vec<Check> {
        let check = |result: &str, found: String, cure: String| Check {
            what: "notify".to_owned(),
            result: result.to_owned(),
            found,
            cure,
        };
        let unread = lock(&self.context.notices.unread).clone();
        let unread = unread.map(|why| check("warn", why, "move the file away, then: cede stop; cede up".to_owned()));
        let sinks = self.context.notices.summaries().into_iter().map(|sink| {
            let about = format!("{} ({}, {})", sink.name, sink.kind, sink.place);
            if sink.detail.is_empty() {
                check("ok", about, String::new())
            } else {
                check("warn", format!("{about}: {}", sink.detail), format!("cede notify test {}", sink.name))
            }
        });
        unread.into_iter().chain(sinks).collect()
    }
}

fn list(context: &Context) -> Result<Answer, Failure> {
    Ok(Answer::Sinks { sinks: context.notices.summaries() })
}

async fn add(context: &Context, name: Option<String>, sink: Sink) -> Result<Answer, Failure> {
    let refused = |why: &str| failure(exit::USAGE, "nothing was added", why, "cede notify --help");
    let _changing = context.notices.changing.lock().await;
    readable(context)?;
    address::check(&sink).map_err(|why| refused(&why))?;
    let kept = context.notices.kept();
    let taken = |name: &str| kept.iter().any(|one| one.name == name);
    let name = match name {
        Some(name) if !is_name(&name) => return Err(refused("a name is of a-z, 0-9 and -, at most 32 of them")),
        Some(name) if taken(&name) => return Err(refused(&format!("{name} is there already"))),
        Some(name) => name,
        None => free_name(sink.kind(), &taken),
    };
    if kept.len() >= limits::SINKS {
        return Err(refused(&format!("there are {} already, which is the most", limits::SINKS)));
    }
    let one = Kept { name: name.clone(), sink };
    keep(context, kept.into_iter().chain([one.clone()]).collect()).await?;
    context.notices.serve(context, one);
    Ok(Answer::Said {
        text: format!("you are called by {name} when a question waits; try it: cede notify test {name}"),
    })
}

async fn remove(context: &Context, name: &str) -> Result<Answer, Failure> {
    let _changing = context.notices.changing.lock().await;
    readable(context)?;
    let kept = context.notices.kept();
    let rest: Vec<Kept> = kept.iter().filter(|one| one.name != name).cloned().collect();
    if rest.len() == kept.len() {
        return Err(unknown(name));
    }
    keep(context, rest).await?;
    lock(&context.notices.ways).remove(name);
    Ok(Answer::Said { text: format!("you are not called by {name} any more") })
}

/// Makes each call once, all at the same time, and says how each went.
async fn test(context: &Context, device: String, name: Option<&str>) -> Result<Answer, Failure> {
    let chosen: Vec<(Kept, Arc<Mutex<Health>>)> = lock(&context.notices.ways)
        .iter()
        .filter(|(known, _)| name.is_none_or(|name| *known == name))
        .map(|(known, way)| (Kept { name: known.clone(), sink: way.sink.clone() }, way.health.clone()))
        .collect();
    match name {
        Some(name) if chosen.is_empty() => return Err(unknown(name)),
        None if chosen.is_empty() => {
            let why = "there is no way to call you yet";
            return Err(failure(exit::USAGE, "nobody was called", why, "cede notify add desktop"));
        }
        Some(_) | None => {}
    }
    let call = Call { question: None, notice: Arc::new(trial(device)), asking: None };
    let trial = |(kept, health): (Kept, Arc<Mutex<Health>>)| {
        let (context, call) = (context.clone(), call.clone());
        tokio::spawn(async move { make(&context, &kept, &call, None, &health).await })
    };
    let trials: Vec<_> = chosen.into_iter().map(trial).collect();
    for one in trials {
        // One that fell over has said nothing of itself.
        let _fallen = one.await;
    }
    let sinks = context.notices.summaries().into_iter().filter(|sink| name.is_none_or(|name| sink.name == name));
    Ok(Answer::Sinks { sinks: sinks.collect() })
}

fn trial(device: String) -> Notice {
    Notice {
        schema: NOTICE_SCHEMA.to_owned(),
        event: "test".to_owned(),
        text: format!("{device} calls you like this when a question waits"),
        from: device.clone(),
        at: None,
        device,
        asks: String::new(),
        digits: String::new(),
        look: "cede approvals".to_owned(),
        allow: String::new(),
        deny: String::new(),
        expires_in_s: 0,
    }
}

/// A list that could not be read is not written over.
fn readable(context: &Context) -> Result<(), Failure> {
    match &*lock(&context.notices.unread) {
        Some(why) => Err(failure(exit::FAILED, "nothing was changed", why, "cede doctor")),
        None => Ok(()),
    }
}

async fn keep(context: &Context, kept: Vec<Kept>) -> Result<(), Failure> {
    let kept = context.block(move |context| write(&context.home, &kept)).await;
    let failed = |why: &str| failure(exit::FAILED, "nothing was changed", why, "cede doctor");
    kept.map_err(crate::offering::stopping)?.map_err(|why| failed(&why))
}

fn unknown(name: &str) -> Failure {
    let why = format!("there is no way called {}", cede_wire::path::escape(name.as_bytes()));
    failure(exit::USAGE, "nothing was done", &why, "cede notify")
}

fn free_name(kind: &str, taken: &impl Fn(&str) -> bool) -> String {
    let numbered = (2..=limits::SINKS + 1).map(|number| format!("{kind}-{number}"));
    std::iter::once(kind.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_else(|| kind.to_owned())
}

pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&name.len()) && name.bytes().all(plain)
}
