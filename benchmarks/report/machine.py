"""The machine, the commit and the load, for the head of a report. What the system does not tell is left out."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VECTOR_SETS = ("avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_fp16", "asimd", "sve")


def text_of(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def fields(text: str) -> dict[str, str]:
    """Of lines as "name : value", the first of each name."""
    found: dict[str, str] = {}
    for name, colon, value in (line.partition(":") for line in text.splitlines()):
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def processor() -> str:
    """Its name; on x86 with family and model, since generations share a name."""
    cpu = fields(text_of(Path("/proc/cpuinfo")))
    name = cpu.get("model name") or platform.processor() or platform.machine()
    return f"{name} (family {cpu['cpu family']}, model {cpu['model']})" if "cpu family" in cpu and "model" in cpu else name


def caches() -> str:
    """Those of data of the first core, as "L1 32K, L2 1024K"."""
    found = []
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = text_of(cache / "type").lower()
        if kind != "instruction":
            found.append(f"L{text_of(cache / 'level')} {text_of(cache / 'size')}")
    return ", ".join(found)


def machine() -> dict[str, str]:
    cpu = fields(text_of(Path("/proc/cpuinfo")))
    memory = fields(text_of(Path("/proc/meminfo"))).get("MemTotal", "").split()
    flags = (cpu.get("flags") or cpu.get("Features") or "").split()
    system = fields(text_of(Path("/etc/os-release")).replace("=", ":"))
    pages = text_of(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    usable = len(os.sched_getaffinity(0))
    found = {
        "processor": processor(),
        "cores": (f"{usable} cores" if usable == os.cpu_count() else f"{usable} of {os.cpu_count()} cores")
                 + (" of a virtual machine" if "hypervisor" in flags else ""),
        "vector instructions": " ".join(x for x in VECTOR_SETS if x in flags),
        "caches of a core": caches(),
        "memory": f"{int(memory[0]) / 2**20:.1f} GiB" if memory else "",
        "huge pages": next((x.strip("[]") for x in pages.split() if x.startswith("[")), ""),
        "clock": text_of(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "kernel": f"{platform.system()} {platform.release()}",
        "system": system.get("PRETTY_NAME", "").strip('"'),
    }
    return {name: value for name, value in found.items() if value}


def commit() -> str:
    """The commit, and whether files differ from it."""
    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (" with changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown: this is no clone"


def load() -> float:
    """The processes that wanted a core, as a mean over the last minute: a benchmark alone on one thread makes it 1."""
    return os.getloadavg()[0]
