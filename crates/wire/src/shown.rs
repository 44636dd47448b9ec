//! A peer's words, made safe for a person's eyes.

/// The text with everything visible that changes what a person reads: controls, escapes, bidirectional marks, characters
/// without a width, tags and look-alike blanks become `\u{…}`. Nothing is left out, and line breaks become `\n`: what a
/// peer writes never makes a line of its own. Source: SPEC U-8.
pub fn plain(said: &str) -> String {
    let mut shown = String::with_capacity(said.len());
    said.chars().for_each(|c| push_plain(&mut shown, c));
    shown
}

/// Whether a text mixes letters of scripts that look alike, as in a name that imitates another one.
pub fn mixes_scripts(said: &str) -> bool {
    said.split(|c: char| !c.is_alphabetic()).any(|word| {
        let mut scripts = word.chars().filter_map(script);
        scripts.next().is_some_and(|first| scripts.any(|other| other != first))
    })
}

/// Bytes in decimal units with three digits: `999 B`, `1.23 kB`, `45.6 MB`.
pub fn bytes(count: u64) -> String {
    let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match units.into_iter().find(|(_, size)| count >= *size) {
        Some((unit, size)) => format!("{} {unit}", three_digits(count, size)),
        None => format!("{count} B"),
    }
}

/// A number of units of this size with three digits: `1.23`, `45.6`, `789`.
pub fn three_digits(count: u64, size: u64) -> String {
    let whole = count / size;
    let hundredths = count % size * 100 / size;
    match whole {
        0..10 => format!("{whole}.{hundredths:02}"),
        10..100 => format!("{whole}.{}", hundredths / 10),
        _ => whole.to_string(),
    }
}

pub(crate) fn push_plain(shown: &mut String, c: char) {
    if c.is_control() || is_invisible(c) || c == '\\' {
        shown.extend(c.escape_default());
    } else {
        shown.push(c);
    }
}

/// Bidirectional controls, zero-width characters, soft hyphen, variation selectors, tags, fillers, blanks that are no
/// spaces, and what is for private use or for nothing: they change what a person reads.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

/// The scripts with letters that are drawn like Latin ones.
fn script(c: char) -> Option<u8> {
    match c {
        'A'..='Z' | 'a'..='z' | '\u{c0}'..='\u{24f}' | '\u{ff21}'..='\u{ff5a}' => Some(0),
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Some(1),
        '\u{400}'..='\u{52f}' => Some(2),
        '\u{530}'..='\u{58f}' => Some(3),
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => Some(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four hundred texts that would look like something else: each trick before, within, around and after a word.
    fn spoofs() -> Vec<(char, String)> {
        let single =
            ["\u{7}\u{8}\r\n\t\0\u{1b}\u{7f}\u{85}\u{9b}\u{9d}\u{90}", "\u{a0}\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}"];
        let mut tricks: Vec<char> = single.concat().chars().collect();
        tricks.extend('\u{200b}'..='\u{200f}');
        tricks.extend('\u{2028}'..='\u{202e}');
        tricks.extend('\u{2060}'..='\u{206f}');
        tricks.extend('\u{fe00}'..='\u{fe0f}');
        tricks.extend('\u{e0020}'..='\u{e0040}');
        tricks.extend([
            '\u{feff}',
            '\u{2800}',
            '\u{3164}',
            '\u{ffa0}',
            '\u{180e}',
            '\u{fff9}',
            '\u{e000}',
            '\u{f0000}',
        ]);
        tricks.extend(['\u{e0100}', '\u{2003}', '\u{205f}']);
        let forms: [fn(char) -> String; 4] = [
            |c| format!("{c}rm -rf ~"),
            |c| format!("allow{c}[2J\u{41}deny"),
            |c| format!("{c}txt.exe{c}"),
            |c| format!("cargo test {c}"),
        ];
        tricks.iter().flat_map(|c| forms.map(|form| (*c, form(*c)))).collect()
    }

    /// Shows: U-8
    #[test]
    fn four_hundred_spoofs_are_visible_and_whole() {
        let spoofs = spoofs();
        assert!(spoofs.len() >= 400, "{}", spoofs.len());
        for (trick, spoof) in spoofs.into_iter().step_by(if cfg!(miri) { 19 } else { 1 }) {
            let shown = plain(&spoof);
            assert!(!shown.contains(trick) && !shown.chars().any(|c| c.is_control() || is_invisible(c)), "{spoof:?}");
            let escaped: String = trick.escape_default().collect();
            assert_eq!(shown.matches(&escaped).count(), spoof.matches(trick).count(), "nothing is cut: {shown}");
            let letters = |text: &str| text.chars().filter(|c| c.is_ascii_alphabetic()).count();
            assert!(letters(&shown) >= letters(&spoof), "{shown}");
        }
    }

    /// Shows: U-8
    #[test]
    fn two_texts_never_look_the_same() {
        assert_ne!(plain("a\u{200b}b"), plain("a\\u{200b}b"));
        assert_eq!(plain("a\\b"), "a\\\\b");
        assert_eq!(plain("größer 日本 🙂"), "größer 日本 🙂");
    }

    /// Shows: U-8
    #[test]
    fn word_of_two_scripts_is_noticed() {
        for mixed in ["p\u{430}ypal", "\u{391}dmin", "ser\u{475}er at home", "\u{13a0}dmin", "lapt\u{585}p"] {
            assert!(mixes_scripts(mixed), "{mixed}");
        }
        for plain in ["server", "größe", "сервер und server", "日本 laptop", ""] {
            assert!(!mixes_scripts(plain), "{plain}");
        }
    }

    #[test]
    fn size_is_shown_with_three_digits() {
        for (count, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (1_239, "1.23 kB"),
            (9_999, "9.99 kB"),
            (10_000, "10.0 kB"),
            (45_678, "45.6 kB"),
            (99_999, "99.9 kB"),
            (100_000, "100 kB"),
            (999_999, "999 kB"),
            (1_000_000, "1.00 MB"),
            (2_050_000_000, "2.05 GB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(bytes(count), shown);
        }
        assert_eq!(three_digits(90, 60), "1.50");
    }
}
