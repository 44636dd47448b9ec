//! The long tests at full counts: `sim`, `letters`, `twin`, `model`, `traps`, `mitm`, and the test binaries whose name begins with `shake`. With a
//! seed, that one run again.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::files;
use crate::prove;
use crate::shell::{Failure, Repository};

pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    let variable = match seed(arguments)? {
        Some(seed) => ("CEDE_SEED", seed),
        None => ("CEDE_SHAKE", fresh()),
    };
    println!("shake: {}={}", variable.0, variable.1);
    let files = files::paths(repository)?;
    let mut selection = vec!["--package", "cede-tests"];
    selection.extend(files.iter().filter_map(|path| long_binary(path)).flat_map(|name| ["--test", name]));
    if selection.len() == 2 {
        return Err(Failure(
            "shake: there are no long tests (tests/tests/sim.rs, twin.rs, shake*.rs); nothing was run".to_owned(),
        ));
    }
    prove::report(&prove::tests(repository, "shake", &selection, &[(variable.0, variable.1.to_string())])?)
}

/// A number that no earlier run had: where fresh seeds begin.
pub(crate) fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
}

/// The name of the test binary that a file is, where it is a long one.
fn long_binary(path: &str) -> Option<&str> {
    let name = path.strip_prefix("tests/tests/")?.strip_suffix(".rs")?;
    let long = matches!(name, "sim" | "twin" | "model" | "traps" | "mitm" | "letters") || name.starts_with("shake");
    (long && !name.contains('/')).then_some(name)
}

fn seed(arguments: &[String]) -> Result<Option<u64>, Failure> {
    match arguments {
        [] => Ok(None),
        [flag, number] if flag == "--seed" => {
            number.parse().map(Some).map_err(|_| Failure(format!("not a seed: {number}; it is a whole number")))
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
        assert_eq!(long_binary("tests/tests/sim.rs"), Some("sim"));
        assert_eq!(long_binary("tests/tests/model.rs"), Some("model"));
        assert_eq!(long_binary("tests/tests/twin.rs"), Some("twin"));
        assert_eq!(long_binary("tests/tests/shake/world.rs"), None);
        assert_eq!(long_binary("tests/tests/e2e.rs"), None);
    }

    #[test]
    fn seed_is_read_and_nonsense_is_refused() {
        assert_eq!(seed(&["--seed".to_owned(), "7".to_owned()]).ok(), Some(Some(7)));
        assert!(seed(&["--seed".to_owned(), "x".to_owned()]).is_err());
        assert!(seed(&["seven".to_owned()]).is_err());
    }
}
