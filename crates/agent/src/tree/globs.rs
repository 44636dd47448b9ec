//! The patterns of a capture's options.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::limits::GLOBS;

/// Patterns that name paths: one without `/` is a name at any depth, one with `/` starts at the root. A directory
/// that matches brings what is below it.
#[derive(Debug, Clone)]
pub(crate) struct Globs {
    names: GlobSet,
    paths: GlobSet,
    name_patterns: Vec<String>,
    path_patterns: Vec<String>,
}

impl Globs {
    /// Parses; the error is the pattern that is none.
    pub(crate) fn parse(patterns: &[String]) -> Result<Self, String> {
        if let Some(surplus) = patterns.get(GLOBS) {
            return Err(format!("{surplus} (more than {GLOBS} patterns)"));
        }
        let plain = patterns.iter().map(|pattern| pattern.trim_end_matches('/'));
        let (paths, names): (Vec<_>, Vec<_>) = plain.partition(|pattern| pattern.contains('/'));
        let own = |list: Vec<&str>| list.into_iter().map(|p| p.trim_start_matches('/').to_owned()).collect::<Vec<_>>();
        let (name_patterns, path_patterns) = (own(names), own(paths));
        Ok(Self { names: set(&name_patterns)?, paths: set(&path_patterns)?, name_patterns, path_patterns })
    }

    /// No pattern.
    pub(crate) fn none() -> Self {
        let empty = GlobSet::empty;
        Self { names: empty(), paths: empty(), name_patterns: Vec::new(), path_patterns: Vec::new() }
    }

    /// True without a pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.name_patterns.is_empty() && self.path_patterns.is_empty()
    }

    /// The first pattern that names the path or a directory above it.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&str> {
        if self.is_empty() {
            return None;
        }
        let by_name = path.split(|b| *b == b'/').find_map(|name| first(&self.names, &self.name_patterns, name));
        by_name.or_else(|| prefixes(path).find_map(|prefix| first(&self.paths, &self.path_patterns, prefix)))
    }
}

/// Whether these are patterns that can be used.
///
/// # Errors
/// The first one that is none.
pub fn check(patterns: &[String]) -> Result<(), String> {
    Globs::parse(patterns).map(drop)
}

fn first<'a>(set: &GlobSet, patterns: &'a [String], text: &[u8]) -> Option<&'a str> {
    let at = set.matches(OsStr::from_bytes(text)).first().copied()?;
    patterns.get(at).map(String::as_str)
}

fn set(patterns: &[String]) -> Result<GlobSet, String> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|_| pattern.clone())?;
        builder.add(glob);
    }
    builder.build().map_err(|error| error.to_string())
}

/// `a`, `a/b`, `a/b/c` of `a/b/c`.
pub(crate) fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    ends.chain([path.len()]).filter_map(|end| path.get(..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_names_a_file_or_what_is_below_a_directory() {
        let globs = Globs::parse(&[".env*".into(), "build/".into(), "/docs/*.pdf".into()]).unwrap();
        for yes in [".env", "a/.env.local", "build/x/y", "a/build/z", "docs/a.pdf"] {
            assert!(globs.find(yes.as_bytes()).is_some(), "{yes}");
        }
        for no in ["env", "rebuild/x", "docs/b/a.pdf", "a/docs/a.pdf"] {
            assert!(globs.find(no.as_bytes()).is_none(), "{no}");
        }
        assert_eq!(Globs::parse(&["[".into()]).unwrap_err(), "[");
        assert_eq!(check(&["*.log".into(), "***[".into()]), Err("***[".into()));
    }
}
