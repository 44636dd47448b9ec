//! Faults of ours, planted one at a time into a copy of the deciders: each must be noticed by the tests of the core, by
//! the simulator or by the model.

mod planted;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::files;
use crate::shell::{Failure, Repository};

use planted::{Edit, PLANTED, Planted};

/// Arguments name faults; none: all of them.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    let wanted = wanted(arguments)?;
    let tree = Tree::copy(repository)?;
    // What fails by itself would notice every fault.
    if let Some(kill) = tree.checks().iter().flatten().next() {
        return Err(Failure(format!("mutants: a check fails without any fault: {kill}")));
    }
    let mut survivors = Vec::new();
    for planted in &wanted {
        tree.plant(planted)?;
        let kills = tree.checks();
        tree.restore(repository, planted)?;
        let shown: Vec<String> = kills.iter().map(|kill| kill.clone().unwrap_or_else(|| "–".to_owned())).collect();
        println!("| {} | {} | {} |", planted.name, planted.fault, shown.join(" | "));
        if kills.iter().all(Option::is_none) {
            survivors.push(planted.name);
        }
    }
    println!("mutants: {} planted, {} noticed", wanted.len(), wanted.len() - survivors.len());
    if survivors.is_empty() { Ok(()) } else { Err(Failure(format!("mutants: not noticed: {}", survivors.join(", ")))) }
}

fn wanted(arguments: &[String]) -> Result<Vec<&'static Planted>, Failure> {
    if arguments.is_empty() {
        return Ok(PLANTED.iter().collect());
    }
    let named = |name: &String| PLANTED.iter().find(|planted| planted.name == name);
    let found: Vec<Option<&Planted>> = arguments.iter().map(named).collect();
    found.into_iter().collect::<Option<_>>().ok_or_else(|| {
        let names: Vec<&str> = PLANTED.iter().map(|planted| planted.name).collect();
        Failure(format!("usage: cargo xtask mutants [name …]; the names are: {}", names.join(" ")))
    })
}

/// A copy of what the checks need, with a build directory of its own. The checkout is never touched.
struct Tree {
    root: PathBuf,
    target: PathBuf,
    cargo: String,
}

/// What is copied: the deciders with what they stand on, and the tests that drive them without a daemon.
const COPIED: [&str; 7] = [
    "crates/wire/",
    "crates/seal/",
    "crates/core/",
    "tests/src/world",
    "tests/src/model",
    "tests/tests/sim.rs",
    "tests/tests/model.rs",
];

const MANIFEST_OF_TESTS: &str = r#"[package]
name = "cede-tests"
version.workspace = true
edition.workspace = true
publish.workspace = true

[dependencies]
cede-core.workspace = true
cede-wire.workspace = true
cede-seal.workspace = true
blake3.workspace = true

[dev-dependencies]
stateright.workspace = true
"#;

impl Tree {
    fn copy(repository: &Repository) -> Result<Self, Failure> {
        let place = repository.target().join("mutants");
        let root = place.join("tree");
        let mut copied = files::paths(repository)?;
        copied.retain(|path| COPIED.iter().any(|start| path.starts_with(start)));
        copied.extend(["Cargo.lock".to_owned(), ".cargo/config.toml".to_owned()]);
        for path in &copied {
            write(&root.join(path), &repository.read(path)?)?;
        }
        write(&root.join("Cargo.toml"), &manifest(&repository.read("Cargo.toml")?)?)?;
        write(&root.join("tests/Cargo.toml"), MANIFEST_OF_TESTS)?;
        write(&root.join("tests/src/lib.rs"), "//! tests\n\npub mod model;\npub mod world;\n")?;
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        Ok(Self { root, target: place.join("target"), cargo })
    }

    fn plant(&self, planted: &Planted) -> Result<(), Failure> {
        for edit in planted.edits {
            let path = self.root.join(edit.file);
            let text = std::fs::read_to_string(&path).map_err(|error| fault(&path, &error))?;
            write(&path, &edited(planted.name, edit, &text)?)?;
        }
        Ok(())
    }

    fn restore(&self, repository: &Repository, planted: &Planted) -> Result<(), Failure> {
        planted.edits.iter().try_for_each(|edit| write(&self.root.join(edit.file), &repository.read(edit.file)?))
    }

    /// What the core's tests, the simulator and the model noticed.
    fn checks(&self) -> [Option<String>; 3] {
        let build = ["test", "--quiet", "--no-run", "--package", "cede-core", "--package", "cede-tests", "--tests"];
        match self.cargo(&build) {
            Ran::Failed(text) => [Some(format!("does not build: {}", first(&text, "error"))), None, None],
            Ran::TooLong => [Some("does not build in time".to_owned()), None, None],
            Ran::Passed => [self.core(), self.simulator(), self.model()],
        }
    }

    fn core(&self) -> Option<String> {
        let tests = ["test", "--quiet", "--package", "cede-core", "--lib", "--", "--test-threads=2"];
        self.cargo(&tests).noticed(|text| {
            let failed: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix(" stdout ----")).collect();
            let name = failed.first().and_then(|line| line.rsplit("::").next()).unwrap_or("a test");
            match failed.len() {
                0 | 1 => format!("`{name}`"),
                all => format!("`{name}` and {} more", all - 1),
            }
        })
    }

    fn simulator(&self) -> Option<String> {
        self.cargo(&["test", "--quiet", "--package", "cede-tests", "--test", "sim"]).noticed(|text| {
            let seed = text.split("CEDE_SEED=").nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit));
            let seed = seed.and_then(|digits| digits.collect::<String>().parse::<u64>().ok());
            seed.map_or_else(|| format!("counts: {}", first(text, "panicked")), |seed| format!("seed {}", seed + 1))
        })
    }

    fn model(&self) -> Option<String> {
        self.cargo(&["test", "--quiet", "--package", "cede-tests", "--test", "model"]).noticed(|text| {
            let found = first(text, "not so after");
            let states = found.split_whitespace().nth(3).unwrap_or("?").to_owned();
            let rule = found.rsplit("): ").next().unwrap_or_default().to_owned();
            format!("{rule} ({states} states)")
        })
    }

    fn cargo(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(&self.cargo);
        command.args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        // The checks take longer than the compiler.
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("RUST_BACKTRACE", "0");
        command.env_remove("CEDE_SHAKE").env_remove("CEDE_SEED");
        Ran::of(command)
    }
}

/// The workspace, with only the members that were copied.
fn manifest(text: &str) -> Result<String, Failure> {
    let (head, rest) =
        text.split_once("members = [").ok_or_else(|| Failure("Cargo.toml names no members".to_owned()))?;
    let (_, rest) =
        rest.split_once("\n]\n").ok_or_else(|| Failure("the members in Cargo.toml have no end".to_owned()))?;
    let rest: Vec<&str> = rest.lines().filter(|line| !line.starts_with("default-members")).collect();
    let members = r#"members = ["crates/wire", "crates/seal", "crates/core", "tests"]"#;
    Ok(format!("{head}{members}\n{}\n", rest.join("\n")))
}

fn edited(name: &str, edit: &Edit, text: &str) -> Result<String, Failure> {
    match text.matches(edit.find).count() {
        1 => Ok(text.replacen(edit.find, edit.replace, 1)),
        many => Err(Failure(format!(
            "mutants: {name}: this stands {many} times in {}, not once:\n{}",
            edit.file, edit.find
        ))),
    }
}

fn first(text: &str, word: &str) -> String {
    text.lines().find(|line| line.contains(word)).unwrap_or_default().trim().to_owned()
}

/// What is the same is left alone, so that it is not built again.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if std::fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| fault(folder, &error))?;
    }
    std::fs::write(path, text).map_err(|error| fault(path, &error))
}

fn fault(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("mutants: {}: {error}", path.display()))
}

/// A check that takes longer noticed something, too.
const LONGEST: Duration = Duration::from_secs(600);

enum Ran {
    Passed,
    Failed(String),
    TooLong,
}

impl Ran {
    fn of(mut command: Command) -> Self {
        let said = std::env::temp_dir().join(format!("cede-mutants-{}", std::process::id()));
        let Ok(file) = std::fs::File::create(&said) else { return Self::TooLong };
        let both = file.try_clone();
        command.stdin(Stdio::null()).stdout(file);
        if let Ok(both) = both {
            command.stderr(both);
        }
        let ran = command.spawn().map_or(Self::TooLong, |child| Self::wait(child, &said));
        std::fs::remove_file(&said).ok();
        ran
    }

    fn wait(mut child: Child, said: &Path) -> Self {
        let begun = Instant::now();
        while begun.elapsed() < LONGEST {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Self::Passed,
                Ok(Some(_)) => return Self::Failed(std::fs::read_to_string(said).unwrap_or_default()),
                Ok(None) => std::thread::sleep(Duration::from_millis(50)),
                Err(_) => break,
            }
        }
        child.kill().ok();
        child.wait().ok();
        Self::TooLong
    }

    fn noticed(self, words: impl FnOnce(&str) -> String) -> Option<String> {
        match self {
            Self::Passed => None,
            Self::Failed(text) => Some(words(&text)),
            Self::TooLong => Some("does not end".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_can_be_planted() {
        let repository = Repository::find().unwrap();
        for planted in PLANTED {
            for edit in planted.edits {
                let text = repository.read(edit.file).unwrap();
                if let Err(Failure(text)) = edited(planted.name, edit, &text) {
                    panic!("{text}");
                }
            }
        }
    }

    #[test]
    fn manifest_keeps_everything_but_the_members() {
        let text = "[workspace]\nmembers = [\n    \"a\",\n    \"b\",\n]\ndefault-members = [\"a\"]\n\n[profile.dev]\n";
        let kept = manifest(text).unwrap();
        assert!(kept.contains("crates/core") && kept.contains("[profile.dev]") && !kept.contains("default"), "{kept}");
        assert!(manifest("[workspace]\n").is_err());
    }

    #[test]
    fn name_that_no_fault_has_is_refused_with_the_names() {
        let Err(Failure(text)) = wanted(&["nothing".to_owned()]) else { panic!("taken") };
        assert!(text.contains("acts-at-commit"), "{text}");
        assert_eq!(wanted(&[]).unwrap().len(), PLANTED.len());
    }
}
