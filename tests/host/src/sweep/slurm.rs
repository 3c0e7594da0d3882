//! A Slurm cluster of two nodes on this machine, without privileges: a controller, a daemon for each node, and a munged of its
//! own.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getuid, kill_process};

use super::{LONG, PLANTED_IMAGE};
use crate::stage::{Done, Stage, wait_until};
use takt_base::{setup, tool};

struct Cluster {
    dir: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start(dir: &Path) -> Result<Self> {
        let mut cluster = Self {
            dir: dir.into(),
            daemons: Vec::new(),
        };
        fs::create_dir_all(dir)?;
        let dir = dir.display().to_string();
        let mut text = include_str!("slurm.conf").replace("DIR", &dir);
        text = text.replace("USER", &getuid().as_raw().to_string());
        let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
        for (number, port) in ports.into_iter().enumerate() {
            let port = port?.local_addr()?.port();
            text = text.replace(&format!("PORT{number}"), &port.to_string());
        }
        fs::write(cluster.conf(), text)?;
        // It needs 32 bytes at least, and warns of a key that others can read.
        fs::write(cluster.dir.join("key"), dir.repeat(8))?;
        let own = [
            "key-file=key",
            "socket=munge",
            "pid-file=m",
            "log-file=l",
            "seed-file=s",
        ];
        let own = own.map(|word| format!("--{}", word.replace('=', &format!("={dir}/"))));
        cluster.daemon(Command::new("munged").args(["-F", "-f"]).args(own))?;
        let socket = cluster.dir.join("munge");
        wait_until(|| socket.exists()).with_context(|| cluster.said())?;
        cluster.daemon(Command::new("slurmctld").arg("-D"))?;
        for node in ["one", "two"] {
            cluster.daemon(Command::new("slurmd").args(["-D", "-N", node]))?;
        }
        let is_up = || {
            let mut sinfo = Command::new("sinfo");
            sinfo.env("SLURM_CONF", cluster.conf());
            sinfo.args(["--noheader", "--states=idle", "--format=%D"]);
            tool::output(&mut sinfo).is_ok_and(|said| said.trim() == "2")
        };
        wait_until(is_up).with_context(|| cluster.said())?;
        Ok(cluster)
    }

    fn conf(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    fn daemon(&mut self, command: &mut Command) -> Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("said"))?;
        command.env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        let child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        self.daemons.push(child);
        Ok(())
    }

    /// What the daemons said.
    fn said(&self) -> String {
        fs::read_to_string(self.dir.join("said")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // munged, which the others ask, last.
        for daemon in self.daemons.iter_mut().rev() {
            if let Some(pid) = Pid::from_raw(daemon.id().cast_signed()) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = daemon.wait();
        }
    }
}

/// The task that measures this shard of the sweep in `dir`.
fn task(dir: &str, shard: &str) -> Option<Pid> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let words = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let has = |word| words.split('\0').any(|it| it == word);
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (has(dir) && has(shard)).then(|| Pid::from_raw(pid))?
    })
}

/// On a cluster, with a task that is killed as soon as it is at work: the files are those of the sweep in the folder `whole`, to
/// the byte.
pub(super) fn is_as_in_one_piece(stage: &Stage, whole: &str) -> Result<()> {
    setup::ensure_slurm(stage.may_install())?;
    let cluster = Cluster::start(&stage.path().join("cluster"))?;
    let dir = stage.dir("slurm");
    let own = ["-o", &dir, "--append", LONG, "--slurm=2", "--", "--time=5"];
    let mut sweep = stage.command(&[&PLANTED_IMAGE[..], &own].concat());
    sweep.env("SLURM_CONF", cluster.conf());
    let sweep = sweep.stdout(Stdio::piped()).stderr(Stdio::piped());
    let sweep = sweep.spawn()?;
    wait_until(|| task(&dir, "2/2").is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()))?;
    let done = Done::of(&sweep.wait_with_output()?).code(0);
    done.with_context(|| cluster.said())?
        .complains("run again, since it ended before its shard was measured: task 2")?;
    tool::output(Command::new("diff").args(["-r", &stage.dir(whole), &dir])).map(drop)
}
