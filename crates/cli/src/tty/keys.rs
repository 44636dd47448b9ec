//! The keys that are for `cede` itself: Ctrl-] and one more. Everything else is passed on as it is.

/// What was meant by what was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// For the program.
    Typed(Vec<u8>),
    /// Look on no more.
    Detach,
    /// Have the keyboard; true: whoever has it now.
    Keyboard(bool),
    /// Give the keyboard away.
    LetGo,
    /// Say which keys there are.
    Help,
}

/// Ctrl-], as terminals send it: the plain byte, and the two forms of those that report keys in full.
const CHORDS: [&[u8]; 3] = [b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~"];

/// What is said when somebody asks for the keys.
pub(crate) const HELP: &str = "Ctrl-] then: d detach, t ask for the keyboard, T take it, l let it go, Ctrl-] itself";

/// Tells the two apart. It stands between two reads: the second key may come later.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    begun: bool,
}

impl Keys {
    /// What these bytes mean, in their order.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<Meant> {
        let mut meant = Vec::new();
        let mut typed = Vec::new();
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            let chord = CHORDS.iter().find(|chord| rest.starts_with(chord));
            match (self.begun, chord) {
                (false, Some(chord)) => {
                    self.begun = true;
                    rest = rest.get(chord.len()..).unwrap_or_default();
                }
                (false, None) => {
                    typed.push(*first);
                    rest = after;
                }
                (true, chord) => {
                    self.begun = false;
                    rest = rest.get(chord.map_or(1, |chord| chord.len())..).unwrap_or_default();
                    match command(*first, chord.is_some()) {
                        Meant::Typed(more) => typed.extend(more),
                        other @ (Meant::Detach | Meant::Keyboard(_) | Meant::LetGo | Meant::Help) => {
                            if !typed.is_empty() {
                                meant.push(Meant::Typed(std::mem::take(&mut typed)));
                            }
                            meant.push(other);
                        }
                    }
                }
            }
        }
        if !typed.is_empty() {
            meant.push(Meant::Typed(typed));
        }
        meant
    }
}

fn command(key: u8, chord: bool) -> Meant {
    match key {
        _ if chord => Meant::Typed(vec![0x1d]),
        b'd' => Meant::Detach,
        b't' => Meant::Keyboard(false),
        b'T' => Meant::Keyboard(true),
        b'l' => Meant::LetGo,
        b'?' => Meant::Help,
        // It was for the program after all.
        other => Meant::Typed(vec![0x1d, other]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Meant {
        Meant::Typed(bytes.to_vec())
    }

    /// Shows: D-7
    #[test]
    fn chord_detaches_wherever_the_bytes_are_cut() {
        for chord in CHORDS {
            let bytes = [b"ls\r", chord, b"d"].concat();
            let mut keys = Keys::default();
            assert_eq!(keys.read(&bytes), [typed(b"ls\r"), Meant::Detach]);
            let mut keys = Keys::default();
            assert_eq!(keys.read(&bytes[..bytes.len() - 1]), [typed(b"ls\r")]);
            assert_eq!(keys.read(b"d"), [Meant::Detach]);
        }
    }

    /// Shows: D-7
    #[test]
    fn everything_else_is_for_the_program() {
        let mut keys = Keys::default();
        assert_eq!(keys.read(b"\x1d\x1d"), [typed(b"\x1d")]);
        assert_eq!(keys.read(b"a\x1dxb"), [typed(b"a\x1dxb")]);
        assert_eq!(keys.read("ü漢\x1b[A\x03\x04".as_bytes()), [typed("ü漢\x1b[A\x03\x04".as_bytes())]);
        assert_eq!(
            keys.read(b"\x1dt\x1dT\x1dl\x1d?"),
            [Meant::Keyboard(false), Meant::Keyboard(true), Meant::LetGo, Meant::Help]
        );
        assert_eq!(keys.read(b""), []);
    }
}
