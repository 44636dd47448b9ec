//! The files of the repository, as git lists them: tracked, or new and not ignored.

use crate::rust;
use crate::shell::{Failure, Repository};

/// A source file.
pub(crate) struct Source {
    /// From the top of the repository.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// Taken apart.
    pub(crate) masked: rust::Masked,
}

impl Source {
    pub(crate) fn new(path: String, text: String) -> Self {
        let masked = rust::mask(&text);
        Self { path, text, masked }
    }

    /// Without comments and literals, every line where it was.
    pub(crate) fn code(&self) -> &str {
        &self.masked.code
    }
}

/// Every path, sorted.
pub(crate) fn paths(repository: &Repository) -> Result<Vec<String>, Failure> {
    let listed = repository.output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let mut paths: Vec<String> = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    paths.retain(|path| repository.root.join(path).is_file());
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Every Rust file below one of the folders.
pub(crate) fn sources(repository: &Repository, folders: &[&str]) -> Result<Vec<Source>, Failure> {
    let below = |path: &String| path.ends_with(".rs") && folders.iter().any(|folder| path.starts_with(folder));
    paths(repository)?.into_iter().filter(below).map(|path| read(repository, path)).collect()
}

fn read(repository: &Repository, path: String) -> Result<Source, Failure> {
    let text = repository.read(&path)?;
    Ok(Source::new(path, text))
}

/// True for a file that holds tests only.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.ends_with("/tests.rs") || path.contains("/tests/")
}
