//! The traps.

use std::path::Path;

use cede_tests::devices::trees::git;

use super::executable;

/// A way to make a repository run something.
pub(super) struct Trap {
    pub(super) name: &'static str,
    /// Sets it in a repository; the script writes the marker.
    pub(super) set: fn(&Path, &Path),
    /// True where it makes the repository one that is refused, so that nothing else would be tried.
    pub(super) alone: bool,
}

/// Settings whose value is a command.
pub(super) const KEYS: [&str; 46] = [
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "core.askPass",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.x509.program",
    "gpg.ssh.defaultKeyCommand",
    "diff.external",
    "filter.trap.clean",
    "filter.trap.smudge",
    "filter.trap.process",
    "diff.trap.textconv",
    "diff.trap.command",
    "merge.trap.driver",
    "credential.helper",
    "credential.https://127.0.0.1:9.helper",
    "pager.log",
    "pager.config",
    "pager.status",
    "pager.ls-files",
    "pager.diff",
    "uploadpack.packObjectsHook",
    "sequence.editor",
    "interactive.diffFilter",
    "trailer.x.command",
    "trailer.x.cmd",
    "difftool.trap.cmd",
    "mergetool.trap.cmd",
    "browser.trap.cmd",
    "man.trap.cmd",
    "tar.x.command",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.origin.vcs",
    "submodule.x.update",
    "alias.status",
    "alias.log",
    "alias.ls-files",
    "alias.for-each-ref",
    "alias.config",
    "web.browser",
    "sendemail.smtpServer",
];

/// Variables that make git run something.
pub(super) const VARIABLES: [&str; 10] = [
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_PROXY_COMMAND",
    "EDITOR",
];

pub(super) fn value_of(key: &str, script: &str) -> String {
    if key.starts_with("alias.") || key.starts_with("submodule.") { format!("!{script}") } else { script.to_owned() }
}

/// A setting as a file writes it.
pub(super) fn as_section(key: &str, script: &str) -> String {
    let (section, name) = key.rsplit_once('.').unwrap();
    let head =
        section.split_once('.').map_or(format!("[{section}]"), |(section, sub)| format!("[{section} \"{sub}\"]"));
    format!("{head}\n\t{name} = \"{}\"\n", value_of(key, script))
}

macro_rules! settings {
    ($($key:literal),* $(,)?) => {
        vec![$(Trap { name: $key, set: |root, script| set_key(root, $key, script), alone: false }),*]
    };
}

macro_rules! traps {
    ($($name:literal, $alone:literal, $set:expr;)*) => { vec![$(Trap { name: $name, set: $set, alone: $alone }),*] };
}

/// All of them.
pub(super) fn all() -> Vec<Trap> {
    let mut all = settings![
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.alternateRefsCommand",
        "gpg.program",
        "gpg.ssh.program",
        "diff.external",
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "diff.trap.textconv",
        "diff.trap.command",
        "merge.trap.driver",
        "credential.helper",
        "pager.log",
        "pager.config",
        "pager.status",
        "pager.ls-files",
        "uploadpack.packObjectsHook",
        "sequence.editor",
        "remote.origin.uploadpack",
        "remote.origin.receivepack",
        "remote.origin.vcs",
        "alias.log",
        "alias.ls-files",
    ];
    all.extend(of_hooks());
    all.extend(of_includes());
    all.extend(of_configuration());
    all.extend(of_places());
    all.extend(of_contents());
    all.extend(of_tools());
    all
}

fn set_key(root: &Path, key: &str, script: &Path) {
    git(root, &["config", key, &value_of(key, script.to_str().unwrap())]);
    git(root, &["config", "log.showSignature", "true"]);
    git(root, &["config", "remote.origin.url", "/nowhere/at/all"]);
    if key.contains("trap") {
        attributes(root, ".gitattributes");
    }
    if key.contains("ssh") {
        git(root, &["config", "remote.origin.url", "git@127.0.0.1:x"]);
        git(root, &["config", "gpg.format", if key.starts_with("gpg") { "ssh" } else { "openpgp" }]);
        git(root, &["config", "user.signingKey", "/nowhere"]);
    }
    if key.contains("credential") || key.contains("askPass") {
        git(root, &["config", "remote.origin.url", "http://127.0.0.1:9/x"]);
    }
}

fn attributes(root: &Path, name: &str) {
    append(root, name, "* filter=trap diff=trap merge=trap\n*.txt filter=trap text\n");
}

fn append(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(path, before + text).unwrap();
}

fn hook(directory: &Path, name: &str, script: &Path) {
    executable(&directory.join(name), &std::fs::read_to_string(script).unwrap());
}

/// A file with one trap of a setting in it, for whatever includes it.
fn included(root: &Path, name: &str, script: &Path) {
    append(root, name, &as_section("core.fsmonitor", script.to_str().unwrap()));
}

const HOOKS: [&str; 22] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "fsmonitor-watchman",
    "post-index-change",
];

fn of_hooks() -> Vec<Trap> {
    traps! {
        "every hook", false, |root, script| HOOKS.iter().for_each(|name| hook(&root.join(".git/hooks"), name, script));
        "post-index-change", false, |root, script| hook(&root.join(".git/hooks"), "post-index-change", script);
        "reference-transaction", false, |root, script| hook(&root.join(".git/hooks"), "reference-transaction", script);
        "post-checkout", false, |root, script| hook(&root.join(".git/hooks"), "post-checkout", script);
        "pre-commit", false, |root, script| hook(&root.join(".git/hooks"), "pre-commit", script);
        "core.hooksPath into the tree", false, |root, script| {
            HOOKS.iter().for_each(|name| hook(&root.join("tools/hooks"), name, script));
            git(root, &["config", "core.hooksPath", "tools/hooks"]);
        };
        "core.hooksPath elsewhere", false, |root, script| {
            let place = root.parent().unwrap().join("hooks");
            HOOKS.iter().for_each(|name| hook(&place, name, script));
            git(root, &["config", "core.hooksPath", place.to_str().unwrap()]);
        };
        "hooks as a link", false, |root, script| {
            let place = root.parent().unwrap().join("hooks");
            HOOKS.iter().for_each(|name| hook(&place, name, script));
            drop(std::fs::remove_dir_all(root.join(".git/hooks")));
            std::os::unix::fs::symlink(place, root.join(".git/hooks")).unwrap();
        };
    }
}

fn of_includes() -> Vec<Trap> {
    traps! {
        "include.path", false, |root, script| {
            included(root, "settings.inc", script);
            git(root, &["config", "include.path", "../settings.inc"]);
        };
        "includeIf a directory", false, |root, script| {
            included(root, ".git/more", script);
            git(root, &["config", "includeIf.gitdir:**.path", "more"]);
        };
        "includeIf a branch", false, |root, script| {
            included(root, ".git/more", script);
            git(root, &["config", "includeIf.onbranch:main.path", "more"]);
        };
        "includeIf a remote", false, |root, script| {
            included(root, ".git/more", script);
            git(root, &["config", "remote.origin.url", "https://example.com/x"]);
            git(root, &["config", "includeIf.hasconfig:remote.*.url:https://example.com/**.path", "more"]);
        };
        "configuration of one work tree", false, |root, script| {
            git(root, &["config", "extensions.worktreeConfig", "true"]);
            included(root, ".git/config.worktree", script);
        };
        "attributes of the repository", false, |root, script| {
            set_key(root, "filter.trap.clean", script);
            attributes(root, ".git/info/attributes");
        };
        "attributes of a file elsewhere", false, |root, script| {
            set_key(root, "filter.trap.process", script);
            attributes(root.parent().unwrap(), "more-attributes");
            let place = root.parent().unwrap().join("more-attributes");
            git(root, &["config", "core.attributesFile", place.to_str().unwrap()]);
        };
        "attributes by a macro", false, |root, script| {
            set_key(root, "filter.trap.clean", script);
            append(root, ".gitattributes", "[attr]secret filter=trap\n* secret\n");
        };
    }
}

fn of_configuration() -> Vec<Trap> {
    traps! {
        "filter that is required", false, |root, script| {
            set_key(root, "filter.trap.clean", script);
            set_key(root, "filter.trap.smudge", script);
            git(root, &["config", "filter.trap.required", "true"]);
        };
        "filter with an equals sign", false, |root, script| {
            git(root, &["config", "filter.a=b.clean", script.to_str().unwrap()]);
            append(root, ".git/info/attributes", "* filter=a=b\n");
        };
        "filter of the name lfs", true, |root, script| {
            git(root, &["config", "filter.lfs.clean", script.to_str().unwrap()]);
            git(root, &["config", "filter.lfs.process", script.to_str().unwrap()]);
            append(root, ".gitattributes", "*.txt filter=lfs diff=lfs merge=lfs -text\n");
            git(root, &["add", ".gitattributes"]);
        };
        "remote that is a command", false, |root, script| {
            let command = format!("ext::{}", script.display());
            git(root, &["config", "remote.origin.url", &command]);
            git(root, &["config", "protocol.ext.allow", "always"]);
        };
        "remote that becomes a command", false, |root, script| {
            git(root, &["config", "remote.origin.url", "https://example.com/x"]);
            git(root, &["config", &format!("url.ext::{} .insteadOf", script.display()), "https://"]);
            git(root, &["config", "protocol.ext.allow", "always"]);
        };
        "monitor of git's own", false, |root, script| {
            git(root, &["config", "core.fsmonitor", "true"]);
            hook(&root.join(".git/hooks"), "fsmonitor-watchman", script);
        };
        "aliases for what is called", false, |root, script| {
            for name in ["status", "log", "ls-files", "cat-file", "rev-parse", "for-each-ref", "config", "pack-objects"] {
                set_key(root, &format!("alias.{name}"), script);
            }
        };
        "template with hooks", false, |root, script| {
            let place = root.parent().unwrap().join("template");
            HOOKS.iter().for_each(|name| hook(&place.join("hooks"), name, script));
            git(root, &["config", "init.templateDir", place.to_str().unwrap()]);
        };
        "every setting at once", false, |root, script| KEYS.iter().for_each(|key| set_key(root, key, script));
    }
}

fn of_places() -> Vec<Trap> {
    traps! {
        "a file instead of .git", true, |root, script| {
            let place = root.parent().unwrap().join("real.git");
            std::fs::rename(root.join(".git"), &place).unwrap();
            std::fs::write(root.join(".git"), format!("gitdir: {}\n", place.display())).unwrap();
            set_key(root, "core.fsmonitor", script);
        };
        "a link instead of .git", true, |root, script| {
            set_key(root, "core.fsmonitor", script);
            let place = root.parent().unwrap().join("real.git");
            std::fs::rename(root.join(".git"), &place).unwrap();
            std::os::unix::fs::symlink(place, root.join(".git")).unwrap();
        };
        "a common directory elsewhere", true, |root, script| {
            set_key(root, "core.fsmonitor", script);
            let place = root.parent().unwrap().join("common");
            super::copy(&root.join(".git"), &place);
            std::fs::write(root.join(".git/commondir"), format!("{}\n", place.display())).unwrap();
        };
        "a work tree elsewhere", true, |root, script| {
            set_key(root, "core.fsmonitor", script);
            git(root, &["config", "core.worktree", root.to_str().unwrap()]);
        };
        "objects elsewhere", false, |root, script| {
            let place = root.parent().unwrap().join("elsewhere");
            super::copy(&root.join(".git/objects"), &place);
            append(root, ".git/objects/info/alternates", &format!("{}\n", place.display()));
            set_key(root, "core.alternateRefsCommand", script);
        };
        "a linked work tree", true, |root, script| {
            set_key(root, "core.fsmonitor", script);
            let place = root.parent().unwrap().join("linked");
            git(root, &["-c", "core.fsmonitor=false", "worktree", "add", "-q", "-b", "side", place.to_str().unwrap()]);
        };
    }
}

fn of_contents() -> Vec<Trap> {
    traps! {
        "a bare repository in the tree", false, |root, script| {
            let place = root.join("fixtures/bare");
            std::fs::create_dir(root.join("fixtures")).unwrap();
            super::copy(&root.join(".git"), &place);
            append(&place, "config", &as_section("core.fsmonitor", script.to_str().unwrap()));
            hook(&place.join("hooks"), "post-checkout", script);
        };
        "a repository in the tree", true, |root, script| {
            let place = root.join("vendor/nested");
            std::fs::create_dir_all(&place).unwrap();
            git(&place, &["init", "-q"]);
            set_key(&place, "core.fsmonitor", script);
        };
        "a submodule that updates by a command", true, |root, script| {
            let head = git(root, &["rev-parse", "HEAD"]);
            let text = format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::{0}\n\tupdate = !{0}\n", script.display());
            append(root, ".gitmodules", &text);
            git(root, &["update-index", "--add", "--cacheinfo", &format!("160000,{},x", head.trim())]);
        };
        "submodules by name only", false, |root, script| {
            let text = format!("[submodule \"../../x\"]\n\tpath = src\n\turl = -u{0}\n\tupdate = !{0}\n", script.display());
            append(root, ".gitmodules", &text);
        };
        "references that stand for others", true, |root, script| {
            set_key(root, "core.fsmonitor", script);
            git(root, &["-c", "core.fsmonitor=false", "update-ref", "refs/replace/1111111111111111111111111111111111111111", "HEAD"]);
        };
        "grafts", false, |root, script| {
            set_key(root, "diff.external", script);
            append(root, ".git/info/grafts", "1111111111111111111111111111111111111111\n");
        };
        "sparse checkout", true, |root, script| {
            set_key(root, "core.fsmonitor", script);
            git(root, &["config", "core.sparseCheckout", "true"]);
        };
        "a promising remote", true, |root, script| {
            set_key(root, "core.sshCommand", script);
            git(root, &["config", "remote.origin.promisor", "true"]);
            git(root, &["config", "extensions.partialClone", "origin"]);
        };
        "a split index", false, |root, script| {
            // A trap that was set before may make every reading of a file fail.
            git(root, &["-c", "filter.trap.required=false", "update-index", "--split-index"]);
            hook(&root.join(".git/hooks"), "post-index-change", script);
        };
        "signed commits", false, |root, script| {
            set_key(root, "gpg.program", script);
            git(root, &["config", "commit.gpgSign", "true"]);
            git(root, &["config", "tag.gpgSign", "true"]);
        };
    }
}

/// Files that tools run unasked: they travel as files, and nobody here runs them.
fn of_tools() -> Vec<Trap> {
    traps! {
        "hooks of Claude Code", false, |root, script| {
            let text = format!(r#"{{"hooks":{{"SessionStart":[{{"hooks":[{{"type":"command","command":"{}"}}]}}]}}}}"#, script.display());
            append(root, ".claude/settings.json", &text);
        };
        "servers of MCP", false, |root, script| {
            append(root, ".mcp.json", &format!(r#"{{"mcpServers":{{"x":{{"command":"{}"}}}}}}"#, script.display()));
        };
        "plugins of OpenCode", false, |root, script| {
            let text = format!("require('child_process').execFileSync('{}')\n", script.display());
            append(root, ".opencode/plugin/trap.js", &text);
            append(root, "opencode.json", &format!(r#"{{"mcp":{{"x":{{"type":"local","command":["{}"]}}}}}}"#, script.display()));
        };
        "notifications of Codex", false, |root, script| {
            append(root, ".codex/config.toml", &format!("notify = [\"{}\"]\n", script.display()));
        };
        "direnv", false, |root, script| append(root, ".envrc", &format!("{}\n", script.display()));
        "make and npm", false, |root, script| {
            append(root, "Makefile", &format!("all:\n\t{0}\n$(shell {0})\n", script.display()));
            append(root, "package.json", &format!(r#"{{"scripts":{{"preinstall":"{}"}}}}"#, script.display()));
        };
        "cargo and python", false, |root, script| {
            append(root, "build.rs", &format!("fn main() {{ std::process::Command::new(\"{}\").status(); }}\n", script.display()));
            append(root, ".cargo/config.toml", &format!("[build]\nrustc-wrapper = \"{}\"\n", script.display()));
            append(root, "conftest.py", &format!("import os; os.system('{}')\n", script.display()));
        };
        "tasks of an editor", false, |root, script| {
            let text = format!(r#"{{"tasks":[{{"command":"{}","runOptions":{{"runOn":"folderOpen"}}}}]}}"#, script.display());
            append(root, ".vscode/tasks.json", &text);
            append(root, ".devcontainer/devcontainer.json", &format!(r#"{{"initializeCommand":"{}"}}"#, script.display()));
        };
        "a program named git in the tree", false, |root, script| {
            for name in ["git", "bin/git", "git-status", "opencode", "codex", "claude"] {
                hook(root, name, script);
            }
        };
    }
}
