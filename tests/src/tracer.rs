//! Strikes a running process at its n-th system call of a kind: kills it there, or lets the call fail or write less.
//!
//! All threads of the process are traced and their calls counted together. What the process starts is not traced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// What happens at the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// Nothing; calls are only counted.
    None,
    /// The process is gone before the call has an effect.
    Kill,
    /// The call is not made and returns this error.
    Fail(Errno),
    /// The call is given half of the bytes.
    Half,
}

/// Calls that change something outside of the process. Between two of them a kill makes no difference to anybody.
pub const WITH_EFFECT: &[i64] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_openat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rmdir,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_utimensat,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
];

/// Calls on files that a failing disk or a full one makes fail.
pub const OF_FILES: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_openat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rmdir,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_utimensat,
    libc::SYS_getdents64,
];

/// Calls that may write less than they were given.
pub const OF_BYTES: &[i64] = &[libc::SYS_write, libc::SYS_pwrite64];

/// The tracer of one process; it ends with the process. Until then nobody else in this program may wait for the process:
/// what the tracer waits for would be told to them.
#[derive(Debug)]
pub struct Tracer {
    process: Pid,
    thread: JoinHandle<()>,
    calls: Arc<AtomicU64>,
    struck: Receiver<()>,
}

impl Tracer {
    /// Traces a process of ours from now on and strikes at its `nth` call of these, counted from 1.
    ///
    /// # Errors
    /// Where the system does not let a process trace its child.
    pub fn strike(pid: u32, calls: &'static [i64], nth: u64, strike: Strike) -> Result<Self, Errno> {
        let counted = Arc::new(AtomicU64::new(0));
        let ((attached, is_attached), (hit, struck)) = (channel(), channel());
        let process = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::EINVAL)?);
        let mut tracing = Tracing { process, calls, nth, strike, counted: counted.clone(), failing: Vec::new() };
        // The requests of a trace must all come from the thread that began it.
        let thread = std::thread::spawn(move || {
            let begun = tracing.attach();
            let goes = begun.is_ok();
            let _heard = attached.send(begun);
            if goes {
                tracing.follow(&|| {
                    // Nobody may listen any more.
                    let _heard = hit.send(());
                });
            }
        });
        is_attached.recv().unwrap_or(Err(Errno::ESRCH))?;
        Ok(Self { process, thread, calls: counted, struck })
    }

    /// Whether the strike fell by now.
    pub fn has_struck(&self) -> bool {
        self.struck.try_recv().is_ok()
    }

    /// Whether the process is gone.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Kills the process, and says how many of the calls it made.
    pub fn end(self) -> u64 {
        let _gone = kill(self.process, Signal::SIGKILL);
        self.thread.join().unwrap();
        self.calls.load(Ordering::SeqCst)
    }
}

struct Tracing {
    process: Pid,
    calls: &'static [i64],
    nth: u64,
    strike: Strike,
    counted: Arc<AtomicU64>,
    /// Threads in a call that was taken from them.
    failing: Vec<(Pid, Errno)>,
}

impl Tracing {
    fn attach(&self) -> Result<(), Errno> {
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACECLONE;
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process)).map_err(|_| Errno::ESRCH)?;
        let threads = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
        for thread in threads {
            match ptrace::seize(thread, options).and_then(|()| ptrace::interrupt(thread)) {
                // It ended since, or the thread that made it was traced already and it with it.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(Errno::EPERM) if thread != self.process => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn follow(&mut self, hit: &dyn Fn()) {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            match waitpid(Pid::from_raw(-1), Some(flags)) {
                Ok(WaitStatus::PtraceSyscall(thread)) => {
                    self.call(thread, hit);
                    resume(thread, None);
                }
                Ok(WaitStatus::Stopped(thread, signal)) => resume(thread, Some(signal)),
                Ok(WaitStatus::PtraceEvent(thread, ..)) => resume(thread, None),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(Errno::EINTR) => {}
                Ok(WaitStatus::Continued(_) | WaitStatus::StillAlive) => {}
                Err(_) => return,
            }
        }
    }

    /// No disk makes a pipe, a socket or a counter fail.
    fn spares_pipes(&self) -> bool {
        matches!(self.strike, Strike::Fail(_) | Strike::Half) || self.calls != WITH_EFFECT
    }

    fn is_on_file(&self, call: i64, open: u64) -> bool {
        let path = || std::fs::read_link(format!("/proc/{}/fd/{open}", self.process));
        !ON_OPEN.contains(&call) || path().is_ok_and(|path| path.is_absolute() && !path.starts_with("/dev"))
    }

    fn call(&mut self, thread: Pid, hit: &dyn Fn()) {
        let Ok(mut registers) = ptrace::getregs(thread) else { return };
        if let Some(at) = self.failing.iter().position(|(failing, _)| *failing == thread) {
            let (_, error) = self.failing.swap_remove(at);
            registers.rax = i64::from(-(error as i32)).cast_unsigned();
            let _gone = ptrace::setregs(thread, registers);
            return;
        }
        // On the way in, the result says that there is no such call; on the way out it is the result.
        let enters = registers.rax.cast_signed() == i64::from(-libc::ENOSYS);
        let call = registers.orig_rax.cast_signed();
        if !enters || !self.calls.contains(&call) || (self.spares_pipes() && !self.is_on_file(call, registers.rdi)) {
            return;
        }
        if self.counted.fetch_add(1, Ordering::SeqCst) + 1 != self.nth {
            return;
        }
        match self.strike {
            Strike::None => return,
            Strike::Kill => {
                let _gone = kill(self.process, Signal::SIGKILL);
            }
            Strike::Fail(error) => {
                registers.orig_rax = u64::MAX;
                let _gone = ptrace::setregs(thread, registers);
                self.failing.push((thread, error));
            }
            Strike::Half => {
                registers.rdx = registers.rdx.div_ceil(2);
                let _gone = ptrace::setregs(thread, registers);
            }
        }
        hit();
    }
}

/// Calls whose first argument is an open file.
const ON_OPEN: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_getdents64,
];

/// A thread that is gone needs no resuming.
fn resume(thread: Pid, signal: Option<Signal>) {
    let _gone = ptrace::syscall(thread, signal);
}
