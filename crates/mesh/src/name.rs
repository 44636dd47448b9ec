//! Names of devices: plain enough that no two look alike.

use cede_wire::limits::DEVICE_NAME_CHARS;

/// Whether a text has the shape of a name: 1 to [`DEVICE_NAME_CHARS`] of `a-z 0-9 - .`, a letter or digit at both
/// ends, so that none is read as an option.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(plain) && text.bytes().next_back().is_some_and(plain);
    ends && text.len() <= DEVICE_NAME_CHARS && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'.'))
}

/// The nearest name to what a device claims to be called; `device` when nothing of the claim is left.
pub fn clean(claim: &str) -> String {
    let mut name = String::new();
    for c in claim.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' | '.' => name.push(c),
            _ if name.ends_with('-') => (),
            _ => name.push('-'),
        }
        if name.trim_start_matches(SEPARATORS).len() >= DEVICE_NAME_CHARS {
            break;
        }
    }
    let name = name.trim_matches(SEPARATORS);
    if name.is_empty() { "device".to_owned() } else { name.to_owned() }
}

/// The name, or the name with the lowest number from 2 that makes it free.
pub(crate) fn free(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..=crate::limits::LOG_ENTRIES + 1).map(|number| {
        let suffix = format!("-{number}");
        let room = DEVICE_NAME_CHARS.saturating_sub(suffix.len());
        let stem = name.get(..room).unwrap_or(name).trim_end_matches(SEPARATORS);
        format!("{stem}{suffix}")
    });
    let mut candidates = core::iter::once(name.to_owned()).chain(numbered);
    candidates.find(|candidate| !taken(candidate)).unwrap_or_else(|| name.to_owned())
}

const SEPARATORS: [char; 2] = ['-', '.'];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 }))]

        #[test]
        fn cleaned_claim_is_a_name_and_stays_one(claim in any::<String>()) {
            let name = clean(&claim);
            prop_assert!(is_name(&name), "{name:?}");
            prop_assert_eq!(clean(&name), name);
        }
    }

    #[test]
    fn claim_keeps_what_a_person_would_read() {
        assert_eq!(clean("Ada's MacBook Pro.local"), "ada-s-macbook-pro.local");
        assert_eq!(clean("--rf"), "rf");
        assert_eq!(clean("l\u{430}ptop\u{1b}[2J"), "l-ptop-2j");
        assert_eq!(clean("\u{202e}"), "device");
        assert_eq!(clean(&"x".repeat(500)).len(), DEVICE_NAME_CHARS);
    }

    #[test]
    fn text_of_another_shape_is_no_name() {
        for bad in ["", "-a", "a-", ".a", "A", "a b", "a_b", "caf\u{e9}", &"a".repeat(DEVICE_NAME_CHARS + 1)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn taken_name_gets_the_lowest_free_number() {
        let taken = ["laptop", "laptop-2"];
        assert_eq!(free("laptop", |name| taken.contains(&name)), "laptop-3");
        assert_eq!(free("server", |name| taken.contains(&name)), "server");
        let long = "x".repeat(DEVICE_NAME_CHARS);
        assert!(is_name(&free(&long, |name| name == long)));
        // As many as a log can hold, and one more.
        let last = format!("x-{}", crate::limits::LOG_ENTRIES + 1);
        assert_eq!(free("x", |name| name != last), last);
    }
}
