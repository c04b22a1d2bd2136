//! What this machine will make slow or impossible, and what to do: `vesica doctor`.
//!
//! Each look is a function of what the system says, so that a test can say something else.

use crate::error::JobError;
use crate::forecast;
use crate::meet::peers;
use crate::tell::control::Control;
use crate::tell::numbers::size;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use vesica_cpu::Backend;
use vesica_net::{Identity, Station, SystemClock, Time, Unreached};
use vesica_session::Fault;
use vesica_spec::{KeyPlace, LEAST_MEMORY, ProxyPlan, RoadPlan, USUAL_MEMORY};

/// Before this moment (2026-11-01) nobody had this program: a clock that is earlier is off.
const FIRST: Duration = Duration::from_secs(1_793_491_200);

/// What the program and its buffers take besides the keys and rows that `mine.memory` bounds.
const PROGRAM: u64 = 100 << 20;

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
    /// It is only not so yet, or not for much longer, or may be this job's own doing: a run may begin all the same.
    Later(String),
    /// Runs will fail, and by whose fault.
    Broken(Fault, String),
}

impl Symptom {
    fn well(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: None }
    }

    fn slow(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: Some(Advice::Slow(todo.into())) }
    }

    fn later(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: Some(Advice::Later(todo.into())) }
    }

    /// Broken by this machine or by the job.
    fn broken(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: Some(Advice::Broken(Fault::Config, todo.into())) }
    }

    /// Broken by what lies between the machines.
    fn cut_off(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, found: found.into(), advice: Some(Advice::Broken(Fault::Network, todo.into())) }
    }

    /// Whose fault it is that runs will fail, if they will.
    pub fn fault(&self) -> Option<Fault> {
        match self.advice {
            Some(Advice::Broken(fault, _)) => Some(fault),
            _ => None,
        }
    }
}

/// What is to be looked at, besides the machine itself.
#[derive(Clone, Debug)]
pub struct Patient {
    /// Where a run spills what does not fit in memory.
    pub scratch: PathBuf,
    /// Bytes of memory that a run may take.
    pub memory: u64,
    /// The files of the private key and certificate, unless the job is insecure: one for both, or the certificate's and the key's.
    pub identity: Option<(PathBuf, Option<KeyPlace>)>,
    /// Where this side listens.
    pub listen: Option<String>,
    /// Where the others are called.
    pub connect: Vec<(String, RoadPlan)>,
    /// Through which proxy.
    pub proxy: ProxyPlan,
}

impl Default for Patient {
    /// What a run has where its job says nothing.
    fn default() -> Self {
        Self {
            scratch: std::env::temp_dir(),
            memory: USUAL_MEMORY,
            identity: None,
            listen: None,
            connect: Vec::new(),
            proxy: ProxyPlan::Environment,
        }
    }
}

/// Looks at this machine, and at the addresses of `patient`: those are called and listened on for a moment. A program that prints a private key
/// is ended once `ctl` is cancelled.
///
/// # Errors
/// Being cancelled.
pub fn doctor(patient: &Patient, ctl: &Control) -> Result<Vec<Symptom>, JobError> {
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
        clock(SystemClock.wall()),
    ];
    all.extend(patient.identity.as_ref().map(|files| identity(files, SystemClock.wall(), ctl)));
    ctl.check()?;
    all.extend(patient.listen.as_deref().map(listening));
    for address in &patient.connect {
        ctl.check()?;
        all.push(calling(address, &patient.proxy));
    }
    Ok(all)
}

/// The findings and what to do about them; where there is nothing to do, that; and what else looks at a job.
pub fn in_words(symptoms: &[Symptom]) -> String {
    let line = |one: &Symptom| {
        let (mark, todo) = match &one.advice {
            None => ("ok    ", None),
            Some(Advice::Slow(todo)) => ("slow  ", Some(todo)),
            Some(Advice::Later(todo)) => ("later ", Some(todo)),
            Some(Advice::Broken(_, todo)) => ("BROKEN", Some(todo)),
        };
        let todo = todo.map(|todo| format!("                    {todo}\n")).unwrap_or_default();
        format!("{mark}  {:<11} {}\n{todo}", one.what, one.found)
    };
    let mut words: String = symptoms.iter().map(line).collect();
    if symptoms.iter().all(|one| one.advice.is_none()) {
        words.push_str("Nothing of what was looked at makes runs slow or fail.\n");
    }
    words + "`vesica check FILE` looks at the job itself: its table, its output and whom it trusts.\n"
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
            match std::env::consts::ARCH {
                "x86_64" => {
                    "The processor has no AVX2, so all arithmetic is much slower. In a virtual machine, let it see the host's processor."
                }
                "aarch64" => {
                    "The processor has no instructions for AES, so all arithmetic is slower. In a virtual machine, let it see the host's \
                     processor."
                }
                _ => {
                    "This build has kernels with vector instructions for x86-64 and ARM alone, so arithmetic on curves is some ten times \
                     slower here."
                }
            },
        ),
        _ => Symptom::well("processor", found),
    }
}

/// What a back end is made of.
fn instructions(backend: Backend) -> &'static str {
    match backend {
        Backend::Portable => "no vector instructions",
        Backend::Neon => "NEON",
        Backend::Avx2 => "AVX2",
        Backend::Ifma => "AVX-512 IFMA",
    }
}

/// `cores` are those that this process may use: the system counts what a container grants in whole cores, and one at least. `quota` is what
/// control groups say: the microseconds that may be used in each period, or `max`.
fn shares(cores: usize, quota: Option<&str>) -> Symptom {
    let mut parts = quota.unwrap_or("max").split_whitespace().map(|part| part.parse::<f64>().ok());
    let granted = match (parts.next().flatten(), parts.next().flatten()) {
        (Some(used), Some(period)) if period > 0.0 => Some(used / period),
        _ => None,
    };
    let of_container = granted.map(|granted| format!("; its container may use {granted:.1}")).unwrap_or_default();
    let found = format!("{cores} for this process{of_container}");
    match granted {
        Some(granted) if granted < 0.99 => Symptom::slow(
            "cores",
            found,
            "Give the container a whole core, or better two: one then serves the network.",
        ),
        _ if cores == 1 => {
            Symptom::slow("cores", found, "One core computes and serves the network: two or more are faster.")
        }
        _ => Symptom::well("cores", found),
    }
}

/// `limit` is what control groups say: the bytes above which the system ends a container's programs, or `max`. Tables that are small run
/// in a container that is small, too. So it is broken only for a document that asks for more than there is.
fn memory(wanted: u64, meminfo: &str, limit: Option<&str>) -> Symptom {
    let what = "memory";
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = kilobytes.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).map(|kb| kb << 10);
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    let need = wanted.saturating_add(PROGRAM);
    match (limit, free) {
        (Some(limit), _) if limit < need => {
            let (has, takes, program) = (size(limit), size(wanted), size(PROGRAM));
            let found =
                format!("its container has {has}, and a run may take {takes} besides {program} for the program");
            let todo = format!("A run with tables so large is killed. {}", less(limit));
            match wanted == USUAL_MEMORY {
                true => Symptom::slow(what, found, todo),
                false => Symptom::broken(what, found, todo),
            }
        }
        (_, None) => {
            Symptom::well(what, format!("a run may take {}; how much is free is not known here", size(wanted)))
        }
        (_, Some(free)) => {
            let found = format!("{} free, and a run may take {}", size(free), size(wanted));
            match free < need {
                true => Symptom::slow(what, found, less(free)),
                false => Symptom::well(what, found),
            }
        }
    }
}

/// How a run takes no more than `most` bytes.
fn less(most: u64) -> String {
    let mebibytes = most.saturating_sub(PROGRAM) >> 20;
    if mebibytes < LEAST_MEMORY >> 20 {
        return format!("No run can be sure of so little: give it {} or more.", size(LEAST_MEMORY + PROGRAM));
    }
    format!("Set mine.memory to at most \"{mebibytes} MiB\"; what is more is spilled to disk.")
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

/// The private key and certificate in `files`, by the same look as that of `vesica check` and of a run. The certificate's dates are all that
/// is known here of a clock that is ahead.
fn identity(files: &(PathBuf, Option<KeyPlace>), now: SystemTime, ctl: &Control) -> Symptom {
    let what = "identity";
    let identity = match peers::identity(files, &|| ctl.is_cancelled()) {
        Ok(identity) => identity,
        Err(error) => {
            let (found, todo) = apart(error);
            return Symptom::broken(what, found, todo);
        }
    };
    let until = identity.expires().map(|day| format!(", valid until {day}")).unwrap_or_default();
    let found = format!("{}{until}", identity.fingerprint());
    match identity.check_age(Identity::SOON) {
        Ok(None) => Symptom::well(what, found),
        Ok(Some(day)) => {
            let todo = format!(
                "It expires soon: before {day}, make a new one with `vesica cert`, and give its fingerprint to your partners."
            );
            Symptom::later(what, found, todo)
        }
        Err(error) => {
            let (found, todo) = apart(error.into());
            let clock = humantime::format_rfc3339_seconds(now);
            Symptom::broken(what, found, format!("{todo} Or the clock is off, which says {clock}: then set that."))
        }
    }
}

/// What is wrong with an identity, and a sentence that says what to do.
fn apart(error: JobError) -> (String, String) {
    match error {
        JobError::Net(vesica_net::Error::Identity { what, why, remedy }) => {
            let mut letters = remedy.chars();
            let sentence = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).chain(['.']);
            (format!("{what}: {why}"), sentence.collect())
        }
        error => (error.to_string(), "Name the files of this party's identity in mine.tls.".to_owned()),
    }
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
        // Nobody can tell here whose it is, and a job that waits for its partner is well.
        Err(why) if why.kind() == ErrorKind::AddrInUse => Symptom::later(
            what,
            format!("{address} is taken"),
            "A program listens there already. If it is this job itself, which waits, all is well; else end it, or take another port.",
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

/// A call to `address` by the road that a run would take.
fn calling((address, said): &(String, RoadPlan), proxy: &ProxyPlan) -> Symptom {
    let what = "connect";
    let road = match peers::road(proxy, address, said) {
        Ok(road) => road,
        Err(why) => return Symptom::broken(what, why.to_string(), "Correct that, or set mine.proxy."),
    };
    let by = road.in_words().map(|words| format!(", {words}")).unwrap_or_default();
    let why = match road.try_out(address) {
        Ok(found) => return Symptom::well(what, format!("{address}{by}: {found}")),
        Err(why) => why,
    };
    match &why {
        Unreached::Unknown { of: Station::Peer, why } => {
            let todo = "No such name: look at its spelling, or give the address in numbers.";
            Symptom::broken(what, format!("{address}: {why}"), todo)
        }
        Unreached::Silent { of: Station::Peer, at, limit, error } => {
            unanswered(address, error, is_private(at.ip()), *limit)
        }
        Unreached::Unknown { .. } | Unreached::Silent { .. } => Symptom::cut_off(
            what,
            why.to_string(),
            "Look at the address of the proxy, or ask those who run it; mine.proxy = \"none\" calls without one.",
        ),
        Unreached::Later(_) => Symptom::later(
            what,
            why.to_string(),
            "That is so until the other side has started: a run waits for it. If it has, ask those who run what stands between whether it may call there.",
        ),
        _ => Symptom::broken(
            what,
            format!("{address}: {why}"),
            "It stands in mine.connect or mine.proxy, or the environment names it.",
        ),
    }
}

/// A call to `address` that ended with `why`; `private` if the address is of a private network.
fn unanswered(address: &str, why: &std::io::Error, private: bool, patience: Duration) -> Symptom {
    let what = "connect";
    match why.kind() {
        ErrorKind::ConnectionRefused => Symptom::later(
            what,
            format!("{address} refuses"),
            "The machine is there, and nobody listens yet. That is so until the other side has started: a run waits for it. If it has, look at the port.",
        ),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Symptom::cut_off(
            what,
            format!("{address} does not answer within {} s", patience.as_secs()),
            if private {
                "The address is of a private network: be in that network, or ask for a public address; else a firewall drops the calls."
            } else {
                "A firewall drops the calls, yours or theirs: ask both to let TCP through to this port."
            },
        ),
        _ => Symptom::cut_off(what, format!("{address}: {why}"), "Look at the network of this machine."),
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
    use std::os::unix::fs::PermissionsExt;

    fn ill(symptom: &Symptom) -> &str {
        match symptom.advice.as_ref() {
            None => "",
            Some(Advice::Slow(todo) | Advice::Later(todo) | Advice::Broken(_, todo)) => todo,
        }
    }

    #[test]
    fn what_is_slow_says_what_to_do() {
        let all = [Backend::Portable, Backend::Avx2];
        assert!(ill(&processor(Backend::Portable, &all)).contains("VESICA_CPU holds it back"));
        let plain = processor(Backend::Portable, &all[..1]);
        let advice = ill(&plain);
        assert!(
            ["no AVX2", "no instructions for AES", "ten times slower"].iter().any(|why| advice.contains(why)),
            "{advice}"
        );
        assert_eq!(processor(Backend::Avx2, &all).found, "arithmetic with AVX2 (avx2)");
        assert_eq!(processor(Backend::Neon, &[Backend::Portable, Backend::Neon]).found, "arithmetic with NEON (neon)");
        assert_eq!(ill(&processor(Backend::Avx2, &all)), "");

        // Half a core is counted as one, and one and a half as well.
        assert!(ill(&shares(1, Some("50000 100000\n"))).contains("a whole core"));
        assert_eq!(shares(1, Some("150000 100000\n")).found, "1 for this process; its container may use 1.5");
        assert!(ill(&shares(1, Some("150000 100000\n"))).contains("One core"));
        assert_eq!(ill(&shares(2, Some("200000 100000\n"))), "");
        assert_eq!(ill(&shares(8, Some("max 100000\n"))), "");
        assert_eq!(ill(&shares(8, None)), "");
        assert!(ill(&shares(1, None)).contains("One core"));

        let meminfo = "MemTotal: 9000000 kB\nMemAvailable:    1048576 kB\n";
        assert!(ill(&memory(2 << 30, meminfo, None)).contains("\"924 MiB\""));
        assert_eq!(ill(&memory(512 << 20, meminfo, Some("max\n"))), "");
        assert_eq!(memory(2 << 30, meminfo, None).fault(), None);
        assert!(memory(1, "", None).found.contains("not known"));
    }

    #[test]
    fn a_container_with_less_memory_than_a_document_asks_for_is_broken() {
        for meminfo in ["", "MemAvailable:    1048576 kB\n"] {
            let killed = memory(512 << 20, meminfo, Some("536870912\n"));
            assert!(killed.found.contains("512.0 MiB"), "{}", killed.found);
            assert!(ill(&killed).contains("is killed. Set mine.memory to at most \"412 MiB\""));
            assert_eq!(killed.fault(), Some(Fault::Config));
            // Where the document says nothing, small tables run.
            let small = memory(Patient::default().memory, meminfo, Some("536870912\n"));
            assert!(matches!(&small.advice, Some(Advice::Slow(todo)) if todo.contains("\"412 MiB\"")), "{small:?}");
        }
    }

    /// What is suggested is well when it is done, down to the least that a document may say.
    #[test]
    fn the_memory_that_is_suggested_fits() {
        for limit in [164 << 20, (165 << 20) - 1, 512 << 20, 2 << 30] {
            let text = ill(&memory(USUAL_MEMORY, "", Some(&u64::to_string(&limit)))).to_owned();
            let mebibytes: u64 = text.split('"').nth(1).unwrap().strip_suffix(" MiB").unwrap().parse().unwrap();
            assert!(mebibytes << 20 >= LEAST_MEMORY, "{text}");
            assert_eq!(memory(mebibytes << 20, "", Some(&u64::to_string(&limit))).advice, None, "{text}");
        }
        let none = memory(USUAL_MEMORY, "", Some("171966463"));
        assert!(ill(&none).contains("give it 164.0 MiB or more"), "{}", ill(&none));
    }

    #[test]
    fn that_all_is_well_is_said_and_only_then() {
        let well = Symptom::well("cores", "8 for this process");
        let slow = Symptom::slow("memory", "1 GiB free", "Set mine.memory.");
        let later = Symptom::later("connect", "bob:1 refuses", "Wait.");
        let all_well = in_words(std::slice::from_ref(&well));
        assert!(all_well.contains("process\nNothing of what was looked at makes runs slow or fail.\n"), "{all_well}");
        for not_well in [slow, later.clone()] {
            assert!(!in_words(&[well.clone(), not_well]).contains("Nothing of what"));
        }
        assert!(in_words(&[later]).starts_with("later   connect     bob:1 refuses\n                    Wait.\n"));
        assert!(all_well.contains("`vesica check FILE` looks at the job itself"));
    }

    #[test]
    fn what_would_fail_is_found() {
        let nowhere = scratch(Path::new("/nowhere/at/all"));
        assert!(ill(&nowhere).contains("mine.scratch"));
        assert_eq!(nowhere.fault(), Some(Fault::Config));
        // Where there is such a folder, it is in memory.
        #[cfg(target_os = "linux")]
        assert_eq!(in_memory(Path::new("/dev/shm")), Path::new("/dev/shm").exists());
        assert!(!in_memory(Path::new("/nowhere/at/all")));
        assert!(ill(&clock(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400))).contains("clock is off"));
        assert_eq!(ill(&clock(SystemTime::UNIX_EPOCH + FIRST)), "");
    }

    #[test]
    fn an_identity_is_looked_at_as_a_run_looks_at_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, _) = Identity::generate("alice").unwrap().write(dir.path()).unwrap();
        let good = identity(&(file.clone(), None), SystemTime::now(), &Control::new(()));
        assert!(good.advice.is_none() && good.found.starts_with("sha256:") && good.found.contains("valid until"));

        let none = identity(&(dir.path().join("bob.pem"), None), SystemTime::now(), &Control::new(()));
        assert!(none.found.contains("bob.pem"), "{}", none.found);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let open = identity(&(file.clone(), None), SystemTime::now(), &Control::new(()));
        assert!(ill(&open).starts_with("Run `chmod 600 "), "{}", ill(&open));
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let empty = identity(&(file, None), SystemTime::now(), &Control::new(()));
        assert!(empty.found.contains("no private key in it"), "{}", empty.found);
        assert!([none, open, empty].iter().all(|one| one.fault() == Some(Fault::Config)));
    }

    #[test]
    fn a_certificate_that_is_too_old_is_broken_and_one_that_soon_will_be_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let certified = |name: &str, end: SystemTime| {
            let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = end.into();
            let key = rcgen::KeyPair::generate().unwrap();
            let file = dir.path().join(name);
            std::fs::write(&file, key.serialize_pem() + &params.self_signed(&key).unwrap().pem()).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            identity(&(file, None), SystemTime::now(), &Control::new(()))
        };
        let old = certified("old", SystemTime::UNIX_EPOCH + Duration::from_secs(1_012_694_400));
        assert!(old.found.contains("the certificate expired on 2002-02-03"), "{}", old.found);
        assert!(ill(&old).starts_with("Make a new one with `vesica cert"), "{}", ill(&old));
        assert!(ill(&old).contains("Or the clock is off"), "{}", ill(&old));
        assert_eq!(old.fault(), Some(Fault::Config));
        let soon = certified("soon", SystemTime::now() + Duration::from_secs(5 * 86_400));
        assert!(matches!(&soon.advice, Some(Advice::Later(todo)) if todo.contains("expires soon")), "{soon:?}");
    }

    #[test]
    fn addresses_are_called_and_listened_on() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let held = listening(&address);
        assert!(matches!(&held.advice, Some(Advice::Later(todo)) if todo.contains("If it is this job itself")));
        assert_eq!(calling(&(address.clone(), RoadPlan::default()), &ProxyPlan::None).advice, None);
        drop(taken);
        assert_eq!(listening(&address).advice, None);
        // Nobody is there yet, which ends no run.
        let early = calling(&(address.clone(), RoadPlan::default()), &ProxyPlan::None);
        assert!(ill(&early).contains("until the other side has started"));
        assert!(matches!(early.advice, Some(Advice::Later(_))) && early.fault().is_none());
        assert!(ill(&listening("192.0.2.1:20001")).contains("an address of this machine"));
        let unknown = calling(&("no-such-name.invalid:1".to_owned(), RoadPlan::default()), &ProxyPlan::None);
        assert!(ill(&unknown).contains("spelling"));
        assert_eq!(unknown.fault(), Some(Fault::Config));
    }

    #[test]
    fn a_firewall_is_of_the_network_and_a_partner_who_is_late_is_nobodys_fault() {
        let after = |kind: ErrorKind, private| unanswered("a:1", &kind.into(), private, Duration::from_secs(5));
        assert_eq!(after(ErrorKind::ConnectionRefused, false).fault(), None);
        for kind in [ErrorKind::TimedOut, ErrorKind::HostUnreachable] {
            assert_eq!(after(kind, false).fault(), Some(Fault::Network));
        }
        assert!(ill(&after(ErrorKind::TimedOut, false)).contains("A firewall drops the calls"));
        assert!(ill(&after(ErrorKind::TimedOut, true)).contains("private network"));
    }
}
