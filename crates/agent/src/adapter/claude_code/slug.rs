//! The name of the directory where Claude Code keeps a project's sessions.

use std::path::Path;

/// Longest name before Claude Code cuts it and adds a hash.
const WHOLE_UNITS: usize = 200;

/// The name for a working directory, which must be physical: each UTF-16 unit that is no ASCII letter or digit
/// becomes a dash; a long one is cut and marked by a hash of the whole. Different directories may share a name.
pub(super) fn of(directory: &Path) -> String {
    let path = directory.to_string_lossy();
    let plain: String = path.encode_utf16().map(plain).collect();
    if plain.len() <= WHOLE_UNITS {
        return plain;
    }
    let cut = plain.get(..WHOLE_UNITS).unwrap_or_default();
    format!("{cut}-{}", base36(hash(&path).unsigned_abs()))
}

fn plain(unit: u16) -> char {
    let c = u8::try_from(unit).map_or('-', char::from);
    if c.is_ascii_alphanumeric() { c } else { '-' }
}

/// The hash that Java gives a string.
fn hash(path: &str) -> i32 {
    path.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_unit_becomes_a_dash() {
        for (path, slug) in [
            ("/home/alice/demo", "-home-alice-demo"),
            ("/a/b.c_d e", "-a-b-c-d-e"),
            ("/x/\u{1f600}", "-x---"),
            ("/x/e\u{301}", "-x-e-"),
            ("/Up/Case9", "-Up-Case9"),
        ] {
            assert_eq!(of(Path::new(path)), slug);
        }
    }

    #[test]
    fn long_path_is_cut_and_marked() {
        let long = format!("/{}", "a".repeat(250));
        let slug = of(Path::new(&long));
        assert!(slug.starts_with(&format!("-{}-", "a".repeat(199))), "{slug}");
        assert_ne!(slug, of(Path::new(&format!("{long}b"))));
        assert_eq!(hash("hello"), 99_162_322);
        assert_eq!(base36(99_162_322), "1n1e4y");
    }
}
