"""The machine that a result was measured on, in words that say nothing of whose it is."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path


def describe() -> dict:
    """CPU, cores, memory, system."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    flags = set((re.search(r"^flags\s*:\s*(.+)$", text, re.M) or ["", ""])[1].split())
    wanted = ["avx2", "avx512f", "avx512ifma", "avx512_vnni", "vaes", "vpclmulqdq", "amx_int8"]
    family = {name: (re.search(rf"^{name}\s*:\s*(\d+)$", text, re.M) or ["", ""])[1] for name in ["cpu family", "model"]}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model[1].strip() if model else platform.machine(),
        "family": family["cpu family"],
        "model": family["model"],
        "sets": [flag for flag in wanted if flag in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
    }


def slug(machine: dict) -> str:
    """A name for its files."""
    words = f"{machine['cpu']} {machine['family']} {machine['model']} {machine['cores']}c {machine['memory_gib']}g"
    return re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")


def in_words(machine: dict) -> str:
    """A sentence's worth."""
    sets = ", ".join(machine["sets"])
    family = f"family {machine['family']}, model {machine['model']}" if machine.get("family") else ""
    inner = "; ".join(part for part in [family, sets] if part)
    return f"{machine['cores']} cores of {machine['cpu']} ({inner}), {machine['memory_gib']} GiB, {machine['system']}"


def busy_seconds() -> float:
    """Seconds of CPU that all cores have worked since the machine started, with what its host gave to other machines; 0 where the
    system does not say. Interrupts are left out: those of the network are this run's own messages."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, _, _, stolen, *_ = map(int, stat.read_text(encoding="utf-8").split("\n")[0].split()[1:])
    return (user + nice + system + stolen) / os.sysconf("SC_CLK_TCK")


class Others:
    """How many cores other work had, on average, while a block ran. The system counts CPU time in hundredths of a second, so a block
    that ends within a second is watched until the second is over: what works beside it then has most likely worked during it."""

    def __enter__(self):
        self.start, self.before = time.monotonic(), busy_seconds() - own_seconds()
        return self

    def __exit__(self, *_):
        time.sleep(max(0.0, 1.0 - (time.monotonic() - self.start)))
        passed = time.monotonic() - self.start
        self.cores = round(max(0.0, busy_seconds() - own_seconds() - self.before) / passed, 2)


def own_seconds() -> float:
    """Seconds of CPU of this process and of those that it started and that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
