"""Builds the wheel: the package and libgradstep.so in a zip file. `pip wheel bindings/python` and `pip install bindings/python`
call it (PEP 517); it needs nothing but Python.

The library is the one that the environment variable GRADSTEP_LIBRARY names; without it, it is built by CMake, for all x86-64
processors, into build/wheel.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REQUIREMENTS = ["numpy>=1.23", 'ml_dtypes; extra == "bfloat16"', 'torch>=2.2; extra == "torch"']


def version() -> str:
    header = (ROOT / "include/gradstep/version.hpp").read_text()
    return ".".join(re.findall(r"GRADSTEP_VERSION_[A-Z]+ (\d+)", header))


def library() -> Path:
    """The library that goes into the wheel."""
    given = os.environ.get("GRADSTEP_LIBRARY")
    if given:
        if not Path(given).is_file():
            raise SystemExit(f"GRADSTEP_LIBRARY: {given} is not a file; expected the path of a libgradstep.so")
        return Path(given).resolve()
    needed = {"cmake": ["cmake"], "ninja": ["ninja", "ninja-build", "samu"]}  # and what CMake itself asks for
    missing = [name for name, programs in needed.items() if not any(map(shutil.which, programs))]
    if missing:
        raise SystemExit(
            f"cannot build libgradstep.so: {' and '.join(missing)} not found; expected cmake, ninja and a C++20 compiler on the PATH "
            "(Debian: apt-get install g++ cmake ninja-build), or GRADSTEP_LIBRARY=/path/to/libgradstep.so"
        )
    folder = ROOT / "build/wheel"
    wanted = {
        "BUILD_C": "ON",
        **dict.fromkeys(("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCHMARKS", "BUILD_TOOLS", "INSTALL", "CUDA"), "OFF"),
    }
    options = [f"-DGRADSTEP_{name}={value}" for name, value in wanted.items()]
    for command in (
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", *options],
        ["cmake", "--build", str(folder), "--target", "gradstep_c", "--parallel"],
    ):
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(
                f"cannot build libgradstep.so: `{' '.join(command[:2])} ...` failed, as it says above; docs/how_to/python.md#installing has "
                "what the build needs"
            )
    return next(folder.rglob("libgradstep.so")).resolve()


def metadata() -> str:
    lines = [
        "Metadata-Version: 2.1",
        "Name: gradstep",
        f"Version: {version()}",
        "Requires-Python: >=3.9",
        "Summary: Optimizer update rules in one pass over memory",
        "Provides-Extra: bfloat16",
        "Provides-Extra: torch",
        *(f"Requires-Dist: {requirement}" for requirement in REQUIREMENTS),
    ]
    return "\n".join(lines) + "\n"


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """Writes the wheel into a folder; its name."""
    tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    folder = f"gradstep-{version()}.dist-info"
    files = {
        str(file.relative_to(HERE)): file.read_bytes()
        for file in sorted((HERE / "gradstep").rglob("*"))
        if file.suffix == ".py" or file.name == "py.typed"
    }
    files["gradstep/libgradstep.so"] = library().read_bytes()
    files[f"{folder}/METADATA"] = metadata().encode()
    files[f"{folder}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: gradstep\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{folder}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    name = f"gradstep-{version()}-{tag}.whl"
    record = []
    with zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")
        wheel.writestr(f"{folder}/RECORD", "".join([*record, f"{folder}/RECORD,,\n"]))
    return name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    raise SystemExit(
        "gradstep has no source distribution for Python: build the wheel in a checkout, `pip wheel bindings/python`"
    )
