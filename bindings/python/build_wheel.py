"""The build backend (PEP 517) that pip calls for `pip install bindings/python`: the wheel, which is the package with libgradstep.so
in a zip file, and the source distribution. It needs nothing but Python.

The library is the one that the environment variable GRADSTEP_LIBRARY names. Without it, CMake builds the library into build/wheel, for
one instruction set: AVX2, or SSE2 if this processor lacks AVX2. GRADSTEP_CMAKE_ARGS holds further arguments for CMake:
`"-DGRADSTEP_INSTRUCTION_SETS=sse2;avx2;avx512"` is for every x86-64 processor, and takes three times as long. CMAKE_BUILD_PARALLEL_LEVEL
is the number of compilers at once. pip hides what a backend prints without `pip install -v`, so progress also goes to the terminal, if
there is one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
IN_SDIST = (HERE / "library").is_dir()
ROOT = HERE / "library" if IN_SDIST else HERE.parents[1]
SOURCES = ("CMakeLists.txt", "LICENSE", "cmake", "include", "bindings/c")  # that the library is built from
PACKAGE = ("build_wheel.py", "pyproject.toml", "README.md")
KIB_OF_JOB = 2 << 20  # the memory of a compiler: docs/start/install.md
REQUIREMENTS = ["numpy>=1.23", 'ml_dtypes; extra == "bfloat16"', 'mpi4py>=3.1; extra == "mpi"', 'torch>=2.2; extra == "torch"']


def version() -> str:
    header = (ROOT / "include/gradstep/version.hpp").read_text()
    return ".".join(re.findall(r"GRADSTEP_VERSION_[A-Z]+ (\d+)", header))


def run(command: list[str]) -> int:
    """Runs a command; its exit status. Ninja's `[12/60]` is shown on the terminal, if there is one."""
    try:
        terminal = open("/dev/tty", "w") if not os.isatty(1) else None
    except OSError:
        terminal = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            step = re.match(r"\[\d+/\d+\]", line)
            if terminal and step:
                print(f"\r\x1b[Kgradstep: compiling libgradstep.so {step[0]}", end="", file=terminal, flush=True)
    if terminal:
        print("\r\x1b[K", end="", file=terminal)
        terminal.close()
    return process.returncode


AVX2 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm", "popcnt"}


def instruction_set(machine: str, cpuinfo: str) -> str:
    """The instruction set to compile for: of an x86-64 processor AVX2, or SSE2 if it lacks AVX2; "" for CMake's default."""
    if machine not in ("x86_64", "AMD64"):
        return ""
    flags = re.search(r"^flags.*$", cpuinfo, re.MULTILINE)
    return "avx2" if flags and AVX2 <= set(flags[0].split()) else "sse2"


def jobs(processors: int, meminfo: str) -> int:
    """How many compilers run at once: one for each processor, if there is memory for it."""
    available = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return max(1, min(processors, int(available[1]) // KIB_OF_JOB if available else processors))


def text_of(path: str) -> str:
    """The text of a file of /proc; empty if the system has no such file."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def library() -> Path:
    """The library that goes into the wheel."""
    given = os.environ.get("GRADSTEP_LIBRARY")
    if given:
        if not Path(given).is_file():
            raise SystemExit(f"GRADSTEP_LIBRARY: {given} is not a file; expected the path of a libgradstep.so")
        return Path(given).resolve()
    needed = {"cmake": ["cmake"], "ninja": ["ninja", "ninja-build", "samu"], "a C++ compiler": [os.environ.get("CXX", "c++"), "g++", "clang++"]}
    missing = [name for name, programs in needed.items() if not any(map(shutil.which, programs))]
    if missing:
        raise SystemExit(
            f"cannot build libgradstep.so: {', '.join(missing)} not found; expected cmake, ninja, a C++20 compiler, xsimd and nlohmann-json "
            "(Debian: apt-get install g++ cmake ninja-build libxsimd-dev xtl-dev nlohmann-json3-dev), or GRADSTEP_LIBRARY=/path/to/libgradstep.so"
        )
    folder = (HERE if IN_SDIST else ROOT) / "build/wheel"
    wanted = {
        "BUILD_C": "ON",
        **dict.fromkeys(("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCHMARKS", "BUILD_TOOLS", "INSTALL", "CUDA", "KEYED"), "OFF"),
    }
    if chosen := instruction_set(platform.machine(), text_of("/proc/cpuinfo")):
        wanted["INSTRUCTION_SETS"] = chosen
    options = [f"-DGRADSTEP_{name}={value}" for name, value in wanted.items()]
    more = shlex.split(os.environ.get("GRADSTEP_CMAKE_ARGS", ""))  # of two values of an option, the last counts
    number = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(jobs(len(os.sched_getaffinity(0)), text_of("/proc/meminfo")))
    for command in (
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", *options, *more],
        ["cmake", "--build", str(folder), "--target", "gradstep_c", "--parallel", number],
    ):
        if run(command):
            raise SystemExit(
                f"cannot build libgradstep.so: `{' '.join(command[:2])} ...` failed, as it says above; expected a C++20 compiler, xsimd and "
                "nlohmann-json (Debian: apt-get install g++ cmake ninja-build libxsimd-dev xtl-dev nlohmann-json3-dev)"
            )
    return next(folder.rglob("libgradstep.so")).resolve()


def description() -> str:
    """README.md for the page of the package, without links to files of the source tree."""
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)", r"\1", (HERE / "README.md").read_text())


def metadata() -> str:
    lines = [
        "Metadata-Version: 2.1",
        "Name: gradstep",
        f"Version: {version()}",
        "Requires-Python: >=3.9",
        "Summary: Optimizer steps in one pass over memory, for numpy, torch and other arrays on the CPU",
        "License: Apache-2.0",
        "Classifier: License :: OSI Approved :: Apache Software License",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Programming Language :: C++",
        "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Classifier: Typing :: Typed",
        "Provides-Extra: bfloat16",
        "Provides-Extra: mpi",
        "Provides-Extra: torch",
        *(f"Requires-Dist: {requirement}" for requirement in REQUIREMENTS),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + description()


def dist_info() -> dict[str, bytes]:
    """The files of the folder NAME.dist-info, without RECORD."""
    wheel = f"Wheel-Version: 1.0\nGenerator: gradstep\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    return {"METADATA": metadata().encode(), "WHEEL": wheel.encode(), "LICENSE": (ROOT / "LICENSE").read_bytes()}


def tag() -> str:
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    """Writes the metadata alone. Without this hook, pip would compile to get it, and show "Preparing metadata" meanwhile."""
    folder = Path(metadata_directory, f"gradstep-{version()}.dist-info")
    folder.mkdir()
    for name, content in dist_info().items():
        (folder / name).write_bytes(content)
    return folder.name


def package() -> dict[str, bytes]:
    """The files of the package: those here, and in the source tree those that write_constructors.py writes."""
    files = {
        str(file.relative_to(HERE)): file.read_bytes()
        for file in sorted((HERE / "gradstep").rglob("*"))
        if file.suffix == ".py" or file.name == "py.typed"
    }
    if not IN_SDIST:
        from write_constructors import files as constructors

        files.update({f"gradstep/{name}": text.encode() for name, text in constructors().items()})
    return files


def write_package(folder: Path) -> None:
    """Writes the package without the library, for programs that have its folder in PYTHONPATH."""
    shutil.rmtree(folder / "gradstep", ignore_errors=True)
    for name, content in package().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """Writes the wheel into a folder; its name."""
    folder = f"gradstep-{version()}.dist-info"
    files = package()
    files["gradstep/libgradstep.so"] = library().read_bytes()
    files.update({f"{folder}/{file}": content for file, content in dist_info().items()})
    name = f"gradstep-{version()}-{tag()}.whl"
    record = []
    with zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")
        wheel.writestr(f"{folder}/RECORD", "".join([*record, f"{folder}/RECORD,,\n"]))
    return name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Writes the source distribution into a folder; its name. It holds the package, and in library/ what libgradstep.so is built from."""
    base = f"gradstep-{version()}"
    with tarfile.open(Path(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:

        def add(name: str, place: Path) -> None:
            archive.add(place, f"{base}/{name}", filter=lambda x: None if "__pycache__" in x.name else x)

        for name in PACKAGE:
            add(name, HERE / name)
        for name in SOURCES:
            add(f"library/{name}", ROOT / name)
        add("LICENSE", ROOT / "LICENSE")
        for name, content in {**package(), "PKG-INFO": metadata().encode()}.items():
            information = tarfile.TarInfo(f"{base}/{name}")
            information.size = len(content)
            archive.addfile(information, io.BytesIO(content))
    return f"{base}.tar.gz"
