//! The words of one pairing: shown on the trusted device, entered on the new one.

use core::fmt;

use zeroize::Zeroizing;

use super::list::LIST;
use crate::limits::{PAIRING_TEXT_BYTES, PAIRING_WORDS};

/// Why a text is not pairing words. The text is not repeated: it is nearly a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// Too few or too many words.
    #[error("{PAIRING_WORDS} words are needed, not {0}: enter them as the trusted device shows them")]
    Count(usize),
    /// A word that is never shown.
    #[error("word {position} is not one of the pairing words{}", meant(*.nearest))]
    Unknown {
        /// Which one, from 1.
        position: usize,
        /// The word that was probably meant.
        nearest: Option<&'static str>,
    },
}

fn meant(nearest: Option<&'static str>) -> String {
    nearest.map(|word| format!(": did you mean `{word}`?")).unwrap_or_default()
}

/// Pairing words. Erased from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Words(Zeroizing<[u16; PAIRING_WORDS]>);

impl Words {
    /// Draws words: nine bits of each two random bytes.
    pub fn from_random(random: [u8; 2 * PAIRING_WORDS]) -> Self {
        let random = Zeroizing::new(random);
        let mut words = Zeroizing::new([0; PAIRING_WORDS]);
        for (word, pair) in words.iter_mut().zip(random.as_chunks::<2>().0) {
            *word = u16::from_le_bytes(*pair) % LIST.len() as u16;
        }
        Self(words)
    }

    /// Reads words as people type them: in any case, with spaces, hyphens, dots or commas between and around.
    ///
    /// # Errors
    /// [`WordsError`]; no guess is spent.
    pub fn parse(text: &str) -> Result<Self, WordsError> {
        if text.len() > PAIRING_TEXT_BYTES {
            return Err(WordsError::Count(text.split(is_between).filter(|word| !word.is_empty()).count()));
        }
        let text = Zeroizing::new(text.to_ascii_lowercase());
        let typed: Vec<&str> = text.split(is_between).filter(|word| !word.is_empty()).collect();
        if typed.len() != PAIRING_WORDS {
            return Err(WordsError::Count(typed.len()));
        }
        let mut words = Zeroizing::new([0; PAIRING_WORDS]);
        for (at, (place, word)) in words.iter_mut().zip(typed).enumerate() {
            let found = LIST.binary_search(&word);
            *place = found.map_err(|_| WordsError::Unknown { position: at + 1, nearest: nearest(word) })? as u16;
        }
        Ok(Self(words))
    }

    /// The words with hyphens between, for the screen.
    pub fn show(&self) -> Zeroizing<String> {
        let words: Vec<&str> = self.0.iter().filter_map(|word| LIST.get(usize::from(*word)).copied()).collect();
        Zeroizing::new(words.join("-"))
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Words(..)")
    }
}

fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, '-' | '_' | '.' | ',' | '\u{2010}'..='\u{2015}')
}

/// The word with the fewest changed letters, when they are few.
fn nearest(typed: &str) -> Option<&'static str> {
    let by_start = || typed.get(..4).and_then(|start| LIST.into_iter().find(|word| word.starts_with(start)));
    let (changes, word) = LIST.iter().map(|word| (distance(typed, word), *word)).min()?;
    if changes <= 2 { Some(word) } else { by_start() }
}

/// How many letters must be changed, added or taken away to make one word of the other.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(b.bytes()) {
            let changed = diagonal + usize::from(left != right);
            diagonal = *cell;
            before = changed.min(diagonal + 1).min(before + 1);
            *cell = before;
        }
        row[0] = i + 1;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 }))]

        #[test]
        fn shown_words_are_read_back(random in any::<[u8; 8]>()) {
            let words = Words::from_random(random);
            prop_assert_eq!(Words::parse(&words.show()), Ok(words));
        }

        #[test]
        fn any_text_is_words_or_a_clear_no(text in any::<String>()) {
            let _ = Words::parse(&text);
        }
    }

    #[test]
    fn spelling_between_the_words_does_not_matter() {
        let words = Words::parse("acorn-otter-zoom-lemon").unwrap();
        for text in ["Acorn Otter Zoom Lemon", "  ACORN, otter,zoom.\tlemon\n", "acorn\u{2013}otter--zoom_lemon."] {
            assert_eq!(Words::parse(text), Ok(words.clone()), "{text:?}");
        }
    }

    #[test]
    fn unknown_word_is_met_with_the_nearest() {
        let nearest = |text: &str| match Words::parse(text) {
            Err(WordsError::Unknown { position, nearest }) => (position, nearest),
            other => panic!("{other:?}"),
        };
        assert_eq!(nearest("acorn oter zoom lemon"), (2, Some("otter")));
        assert_eq!(nearest("acorn otter zoom lemmon"), (4, Some("lemon")));
        assert_eq!(nearest("acorns otter zoom lemon"), (1, Some("acorn")));
        assert_eq!(nearest("telephones otter zoom lemon"), (1, None));
        assert_eq!(nearest("caf\u{e9}\u{e9}\u{e9} otter zoom lemon"), (1, None));
    }

    #[test]
    fn number_of_words_is_told() {
        assert_eq!(Words::parse(""), Err(WordsError::Count(0)));
        assert_eq!(Words::parse("acorn otter zoom"), Err(WordsError::Count(3)));
        assert_eq!(Words::parse(&"acorn ".repeat(100)), Err(WordsError::Count(100)));
    }

    #[test]
    fn text_of_more_bytes_than_words_have_is_not_looked_at() {
        let padded = |bytes: usize| Words::parse(&format!("{:<bytes$}", "acorn otter zoom lemon"));
        assert_eq!(padded(PAIRING_TEXT_BYTES), Words::parse("acorn otter zoom lemon"));
        assert!(padded(PAIRING_TEXT_BYTES + 1).is_err());
    }

    #[test]
    fn distance_counts_letters_that_differ() {
        let cases = [("", "", 0), ("abc", "", 3), ("", "abc", 3), ("otter", "oter", 1), ("lemon", "melon", 2)];
        assert!(cases.iter().all(|(one, other, letters)| distance(one, other) == *letters));
    }

    /// Shows: S-9
    #[test]
    fn texts_say_what_to_do_and_no_secret() {
        let error = Words::parse("acorn oter zoom lemon").unwrap_err();
        assert_eq!(error.to_string(), "word 2 is not one of the pairing words: did you mean `otter`?");
        let error = Words::parse("acorn").unwrap_err();
        assert_eq!(error.to_string(), "4 words are needed, not 1: enter them as the trusted device shows them");
        assert_eq!(format!("{:?}", Words::from_random([7; 8])), "Words(..)");
    }

    #[test]
    fn words_are_as_written_in_the_vectors() {
        let text = include_str!("../../../../proto/vectors/pairing.json");
        let all: serde_json::Value = serde_json::from_str(text).unwrap();
        let of = |kind: &str| {
            let all = all["vectors"].as_array().unwrap().iter();
            all.filter(|vector| vector["type"] == kind).cloned().collect::<Vec<_>>()
        };
        assert!(!of("words").is_empty() && !of("text").is_empty());
        for vector in of("words") {
            let number = u64::from_str_radix(vector["hex"].as_str().unwrap(), 16).unwrap();
            let words = Words::from_random(number.to_be_bytes());
            assert_eq!(words.show().as_str(), vector["fields"]["words"], "{}", vector["name"]);
        }
        for vector in of("text") {
            let read = Words::parse(vector["fields"]["text"].as_str().unwrap());
            let outcome = read.map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
            assert_eq!(outcome, vector["outcome"], "{}", vector["name"]);
        }
    }

    #[test]
    fn every_word_is_drawn_equally_often() {
        let mut drawn = vec![0_u32; LIST.len()];
        for number in 0..=u16::MAX {
            let [low, high] = number.to_le_bytes();
            let words = Words::from_random([low, high, 0, 0, 0, 0, 0, 0]);
            drawn[usize::from(words.0[0])] += 1;
        }
        assert!(drawn.iter().all(|count| *count == 128));
    }
}
