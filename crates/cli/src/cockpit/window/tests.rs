use cede_agent::terminal::{Order, Size, Terminal};

use super::*;

/// What falls over in the test below, in a process and a terminal of its own.
#[test]
#[ignore = "run by another test, in a terminal"]
fn falls_over_on_the_screen() {
    let fell = guarded(|| {
        let _raw = enter()?;
        tty::draw(b"drawn").map_err(|error| lost(&error))?;
        panic!("planted \u{1b}[31mfault");
    });
    println!("it went on: {fell:?}");
}

#[test]
fn terminal_is_put_back_after_a_fault_of_ours_and_the_fault_is_said() {
    let script = "before=$(stty -g); \"$SELF\" --ignored --exact --nocapture \
                  cockpit::window::tests::falls_over_on_the_screen; test \"$before\" = \"$(stty -g)\" && echo put-back";
    let program = std::env::current_exe().unwrap();
    let order = Order {
        command: ["sh", "-c", script].map(Into::into).to_vec(),
        directory: std::env::current_dir().unwrap(),
        environment: vec![("TERM".into(), "xterm-256color".into())],
        marks: vec![("SELF".into(), program.into()), ("PATH".into(), std::env::var_os("PATH").unwrap())],
        size: Size::new(30, 100),
    };
    let terminal = Terminal::start(&order, || {}).unwrap();
    let mut viewer = terminal.view(Some(0));
    let until = Instant::now() + Duration::from_secs(30);
    let mut seen = String::new();
    while !seen.contains("put-back") {
        assert!(Instant::now() < until, "{seen}");
        match viewer.next(1 << 16) {
            Some(frame) => seen.push_str(&String::from_utf8_lossy(&frame.bytes)),
            None if terminal.end().is_some() && !seen.contains("put-back") => std::thread::sleep(KEY_WAIT),
            None => std::thread::sleep(KEY_WAIT),
        }
    }
    println!("{}", seen.escape_debug());
    let left = seen.find("\u{1b}[?1049l").expect("the other screen is left");
    assert!(seen.find("drawn").is_some_and(|drawn| drawn < left), "{seen:?}");
    let (fault, shown) = (seen.find("planted").unwrap(), seen.rfind("\u{1b}[?25h").unwrap());
    assert!(left < fault && shown < fault, "said where it can be read: {seen:?}");
    assert_eq!(seen.matches("planted").count(), 1, "{seen:?}");
    assert!(!seen.contains("planted \u{1b}"), "and escaped: {seen:?}");
}
