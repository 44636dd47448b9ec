//! The walls between the crates, proven from what cargo says and from what the pure crates import.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::files;
use crate::rust;
use crate::shell::{self, Failure, Repository};

/// What each package may depend on. Source: `docs/ARCHITECTURE.md`.
const EDGES: [(&str, &[&str]); 10] = [
    ("wire", &[]),
    ("seal", &["wire"]),
    ("core", &["wire", "seal"]),
    ("mesh", &["wire", "seal"]),
    ("store", &["wire"]),
    ("carrier", &["wire", "seal"]),
    ("agent", &["wire"]),
    ("daemon", &["wire", "seal", "core", "mesh", "store", "carrier", "agent"]),
    ("cli", &["wire", "daemon"]),
    ("xtask", &[]),
];

/// Everything may meet in the tests and the examples.
const FREE: [&str; 2] = ["tests", "examples"];

const PURE: [&str; 4] = ["wire", "seal", "core", "mesh"];

/// What a pure crate has no use for, however far down it is pulled in.
const BANNED_PACKAGES: [&str; 9] =
    ["tokio", "quinn", "webrtc", "sled", "dashmap", "getrandom", "rand", "rustix", "socket2"];

/// What a pure crate must be given as an argument, or must not do at all.
const BANNED_NAMES: [(&str, &str); 14] = [
    ("std::fs", "files belong to store and agent"),
    ("std::net", "sockets belong to carrier; addresses are in core::net"),
    ("std::os", "the system belongs to store, carrier and agent"),
    ("std::env", "settings are arguments"),
    ("std::thread", "threads belong to daemon"),
    ("std::process", "processes belong to agent"),
    ("std::io", "input and output belong to store, carrier and agent"),
    ("SystemTime", "the time is an argument"),
    ("Instant::now", "the time is an argument"),
    ("HashMap", "its order differs between runs; BTreeMap keeps one"),
    ("HashSet", "its order differs between runs; BTreeSet keeps one"),
    ("tokio", "a decider does not wait"),
    ("getrandom", "randomness is an argument"),
    ("OsRng", "randomness is an argument"),
];

/// The command speaks to the daemon by its socket; these two words run one inside their own process.
const DAEMON_IN_CLI: [&str; 2] = ["up", "demo"];

const WASM: &str = "wasm32-unknown-unknown";

/// Every breach found.
pub(crate) fn run(repository: &Repository) -> Result<Vec<String>, Failure> {
    let text = shell::captured(&mut repository.cargo(&["metadata", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| Failure(format!("cargo metadata: {error}")))?;
    let mut breaches = edges(&metadata);
    breaches.extend(closures(&metadata));
    breaches.extend(imports(repository)?);
    breaches.extend(daemon_in_cli(repository)?);
    breaches.extend(clippy_configurations(repository)?);
    if breaches.is_empty() {
        wasm(repository)?;
    }
    Ok(breaches)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn edges(metadata: &Value) -> Vec<String> {
    let ours = list(metadata, "packages").filter(|package| package.get("source").is_none_or(Value::is_null));
    ours.flat_map(package_edges).collect()
}

fn package_edges(package: &Value) -> Vec<String> {
    let name = short(text(package, "name"));
    let allowed = EDGES.iter().find(|(from, _)| *from == name).map(|(_, to)| *to);
    if FREE.contains(&name) {
        return Vec::new();
    }
    let Some(allowed) = allowed else {
        return vec![format!(
            "crates/{name}: no wall is drawn for this crate; add it to docs/ARCHITECTURE.md and to xtask"
        )];
    };
    // What only the tests of a crate use never reaches a person.
    let shipped = list(package, "dependencies").filter(|dependency| text(dependency, "kind") != "dev");
    let ours = shipped.map(|dependency| text(dependency, "name")).filter(|to| to.starts_with("cede-")).map(short);
    ours.filter(|to| !allowed.contains(to)).map(|to| format!("crates/{name}: may not depend on {to}")).collect()
}

fn short(package: &str) -> &str {
    package.strip_prefix("cede-").unwrap_or(package)
}

fn closures(metadata: &Value) -> Vec<String> {
    let names: BTreeMap<&str, &str> =
        list(metadata, "packages").map(|package| (text(package, "id"), text(package, "name"))).collect();
    let resolve = metadata.get("resolve").unwrap_or(&Value::Null);
    let graph: BTreeMap<&str, Vec<&str>> =
        list(resolve, "nodes").map(|node| (text(node, "id"), normal(node))).collect();
    let pure = names.iter().filter(|(_, name)| name.starts_with("cede-") && PURE.contains(&short(name)));
    pure.flat_map(|(id, name)| {
        let reached = reachable(&graph, id);
        let banned = reached.iter().filter_map(|id| names.get(id)).filter(|name| BANNED_PACKAGES.contains(name));
        banned
            .map(|found| format!("crates/{}: reaches {found}, which no pure crate may", short(name)))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// The nodes that a node links in a normal build on this system.
fn normal(node: &Value) -> Vec<&str> {
    let linked = |edge: &&Value| list(edge, "dep_kinds").any(|kind| kind.get("kind").is_none_or(Value::is_null));
    list(node, "deps").filter(linked).map(|edge| text(edge, "pkg")).collect()
}

fn reachable<'a>(graph: &BTreeMap<&'a str, Vec<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(graph.get(id).into_iter().flatten());
        }
    }
    reached
}

fn imports(repository: &Repository) -> Result<Vec<String>, Failure> {
    let folders = PURE.map(|name| format!("crates/{name}/src/"));
    let sources = files::sources(repository, &folders.each_ref().map(String::as_str))?;
    let shipped = sources.iter().filter(|source| !files::is_test_file(&source.path));
    Ok(shipped.flat_map(|source| banned_names(&source.path, &rust::without_tests(source.code()))).collect())
}

fn banned_names(path: &str, code: &str) -> Vec<String> {
    let lines = code.lines().enumerate();
    lines
        .flat_map(|(n, line)| {
            let found = BANNED_NAMES.iter().filter(move |(name, _)| has_name(line, name));
            found.map(move |(name, reason)| format!("{path}:{}: {name} in a pure crate: {reason}", n + 1))
        })
        .collect()
}

/// True where the name stands alone, not as a part of another.
fn has_name(line: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + name.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn daemon_in_cli(repository: &Repository) -> Result<Vec<String>, Failure> {
    let sources = files::sources(repository, &["crates/cli/src/"])?;
    let allowed = |path: &str| {
        let below = path.trim_start_matches("crates/cli/src/");
        DAEMON_IN_CLI.iter().any(|word| below.trim_end_matches(".rs").split('/').any(|part| part == *word))
    };
    let breaches = sources.iter().filter(|source| has_name(source.code(), "cede_daemon") && !allowed(&source.path));
    Ok(breaches.map(|source| format!("{}: only `up` and `demo` may use the daemon", source.path)).collect())
}

/// Clippy reads the nearest configuration and merges none: a pure crate's file repeats the lines of the root's.
fn clippy_configurations(repository: &Repository) -> Result<Vec<String>, Failure> {
    let root = repository.read(".clippy.toml")?;
    let first = repository.read(&pure_configuration("wire"))?;
    let mut breaches = Vec::new();
    for name in PURE {
        let path = pure_configuration(name);
        let own = repository.read(&path)?;
        let lost = root.lines().filter(|line| !own.lines().any(|other| other == *line));
        breaches.extend(lost.map(|line| format!("{path}: lacks a line of the root's file: {line}")));
        if own != first {
            breaches.push(format!("{path}: differs from {}", pure_configuration("wire")));
        }
    }
    Ok(breaches)
}

fn pure_configuration(name: &str) -> String {
    format!("crates/{name}/.clippy.toml")
}

fn wasm(repository: &Repository) -> Result<(), Failure> {
    let installed = repository.output("rustc", &["--print", "target-libdir", "--target", WASM]).unwrap_or_default();
    if !std::path::Path::new(installed.trim()).is_dir() {
        println!("walls: the build for {WASM} was not run (rustup target add {WASM}); the import list was checked");
        return Ok(());
    }
    let mut command = repository.cargo(&["build", "--target", WASM]);
    command.args(PURE.iter().flat_map(|name| ["-p".to_owned(), format!("cede-{name}")]));
    shell::step("walls: pure crates for wasm", &mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_edge_is_a_breach() {
        let package = serde_json::json!({"name": "cede-wire", "dependencies": [
            {"name": "cede-seal", "kind": null}, {"name": "cede-store", "kind": "dev"}, {"name": "serde", "kind": null}]});
        assert_eq!(package_edges(&package), ["crates/wire: may not depend on seal"]);
    }

    #[test]
    fn crate_without_a_wall_is_a_breach() {
        assert_eq!(package_edges(&serde_json::json!({"name": "cede-gateway"})).len(), 1);
    }

    #[test]
    fn banned_package_is_found_far_down_but_not_among_test_tools() {
        let node = |id: &str, to: &str, kind: Value| serde_json::json!({"id": id, "deps": [{"pkg": to, "dep_kinds": [{"kind": kind}]}]});
        let package = |name: &str| serde_json::json!({"id": name, "name": name});
        let metadata = serde_json::json!({
            "packages": [package("cede-core"), package("between"), package("tokio"), package("sled")],
            "resolve": {"nodes": [node("cede-core", "between", Value::Null), node("between", "tokio", Value::Null),
                node("tokio", "sled", Value::from("dev"))]}});
        assert_eq!(closures(&metadata), ["crates/core: reaches tokio, which no pure crate may"]);
    }

    #[test]
    fn banned_name_is_found_as_a_whole_word() {
        assert_eq!(banned_names("a.rs", "let t = std::time::Instant::now();").len(), 1);
        assert!(banned_names("a.rs", "struct MyHashMapping; fn std_fs() {}").is_empty());
    }
}
