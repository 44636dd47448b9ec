//! The end of everything that a turn started. Agents give their tools process groups of their own, so a group is not
//! enough: whatever carries the turn's mark in its environment goes.

use cede_wire::task::TASK_VARIABLE;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::limits::SWEEPS;
use crate::adapter::processes;

/// Asks the group of a program to end as it ends best.
pub(super) fn ask_to_end(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that is gone has ended already.
        let _ = kill_process_group(pid, signal);
    }
}

/// Whether a process was started by a turn, itself or through others: it carries a mark, or what started it does. One that
/// gave itself another environment and let go of what started it is not found. One that is gone may have been: a person's
/// waits for its answer.
pub fn is_of_a_turn(pid: u32) -> bool {
    if cfg!(target_os = "linux") && pid > 1 && processes::start_ticks(pid).is_none() {
        return true;
    }
    let own = std::process::id();
    let mut next = Some(pid).filter(|pid| *pid > 1 && *pid != own);
    for _ in 0..ANCESTORS {
        let Some(pid) = next else { return false };
        if processes::variable(pid, TASK_VARIABLE).is_some() {
            return true;
        }
        next = processes::parent(pid).filter(|pid| *pid > 1 && *pid != own);
    }
    // Nothing that a person types stands so deep.
    true
}

/// Processes between a command and what it was started from.
const ANCESTORS: usize = 256;

/// Kills every process that carries this mark, and says how many there were: after a restart, what an earlier life of the
/// daemon left running.
pub fn end_marked(mark: &str) -> usize {
    let marker = format!("{TASK_VARIABLE}={mark}");
    let mut killed = 0;
    for _ in 0..SWEEPS {
        let found = processes::marked(std::slice::from_ref(&marker), "");
        if found.is_empty() {
            break;
        }
        for process in found {
            let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
            if processes::runs(process.pid, process.start_ticks)
                && pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
            {
                killed += 1;
            }
        }
        std::thread::sleep(super::limits::LOOK);
    }
    killed
}
