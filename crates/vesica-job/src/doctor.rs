//! What this machine will make slow or impossible, and what to do: `vesica doctor`.
//!
//! Each look is a function of what the system says, so that a test can say something else.

use crate::forecast;
use crate::tell::numbers::size;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use vesica_cpu::Backend;

/// How long a call to another machine may take: firewalls that drop what they do not like say nothing at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Before this moment (2026-11-01) nobody had this program: a clock that is earlier is off.
const FIRST: Duration = Duration::from_secs(1_793_491_200);

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symptom {
    /// What.
    pub what: &'static str,
    /// What it is like.
    pub found: String,
    /// What is wrong with it, and what to do; nothing if it is well.
    pub advice: Option<Advice>,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Runs are slower than they could be.
    Slow(String),
    /// Runs will fail.
    Broken(String),
}

impl Symptom {
    fn well(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: None }
    }

    fn slow(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: Some(Advice::Slow(todo.into())) }
    }

    fn broken(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: Some(Advice::Broken(todo.into())) }
    }
}

/// What is to be looked at, besides the machine itself.
#[derive(Clone, Debug)]
pub struct Patient {
    /// Where a run spills what does not fit in memory.
    pub scratch: PathBuf,
    /// Bytes of memory that a run may take.
    pub memory: u64,
    /// Where this side listens.
    pub listen: Option<String>,
    /// Where the others are called.
    pub connect: Vec<String>,
}

impl Default for Patient {
    /// What a run has where its job says nothing.
    fn default() -> Self {
        Self { scratch: std::env::temp_dir(), memory: 2 << 30, listen: None, connect: Vec::new() }
    }
}

/// Looks at this machine, and at the addresses of `patient`: those are called and listened on for a moment.
pub fn doctor(patient: &Patient) -> Vec<Symptom> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let quota = read("/sys/fs/cgroup/cpu.max");
    let mut all = vec![
        processor(Backend::chosen(), &Backend::available()),
        shares(cores, quota.as_deref()),
        memory(
            patient.memory,
            &read("/proc/meminfo").unwrap_or_default(),
            read("/sys/fs/cgroup/memory.max").as_deref(),
        ),
        scratch(&patient.scratch),
        clock(SystemTime::now()),
    ];
    all.extend(patient.listen.as_deref().map(listening));
    all.extend(patient.connect.iter().map(|address| calling(address, PATIENCE)));
    all
}

/// The findings, what to do about them, and, where there is nothing to do, that.
pub fn in_words(symptoms: &[Symptom]) -> String {
    let line = |one: &Symptom| {
        let (mark, todo) = match &one.advice {
            None => ("ok    ", None),
            Some(Advice::Slow(todo)) => ("slow  ", Some(todo)),
            Some(Advice::Broken(todo)) => ("BROKEN", Some(todo)),
        };
        let todo = todo.map(|todo| format!("                    {todo}\n")).unwrap_or_default();
        format!("{mark}  {:<11} {}\n{todo}", one.what, one.found)
    };
    let mut words: String = symptoms.iter().map(line).collect();
    if symptoms.iter().all(|one| one.advice.is_none()) {
        words.push_str("Nothing here makes runs slow or fail.\n");
    }
    words
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn processor(chosen: Backend, available: &[Backend]) -> Symptom {
    let best = available.iter().max().copied().unwrap_or(Backend::Portable);
    let found = format!("arithmetic with {} ({chosen})", instructions(chosen));
    if chosen < best {
        let todo = format!("VESICA_CPU holds it back: unset it, and {} is taken.", instructions(best));
        return Symptom::slow("processor", found, todo);
    }
    match best {
        Backend::Portable => Symptom::slow(
            "processor",
            found,
            "The processor has no AVX2, so all arithmetic is much slower. In a virtual machine, let it see the host's processor.",
        ),
        _ => Symptom::well("processor", found),
    }
}

/// What a back end is made of.
fn instructions(backend: Backend) -> &'static str {
    match backend {
        Backend::Portable => "no vector instructions",
        Backend::Avx2 => "AVX2",
        Backend::Ifma => "AVX-512 IFMA",
    }
}

/// `quota` is what control groups say: the microseconds that may be used in each period, or `max`.
fn shares(cores: usize, quota: Option<&str>) -> Symptom {
    let mut parts = quota.unwrap_or("max").split_whitespace().map(|part| part.parse::<f64>().ok());
    let granted = match (parts.next().flatten(), parts.next().flatten()) {
        (Some(used), Some(period)) if period > 0.0 => used / period,
        _ => cores as f64,
    };
    let found = format!("{cores} for this process");
    match granted {
        granted if granted + 0.01 < cores as f64 => Symptom::slow(
            "cores",
            format!("{found}, of which a container may use {granted:.1}"),
            "Give the container as many CPUs as it sees, or set mine.workers to twice what it may use.",
        ),
        _ if cores == 1 => {
            Symptom::slow("cores", found, "One core computes and serves the network: two or more are faster.")
        }
        _ => Symptom::well("cores", found),
    }
}

fn memory(wanted: u64, meminfo: &str, limit: Option<&str>) -> Symptom {
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = kilobytes.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).map(|kb| kb << 10);
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    let Some(most) = [free, limit].into_iter().flatten().min() else {
        return Symptom::well("memory", format!("a run may take {}; how much is free is not known here", size(wanted)));
    };
    let found = format!("{} free, and a run may take {}", size(most), size(wanted));
    // Some 100 MiB for the program and its buffers come on top.
    match most {
        most if most < wanted.saturating_add(100 << 20) => Symptom::slow(
            "memory",
            found,
            format!(
                "Set mine.memory to at most \"{} MiB\"; what is more is spilled to disk.",
                (most.saturating_sub(100 << 20) >> 20).max(64)
            ),
        ),
        _ => Symptom::well("memory", found),
    }
}

fn scratch(dir: &Path) -> Symptom {
    let what = "scratch";
    if let Err(why) = tempfile::tempfile_in(dir) {
        let todo = "Set mine.scratch to a folder that can be written.";
        return Symptom::broken(what, format!("{}: {why}", dir.display()), todo);
    }
    let free = forecast::free(&dir.join("scratch")).map_or("an unknown number of bytes".to_owned(), size);
    let found = format!("rows that do not fit in memory go to {}, {free} free", dir.display());
    match in_memory(dir) {
        true => Symptom::slow(
            what,
            format!("{found}, and that folder lies in memory"),
            "What is spilled there takes memory too: set mine.scratch to a folder on a disk.",
        ),
        false => Symptom::well(what, found),
    }
}

#[cfg(target_os = "linux")]
fn in_memory(dir: &Path) -> bool {
    use nix::sys::statfs::{TMPFS_MAGIC, statfs};
    statfs(dir).is_ok_and(|fs| fs.filesystem_type() == TMPFS_MAGIC)
}

/// Other systems keep no temporary folder in memory unless somebody tells them to.
#[cfg(not(target_os = "linux"))]
fn in_memory(_: &Path) -> bool {
    false
}

fn clock(now: SystemTime) -> Symptom {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let found = humantime::format_rfc3339_seconds(now).to_string();
    if since < FIRST {
        let todo = "The clock is off: certificates will look as if they were not yet valid. Set it, or let NTP set it.";
        return Symptom::broken("clock", found, todo);
    }
    Symptom::well("clock", format!("{found} by this machine; compare that with a clock that you trust"))
}

fn listening(address: &str) -> Symptom {
    let what = "listen";
    match TcpListener::bind(address) {
        Ok(_) => {
            let hint = format!("{address} can be listened on");
            match address.parse::<SocketAddr>().map(|address| address.ip()) {
                Ok(ip) if ip.is_loopback() => Symptom::well(what, format!("{hint}, by this machine alone")),
                _ => Symptom::well(
                    what,
                    format!(
                        "{hint}; whether a firewall lets the others in, they see with `vesica doctor --connect HOST:PORT`"
                    ),
                ),
            }
        }
        Err(why) if why.kind() == ErrorKind::AddrInUse => Symptom::broken(
            what,
            format!("{address} is taken"),
            "Another program listens there: end it, or take another port.",
        ),
        Err(why) if why.kind() == ErrorKind::PermissionDenied => Symptom::broken(
            what,
            format!("{address}: {why}"),
            "Ports below 1024 are not for everybody: take a higher one.",
        ),
        Err(why) => Symptom::broken(
            what,
            format!("{address}: {why}"),
            "Listen on an address of this machine; 0.0.0.0 and the port are all of them.",
        ),
    }
}

fn calling(address: &str, patience: Duration) -> Symptom {
    let what = "connect";
    let found: Vec<SocketAddr> = match address.to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(why) => {
            let todo = "No such name: look at its spelling, or give the address in numbers.";
            return Symptom::broken(what, format!("{address}: {why}"), todo);
        }
    };
    let mut last = None;
    for socket in &found {
        match TcpStream::connect_timeout(socket, patience) {
            Ok(_) => return Symptom::well(what, format!("somebody listens at {address} ({})", socket.ip())),
            Err(why) => last = Some(why),
        }
    }
    let Some(why) = last else {
        return Symptom::broken(what, format!("{address} has no address"), "Look at its spelling.");
    };
    let here = found.iter().any(|socket| is_private(socket.ip()));
    match why.kind() {
        ErrorKind::ConnectionRefused => Symptom::broken(
            what,
            format!("{address} refuses"),
            "The machine is there, and nobody listens. That is so until the other side runs its job; if it does, look at the port.",
        ),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Symptom::broken(
            what,
            format!("{address} does not answer within {} s", patience.as_secs()),
            if here {
                "The address is of a private network: be in that network, or ask for a public address; else a firewall drops the calls."
            } else {
                "A firewall drops the calls, yours or theirs: ask both to let TCP through to this port."
            },
        ),
        _ => Symptom::broken(what, format!("{address}: {why}"), "Look at the network of this machine."),
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ill(symptom: &Symptom) -> &str {
        match symptom.advice.as_ref() {
            None => "",
            Some(Advice::Slow(todo) | Advice::Broken(todo)) => todo,
        }
    }

    #[test]
    fn what_is_slow_says_what_to_do() {
        let all = [Backend::Portable, Backend::Avx2];
        assert!(ill(&processor(Backend::Portable, &all)).contains("VESICA_CPU holds it back"));
        assert!(ill(&processor(Backend::Portable, &all[..1])).contains("no AVX2"));
        assert_eq!(processor(Backend::Avx2, &all).found, "arithmetic with AVX2 (avx2)");
        assert_eq!(ill(&processor(Backend::Avx2, &all)), "");

        assert!(shares(8, Some("150000 100000\n")).found.contains("may use 1.5"));
        assert_eq!(ill(&shares(8, Some("max 100000\n"))), "");
        assert_eq!(ill(&shares(8, None)), "");
        assert!(ill(&shares(1, None)).contains("One core"));

        let meminfo = "MemTotal: 9000000 kB\nMemAvailable:    1048576 kB\n";
        assert!(ill(&memory(2 << 30, meminfo, None)).contains("\"924 MiB\""));
        assert_eq!(ill(&memory(512 << 20, meminfo, Some("max\n"))), "");
        assert!(ill(&memory(512 << 20, meminfo, Some("536870912\n"))).contains("\"412 MiB\""));
        assert!(memory(1, "", None).found.contains("not known"));
    }

    #[test]
    fn that_all_is_well_is_said_and_only_then() {
        let well = Symptom::well("cores", "8 for this process");
        let slow = Symptom::slow("memory", "1 GiB free", "Set mine.memory.");
        assert!(in_words(std::slice::from_ref(&well)).ends_with("process\nNothing here makes runs slow or fail.\n"));
        assert!(!in_words(&[well, slow]).contains("Nothing here"));
    }

    #[test]
    fn what_would_fail_is_found() {
        assert!(ill(&scratch(Path::new("/nowhere/at/all"))).contains("mine.scratch"));
        // Where there is such a folder, it is in memory.
        #[cfg(target_os = "linux")]
        assert_eq!(in_memory(Path::new("/dev/shm")), Path::new("/dev/shm").exists());
        assert!(!in_memory(Path::new("/nowhere/at/all")));
        assert!(ill(&clock(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400))).contains("clock is off"));
        assert_eq!(ill(&clock(SystemTime::UNIX_EPOCH + FIRST)), "");
    }

    #[test]
    fn addresses_are_called_and_listened_on() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        assert!(ill(&listening(&address)).contains("Another program"));
        assert_eq!(calling(&address, PATIENCE).advice, None);
        drop(taken);
        assert_eq!(listening(&address).advice, None);
        assert!(ill(&calling(&address, PATIENCE)).contains("until the other side runs its job"));
        assert!(ill(&listening("192.0.2.1:20001")).contains("an address of this machine"));
        assert!(ill(&calling("no-such-name.invalid:1", PATIENCE)).contains("spelling"));
    }
}
