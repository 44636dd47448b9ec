//! The long tests: the binaries whose name begins with `shake`, at full counts and with a seed that can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::files;
use crate::prove;
use crate::shell::{Failure, Repository};

pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    let seed = seed(arguments)?;
    println!("shake: seed {seed}; repeat with: cargo xtask shake --seed {seed}");
    let mut command = repository.cargo(&["xtask", "shake", "--seed"]);
    if std::env::var_os(SEED).is_none() {
        // The tests read the seed from their environment, which only a fresh process can be given safely.
        let status = command.arg(seed.to_string()).env(SEED, seed.to_string()).env("CEDE_SHAKE", "1").status();
        let held = status.map_err(|error| Failure(format!("shake did not start: {error}")))?.success();
        return if held { Ok(()) } else { Err(Failure(format!("shake failed with seed {seed}"))) };
    }
    let files = files::paths(repository)?;
    let long: Vec<&str> = files.iter().filter_map(|path| long_binary(path)).collect();
    if long.is_empty() {
        return Err(Failure("shake: there are no long tests yet (tests/tests/shake*.rs); nothing was run".to_owned()));
    }
    let mut selection = vec!["--package", "cede-tests"];
    selection.extend(long.iter().flat_map(|name| ["--test", name]));
    prove::report(&prove::tests(repository, "shake", &selection)?)
}

/// The name of the test binary that a file is, where it is a long one.
fn long_binary(path: &str) -> Option<&str> {
    let name = path.strip_prefix("tests/tests/")?.strip_suffix(".rs")?;
    (name.starts_with("shake") && !name.contains('/')).then_some(name)
}

const SEED: &str = "CEDE_SEED";

fn seed(arguments: &[String]) -> Result<u64, Failure> {
    match arguments {
        [] => Ok(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
        [flag, number] if flag == "--seed" => {
            number.parse().map_err(|_| Failure(format!("not a seed: {number}; it is a whole number")))
        }
        _ => Err(Failure("usage: cargo xtask shake [--seed <n>]".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_binary_is_known_by_its_name() {
        assert_eq!(long_binary("tests/tests/shake_kill.rs"), Some("shake_kill"));
        assert_eq!(long_binary("tests/tests/shake/world.rs"), None);
        assert_eq!(long_binary("tests/tests/e2e.rs"), None);
    }

    #[test]
    fn seed_is_read_and_nonsense_is_refused() {
        assert_eq!(seed(&["--seed".to_owned(), "7".to_owned()]).ok(), Some(7));
        assert!(seed(&["--seed".to_owned(), "x".to_owned()]).is_err());
        assert!(seed(&["seven".to_owned()]).is_err());
    }
}
