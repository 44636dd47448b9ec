//! `rsync` over ssh on this machine: a server of its own with throw-away keys, configuration and port.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running ssh server.
#[derive(Debug)]
pub struct Rsync {
    place: PathBuf,
    port: u16,
    server: Child,
}

impl Rsync {
    /// Starts the server; the error says what is missing.
    pub fn start(root: &Path) -> Result<Self, String> {
        let place = root.join("ssh");
        std::fs::create_dir_all(place.join("copy")).map_err(|error| error.to_string())?;
        let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd"].into_iter().find(|path| Path::new(path).exists());
        let sshd = sshd.ok_or("there is no sshd; install openssh-server")?;
        let rsync = Command::new("rsync").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        rsync.map_err(|_| "there is no rsync; install rsync")?;
        for name in ["host", "person"] {
            keygen(&place.join(name))?;
        }
        std::fs::copy(place.join("person.pub"), place.join("authorized")).map_err(|error| error.to_string())?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| error.to_string())?.port();
        std::fs::write(place.join("config"), configuration(&place, port)).map_err(|error| error.to_string())?;
        // Started as root, the server wants a directory that some systems make at boot only.
        let _ = std::fs::create_dir_all("/run/sshd");
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(place.join("config")).stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::create(place.join("log")).map_err(|error| error.to_string())?;
        let server = command.stderr(log).spawn().map_err(|error| error.to_string())?;
        let mut rsync = Self { place, port, server };
        rsync.wait().map(|()| rsync)
    }

    fn wait(&mut self) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if Instant::now() > until || self.server.try_wait().is_ok_and(|ended| ended.is_some()) {
                let log = std::fs::read_to_string(self.place.join("log")).unwrap_or_default();
                return Err(format!("sshd does not start: {}", log.trim()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Copies files and directories, each under a name, makes all of it durable and says how long it took.
    pub fn copy(&self, parts: &[(String, PathBuf)]) -> f64 {
        let began = Instant::now();
        for (name, part) in parts {
            let to = self.place.join("copy").join(name);
            let slash = if part.is_dir() { "/" } else { "" };
            let mut command = Command::new("rsync");
            command.args(["-a", "--delete", "-e", &self.shell()]);
            command.arg(format!("{}{slash}", part.display())).arg(format!("127.0.0.1:{}{slash}", to.display()));
            let output = command.output().expect("rsync runs");
            assert!(output.status.success(), "rsync: {}", String::from_utf8_lossy(&output.stderr));
        }
        let synced = Command::new("sync").arg("-f").arg(self.place.join("copy")).status();
        assert!(synced.expect("sync runs").success());
        began.elapsed().as_secs_f64()
    }

    fn shell(&self) -> String {
        let key = self.place.join("person");
        let quiet = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
        format!("ssh -F /dev/null -p {} -i {} {quiet}", self.port, key.display())
    }
}

impl Drop for Rsync {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn keygen(path: &Path) -> Result<(), String> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).stdin(Stdio::null());
    let made = command.status().map_err(|_| "there is no ssh-keygen; install openssh-client")?;
    if made.success() { Ok(()) } else { Err("ssh-keygen failed".to_owned()) }
}

fn configuration(place: &Path, port: u16) -> String {
    let place = place.display();
    format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized\n\
         PidFile {place}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
}
