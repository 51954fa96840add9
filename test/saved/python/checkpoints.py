#!/usr/bin/env python3
"""Opens what examples/checkpoints.cpp has saved with Python's safetensors, writes it again by that, and lets the program go on
from it: the same bits as in one run.

    checkpoints.py PROGRAM
"""

import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors import TensorSpec, deserialize, serialize_file

FORMAT = {"F32": "float32", "F64": "float64", "U32": "uint32"}


def train(program: str, folder: Path, steps: int) -> None:
    subprocess.run([program, str(folder), str(steps)], check=True, stdout=subprocess.DEVNULL)


def tensors(file: Path) -> dict[str, dict]:
    return dict(deserialize(file.read_bytes()))


def metadata(file: Path) -> dict[str, str]:
    data = file.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]


def expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        sys.exit(f"{what}: {found!r}: expected {expected!r}")


def main() -> None:
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        once, twice = Path(scratch, "once"), Path(scratch, "twice")
        for folder in (once, twice):
            folder.mkdir()
        train(program, once, 20)
        train(program, twice, 10)

        model, rows = (twice / f"{what}-10.safetensors" for what in ("model", "embeddings"))
        expect("names", sorted(tensors(model)), sorted(f"hidden.{name}{slot}" for name in ("weight", "bias")
                                                       for slot in ("", "/m", "/v")))
        expect("format", metadata(model)["gradstep.format"], "1")
        says = json.loads(metadata(model)["gradstep.parameter.hidden.bias"])
        expect("clock", says["clock"], {"step": 10, "samples": 0, "epoch": 0})
        expect("rule", (says["element"], says["rule"], says["slots"]), ("float", "adam", ["m", "v"]))
        expect("policies", json.loads(says["policies"])["rule"]["name"], "adam")
        table = tensors(rows)
        expect("rows", (table["values"]["dtype"], table["values"]["shape"]), ("F32", [1000, 8]))
        expect("stamps", (table["values/stamps"]["dtype"], table["values/stamps"]["shape"]), ("U32", [1000]))
        expect("history", table["values/history"]["dtype"], "F64")

        for file in (model, rows):
            of_file = {name: (FORMAT[x["dtype"]], x["shape"], bytes(x["data"])) for name, x in tensors(file).items()}
            serialize_file({name: TensorSpec(dtype=dtype, shape=shape, data_ptr=address_of(data), data_len=len(data))
                            for name, (dtype, shape, data) in of_file.items()}, str(file), metadata(file))
        train(program, twice, 20)
        for what in ("model", "embeddings"):
            file = f"{what}-20.safetensors"
            expect(file, (twice / file).read_bytes() == (once / file).read_bytes(), True)


def address_of(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


if __name__ == "__main__":
    main()
