#!/usr/bin/env python3
"""Every header compiles alone, and includes no library but its own; and so do the definitions of an .ipp, after its header.

The compiler, a clang, parses each file once, as a module: what a file does not include, itself or by what it includes, it does not
see, and what it includes has been parsed before. That takes an eighth of the time of one program for each header. The standard
library is one module, so this does not find a missing include of it.

Usage: alone.py COMPONENT,... COMPILER OPTION...; headers of other components, which were not found here, are left out.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from layers import HEADERS, includes

# A component, its headers, and the libraries that they include. The first that fits; the rest is core.
COMPONENTS = [
    ("xtensor", r"adapt/xtensor", {"xtensor", "xtensor-blas", "xsimd"}),
    ("eigen", r"adapt/eigen", {"Eigen"}),
    ("dlib", r"adapt/dlib", {"dlib", "xsimd"}),
    ("armadillo", r"adapt/armadillo", {"armadillo"}),
    ("ensmallen", r"adapt/ensmallen", {"ensmallen.hpp", "ensmallen_bits", "armadillo", "xsimd"}),
    ("blas", r"adapt/blas", {"cblas.h"}),
    ("libtorch", r"adapt/libtorch", {"torch", "ATen", "c10", "xsimd", "nlohmann"}), # ./dev test python-torch compiles them
    ("ggml", r"adapt/ggml", {"ggml.h", "ggml-backend.h", "xsimd"}), # examples/ggml compiles it
    ("openmp", r"backends/openmp_executor", {"omp.h"}),
    ("tbb", r"backends/tbb_executor", {"tbb", "oneapi"}),
    ("mpi", r"distributed/mpi", {"mpi.h"}),
    ("thrust", r"thrust", {"thrust", "cub", "tbb", "omp.h", "xsimd"}),
    ("runtime", r"distributed/server_configuration", {"xsimd", "nlohmann"}),
    ("runtime", r"runtime", {"xsimd", "nlohmann"}),
    ("json", r"(config|configuration|checkpoint)[./]|json/|saved/(detail/(checkpoint_files|description)|safetensors)", {"nlohmann"}),
    ("gradstep", r"backends/.*simd|gradstep\.hpp|all\.hpp", {"xsimd"}),
    ("core", r"", set()),
]
LIBRARIES = set().union(*(libraries for _, _, libraries in COMPONENTS))
STANDARD = """algorithm any array atomic bit cassert cerrno cfloat charconv chrono cinttypes climits cmath compare complex concepts
    condition_variable cstddef cstdint cstdio cstdlib cstring ctime deque exception filesystem fstream functional future initializer_list
    iomanip ios iosfwd iostream istream iterator limits list locale map memory mutex new numbers numeric optional ostream queue random
    ranges ratio set shared_mutex span sstream stack stdexcept streambuf string string_view system_error thread tuple type_traits
    typeindex typeinfo unordered_map unordered_set utility valarray variant vector version immintrin.h""".split()


def component_of(header: str) -> tuple[str, set[str]]:
    return next((name, libraries) for name, pattern, libraries in COMPONENTS if re.match(pattern, header))


def libraries_of(of_headers: dict[str, set[str]]) -> dict[str, set[str]]:
    """The libraries that each header includes, itself or by others."""
    found = {header: {name.split("/")[0] for name in re.findall(r"#\s*include <([^>]+)>", (HEADERS / header).read_text())}
             & LIBRARIES for header in of_headers}
    while True:
        before = sum(map(len, found.values()))
        for header, others in of_headers.items():
            found[header].update(*(found[other] for other in others if other in found))
        if sum(map(len, found.values())) == before:
            return found


def paths_of(names: list[str], compiler: list[str]) -> list[str]:
    """Where the compiler finds these headers, in the same order, without those that it does not find."""
    source = "".join(f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in names)
    listed = subprocess.run([*compiler, "-x", "c++", "-M", "-"], input=source, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for name in names:
        paths = [path for path in listed if path.endswith("/" + name)]
        found += paths[:1]
    return found


def compile_alone(headers: list[str], compiler: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        modules = []

        def module(named: str, system: bool, files: list[str]) -> None:
            lines = "".join(f'  header "{file}"\n' for file in files)
            modules.append(f"module {named}{' [system]' if system else ''} {{\n{lines}  export *\n}}\n")

        module("standard", True, paths_of(STANDARD, compiler))
        for number, library in enumerate(("xsimd/xsimd.hpp", "nlohmann/json.hpp")):
            if found := paths_of([library], compiler):
                module(f"library_{number}", True, found)
        source = ""
        for number, header in enumerate(headers):
            path = HEADERS / header
            if path.suffix == ".ipp":
                path = folder / f"{number}.hpp"
                path.write_text(f"#include <gradstep/{Path(header).with_suffix('.hpp')}>\n#include <gradstep/{header}>\n")
            module(f"header_{number}", False, [str(path)])
            source += f'#include "{path}"\n'
        (folder / "modules").write_text("".join(modules))
        (folder / "all.cpp").write_text(source)
        return subprocess.run([*compiler, "-fsyntax-only", "-fmodules", "-fno-implicit-module-maps", f"-fmodule-map-file={folder}/modules",
                               f"-fmodules-cache-path={folder}/cache", f"{folder}/all.cpp"]).returncode


def main() -> int:
    components, compiler = sys.argv[1].split(","), sys.argv[2:]
    of_headers = includes()
    status = 0
    for header, libraries in libraries_of(of_headers).items():
        component, own = component_of(header)
        if not header.endswith(".ipp") and not libraries <= own:
            print(f"{header}, of {component}, includes {', '.join(sorted(libraries - own))}; expected "
                  f"{', '.join(sorted(own)) or 'no library'}")
            status = 1
        if header.endswith((".hpp", ".ipp")) and "#pragma once" not in (HEADERS / header).read_text():
            print(f"{header} can be included twice; expected #pragma once")
            status = 1
    chosen = [header for header in of_headers if not header.endswith(".h") and component_of(header)[0] in components]
    return compile_alone(chosen, compiler) or status


if __name__ == "__main__":
    sys.exit(main())
