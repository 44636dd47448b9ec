//! What was said in a conversation. Words of others stand behind a bar, each kind below its heading.

use cede_wire::conversation::{Gap, Piece, Said, Voice};

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// A piece of it.
pub(crate) fn page(piece: &Piece) -> Page {
    let mut page = Page::default();
    if let Some(gap) = piece.gap {
        page.line([faint(gap_word(gap))]);
    }
    piece.said.iter().for_each(|said| words(&mut page, said));
    page
}

fn words(page: &mut Page, said: &Said) {
    let text = said.text.trim_end();
    let (heading, text) = match said.voice {
        Voice::Person => (strong("person"), text),
        Voice::Agent => (Span::new(Ink::Good, "agent"), text),
        Voice::Call => {
            let (name, given) = text.split_once('\n').unwrap_or((text, ""));
            (plain(format!("runs {name}")), given)
        }
        Voice::Result => (faint("result"), text),
        Voice::Remark => (faint("remark"), text),
    };
    page.line([heading]);
    if !text.is_empty() {
        // A tabulator is no trick, and neither is the end of a line that was written elsewhere.
        page.behind_a_bar(&text.replace('\t', "    ").replace("\r\n", "\n"));
    }
    if said.left_out > 0 {
        page.line([faint(format!("  ({} more)", units::bytes(said.left_out)))]);
    }
}

const fn gap_word(gap: Gap) -> &'static str {
    match gap {
        Gap::Earlier => "(what was said before is not shown)",
        Gap::Behind => "(more was said meanwhile than is told at once; the middle is left out)",
        Gap::Rewritten => "(what was read before is not what stands there now; this is the end of it)",
    }
}

#[cfg(test)]
mod tests {
    use cede_wire::conversation::Bookmark;

    use super::*;

    fn shown(gap: Option<Gap>, said: &[(Voice, &str)]) -> String {
        let said = said.iter().map(|(voice, text)| Said::new(*voice, text)).collect();
        page(&Piece { gap, said, next: Bookmark { at: 1, before: 2 } }).render(false)
    }

    #[test]
    fn each_voice_has_its_heading_and_words_stand_behind_a_bar() {
        let said = [
            (Voice::Person, "Fix it.\nAnd add a test."),
            (Voice::Call, "Bash\ncargo test"),
            (Voice::Result, "ok\n"),
            (Voice::Agent, "Done."),
        ];
        insta::assert_snapshot!(shown(Some(Gap::Earlier), &said), @r"
        (what was said before is not shown)
        person
          | Fix it.
          | And add a test.
        runs Bash
          | cargo test
        result
          | ok
        agent
          | Done.
        ");
    }

    /// Shows: D-12, U-8
    #[test]
    fn words_repaint_nothing_and_make_no_heading_of_their_own() {
        let evil = "x\u{1b}[2J\u{1b}]52;c;cm0=\u{7}\u{202e}y\rperson\nperson\n\u{85}agent";
        let text = shown(
            None,
            &[(Voice::Agent, evil), (Voice::Call, &format!("Ba\u{1b}[1msh\n{evil}")), (Voice::Remark, evil)],
        );
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\r', '\u{7}', '\u{85}']), "{text}");
        let headings = text.lines().filter(|line| !line.starts_with("  | ")).collect::<Vec<_>>();
        assert_eq!(headings.len(), 3, "{text}");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let text = shown(None, &[(Voice::Result, &"x".repeat(100_000))]);
        assert!(text.contains("more)"), "{}", &text[text.len() - 60..]);
    }
}
