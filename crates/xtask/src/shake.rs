//! The long tests: the binaries whose name begins with `shake`, at full counts and with a seed that can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

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
    prove::report(&prove::tests(repository, "shake", &["--package", "cede-tests"])?)
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
    fn seed_is_read_and_nonsense_is_refused() {
        assert_eq!(seed(&["--seed".to_owned(), "7".to_owned()]).ok(), Some(7));
        assert!(seed(&["--seed".to_owned(), "x".to_owned()]).is_err());
        assert!(seed(&["seven".to_owned()]).is_err());
    }
}
