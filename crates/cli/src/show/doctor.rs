//! Checks, each with its cure.

use cede_wire::control::Check;

use crate::page::{Ink, Page, Span, plain};

/// The checks.
pub(crate) fn page(checks: &[Check]) -> Page {
    let mut page = Page::default();
    for check in checks {
        let result = Span::new(ink(&check.result), format!("{:<5}", check.result));
        page.line([result, plain(format!("{}: {}", check.what, check.found))]);
        if !check.cure.is_empty() {
            page.line([plain("      fix: "), plain(&check.cure)]);
        }
    }
    page
}

/// Whether anything failed.
pub(crate) fn any_failed(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.result == "fail")
}

fn ink(result: &str) -> Ink {
    match result {
        "ok" => Ink::Good,
        "warn" => Ink::Warn,
        _ => Ink::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &str, cure: &str) -> Check {
        Check { what: "git".into(), result: result.into(), found: "version 2.39".into(), cure: cure.into() }
    }

    #[test]
    fn each_fault_comes_with_its_cure() {
        insta::assert_snapshot!(page(&[check("ok", ""), check("fail", "apt install git")]).render(false), @r"
        ok   git: version 2.39
        fail git: version 2.39
              fix: apt install git
        ");
    }

    #[test]
    fn warning_is_no_failure() {
        assert!(!any_failed(&[check("ok", ""), check("warn", "x")]));
        assert!(any_failed(&[check("warn", "x"), check("fail", "x")]));
    }
}
