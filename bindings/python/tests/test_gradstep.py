"""Trains with the package as users do, and gives it what it has to refuse. Only numpy is needed; without ml_dtypes the cases of
bfloat16 arrays are left out."""

from __future__ import annotations

import array
import concurrent.futures
import copy
import decimal
import errno
import gc
import inspect
import json
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
import weakref
from pathlib import Path

import numpy

import gradstep
from gradstep import _arrays, _library

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

HEADER = Path(__file__).resolve().parents[3] / "include/gradstep/c/gradstep.h"


def config(rule: str, rate: float, **more: object) -> dict:
    return {"rule": {"name": rule}, "schedule": {"name": "constant", "rate": rate}, **more}


def gradients(count: int, size: int, dtype: str = "float32") -> list:
    random = numpy.random.default_rng(7)
    return [random.uniform(-1, 1, size).astype(dtype) for _ in range(count)]


def of_text(rule: str, rate: float, shape: tuple, more: dict = {}, **options: object) -> gradstep.Table:
    """A table whose configuration contains the key "table", with these options."""
    rows, width = shape
    return gradstep.Table({**config(rule, rate, **more), "table": {"rows": rows, "width": width, **options}})


def of_keys(rule: str, rate: float, width: int, more: dict = {}, **options: object) -> gradstep.KeyedTable:
    return gradstep.KeyedTable({**config(rule, rate, **more), "keyed_table": {"width": width, **options}})


class Foreign:
    """A tensor of another library: it has __dlpack__ and nothing else."""

    def __init__(self, array, device=None):
        self.array, self.device = array, device

    def __dlpack__(self):
        return self.array.__dlpack__()  # of DLPack before 1.0

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class Versioned(Foreign):
    """A tensor whose library has DLPack 1.0: read-only where the array is."""

    def __dlpack__(self, *, max_version=None):
        assert max_version is not None
        return self.array.__dlpack__(max_version=max_version)


class Flagged(Versioned):
    """One that says something else of itself: flags, a version, no memory."""

    def __init__(self, array, **members):
        super().__init__(array)
        self.members = members

    def __dlpack__(self, *, max_version=None):
        capsule = super().__dlpack__(max_version=max_version)
        described = _arrays._VersionedTensor.from_address(_arrays._capsule_pointer(capsule, b"dltensor_versioned"))
        for name, value in self.members.items():
            member, _, part = name.partition("_of_")
            setattr(getattr(described, part) if part else described, member, value)
        return capsule


def names_flags_of_dlpack() -> bool:
    """Whether numpy has DLPack 1.0."""
    try:
        numpy.zeros(1).__dlpack__(max_version=(1, 0))
    except TypeError:  # before 2.1
        return False
    return True


def torch_of_old(array):
    """A tensor as torch had it before DLPack 1.0: its library is known to write."""
    kind = type("Tensor", (Foreign,), {"__module__": "torch"})
    return kind(array)


needs_dlpack_1 = unittest.skipUnless(names_flags_of_dlpack(), "numpy has no DLPack 1.0")


class Contract(unittest.TestCase):
    """What the package repeats of the header."""

    def test_numbers_are_those_of_the_header(self):
        text = HEADER.read_text()
        number = {name: int(value) for name, value in re.findall(r"GRADSTEP_(\w+) = (-?\d+)", text)}
        codes = re.findall(r"GRADSTEP_(\w+) =", re.search(r"enum gradstep_status_code \{(.*?)\};", text, re.DOTALL)[1])
        self.assertEqual({x.name: x.value for x in gradstep.Status}, {name: number[name] for name in codes})
        for kind, words in (("missing", "ERROR KEEP"), ("unexpected", "ERROR IGNORE"), ("rows", "ERROR RESIZE")):
            for value, word in enumerate(words.split()):
                self.assertEqual(number[f"{kind.upper()}_{word}"], value)
        self.assertEqual([number[x] for x in ("LOADED", "KEPT", "RESIZED")], [0, 1, 2])
        self.assertEqual({x.name: x.code for x in _arrays.DTYPES.values()}, {x: number[x.upper()] for x in _arrays.DTYPES})
        abi = re.findall(r"#define GRADSTEP_ABI_\w+ (\d+)", text)
        self.assertEqual(_library.ABI, tuple(map(int, abi)))

    def test_functions_are_those_of_the_header(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
        kinds = {"uint64_t": "c_ulong", "int64_t": "c_long", "int32_t": "c_int", "size_t": "c_ulong"}
        declared = {}
        for name, arguments in re.findall(r"gradstep_status gradstep_(\w+)\(([^;]*?)\)\s*;", text):
            each = [" ".join(x.split()) for x in arguments.split(",")][:-1]  # without the error
            declared[name] = tuple(
                "pointer" if "*" in x or x.startswith(("gradstep_run", "gradstep_row", "gradstep_task")) else kinds[re.sub(r"^const ", "", x).split()[0]]
                for x in each
            )
        not_used = {"executor_from_callback", "parameter_set_executor", "table_set_executor", "updater_set_executor"}
        known = {
            name: tuple(x.__name__ if x.__name__ in kinds.values() else "pointer" for x in types)
            for name, types in _library._FUNCTIONS.items()
        }
        self.assertEqual(known, {name: declared[name] for name in declared if name not in not_used})

    def test_structures_are_those_of_the_header(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
        for ours in (
            _library.CError,
            _library.CSlot,
            _library.CStepOptions,
            _library.CClock,
            _library.CLoadOptions,
            _library.CTableInfo,
            _library.CKeyCounts,
            _library.CRow,
            _library.CMessage,
            _library.CServerInfo,
            _library.CTransport,
            _library.CWorkerInfo,
            _library.CWorkerOptions,
        ):
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", ours.__name__[1:]).lower()
            body = re.search(r"typedef struct gradstep_%s \{(.*?)\}" % name, text, flags=re.DOTALL)[1]
            members = re.findall(r"(\w+)(?:\[\d+\])?\s*[,;]", body)
            self.assertEqual([x[0] for x in ours._fields_], members, name)

    def test_version(self):
        version = re.findall(r"#define GRADSTEP_VERSION_\w+ (\d+)", (HEADER.parents[1] / "version.hpp").read_text())
        self.assertEqual(gradstep.version(), ".".join(version))
        self.assertEqual(gradstep.__version__, ".".join(version))
        self.assertIn(gradstep.simd_level(), ("sse2", "avx2", "avx512"))

    def test_torch_is_not_imported(self):
        code = "import sys, gradstep; sys.exit('torch' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)

    def test_a_missing_library_is_named(self):
        folder = Path(gradstep.__file__).parent
        with tempfile.TemporaryDirectory() as scratch:
            without_library(folder, Path(scratch, "gradstep"))
            for value, expected in (("", "GRADSTEP_LIBRARY"), (str(HEADER), "gradstep.h")):
                environment = {**os.environ, "GRADSTEP_LIBRARY": value, "PYTHONPATH": scratch}
                run = subprocess.run(
                    [sys.executable, "-c", "import gradstep"],
                    env=environment,
                    stderr=subprocess.PIPE,
                    text=True,
                    check=False,
                )
                self.assertNotEqual(run.returncode, 0)
                self.assertRegex(run.stderr.splitlines()[-1], f"ImportError: gradstep: .*{expected}")

    def test_a_library_without_a_function(self):
        """A library that is older than the package is an ImportError with both versions, not an AttributeError."""
        with tempfile.TemporaryDirectory() as scratch:
            without_library(Path(gradstep.__file__).parent, Path(scratch, "gradstep"))
            functions = Path(scratch, "gradstep/_library.py")
            text = functions.read_text().replace('"parameter_flush": ', '"parameter_of_tomorrow": (_at,), "parameter_flush": ')
            functions.write_text(text)
            run = subprocess.run(
                [sys.executable, "-c", "import gradstep"],
                env={**os.environ, "GRADSTEP_LIBRARY": gradstep._library.library._name, "PYTHONPATH": scratch},
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            abi = r"ABI \d+\.\d+"
            self.assertRegex(
                run.stderr.splitlines()[-1],
                rf"ImportError: gradstep: .* is version {gradstep.version()} with the {abi}, and lacks .* the {abi}: "
                ".*gradstep_parameter_of_tomorrow",
            )


def policies_with_dialect(schema):
    return [x["properties"] for x in schema["$defs"]["rule"]["oneOf"] if "dialect" in x.get("properties", {})]


class Wheel(unittest.TestCase):
    """What `pip install` says where it cannot build the library."""

    def said(self, **environment: str) -> str:
        package = HEADER.parents[3] / "bindings/python"
        with tempfile.TemporaryDirectory() as scratch:
            run = subprocess.run(
                [sys.executable, "-c", f"import build_wheel; build_wheel.build_wheel({scratch!r})"],
                env={"PYTHONPATH": str(package), "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""), **environment},
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            self.assertEqual((run.returncode, os.listdir(scratch)), (1, []))
        return run.stderr

    def test_a_missing_program_is_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            said = self.said(PATH=scratch)
            self.assertRegex(said, "^cannot build libgradstep.so: cmake, ninja, a C.. compiler not found; expected .*GRADSTEP_LIBRARY=")
            cmake = Path(scratch, "cmake")
            cmake.write_text("#!/bin/sh\nexit 1\n")
            cmake.chmod(0o755)
            shutil.copy(cmake, Path(scratch, "g++"))
            self.assertRegex(self.said(PATH=scratch), "^cannot build libgradstep.so: ninja not found; expected")
            cmake.rename(Path(scratch, "ninja"))
            self.assertRegex(self.said(PATH=scratch), "^cannot build libgradstep.so: cmake not found; expected")
            shutil.copy(Path(scratch, "ninja"), cmake)
            self.assertRegex(self.said(PATH=scratch), "^cannot build libgradstep.so: `cmake -G ...` failed")

    def test_the_instruction_set_is_that_of_the_machine(self):
        sys.path.insert(0, str(HEADER.parents[3] / "bindings/python"))
        import build_wheel

        avx2 = "processor\t: 0\nflags\t\t: fpu sse2 " + " ".join(build_wheel.AVX2) + " avx512f avx512bw\n"
        self.assertEqual(build_wheel.instruction_set("x86_64", avx2), "avx2")
        for lacking in build_wheel.AVX2:
            without = re.sub(rf"\b{lacking}\b", "", avx2)
            self.assertEqual(build_wheel.instruction_set("x86_64", without), "sse2")
        self.assertEqual(build_wheel.instruction_set("x86_64", ""), "sse2")
        self.assertEqual(build_wheel.instruction_set("aarch64", "Features : asimd"), "")
        memory = "MemTotal:       16000000 kB\nMemAvailable:    {} kB\n"
        of_a_job = build_wheel.KIB_OF_JOB
        for processors, available, expected in (8, 8 * of_a_job, 8), (8, 3 * of_a_job, 3), (8, 1000, 1), (1, 64 * of_a_job, 1):
            self.assertEqual(build_wheel.jobs(processors, memory.format(available)), expected)
        self.assertEqual(build_wheel.jobs(4, ""), 4)

    def test_metadata_needs_no_library(self):
        """pip asks for it first, and would show nothing else while it compiles."""
        sys.path.insert(0, str(HEADER.parents[3] / "bindings/python"))
        import build_wheel

        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, build_wheel.prepare_metadata_for_build_wheel(scratch))
            self.assertEqual(folder.name, f"gradstep-{gradstep.__version__}.dist-info")
            made = {file.name: file.read_bytes() for file in folder.iterdir()}
            self.assertEqual(made, build_wheel.dist_info())
            self.assertIn(b"\nName: gradstep\n", made["METADATA"])

    def test_a_library_that_is_no_file(self):
        for given in ("/nowhere/libgradstep.so", "/"):
            said = self.said(GRADSTEP_LIBRARY=given, PATH=os.environ["PATH"])
            self.assertRegex(said, f"^GRADSTEP_LIBRARY: {given} is not a file; expected the path of a libgradstep.so")


def without_library(folder: Path, to: Path) -> None:
    """A copy of the package."""
    for file in folder.rglob("*.py"):
        copied = to / file.relative_to(folder)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(file.read_bytes())


class Training(unittest.TestCase):
    def test_least_squares(self):
        """y = x a + b is found to within what the last step moves."""
        random = numpy.random.default_rng(1)
        x, truth = random.normal(size=(200, 3)), numpy.array([1.0, -2.0, 0.5])
        y = x @ truth + 4
        weight, bias = (
            gradstep.Parameter(config("sgd", 0.1), numpy.zeros(3)),
            gradstep.Parameter(config("sgd", 0.1), numpy.zeros(1)),
        )
        with gradstep.Model({"weight": weight, "bias": bias}) as model:
            for _ in range(300):
                error = x @ weight.values() + bias.values() - y
                model.update({"weight": x.T @ error / 200, "bias": numpy.array([error.mean()])})
            self.assertLess(numpy.abs(weight.values() - truth).max(), 1e-9)
            self.assertLess(abs(bias.values()[0] - 4), 1e-9)
            self.assertEqual(weight.clock, gradstep.Clock(300, 0, 0))

    def test_sgd_and_momentum_are_their_formulas(self):
        """In double, against numpy: a product and a sum are one rounding here and two there, and the error of a buffer of
        momentum 0.5, of at most 2, is at most doubled."""
        w0, steps = numpy.linspace(-1, 1, 37), gradients(10, 37, "float64")
        for rule, momentum in (("sgd", 0.0), ("momentum", 0.5)):
            settings = config(rule, 0.1)
            if momentum:
                settings["rule"]["mu"] = momentum
            p, w, b = gradstep.Parameter(settings, w0), w0.copy(), numpy.zeros(37)
            for g in steps:
                p.update(g)
                b = momentum * b + g
                w -= 0.1 * b
            self.assertLess(numpy.abs(p.values() - w).max(), 10 * (3 + 0.1 * 2 * 4) * 2**-53 * 3)

    def test_configurations(self):
        """Every rule, preset, schedule, regularizer, average and clip, and every kind of memory, trains."""
        lines = (HEADER.parents[3] / "test/c/configurations.txt").read_text().splitlines()
        for line in lines:
            dtype, _, settings = line.partition(" {")
            if not settings or dtype == "bfloat16" and not ml_dtypes:
                continue
            with self.subTest(line):
                element = numpy.dtype(getattr(ml_dtypes, dtype, dtype))
                initial = (numpy.arange(24) % 5 - 2).reshape(4, 6).astype(element)
                p = gradstep.Parameter("{" + settings, initial)
                for step in range(8):
                    gradient = ((numpy.arange(24) + step) % 7 - 3).reshape(4, 6).astype(element)
                    p.update(gradient, loss=0.5, samples=2, epoch=step)
                self.assertTrue((p.values() != initial).any())
                self.assertTrue(numpy.isfinite(p.values().astype(float)).all())

    def test_clips(self):
        for clip, want in (
            (gradstep.clips.clip_norm(2.5), [-1.5, 2]),  # of the gradient (3, -4), whose norm is 5
            (gradstep.clips.clip_global_norm(2.5), [-1.5, 2]),
            (gradstep.clips.clip_value(3.5), [-3, 3.5]),
        ):
            p = gradstep.Parameter(config("sgd", 1.0, clip=clip), numpy.zeros(2, numpy.float32))
            p.update(numpy.array([3, -4], numpy.float32))
            self.assertEqual(p.values().tolist(), want)

    def test_gradients_that_are_not_finite(self):
        propagates, skips, raises = (
            gradstep.Parameter(config("sgd", 1.0, on_nonfinite=what), numpy.array([1, 2], numpy.float32))
            for what in ("propagate", "skip", "raise")
        )
        bad = numpy.array([1, numpy.nan], numpy.float32)
        propagates.update(bad)
        self.assertEqual((propagates.values()[0], numpy.isnan(propagates.values()[1])), (0, True))
        skips.update(bad)
        with self.assertRaisesRegex(gradstep.Error, "element 1"):
            raises.update(bad)
        self.assertEqual((skips.values().tolist(), raises.values().tolist()), ([1, 2], [1, 2]))

    def test_threads_give_the_bits_of_one(self):
        initial, gradient = gradients(2, 300_000)  # enough to be split
        states = []
        for threads in (1, 2):
            p = gradstep.Parameter(config("adam", 0.1, threads=threads), initial)
            p.update(gradient)
            states.append(p.save_state())
        self.assertEqual(bytes(states[0]), bytes(states[1]))

    def test_sparse_rows(self):
        table = gradstep.Table(config("sgd", 0.5), numpy.zeros((5, 2), numpy.float32))
        for ids in (
            numpy.array([1, 3, 1]),
            numpy.array([1, 3, 1], numpy.uint32),
            Foreign(numpy.array([1, 3, 1], numpy.int32)),
        ):
            table.update(ids, numpy.array([[1, 2], [3, 4], [10, 20]], numpy.float32))
        expected = -1.5 * numpy.array([[0, 0], [11, 22], [0, 0], [3, 4], [0, 0]], numpy.float32)
        numpy.testing.assert_array_equal(table.values(), expected)
        numpy.testing.assert_array_equal(table.row(3), expected[3])
        numpy.testing.assert_array_equal(table.rows(numpy.array([3, 0, 3])), expected[[3, 0, 3]])
        table.flush()
        self.assertEqual(table.clock.step, 3)

    def test_rows_catch_up(self):
        decay = {"regularizer": {"name": "l2", "rate": 0.5}, "catch_up": "exact"}
        table = gradstep.Table(config("sgd", 0.5, **decay), numpy.ones((3, 2), numpy.float32))
        for _ in range(3):
            table.update(numpy.array([0]), numpy.zeros((1, 2), numpy.float32))
        self.assertEqual(table.rows(numpy.array([0, 2])).tolist(), [[0.75**3] * 2] * 2)
        state = table.save_state()
        resumed = gradstep.Table(config("sgd", 0.5, **decay), shape=(3, 2))
        resumed.load_state(state)
        for rows in (table, resumed):
            rows.update(numpy.array([1]), numpy.zeros((1, 2), numpy.float32))
        numpy.testing.assert_array_equal(table.values(), resumed.values())
        self.assertEqual(table.values().tolist(), [[0.75**4] * 2] * 3)

    def test_a_parameter_takes_the_configuration_of_rows_that_catch_up(self):
        """It has no rows to catch up, whatever its shape."""
        for catch_up in ("touch_only", "exact"):
            for shape in (6, (2, 3), (3, 1, 2), (1, 6)):
                settings = config("momentum", 0.5)
                dense = gradstep.Parameter(settings, numpy.ones(shape, numpy.float32))
                same = gradstep.Parameter({**settings, "catch_up": catch_up}, numpy.ones(shape, numpy.float32))
                again = gradstep.Parameter({**settings, "catch_up": catch_up}, shape=shape)
                for gradient in gradients(3, 6):
                    dense.update(gradient)
                    same.update(gradient)
                    with tempfile.TemporaryDirectory() as folder:
                        path = os.path.join(folder, "model")
                        gradstep.Model({"w": same}).save(path)
                        gradstep.Model({"w": again}).load(path)
                for each in (same, again, copy.copy(same)):
                    numpy.testing.assert_array_equal(each.values(), dense.values())
                    self.assertEqual(each.shape, dense.shape)

    def test_logistic_regression_of_rows(self):
        """Words of two classes: every row moves to the side of its class."""
        random = numpy.random.default_rng(3)
        table = gradstep.Table(config("adagrad", 0.5), shape=(20, 1))
        for _ in range(200):
            label = random.integers(2)
            ids = random.integers(10, size=4) + 10 * label
            p = 1 / (1 + numpy.exp(-table.rows(ids).sum()))
            table.update(ids, numpy.full((4, 1), p - label, numpy.float32))
        self.assertTrue((table.values()[:10] < 0).all() and (table.values()[10:] > 0).all())

    def test_an_updater_clips_tensors_together_and_gives_each_its_options(self):
        def with_decay(decay, **more):
            return config("adam", 0.0625, regularizer={"name": "decoupled", "rate": decay}, **more)

        together = gradstep.Updater(with_decay(0.5, clip={"name": "clip_global_norm", "limit": 0.5}))
        alone = [gradstep.Updater(with_decay(decay)) for decay in (0.5, 0)]
        rng = numpy.random.default_rng(1)
        w = [rng.normal(size=n).astype(numpy.float32) for n in (60, 40)]
        own = [x.copy() for x in w]
        states, of_own = [together.initialize(x) for x in w], [together.initialize(x) for x in w]
        for _ in range(4):
            g = [rng.normal(size=x.size).astype(numpy.float32) for x in w]
            norm = gradstep.global_norm(g)
            self.assertAlmostEqual(norm, numpy.sqrt(sum((x.astype(float) ** 2).sum() for x in g)))
            together.next_step()
            together.apply_many(w, g, states, rate_scales=numpy.array([1, 0.5]), decays=[1, 0], steps=[None, None])
            for k, updater in enumerate(alone):
                updater.next_step(gradient_scale=0.5 / norm, rate_scale=(1, 0.5)[k])
                updater.apply(own[k], g[k], of_own[k])
        for x, y in zip(w, own):
            numpy.testing.assert_array_equal(x, y)
        together.next_step()
        before = [x.copy() for x in w]
        for wrong, message in (
            ({"decays": [1]}, "decays: has 1 elements; expected 2"),
            ({"decays": [1, -1]}, "tensor 1: decay: -1"),
            ({"rate_scales": [1, float("nan")]}, "tensor 1: rate_scale"),
            ({"steps": [1, 0]}, "steps: 0"),
            ({"steps": [None, -1]}, "tensor 1: step: -1"),
        ):
            with self.assertRaisesRegex(gradstep.InvalidError, message):
                together.apply_many(w, g, states, **wrong)
        for x, y in zip(w, before):
            numpy.testing.assert_array_equal(x, y)
        # A late tensor: the step of its own number.
        late, early = gradstep.Updater(with_decay(0.5)), gradstep.Updater(with_decay(0.5))
        x, y = w[0].copy(), w[0].copy()
        late.seek(late.clock._replace(step=8))
        for updater in (late, early):
            updater.next_step()
        late.apply_many([x], [g[0]], [late.initialize(x)], steps=[1])
        early.apply(y, g[0], early.initialize(y))
        numpy.testing.assert_array_equal(x, y)

    def test_norms_and_nonfinite_elements(self):
        self.assertEqual(gradstep.global_norm([numpy.array([3.0, 0]), numpy.array([[4.0]])]), 5)
        self.assertEqual(gradstep.global_norm([]), 0)
        bad = numpy.array([[1, 2], [3, numpy.inf]], numpy.float32)
        good = numpy.ones(3, numpy.float32)
        self.assertEqual(gradstep.first_nonfinite([good, bad]), (1, 3))
        self.assertIsNone(gradstep.first_nonfinite([good, good]))
        self.assertTrue(numpy.isinf(gradstep.global_norm([good, bad])))
        with self.assertRaisesRegex(gradstep.DtypeError, "dtype: int32 is an integer"):
            gradstep.global_norm([numpy.ones(2, numpy.int32)])
        with self.assertRaisesRegex(gradstep.DtypeError, r"gradients\[1\]: is of float64; expected float32, as gradients\[0\]"):
            gradstep.first_nonfinite([good, numpy.ones(3)])

    def test_float64_names_astype(self):
        refusals = 0
        hint = r"float64: .*expected float32; .*values.astype\(numpy.float32\)$"
        for rule in gradstep.rules.__all__:
            of_rule = config(rule, 0.1)
            try:
                gradstep.Parameter(of_rule, numpy.zeros((3, 2), numpy.float32))
            except gradstep.Error:
                continue  # not compiled, or needs other keys
            for make in (
                lambda of=of_rule: gradstep.Parameter(of, numpy.zeros((3, 2))),
                lambda of=of_rule: gradstep.Table(of, numpy.zeros((3, 2))),
                lambda of=of_rule: gradstep.Updater(of, "float64"),
            ):
                try:
                    make()
                except gradstep.NotCompiledError as refused:
                    if "dgc_momentum" not in str(refused):
                        self.assertRegex(str(refused), hint)
                        refusals += 1
                except gradstep.Error as refused:  # a rule that tables or updaters cannot have
                    self.assertNotIn("float64", str(refused))
        self.assertGreater(refusals, 50)
        w = gradstep.Parameter(config("lion", 0.1), numpy.zeros(3, numpy.float32))
        with self.assertRaisesRegex(gradstep.DtypeError, r"is of float64; expected float32; use astype\(numpy.float32\)"):
            w.update(numpy.ones(3))

    def test_an_updater_gives_the_bits_of_a_parameter(self):
        settings = config("adam", 0.1, regularizer={"name": "decoupled", "rate": 0.01})
        w = numpy.linspace(-1, 1, 101, dtype=numpy.float32)
        other = w[::-1].copy()
        p, q, updater = (
            gradstep.Parameter(settings, w),
            gradstep.Parameter(settings, other),
            gradstep.Updater(settings, "float32"),
        )
        self.assertEqual([x.name for x in updater.slots], ["m", "v"])
        state, of_other = (
            updater.initialize(w),
            updater.initialize(other, {"m": numpy.ones_like(w), "v": numpy.ones_like(w)}),
        )
        for number, g in enumerate(gradients(6, 101)):
            p.update(g)
            q.update(g)
            updater.next_step()
            if number % 2:
                updater.apply(w, g, state)
                updater.apply(other, g, of_other)
            else:
                updater.apply_many([w, other], [g, g], [state, of_other])
        numpy.testing.assert_array_equal(p.values(), w)
        numpy.testing.assert_array_equal(q.values(), other)
        for name, slot in p.slots().items():
            numpy.testing.assert_array_equal(slot, state[name])
        self.assertEqual(updater.clock.step, 6)
        updater.seek(gradstep.Clock(step=3, samples=5))
        self.assertEqual(updater.clock, gradstep.Clock(3, 5, 0))

    def test_one_call_for_many_gives_the_bits_of_many_calls(self):
        names = ["a", "b", "c"]
        settings = {"a": config("adam", 0.1, threads=2), "b": config("sgd", 0.1), "c": config("momentum", 0.1)}
        model = gradstep.Model(
            {x: gradstep.Parameter(settings[x], numpy.ones(1000 * (k + 1), numpy.float32)) for k, x in enumerate(names)}
        )
        alone = copy.deepcopy(dict(model))
        g = {x: gradients(1, model[x].size)[0] for x in names}
        for order in (names, names[::-1], names[1:], names):
            model.update({x: g[x] for x in order}, rate_scale=0.5)
            for x in order:
                alone[x].update(g[x], rate_scale=0.5)
        for x in names:
            numpy.testing.assert_array_equal(model[x].values(), alone[x].values())

    def test_elements(self):
        """Sums of powers of two are exact in every element."""
        dtypes = ["float16", "float32", "float64"] + (["bfloat16"] if ml_dtypes else [])
        for dtype in dtypes:
            element = numpy.dtype(getattr(ml_dtypes, dtype, dtype))
            p = gradstep.Parameter(config("sgd", 0.25), numpy.ones((2, 3), element))
            p.update(numpy.full((2, 3), 2, element))
            p.update(Foreign(numpy.full(6, 2, element)) if dtype != "bfloat16" else numpy.full(6, 2, element))
            self.assertEqual((p.dtype, p.shape, p.values().dtype), (dtype, (2, 3), element))
            numpy.testing.assert_array_equal(p.values(), numpy.zeros((2, 3), element))
        mixed = gradstep.Parameter(config("sgd", 1.0, element="mixed"), numpy.ones(4, numpy.float16))
        mixed.update(numpy.full(4, 2.0**-13, numpy.float16))
        self.assertEqual(mixed.values()[0], 1)
        self.assertEqual(mixed.slots()["master"][0], 1 - 2.0**-13)

    def test_state_in_eight_bits(self):
        gradient = numpy.sin(numpy.arange(1000, dtype=numpy.float32))
        small, plain = (gradstep.Parameter(config("adam", 0.125, element=element), numpy.zeros(1000, numpy.float32))
                        for element in ("block8", "plain"))
        for p in (small, plain):
            p.update(gradient)
        numpy.testing.assert_array_equal(small.values(), plain.values())  # the first step has the bits of a float state
        self.assertLess(len(pickle.dumps(small)), len(pickle.dumps(plain)) * 2 / 3)

    def test_weights_that_other_code_changes_beside_a_master_copy(self):
        updater = gradstep.Updater(config("sgd", 1.0, element="mixed"), "float16")
        w, g = numpy.ones(37, numpy.float16), numpy.full(37, 2.0**-13, numpy.float16)
        state = updater.initialize(w)
        for change, expected in (
            (lambda: None, 1),
            (lambda: numpy.copyto(w, w.copy()), 1 - 2.0**-13),  # to what is there already: the master copy keeps its digits
            (lambda: w.fill(5), 5),
            (lambda: numpy.clip(w, -0.5, 0.5, out=w), 0.5),
        ):
            change()
            updater.next_step()
            updater.apply(w, g, state)
            numpy.testing.assert_array_equal(state["master"], numpy.full(37, expected - 2.0**-13, numpy.float32))
            numpy.testing.assert_array_equal(w, state["master"].astype(numpy.float16))

    def test_step_options(self):
        p = gradstep.Parameter(config("sgd", 0.5), numpy.zeros(4))
        g = numpy.ones(4)
        p.update(g, gradient_scale=0.5, rate_scale=2, samples=10, epoch=3, zero_gradient=True)
        self.assertEqual((p.values()[0], g[0]), (-0.5, 0))
        self.assertEqual(p.clock, gradstep.Clock(1, 10, 3))
        g[:] = 1
        p.update(g, rate=2.0)
        self.assertEqual(p.values()[0], -2.5)
        p.seek(gradstep.Clock(step=100))
        self.assertEqual(p.clock.step, 100)
        with self.assertRaisesRegex(TypeError, r"seek: clock is a int; expected a gradstep.Clock, such as Clock\(step=100\)"):
            p.seek(100)
        with self.assertRaisesRegex(TypeError, r"options: 'ratescale' is no option of a step \(did you mean 'rate_scale'\?\); expected one of gradient"):
            p.update(g, ratescale=2)
        before = p.values().copy(), p.clock
        for bad, says in (
            ({"rate": math.nan}, "rate"),
            ({"rate": math.inf}, "rate"),
            ({"rate": -1.0}, "rate"),
            ({"epoch": -1}, "epoch"),
            ({"epoch": -(2**63)}, "epoch"),
        ):
            with self.assertRaisesRegex(gradstep.InvalidError, f"step_options.{says}: "):
                p.update(g, **bad)
            with self.assertRaisesRegex(gradstep.InvalidError, f"step_options.{says}: "):
                gradstep.Updater(config("sgd", 0.5), "float32").next_step(**bad)
        numpy.testing.assert_array_equal(p.values(), before[0])
        self.assertEqual(p.clock, before[1])
        p.update(numpy.zeros(4), rate=None, epoch=None)
        self.assertEqual((p.clock.step, p.clock.epoch), (101, before[1].epoch))

    def test_numbers_that_change_between_steps(self):
        adam = {**config("adam", 0.5), "rule": {"name": "adam", "beta1": 0.5}}
        g = gradients(3, 8)
        p = gradstep.Parameter(adam, numpy.ones(8, numpy.float32))
        p.update(g[0])
        other = gradstep.Parameter({**adam, "rule": {"name": "adam", "beta1": 0.25}}, numpy.ones(8, numpy.float32))
        other.load_state(p.save_state())
        p.set_numbers({"rule.beta1": 0.25, "schedule.rate": numpy.float64(0.5)})
        self.assertEqual(p.config, other.config)
        for each in g[1:]:
            p.update(each)
            other.update(each)
        numpy.testing.assert_array_equal(p.values(), other.values())
        u = gradstep.Updater(adam, "float32")
        u.set_numbers({"rule.beta1": 0.25})
        self.assertEqual(u.config["rule"]["beta1"], 0.25)
        before = p.config
        for bad in ({"rule.beta1": 1}, {"rule.beta2": 0.5, "rule.beta1": math.nan}, {"rule.beta\0": 0.5}, {"threads": 1}):
            with self.assertRaises(gradstep.ConfigError):
                p.set_numbers(bad)
            self.assertEqual(p.config, before)

    def test_numbers_that_must_be_the_same_in_all_steps(self):
        """Of every rule and average: they are neither changed nor loaded into a configuration with another value."""
        schema = json.loads((HEADER.parents[3] / "docs/reference/configuration.schema.json").read_text())["$defs"]
        count = 0
        for kind in ("rule", "average"):
            for policy in schema[kind]["oneOf"]:
                of_policy = policy.get("properties", {})
                constant = [key for key, x in of_policy.items() if x.get("$comment") == "the same in all steps"]
                for key in constant:
                    name, default = of_policy["name"]["const"], of_policy[key].get("default", 0.5)
                    before = {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5}}
                    before[kind] = {needed: 0.5 for needed in policy["required"]} | {"name": name, key: default}
                    if of_policy[key]["type"] == "integer":
                        other = default + 1 if key != "min" else default - 1
                    else:
                        other = 0.75 * default if default else 0.25
                    now = {**before, kind: {**before[kind], key: other}}
                    error = f"{kind}.{key}: is .*; expected .*, since the state depends on this number"
                    with self.subTest(name=name, key=key):
                        try:
                            p = gradstep.Parameter(before, shape=(3, 2))
                        except gradstep.NotCompiledError:
                            continue
                        with self.assertRaisesRegex(gradstep.ConfigError, error):
                            p.set_numbers({"schedule.rate": 0.25, f"{kind}.{key}": other})
                        self.assertEqual(p.config["schedule"]["rate"], 0.5)
                        p.set_numbers({"schedule.rate": 0.25, f"{kind}.{key}": default})
                        with self.assertRaisesRegex(gradstep.InvalidError, error):
                            gradstep.Parameter(now, shape=(3, 2)).load_state(p.save_state())
                        gradstep.Parameter(before, shape=(3, 2)).load_state(p.save_state())
                        with tempfile.TemporaryDirectory() as folder:
                            file = f"{folder}/p.safetensors"
                            gradstep.Model({"p": p}).save(file)
                            with self.assertRaisesRegex(gradstep.InvalidError, error):
                                gradstep.Model({"p": gradstep.Parameter(now, shape=(3, 2))}).load(file)
                            gradstep.Model({"p": gradstep.Parameter(before, shape=(3, 2))}).load(file)
                        try:
                            u = gradstep.Updater(before, "float32")
                        except gradstep.InvalidError:  # no rule of updaters
                            continue
                        with self.assertRaisesRegex(gradstep.ConfigError, error):
                            u.set_numbers({f"{kind}.{key}": other})
                        count += 1
        self.assertGreater(count, 25)

    def test_equal_parameters_draw_different_numbers(self):
        g = numpy.zeros(64, numpy.float32)
        for more in ({}, {"id": 7}):
            noisy = config("sgld", 0.125, **more)
            names = ["a", "b", "c"]

            def model(names):
                return gradstep.Model({name: gradstep.Parameter(noisy, shape=(64,)) for name in names})

            def update(net, names):
                net.update({name: g for name in names})

            net, separate, beside = model(names), model(names), model(["new", *names])
            update(net, names)
            for name in reversed(names):
                separate[name].update(g)
            update(beside, ["c", "new", "a", "b"])
            for name in names:  # its name alone decides
                numpy.testing.assert_array_equal(net[name].values(), separate[name].values())
                numpy.testing.assert_array_equal(net[name].values(), beside[name].values())
            self.assertEqual(len({x.values().tobytes() for x in beside.values()}), 4)
            with tempfile.TemporaryDirectory() as folder:
                net.save(f"{folder}/net.safetensors")
                resumed = model(["new", *names])
                resumed.load(f"{folder}/net.safetensors", missing="keep")
            for other in (resumed, pickle.loads(pickle.dumps(net)), copy.copy(net)):
                update(other, [*other])
            update(net, names)
            for name in names:
                numpy.testing.assert_array_equal(net[name].values(), resumed[name].values())

    def test_tensors_of_an_updater_draw_different_numbers(self):
        u, together = gradstep.Updater(config("sgld", 0.125), "float32"), gradstep.Updater(config("sgld", 0.125), "float32")
        w, w2 = numpy.zeros((4, 16), numpy.float32), numpy.zeros((4, 16), numpy.float32)
        g = numpy.zeros(16, numpy.float32)
        for _ in range(2):
            u.next_step()
            for each in w:
                u.apply(each, g)
            together.next_step()
            together.apply_many(list(w2), [g] * 4)
        numpy.testing.assert_array_equal(w, w2)
        self.assertEqual(len({each.tobytes() for each in w}), 4)

    def test_an_average(self):
        p = gradstep.Parameter(config("sgd", 1.0, average={"name": "polyak"}), shape=(2,))
        g = numpy.ones(2, numpy.float32)
        for _ in range(2):
            p.update(g)
        self.assertEqual((p.values()[0], p.average()[0]), (-2, -1.5))
        p.apply_average()
        self.assertEqual(p.values()[0], -1.5)
        with self.assertRaises(gradstep.SequenceError):
            p.update(g)
        p.restore()
        self.assertEqual(p.values()[0], -2)

    def test_sharpness_aware_steps_are_their_formula(self):
        """Numbers that float holds: w + rho g / |g| with the norm of all gradients, and the step from the values before."""
        def made():
            return gradstep.Model({
                "a": gradstep.Parameter(config("momentum", 0.5), numpy.array([1.0, -2.0], numpy.float32)),
                "b": gradstep.Parameter(config("momentum", 0.5), numpy.array([0.5])),
            })

        first = {"a": numpy.array([2.0, 0.0], numpy.float32), "b": numpy.array([1.5])}  # of the norm 2.5
        second = {"a": numpy.array([1.0, 1.0], numpy.float32), "b": numpy.array([-1.0])}
        net, plain = made(), made()
        self.assertEqual(net.ascend(first, rho=5.0, epsilon=0.0), 2.5)
        numpy.testing.assert_array_equal(net["a"].values(), [5, -2])
        numpy.testing.assert_array_equal(net["b"].view(), [3.5])
        for call in (
            lambda: net.update(first), lambda: net.ascend(first), net["a"].save_state, lambda: pickle.dumps(net),
            lambda: net["a"].set_bfloat16_copy(numpy.zeros(2, numpy.uint16)),
        ):
            self.assertRaisesRegex(gradstep.SequenceError, r"descend\(\)", call)
        with self.assertRaises(gradstep.InvalidError):
            net.descend({"a": second["a"], "b": numpy.zeros(2)})
        net.descend(second, samples=3)
        plain.update(second, samples=3)
        for name in net:
            numpy.testing.assert_array_equal(net[name].values(), plain[name].values())
            self.assertEqual(net[name].clock, gradstep.Clock(1, 3, 0))
        self.assertRaisesRegex(gradstep.SequenceError, r"expected ascend\(\)", net.descend, second)

        # One parameter alone, by ASAM: 3 (1 + |w|)^2 over the norm of (1 + |w|) 3.
        one = gradstep.Parameter(config("sgd", 1.0), numpy.array([1.0]))
        self.assertEqual(one.ascend(numpy.array([3.0]), 0.5, adaptive=True, eta=1.0, epsilon=0.0), 6.0)
        self.assertEqual(one.values()[0], 2.0)
        one.descend(numpy.array([0.25]))
        self.assertEqual(one.values()[0], 0.75)
        self.assertRaisesRegex(gradstep.InvalidError, "rho", one.ascend, numpy.array([3.0]), -1.0)
        self.assertRaisesRegex(gradstep.InvalidError, "finite", one.ascend, numpy.array([math.inf]))
        self.assertRaises(gradstep.DtypeError, one.ascend, numpy.array([3], numpy.float32))

    def test_sharpness_aware_steps_that_end_without_a_step(self):
        g = {"a": numpy.ones(2, numpy.float32), "b": numpy.ones(3, numpy.float32)}
        skipping = config("sgd", 1.0, on_nonfinite="skip")
        net = gradstep.Model({"a": gradstep.Parameter(skipping, shape=2), "b": gradstep.Parameter(skipping, shape=3)})
        self.assertRaisesRegex(gradstep.SequenceError, "restore: the weights have not been moved", net.restore)
        self.assertIsNone(net.ascend({**g, "b": numpy.full(3, numpy.nan, numpy.float32)}))
        net.ascend(g)
        net["a"].restore()
        self.assertFalse(net["a"].values().any())
        self.assertTrue(net["b"].values().any())
        net.restore()
        self.assertFalse(net["b"].values().any())
        self.assertEqual((net["a"].clock.step, net["b"].clock.step), (0, 0))
        net.ascend({"a": g["a"]})
        net.update({"b": g["b"]})
        net.restore()
        net.ascend(g)
        net.descend({**g, "b": numpy.full(3, numpy.nan, numpy.float32)})
        self.assertEqual((net["a"].values()[0], net["b"].values()[0]), (-1, -1))
        self.assertRaises(gradstep.SequenceError, net.restore)

    def test_a_copy_in_bfloat16_is_written_by_each_step(self):
        """Rounded to nearest, ties to even."""
        def rounded(values):
            bits = numpy.ascontiguousarray(values).view(numpy.uint32)
            return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)

        initial = numpy.random.default_rng(2).normal(size=(6, 5)).astype(numpy.float32)
        g = numpy.random.default_rng(3).normal(size=(6, 5)).astype(numpy.float32)
        for kind in (gradstep.Parameter, gradstep.Table):
            w = kind(config("adam", 0.1), initial)
            bits = numpy.zeros((6, 5), numpy.uint16)
            w.set_bfloat16_copy(bits)
            numpy.testing.assert_array_equal(bits, rounded(initial))
            if isinstance(w, gradstep.Table):
                w.update([4, 1], g[:2])
            else:
                w.update(g)
                self.assertRaisesRegex(gradstep.InvalidError, "bfloat16_copy is set", w.ascend, g)
            numpy.testing.assert_array_equal(bits, rounded(w.values()))
            self.assertRaisesRegex(gradstep.InvalidError, "bfloat16_copy", w.append, g[:1])
            copied = copy.copy(w)
            w.set_values(initial)
            self.assertFalse(numpy.array_equal(bits, rounded(initial)))
            w.set_bfloat16_copy(bits)
            numpy.testing.assert_array_equal(bits, rounded(initial))
            w.set_bfloat16_copy(None)
            w.append(g[:1])
            copied.append(g[:1])  # has no memory to write to
            numpy.testing.assert_array_equal(bits, rounded(initial))
        if ml_dtypes:
            w, halves = gradstep.Parameter(config("adam", 0.1), initial), numpy.zeros(30, ml_dtypes.bfloat16)
            w.set_bfloat16_copy(halves)
            w.update(g)
            numpy.testing.assert_array_equal(halves.reshape(6, 5), w.values().astype(ml_dtypes.bfloat16))

        # The parameter keeps the memory.
        w, memory = gradstep.Parameter(config("sgd", 1.0), initial), numpy.zeros(30, numpy.uint16)
        kept = weakref.ref(memory)
        w.set_bfloat16_copy(memory)
        del memory
        gc.collect()
        w.update(g)
        numpy.testing.assert_array_equal(kept().reshape(6, 5), rounded(w.values()))
        read_only = numpy.zeros((6, 5), numpy.uint16)
        read_only.flags.writeable = False
        for kind, sentence, given in (
            (gradstep.DtypeError, "memory: is of float32; expected uint16, or bfloat16 of ml_dtypes", numpy.zeros_like(initial)),
            (gradstep.InvalidError, "memory: has 29 elements; expected 30", numpy.zeros(29, numpy.uint16)),
            (gradstep.InvalidError, "memory: has the shape", numpy.zeros((5, 6), numpy.uint16)),
            (gradstep.InvalidError, "memory: is read-only", read_only),
            (gradstep.InvalidError, "memory: its elements do not lie", numpy.zeros((6, 10), numpy.uint16)[:, ::2]),
        ):
            self.assertRaisesRegex(kind, sentence, w.set_bfloat16_copy, given)
        w.update(g)
        numpy.testing.assert_array_equal(kept().reshape(6, 5), rounded(w.values()))
        double = gradstep.Parameter(config("sgd", 1.0), shape=2, dtype="float64")
        self.assertRaisesRegex(gradstep.InvalidError, "not kept in float", double.set_bfloat16_copy, numpy.zeros(2, numpy.uint16))
        of_key = of_text("sgd", 1.0, (2, 3))
        self.assertRaisesRegex(gradstep.InvalidError, 'the key "table"', of_key.set_bfloat16_copy, numpy.zeros(6, numpy.uint16))

    def test_a_rule_that_needs_a_matrix_takes_the_shape_of_the_array(self):
        g = numpy.arange(24, dtype=numpy.float32).reshape(4, 6) % 5
        matrix = gradstep.Parameter(config("muon", 0.5), numpy.ones((4, 6), numpy.float32))
        folded = gradstep.Parameter(config("muon", 0.5), numpy.ones((4, 3, 2), numpy.float32))
        other = gradstep.Parameter(config("muon", 0.5), numpy.ones((6, 4), numpy.float32))
        for _ in range(2):
            matrix.update(g)
            folded.update(g.reshape(4, 3, 2))
            other.update(g.reshape(6, 4))
        numpy.testing.assert_array_equal(matrix.values().ravel(), folded.values().ravel())
        self.assertFalse(numpy.array_equal(matrix.values().ravel(), other.values().ravel()))
        copied = pickle.loads(pickle.dumps(matrix))
        copied.update(g)
        matrix.update(g)
        numpy.testing.assert_array_equal(matrix.values(), copied.values())
        vector = gradstep.Parameter(config("muon", 0.5), numpy.ones(4, numpy.float32))
        with self.assertRaisesRegex(gradstep.InvalidError, "has no shape, and muon needs a matrix"):
            vector.update(numpy.ones(4, numpy.float32))
        self.assertEqual(vector.clock.step, 0)
        updater = gradstep.Updater(config("muon", 0.5), "float32")
        w = numpy.ones((4, 6), numpy.float32)
        state = updater.initialize(w)
        for _ in range(3):
            updater.next_step()
            updater.apply(w, g, state)
        numpy.testing.assert_array_equal(w, matrix.values())
        with self.assertRaisesRegex(gradstep.Error, r"parameters\[0\]: has the shape \(24,\); expected a matrix"):
            updater.apply(w.reshape(24), g, state)

    def test_a_factored_rule_takes_the_shape_of_the_array(self):
        g = numpy.arange(24, dtype=numpy.float32) % 5
        sizes = {(4, 6): (4, 6, 0), (4, 3, 2): (4, 6, 0), (1, 24): (1, 24, 0), (24,): (0, 0, 24)}
        for rule in ("adafactor", "sm3", "momentum_sm3", "came"):
            with self.subTest(rule):
                updater = gradstep.Updater(config(rule, 0.5), "float32")
                weights = [numpy.ones(shape, numpy.float32) for shape in sizes]
                states = [updater.initialize(w) for w in weights]
                for state, expected in zip(states, sizes.values()):
                    self.assertEqual(tuple(state[name].size for name in "rcv"), expected)
                    self.assertEqual((state["r"].ndim, state["c"].ndim), (1, 1))
                parameters = [gradstep.Parameter(config(rule, 0.5), numpy.ones(shape, numpy.float32)) for shape in sizes]
                for step in range(3):
                    updater.next_step()
                    if step == 1:
                        updater.apply(weights[0], g, states[0])
                        updater.apply_many(weights[1:], [g] * 3, states[1:])
                    else:
                        updater.apply_many(weights, [g] * 4, states)
                    for w, parameter in zip(weights, parameters):
                        parameter.update(g)
                        numpy.testing.assert_array_equal(w, parameter.values())
        scalar, empty = numpy.ones((), numpy.float32), numpy.ones((5, 0), numpy.float32)
        of_scalar, of_empty = updater.initialize(scalar), updater.initialize(empty)
        updater.next_step()
        updater.apply(scalar, numpy.ones((), numpy.float32), of_scalar)
        updater.apply(empty, empty.copy(), of_empty)
        self.assertEqual((of_scalar["v"].shape, of_empty["v"].shape), ((), (5, 0)))
        self.assertLess(scalar, 1)
        before = weights[0].copy()
        with self.assertRaisesRegex(gradstep.InvalidError, r"states\[0\]: state r: has 0 elements; expected 4"):
            updater.apply(weights[0], g, states[3])
        numpy.testing.assert_array_equal(weights[0], before)

    def test_trainers_send_each_other_what_they_compress(self):
        rule = {"name": "dgc_momentum", "rampup_begin_step": 2, "sparsity": [0.75], "num_trainers": 2, "dense_below": 0}
        compressing = {**config("dgc_momentum", 0.5), "rule": rule}
        trainers = [gradstep.Parameter(compressing, numpy.ones(40, numpy.float32)) for _ in range(2)]
        momentum = gradstep.Parameter(config("momentum", 0.5), numpy.ones(40, numpy.float32))
        for step, (a, b) in enumerate(zip(gradients(4, 40), reversed(gradients(4, 40)))):
            messages = [trainers[0].compress(a), trainers[1].compress(b)]
            self.assertEqual([len(x) for x in messages], 2 * [40 + 40 * 4 if step < 2 else 40 + 10 * 8])
            before = trainers[0].values()
            for bad in (messages[:1], [*messages, b""], [messages[0], messages[1][:-1]], [b"", messages[1]]):
                with self.assertRaises(gradstep.InvalidError):
                    trainers[0].apply(bad)
            with self.assertRaisesRegex(gradstep.SequenceError, r"expected apply\(\) first"):
                trainers[0].compress(a)
            numpy.testing.assert_array_equal(trainers[0].values(), before)
            trainers[0].apply(messages)
            trainers[1].apply(map(bytearray, messages))
            numpy.testing.assert_array_equal(trainers[0].values(), trainers[1].values())
            if step < 2:  # of the mean, bit for bit
                momentum.update((a + b) / numpy.float32(2))
                numpy.testing.assert_array_equal(trainers[0].values(), momentum.values())
            else:
                self.assertTrue(10 <= numpy.count_nonzero(trainers[0].values() != before) <= 20)
            trainers[1] = pickle.loads(pickle.dumps(trainers[1]))  # u and v are each trainer's own
        with self.assertRaisesRegex(gradstep.SequenceError, r"expected compress\(\) first"):
            trainers[0].apply(messages)
        with self.assertRaisesRegex(gradstep.InvalidError, "expected dgc_momentum"):
            momentum.compress(a)

    def test_a_gradient_that_was_seen_before_is_read_anew(self):
        p, g = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3)), numpy.ones(3)
        p.update(g)
        g[:] = 10
        p.update(g)
        self.assertEqual(p.values()[0], -11)
        with self.assertRaises(ValueError):
            g.resize(30, refcheck=False)  # would leave the parameter with an address of freed memory
        model, words = gradstep.Model({"p": p}), g.dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy 2.5 deprecates this
            g.dtype = "uint8"
        for step in (lambda: p.update(g), lambda: model.update({"p": g})):
            with self.assertRaisesRegex(gradstep.DtypeError, "is of uint8"):
                step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            g.dtype = words
        model.update({"p": g})
        self.assertEqual(p.values()[0], -21)
        del g
        gc.collect()
        with self.assertRaises(gradstep.Error):
            p.update(None)

    def test_values_are_copies(self):
        initial = numpy.zeros((2, 2), numpy.float32)
        p = gradstep.Parameter(config("sgd", 1.0), initial)
        initial[:] = 7
        p.values()[:] = 7
        numpy.testing.assert_array_equal(numpy.asarray(p), numpy.zeros((2, 2)))
        out = numpy.ones(4, numpy.float32)
        self.assertIs(p.values(out), out)
        self.assertEqual(out.sum(), 0)

    def test_values_are_set(self):
        for element in ("float16", "float32", "float64"):
            mixed = {"element": "mixed"} if element == "float16" else {}
            p = gradstep.Parameter(config("momentum", 0.5, **mixed), numpy.zeros((2, 2), element))
            p.update(numpy.full(4, 2, element))
            before = p.slots()
            p.set_values(numpy.full((2, 2), 8, element))
            self.assertEqual((p.values().tolist(), p.clock.step), ([[8, 8], [8, 8]], 1))
            after = p.slots()
            numpy.testing.assert_array_equal(after["m"], before["m"])
            self.assertEqual(after.get("master", numpy.full((2, 2), 8.0)).tolist(), [[8, 8], [8, 8]])
            p.set_values(Foreign(numpy.full(4, 7, element)))
            self.assertEqual(p.values()[0, 0], 7)
        average = gradstep.Parameter(config("sgd", 1.0, average={"name": "polyak"}), shape=2)
        g = numpy.full(2, -1, numpy.float32)
        average.update(g)  # to 1
        average.set_values(numpy.full(2, 4, numpy.float32))
        average.update(g)  # to 5
        self.assertEqual(average.average().tolist(), [3, 3])
        decay = {"regularizer": {"name": "l2", "rate": 0.5}, "catch_up": "exact"}
        table = gradstep.Table(config("sgd", 1.0, **decay), numpy.ones((2, 1), numpy.float32))
        for row_1 in (8, 4):  # the row misses a step; that one comes before the values
            table.update([0], numpy.zeros((1, 1), numpy.float32))
            if row_1 == 8:
                table.set_values(numpy.full((2, 1), 8, numpy.float32))
            self.assertEqual(table.row(1).tolist(), [row_1])

    def test_another_shape_is_refused(self):
        """Elements of a transposed matrix are in another order. A flat array has the order of the values."""

        def each_call(shape, of_rows):
            """A function for each call that takes an array of this many elements."""
            kinds = {"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.5}}
            p, updater = gradstep.Parameter(kinds, shape=shape), gradstep.Updater(kinds)
            model, w = gradstep.Model({"p": gradstep.Parameter(kinds, shape=shape)}), numpy.zeros(shape, numpy.float32)
            state = updater.initialize(w)
            g = numpy.ones(shape, numpy.float32)
            updater.next_step()
            calls = {
                "gradient": (
                    p.update,
                    lambda x: p.update(x, rate_scale=0.5),
                    lambda x: gradstep.Parameter(config("dgc_momentum", 0.5), shape=shape).compress(x),
                    lambda x: updater.apply(w, x, state),
                ),
                "gradient of p": (lambda x: model.update({"p": x}),),
                "values": (p.set_values,),
                "out": (p.values,),
                "gradients[0]": (lambda x: updater.apply_many([w], [x], [state]),),
                "state m": (lambda x: updater.apply(w, g, {"m": x}), lambda x: updater.initialize(w, {"m": x})),
                "states[0]: state m": (lambda x: updater.apply_many([w], [g], [{"m": x}]),),
            }
            if of_rows:
                table = gradstep.Table(kinds, shape=shape)
                ids = range(shape[0])
                calls["gradient_rows"] = (lambda x: table.update(ids, x),)
                calls["out"] += (lambda x: table.rows(ids, x),)
                calls["values"] += (table.set_values, lambda x: gradstep.Parameter(kinds, shape=shape).append(x))
            return calls

        for shape in (2, 3), (4, 1), (2, 3, 2), (6,), (), (1,), (0, 3):
            size = math.prod(shape)
            others = {tuple(reversed(shape)), (1, *shape), (*shape, 1), (1, size), (size, 1)} - {shape}
            for name, calls in each_call(shape, len(shape) == 2).items():
                for call in calls:
                    for x in (numpy.ones(shape, numpy.float32), numpy.ones(size, numpy.float32), Foreign(numpy.ones(shape, "float32"))):
                        if not (isinstance(x, Foreign) and ("out" in name or "state" in name)):  # which are written to
                            call(x)
                    for other in others:
                        if len(other) < 2 or (name == "values" and other[1:] == shape[1:]):  # rows to append
                            continue
                        allowed = f"{re.escape(str(shape))}, or " if len(shape) > 1 else ""
                        if name == "values":
                            allowed = ""
                        for x in numpy.ones(other, numpy.float32), Foreign(numpy.ones(other, numpy.float32)):
                            with self.subTest(name=name, shape=shape, other=other):
                                expected = f"^{re.escape(name)}: has the shape {re.escape(str(other))}; expected .*{allowed}one dimension$"
                                with self.assertRaisesRegex(gradstep.InvalidError, expected):
                                    call(x)
        table = gradstep.Table(config("sgd", 1.0), shape=(5, 2))
        ids = numpy.array([[0, 1, 2], [1, 2, 3]])
        for shape in (6, 2), (2, 3, 2), (12,):  # a row for each id
            table.update(ids, numpy.ones(shape, numpy.float32))
            table.rows(ids, numpy.empty(shape, numpy.float32))
        for shape in (2, 6), (3, 2, 2), (4, 3), (1, 12):
            for call in table.update, table.rows:
                with self.assertRaisesRegex(gradstep.InvalidError, r"has the shape \(.*expected \(.*2\) or \(.*2\), or one dimension$"):
                    call(ids, numpy.ones(shape, numpy.float32))
        p = gradstep.Parameter(config("sgd", 1.0), shape=(2, 3))
        with self.assertRaisesRegex(gradstep.InvalidError, r"^values: has the shape \(3, 2\); expected \(3, 3\), or one dimension$"):
            p.append(numpy.ones((3, 2), numpy.float32))
        for call in p.permute, p.reset:  # as numpy.argwhere gives them
            with self.assertRaisesRegex(gradstep.InvalidError, r"^(order|rows): has the shape \(1, 2\); expected one dimension$"):
                call(numpy.array([[0, 1]]))
        # Factored state is of one dimension, or of the shape that gradstep.torch has.
        matrix, g = numpy.zeros((4, 3), numpy.float32), numpy.ones((4, 3), numpy.float32)
        updater = gradstep.Updater(gradstep.adafactor(lr=0.5))
        state = updater.initialize(matrix)
        updater.next_step()
        updater.apply(matrix, g, {**state, "r": state["r"].reshape(4, 1), "c": state["c"].reshape(1, 3)})
        with self.assertRaisesRegex(gradstep.InvalidError, r"^states\[0\]: state r: has the shape \(2, 2\); expected \(4, 1\)"):
            updater.apply(matrix, g, {**state, "r": state["r"].reshape(2, 2)})

    def test_saved_states_have_a_shape(self):
        saved = gradstep.Parameter(config("momentum", 1.0), shape=(2, 3)).save_state()
        gradstep.Parameter(config("momentum", 1.0), shape=(2, 3)).load_state(saved)
        for shape in (3, 2), (6,), (1, 6):
            with self.assertRaisesRegex(gradstep.InvalidError, "shape"):
                gradstep.Parameter(config("momentum", 1.0), shape=shape).load_state(saved)

    def test_every_rule_goes_on_from_values_that_are_set(self):
        initial, values, zeros = (numpy.array(x, numpy.float32) for x in ([[1, -2, 3]], [[5, -0.25, 0]], [[0, 0, 0]]))
        g = numpy.array([[0.5, -1, 2]], numpy.float32)
        # fromage shrinks every weight; m of yogi begins above 0; these two have noise
        others = {"sgld", "noisy_sgd", "fromage", "yogi", "dgc_momentum", "add_delta"}
        with_weights = {"schedule_free_sgd", "schedule_free_adam", "schedule_free_radam", "madgrad", "cocob", "dog", "dowg", "ftrl"}
        with_weights |= {"group_ftrl", "constant_rate_ftrl", "dadapt_sgd"}
        averages = [None, *({"name": x} for x in ("lookahead", "ema", "polyak"))]
        averages += [{"name": "towards_initial", "rate": 0.5}, {"name": "window", "rate": 0.5, "min": 2, "max": 4}]
        for name in sorted(set(gradstep.rules.__all__) - others):
            for average in averages:
                for before in (0, 4):
                    more = {} if average is None else {"average": average}
                    try:
                        p = gradstep.Parameter(config(name, 0.125, **more), initial)
                    except (gradstep.NotCompiledError, gradstep.InvalidError):
                        continue  # a combination that the library lacks
                    with self.subTest(rule=name, average=average, before=before):
                        for _ in range(before):
                            p.update(g if name in with_weights or name == "sgd" else zeros, loss=1.5)
                        p.set_values(values)
                        if average is not None and (before == 0 or average["name"] in ("lookahead", "towards_initial")):
                            numpy.testing.assert_array_equal(p.average(), values)
                        for _ in range(12):
                            p.update(zeros, loss=1.5)
                        rtol = 1e-6 if name in ("dadapt_sgd", "constant_rate_ftrl", "group_ftrl") else 0
                        numpy.testing.assert_allclose(p.values(), values, rtol=rtol, atol=rtol)

    def test_an_updater_is_told_of_weights_that_are_set(self):
        for rule, more in (("schedule_free_sgd", {}), ("madgrad", {}), ("sgd", {"average": {"name": "lookahead"}})):
            updater = gradstep.Updater(config(rule, 0.125, **more))
            w, zeros = numpy.ones(3, numpy.float32), numpy.zeros(3, numpy.float32)
            state = updater.initialize(w)
            updater.next_step()
            updater.apply(w, w.copy(), state)
            w[:] = 5, 6, 7
            updater.weights_set(w, state)
            for _ in range(12):
                updater.next_step()
                updater.apply(w, zeros, state)
            self.assertEqual(w.tolist(), [5, 6, 7])
        with self.assertRaises(gradstep.InvalidError):
            updater.weights_set(w, {})

    def test_added_rows_have_the_average_of_rows_that_stood_still(self):
        window = {"average": {"name": "window", "rate": 0.15, "min": 4, "max": 8}}
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/saved.safetensors"
            saved = gradstep.Model({"w": gradstep.Parameter(config("sgd", 0.125, **window), numpy.full((2, 1), 3, numpy.float32))})
            for _ in range(9):
                saved.update({"w": numpy.zeros((2, 1), numpy.float32)})
            saved.save(file)
            w = gradstep.Parameter(config("sgd", 0.125, **window), numpy.full((3, 1), 7, numpy.float32))
            gradstep.Model({"w": w}).load(file, rows="resize")
            for _ in range(6):
                self.assertEqual(w.average().tolist(), [[3], [3], [7]])
                w.update(numpy.zeros((3, 1), numpy.float32))

    def test_rows_change_while_training(self):
        p = gradstep.Parameter(config("momentum", 1.0), numpy.ones((2, 3), numpy.float32))
        g = numpy.full(6, 2, numpy.float32)
        p.update(g)
        p.append(numpy.full((2, 3), 7, numpy.float32))
        self.assertEqual((p.shape, p.size, p.values()[:, 0].tolist()), ((4, 3), 12, [-1, -1, 7, 7]))
        self.assertEqual(p.slots()["m"][:, 0].tolist(), [2, 2, 0, 0])
        with self.assertRaisesRegex(gradstep.Error, "has 6 elements; expected 12"):
            p.update(g)
        p.permute([2, 0, 1, 3])
        p.keep(numpy.array([True, True, False, False]))
        self.assertEqual((p.shape, p.values()[:, 0].tolist()), ((2, 3), [7, -1]))
        p.update(g)
        p.reset([1])
        self.assertEqual(p.slots()["m"][:, 0].tolist(), [2, 0])
        again = pickle.loads(pickle.dumps(p))
        for x in (p, again):
            x.update(g)
        numpy.testing.assert_array_equal(again.values(), p.values())
        view = p.view()
        before = view.tolist()
        for change in (lambda: p.append(view), lambda: p.keep([True, False]), lambda: p.permute([1, 0]), lambda: p.reset([0])):
            with self.assertRaisesRegex(gradstep.SequenceError, "a view of the values exists"):
                change()
        self.assertEqual(view.tolist(), before)
        del view
        with self.assertRaisesRegex(gradstep.DtypeError, "mask: is of int64; expected bool"):
            p.keep([1, 0])
        with self.assertRaisesRegex(gradstep.InvalidError, r"^mask: has the shape \(1, 2\); expected a bool for each row$"):
            p.keep([[True, False]])
        with self.assertRaisesRegex(gradstep.Error, "^keep: the mask has 1 elements; expected 2$"):
            p.keep([True])
        with self.assertRaisesRegex(gradstep.Error, "row 1 is in the order twice"):
            p.permute([1, 1])
        self.assertEqual((p.shape, p.values().tolist()), ((2, 3), before))
        p.keep([False, False])
        self.assertEqual(p.values().shape, (0, 3))
        vector = gradstep.Parameter(config("sgd", 1.0), shape=())
        saved = vector.save_state()
        vector.reset([0])
        vector.load_state(saved)
        vector.append(numpy.ones(2, numpy.float32))
        self.assertEqual(vector.values().tolist(), [0, 1, 1])

    def test_rows_of_tables_change(self):
        decay = {"regularizer": {"name": "l2", "rate": 0.5}, "catch_up": "exact"}
        for more in ({}, decay):
            table = gradstep.Table(config("sgd", 1.0, **more), numpy.full((1, 2), 4, numpy.float32))
            table.append(numpy.full((1, 2), 8, numpy.float32))
            table.update([1], numpy.full((1, 2), 1, numpy.float32))  # row 0 misses it
            self.assertEqual(len(table), 2)
            table.permute(range(1, -1, -1))
            self.assertEqual(table.values()[:, 0].tolist(), [3, 2] if more else [7, 4])
            table.keep([False, True])
            again = pickle.loads(pickle.dumps(table))
            again.append(numpy.zeros(2, numpy.float32))
            again.update([0, 1], numpy.zeros((2, 2), numpy.float32))
            self.assertEqual(again[0].tolist(), [1, 1] if more else [4, 4])
        with self.assertRaisesRegex(gradstep.InvalidError, "keep: the parameter began with one row"):
            gradstep.Parameter(config("sgd", 1.0, **decay), shape=(2, 2)).keep([True, False])
        for initial in (None, numpy.ones((1, 2), numpy.float32)):
            lamb = gradstep.Table(config("lamb", 1.0), initial, shape=(1, 2))
            lamb.append(numpy.ones((2, 2), numpy.float32))
            lamb.update([2], numpy.ones((1, 2), numpy.float32))

    def test_a_view_follows_the_values(self):
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros((2, 2)))
        view = p.view()
        p.update(numpy.ones(4))
        self.assertEqual((view.shape, view.dtype, view.tolist()), ((2, 2), numpy.float64, [[-1, -1], [-1, -1]]))
        self.assertEqual(memoryview(view).readonly, True)
        with self.assertRaises(ValueError):
            view[0, 0] = 1
        with self.assertRaises(ValueError):
            view.flags.writeable = True
        numpy.testing.assert_array_equal(numpy.asarray(p), view)
        self.assertTrue(numpy.shares_memory(p.__array__(copy=False), view))
        self.assertFalse(numpy.shares_memory(numpy.asarray(p), view))
        with self.assertRaisesRegex(ValueError, "float32 needs a copy"):
            p.__array__("float32", copy=False)
        p.load_state(p.save_state())
        p.set_values(numpy.full(4, 3.0))
        self.assertEqual(view.tolist(), [[3, 3], [3, 3]])  # in the same memory
        empty = gradstep.Table(config("sgd", 1.0), shape=(0, 3)).view()
        self.assertEqual((empty.shape, empty.flags.writeable), ((0, 3), False))

    def test_a_view_keeps_the_memory(self):
        released, dropped = (gradstep.Parameter(config("sgd", 1.0), numpy.full(2**16, 7.0)) for _ in range(2))
        views = [released.view(), dropped.view()[1:]]
        handle = weakref.ref(dropped._owned)
        released.release()
        del dropped
        gc.collect()
        others = [gradstep.Parameter(config("sgd", 1.0), numpy.zeros(2**16)) for _ in range(8)]
        self.assertEqual([view.sum() for view in views], [7 * 2**16, 7 * (2**16 - 1)])
        self.assertIsNotNone(handle())
        views.clear()
        gc.collect()
        self.assertIsNone(handle())
        self.assertEqual(len(others), 8)
        with self.assertRaises(gradstep.ReleasedError):
            released.view()

    def test_no_view_of_memory_that_goes(self):
        """The average stands in memory that `restore` frees; a view of the trained values stays good."""
        p = gradstep.Parameter(config("sgd", 1.0, average={"name": "polyak"}), shape=2)
        trained, g = p.view(), numpy.ones(2, numpy.float32)
        p.update(g)
        p.update(g)
        p.apply_average()
        for view in (p.view, p.__dlpack__, lambda: p.__array__(copy=False)):
            with self.assertRaisesRegex(gradstep.SequenceError, "restore"):
                view()
        self.assertEqual((p.values().tolist(), trained.tolist()), ([-1.5, -1.5], [-2, -2]))
        p.restore()
        p.update(g)
        self.assertEqual((p.view().tolist(), trained.tolist()), ([-3, -3], [-3, -3]))

    @needs_dlpack_1
    def test_other_libraries_view_the_values(self):
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros((2, 2)))
        view = numpy.from_dlpack(p)
        self.assertEqual((p.__dlpack_device__(), view.flags.writeable), ((1, 0), False))
        p.update(numpy.ones(4))
        self.assertEqual(view.tolist(), [[-1, -1], [-1, -1]])
        p.release()
        self.assertEqual(view.tolist(), [[-1, -1], [-1, -1]])
        half = gradstep.Parameter(config("sgd", 1.0), shape=(3,), dtype="bfloat16")
        capsule = half.__dlpack__(max_version=(1, 0))
        described = _arrays._VersionedTensor.from_address(_arrays._capsule_pointer(capsule, b"dltensor_versioned"))
        tensor = described.tensor
        self.assertEqual((tensor.code, tensor.bits, tensor.ndim, tensor.shape[0], described.flags), (4, 16, 1, 3, 1))
        again = gradstep.Parameter(config("sgd", 1.0), half)  # which reads it
        self.assertEqual((again.dtype, again.shape), ("bfloat16", (3,)))
        copied = half.__dlpack__(max_version=(1, 0), copy=True)
        described = _arrays._VersionedTensor.from_address(_arrays._capsule_pointer(copied, b"dltensor_versioned"))
        self.assertEqual(described.flags & 1, 0)
        with self.assertRaisesRegex(BufferError, "max_version"):  # which asks by DLPack before 1.0
            half.__dlpack__()

    def test_rows_as_of_a_sequence(self):
        values = numpy.arange(12, dtype=numpy.float32).reshape(6, 2)
        table = gradstep.Table(config("sgd", 1.0), values)
        self.assertEqual(len(table), 6)
        numpy.testing.assert_array_equal(list(table), values)
        for index in (
            0, -1, 5, -6, numpy.int8(-2), slice(1, 3), slice(None), slice(None, None, -2), slice(9, 2), [0, -1], [], range(2),
            numpy.array([-1], numpy.int8), numpy.array([5, 0], numpy.uint8), numpy.array([[1, 2], [-3, -4]]),
        ):  # fmt: skip
            expected = values[index if not isinstance(index, list) else numpy.array(index, int)]
            numpy.testing.assert_array_equal(table[index], expected)
        for index in (6, -7, 2**70, [0, -7], numpy.array([-7])):
            with self.assertRaisesRegex(IndexError, r"row: .* is out of range; expected \[-6, 6\)") as caught:
                table[index]
            self.assertIsInstance(caught.exception, gradstep.InvalidError)
        with self.assertRaises(IndexError):
            table.row(-1)
        with self.assertRaises(gradstep.InvalidError):
            table[[0, 6]]
        for index in (2.0, True, (1, 2), "x", None, numpy.array([True] * 6), numpy.array([0.5])):
            with self.assertRaises(gradstep.DtypeError):
                table[index]
        with self.assertRaises(TypeError):
            values[0] in table  # noqa: B015
        self.assertEqual(list(gradstep.Table(config("sgd", 1.0), shape=(0, 2))), [])

    def test_ids_of_every_kind(self):
        expected = -numpy.array([[0.0], [2], [0], [1]])
        every = [[1, 3, 1], (1, 3, 1), [numpy.int8(1), numpy.uint64(3), True + 0], array.array("h", [1, 3, 1])]
        every += [numpy.array([1, 3, 1], kind) for kind in ("int8", "int16", "int64", "uint8", "uint16", "uint64", ">i4")]
        every += [numpy.array([1, 0, 3, 0, 1, 0])[::2], memoryview(numpy.array([1, 3, 1])), [[1], [3], [1]]]
        every += [Foreign(numpy.array([1, 3, 1], "uint8")), Foreign(numpy.array([1, 0, 3, 0, 1, 0], "int16")[::2])]
        for ids in every:
            table = gradstep.Table(config("sgd", 1.0), numpy.zeros((4, 1)))
            table.update(ids, numpy.ones(3))
            self.assertEqual(table.values().tolist(), expected.tolist(), repr(ids))
        self.assertEqual(table.rows(range(3, -1, -2)).tolist(), [[-1], [-2]])
        self.assertEqual((table.rows([]).shape, table.rows([[], []]).shape), ((0, 1), (2, 0, 1)))

    def test_representations(self):
        updater = gradstep.Updater(config("adam", 0.1))
        self.assertEqual(repr(updater), "<gradstep.Updater adam float32, step 0>")
        updater.next_step()
        self.assertEqual(repr(updater), "<gradstep.Updater adam float32, step 1>")
        p = gradstep.Parameter(config("sgd", 1.0), shape=(2, 3))
        self.assertEqual(repr(p), "<gradstep.Parameter sgd float32 (2, 3), step 0>")
        model = gradstep.Model({"w": p})
        self.assertEqual(repr(model), "<gradstep.Model {'w': <gradstep.Parameter sgd float32 (2, 3), step 0>}>")
        for number in range(20):
            model.add(f"more.{number}", p)
        self.assertRegex(repr(model), "^<gradstep.Model {'w': .*, and 13 more}>$")
        for each in (updater, model):
            each.release()
            self.assertIn("released", repr(each))

    def test_configurations_are_read_back(self):
        text = '{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}'
        complete = gradstep.canonical(text)
        self.assertEqual(complete["rule"]["beta1"], 0.9)
        self.assertEqual(gradstep.canonical(complete), complete)
        self.assertEqual(gradstep.Parameter(text, shape=(3,)).config, complete)
        self.assertEqual(gradstep.Updater(text).config, complete)


    def test_a_schedule_in_place_of_a_number(self):
        beta1 = gradstep.schedules.polynomial(0.5, 10, end=0.75)
        decay = gradstep.regularizers.decoupled(gradstep.schedules.constant(0.25))
        settings = gradstep.adam(0.1, beta1=beta1, regularizer=decay)
        moving = gradstep.Parameter(settings, numpy.ones(7, numpy.float32))
        plain = gradstep.Parameter(
            gradstep.adam(0.1, regularizer=gradstep.regularizers.decoupled(0.25)), numpy.ones(7, numpy.float32)
        )
        self.assertEqual(moving.config["rule"]["beta1"], gradstep.canonical(settings)["rule"]["beta1"])
        self.assertEqual(moving.config["rule"]["beta1"]["end"], 0.75)
        for t, gradient in enumerate(gradients(12, 7)):
            plain.set_numbers({"rule.beta1": 0.5 + 0.25 * min(t, 10) / 10})
            moving.update(gradient)
            plain.update(gradient)
            numpy.testing.assert_allclose(moving.values(), plain.values(), rtol=1e-6)  # beta1 rounds once more here
        moving.set_numbers({"rule.beta1": 0.5})
        self.assertEqual(moving.config["rule"]["beta1"], 0.5)
        with self.assertRaisesRegex(ValueError, r"rule.beta1: the schedule begins at 1.5; expected \[0, 1\)"):
            gradstep.Parameter(gradstep.adam(0.1, beta1=gradstep.schedules.constant(1.5)), shape=(3,))

    def test_numbers_of_numpy_and_infinity_in_configurations(self):
        rule = {
            "name": "dgc_momentum",
            "mu": numpy.float64(0.5),
            "rampup_step": numpy.int32(4),
            "sparsity": numpy.array([0.5, 0.75], numpy.float32),
            "nesterov": numpy.bool_(True),
            "local_grad_clip_norm": numpy.inf,
        }
        schedule = {"name": "constant", "rate": numpy.array(0.25, numpy.float32)}
        read = gradstep.canonical(types.MappingProxyType({"rule": rule, "schedule": schedule, "threads": numpy.uint8(2)}))
        given = {"mu": 0.5, "rampup_step": 4, "sparsity": [0.5, 0.75], "nesterov": True, "local_grad_clip_norm": "infinity"}
        self.assertEqual({name: read["rule"][name] for name in given}, given)
        self.assertEqual((read["schedule"]["rate"], read["threads"]), (0.25, 2))
        clamp = {"name": "clamp_weight", "low": -numpy.inf, "high": numpy.float32(0.5)}
        self.assertEqual(
            gradstep.canonical({**config("sgd", 1), "regularizer": clamp})["regularizer"], {**clamp, "low": "-infinity"}
        )
        cycle: dict = {}
        cycle["rule"] = cycle
        for settings, message in (
            (config("sgd", float("inf")), '^schedule.rate: "infinity"; expected a number'),
            (config("sgd", numpy.float32("nan")), "^schedule.rate: nan is not"),
            (config("sgd", -float("inf")), '^schedule.rate: "-infinity"; expected a number'),
            (config("sgd", 10**400), "^schedule.rate: the integer has 1329 bits"),
            (config("sgd", 1j), "^schedule.rate: 1j is a complex"),
            (config("sgd", decimal.Decimal("1e-400")), "^schedule.rate: .* is a Decimal"),
            (config("sgd", "\ud800"), "^schedule.rate: .* cannot be encoded"),
            ({**config("sgd", 1), "regularizer": {"name": "all_of", "regularizers": [{"name": "l1", "rate": {1}}]}},
             r"^regularizer.regularizers\[0\].rate: \{1\} is a set"),
            ({"rule": {3: 4}}, "^rule: the key 3 is a int; expected a str"),
            ({"\ud800": 1}, "^config: .* cannot be encoded"),
            (cycle, "^config: contains itself"),
            ("\ud800", "^config: .* cannot be encoded"),
        ):  # fmt: skip
            with self.assertRaisesRegex(gradstep.ConfigError, message):
                gradstep.canonical(settings)
        if numpy.finfo(numpy.longdouble).maxexp > 1024:
            for wide in ("1e-4000", "1e4000"):
                with self.assertRaisesRegex(gradstep.ConfigError, "^schedule.rate: no float holds"):
                    gradstep.canonical(config("sgd", numpy.longdouble(wide)))


class Tables(unittest.TestCase):
    """Tables whose configuration contains the key "table"."""

    def test_they_give_the_bits_of_tables_with_a_shape(self):
        decay = {"regularizer": {"name": "l2", "rate": 0.5}, "catch_up": "exact"}
        for rule, more in (("adam", {}), ("momentum", decay)):
            table, same = of_text(rule, 0.125, (9, 4), more), gradstep.Table(config(rule, 0.125, **more), shape=(9, 4))
            self.assertEqual((table.shape, table.width, table.size, table.dtype), (same.shape, same.width, same.size, same.dtype))
            for g, kind in zip(gradients(5, 12), (numpy.int32, numpy.uint32, numpy.int64, numpy.uint64, list)):
                ids = [5, 0, 5] if kind is list else numpy.array([5, 0, 5], kind)
                for each in (table, same):
                    each.update(ids, g.reshape(3, 4), rate_scale=0.5, samples=3)
            numpy.testing.assert_array_equal(table.rows([5, 2]), same.rows([5, 2]))
            numpy.testing.assert_array_equal(table[-4], same.row(5))
            numpy.testing.assert_array_equal(table, same.values())
            self.assertEqual(table.clock, same.clock)
        self.assertEqual(table.config["table"]["rows"], 9)
        self.assertEqual(gradstep.Table(json.dumps(table.config)).config, table.config)

    def test_bags_are_updates_with_a_gradient_for_each_id(self):
        table, same = of_text("adagrad", 0.5, (8, 4)), of_text("adagrad", 0.5, (8, 4))
        offsets, bags = [0, 2, 2, 5], gradients(1, 16)[0].reshape(4, 4)  # the second one is empty
        for kind in (numpy.int32, numpy.uint32, numpy.int64, numpy.uint64):
            ids = numpy.array([3, 1, 3, 7, 0, 3], kind)
            table.update_bags(ids, offsets, bags)
            same.update(ids, numpy.repeat(bags, [2, 0, 3, 1], axis=0))
        table.update_bags(ids, numpy.array(offsets, kind), bags.ravel(), gradient_scale=0.5)
        same.update(ids, numpy.repeat(bags, [2, 0, 3, 1], axis=0), gradient_scale=0.5)
        numpy.testing.assert_array_equal(table.values(), same.values())
        self.assertEqual(table.clock.step, 5)

    def test_bags_have_weights_and_means(self):
        ids, offsets, lengths = numpy.array([3, 1, 3, 7, 0, 5]), [0, 2, 2, 5], [2, 0, 3, 1]
        for dtype in ("float32", "float64"):
            weights = numpy.array([0.5, -1, 2, 3, 1, 0.25], dtype)
            bags = numpy.arange(16, dtype=dtype).reshape(4, 4) / 8
            for mode in ("sum", "mean"):
                for given in (None, weights):
                    more = {"type": dtype}
                    tables = [of_text("adagrad", 0.5, (8, 4), more, initial=1.0, ignore_id=5) for _ in range(2)]
                    keyed = of_keys("adagrad", 0.5, 4, more, initial=1.0, ignore_key=5)
                    wanted = numpy.array([2, 0, 3, 0])  # id 5 is padding
                    factors = numpy.ones(6, dtype) if given is None else given
                    by_id = factors / numpy.repeat(numpy.maximum(wanted, 1), lengths) if mode == "mean" else factors
                    expanded = by_id.astype(dtype)[:, None] * numpy.repeat(bags, lengths, axis=0)
                    for each in (tables[0], keyed):
                        each.update_bags(ids, offsets, bags, weights=given, mode=mode, rate_scale=0.5)
                    tables[1].update(ids, expanded, rate_scale=0.5)
                    everything = numpy.arange(8)
                    for each in (tables[0], keyed):
                        numpy.testing.assert_array_equal(each.rows(everything), tables[1].rows(everything))
                        rows = each.rows(ids) * factors[:, None]
                        rows[ids == 5] = 0
                        pooled = numpy.array([part.sum(axis=0, dtype=dtype) for part in numpy.split(rows, offsets[1:])], dtype)
                        if mode == "mean":
                            pooled /= numpy.maximum(wanted, 1)[:, None].astype(dtype)
                        result = each.bags(ids, offsets, weights=given, mode=mode)
                        self.assertEqual((result.dtype, result.shape), (numpy.dtype(dtype), (4, 4)))
                        numpy.testing.assert_allclose(result, pooled, rtol=1e-6)
                        out = numpy.empty(16, dtype)
                        self.assertIs(each.bags(ids, offsets, weights=given, mode=mode, out=out), out)
                        numpy.testing.assert_array_equal(out.reshape(4, 4), result)

    def test_options(self):
        rows = numpy.array([[2, 4], [4, 8], [1, 1], [3, 4]], numpy.float32)
        last = of_text("sgd", 1.0, (4, 2), duplicates="last")
        last.update([1, 1, 2, 3], rows)
        self.assertEqual(last.values().tolist(), [[0, 0], [-4, -8], [-1, -1], [-3, -4]])
        mean = of_text("sgd", 1.0, (4, 2), duplicates="mean", ignore_id=-1)
        mean.update([1, 1, -1, 3], rows)
        self.assertEqual(mean.values().tolist(), [[0, 0], [-3, -6], [0, 0], [-3, -4]])
        limited = of_text("sgd", 1.0, (4, 2), max_norm=2.5, initial=0.5)
        limited.update([3], rows[3:])
        self.assertAlmostEqual(float(numpy.linalg.norm(limited[3])), 2.5, places=6)
        self.assertEqual(limited[0].tolist(), [0.5, 0.5])
        unique = of_text("sgd", 1.0, (4, 2), duplicates="unique", more={"on_nonfinite": "skip"})
        with self.assertRaisesRegex(gradstep.InvalidError, "expected distinct ids"):
            unique.update([1, 1], rows[:2])
        unique.update([0, 1], numpy.array([[numpy.nan, 1], [1, 1]], numpy.float32))
        self.assertEqual((unique.skipped, unique.values()[:2].tolist()), (1, [[0, 0], [-1, -1]]))

    def test_several_threads(self):
        """No update is lost: the sums of ones are exact. Other threads read, add rows and save meanwhile."""
        table = of_text("sgd", 1.0, (4, 2), {"catch_up": "exact"}, concurrent=True)
        self.assertTrue(table.concurrent)
        steps = 200

        def run(number: int) -> None:
            ones = numpy.ones((2, 2), numpy.float32)
            for step in range(steps):
                if number % 2:
                    table.update([0, number], ones)
                else:
                    table.update_bags([0, 0, number], [0, 2], ones)
                row = table[0]
                self.assertEqual(row[0], row[1])  # no half of an update
                if step % 50 == number:
                    table.append(numpy.zeros(2, numpy.float32))
                    gradstep.Table(table.config).load_state(table.save_state())
                with self.assertRaisesRegex(gradstep.InvalidError, rf"ids\[0\]: {1000 + number} is out of range"):
                    table.rows([1000 + number])

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(run, number) for number in (1, 2, 3)]:
                done.result()
        self.assertEqual(table.values()[:4, 0].tolist(), [-4.0 * steps, -1.0 * steps, -1.0 * steps, -1.0 * steps])
        self.assertEqual((table.clock.step, table.shape), (3 * steps, (4 + 3 * 4, 2)))

    def test_rows_change(self):
        normal = {"name": "normal", "mean": 0, "deviation": 1, "seed": 3}
        table = of_text("momentum", 1.0, (2, 2), initial=normal)
        initial = of_text("momentum", 1.0, (4, 2), initial=normal).values()
        numpy.testing.assert_array_equal(table.values(), initial[:2])
        table.update([0, 1], numpy.ones((2, 2), numpy.float32))
        table.grow(4)
        table.set_rows([1], numpy.full(2, 8, numpy.float32))
        table.reset([0])
        numpy.testing.assert_array_equal(table.values(), [initial[0], [8, 8], *initial[2:]])
        table.append(numpy.full((1, 2), 5, numpy.float32))
        table.permute(numpy.arange(4, -1, -1, dtype=numpy.uint32))
        table.keep([True, False, False, True, True])
        self.assertEqual((len(table), table.shape, table.size), (3, (3, 2), 6))
        table.update([0, 1, 2], numpy.zeros((3, 2), numpy.float32))  # the second one has momentum
        numpy.testing.assert_array_equal(table.values()[:2, 0] < [5, 8], [False, True])
        table.set_values(numpy.arange(6, dtype=numpy.float32))
        self.assertEqual(table.values().tolist(), [[0, 1], [2, 3], [4, 5]])
        table.flush()

    def test_averages(self):
        table = of_text("sgd", 1.0, (3, 2), {"average": {"name": "ema", "decay": 0.5}})
        table.update([1], numpy.ones((1, 2), numpy.float32))
        self.assertEqual(table.averages([1, 0]).tolist(), [[-0.5, -0.5], [0, 0]])
        numpy.testing.assert_array_equal(table.average(), table.averages(range(3)))
        table.apply_average()
        self.assertEqual(table[1].tolist(), [-0.5, -0.5])
        for call in (lambda: table.update([1], numpy.ones((1, 2), numpy.float32)), table.save_state):
            with self.assertRaisesRegex(gradstep.SequenceError, "the average is in the place of the weights"):
                call()
        table.restore()
        self.assertEqual(table[1].tolist(), [-1, -1])

    def test_a_run_that_was_stopped_goes_on_with_the_same_bits(self):
        def made(rows: int = 6) -> gradstep.Table:
            return of_text("adam", 0.125, (rows, 2), {"catch_up": {"name": "replay", "max_steps": 9}}, max_norm=1.5)

        def train(table: gradstep.Table, begin: int, end: int) -> None:
            for number in range(begin, end):
                table.update([number % 6, 2], steps[number].reshape(2, 2))

        steps, once, first, of_memory, of_file = gradients(10, 4), made(), made(), made(), made(2)
        train(once, 0, 10)
        train(first, 0, 6)
        of_memory.load_state(first.save_state())
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "table.safetensors")
            first.save(path)
            self.assertEqual(gradstep.file_names(path), ["values"])
            self.assertTrue(of_file.load(path))
            self.assertEqual(of_file.shape, (6, 2))  # it has grown
            self.assertFalse(of_file.load(path, missing="keep", unexpected="ignore", rename={"values": "other"}))
            model = Path(scratch, "model.safetensors")
            rows = gradstep.Table(config("adagrad", 0.5), numpy.ones((3, 2), numpy.float32))
            gradstep.Model({"w": gradstep.Parameter(config("sgd", 1.0), shape=3), "rows": rows}).save(model)
            with self.assertRaisesRegex(gradstep.InvalidError, '"rows": is a parameter; expected a table'):
                of_text("adagrad", 0.5, (3, 2)).load(model, rename={"rows": "values"}, unexpected="ignore")
            with self.assertRaises(FileNotFoundError) as caught:
                first.load(Path(scratch, "nothing"))
            self.assertEqual(caught.exception.filename, str(Path(scratch, "nothing")))
        for each in (of_memory, of_file, pickle.loads(pickle.dumps(first)), copy.copy(first)):
            train(each, 6, 10)
            numpy.testing.assert_array_equal(each.values(), once.values())
            self.assertEqual(each.clock, once.clock)

    def test_what_is_refused(self):
        table, ones = of_text("sgd", 1.0, (5, 2)), numpy.ones((2, 2), numpy.float32)
        with_shape = gradstep.Table(config("sgd", 1.0), shape=(5, 2))
        lacks = 'the configuration contains the key "table"; expected a table that was made with shape or initial'
        for message, call in (
            (r"ids\[1\]: 5 is out of range; expected \[0, 5\)", lambda: table.update([1, 5], ones)),
            (r"ids\[0\]: -1 is out of range", lambda: table.rows([-1])),
            (r"offsets\[0\]: 1 is out of range; expected 0", lambda: table.update_bags([1, 2, 3], [1, 2], ones)),
            (r"offsets\[1\]: 4 is out of range; expected at most 3", lambda: table.update_bags([1, 2, 3], [0, 4], ones)),
            ("bag_rows: has 4 elements; expected 6", lambda: table.update_bags([1, 2, 3], [0, 1, 2], ones)),
            (r"offsets: has the shape \(1, 2\)", lambda: table.update_bags([1, 2, 3], [[0, 1]], ones)),
            (r"ids\[0\]: 5 is out of range", lambda: table.bags([5], [0])),
            ("out: has 2 elements; expected 4", lambda: table.bags([1], [0, 1], out=ones[0])),
            ("mode: 'max' is out of range", lambda: table.bags([1], [0], mode="max")),
            ("weights: has 4 elements; expected 1", lambda: table.bags([1], [0], weights=ones)),
            ("weights: is of float64; expected float32", lambda: table.update_bags([1], [0], ones[0], weights=numpy.ones(1))),
            ("bags: the configuration does not contain the key", lambda: with_shape.bags([1], [0])),
            ("gradient_rows: is of float64; expected float32", lambda: table.update([1], numpy.ones((1, 2)))),
            ("num_rows: 4 is out of range; expected >= 5", lambda: table.grow(4)),
            ("num_rows: -1 is out of range; expected >= 5", lambda: table.grow(-1)),
            ("no average is kept", table.average),
            ("permute: row 1 is in the order twice", lambda: table.permute([1, 1, 2, 3, 4])),
            ("table.concurent: unknown key", lambda: of_text("sgd", 1.0, (1, 1), concurent=True)),
            ("table.width: is missing", lambda: gradstep.Table({**config("sgd", 1.0), "table": {"rows": 3}})),
            ("is not JSON", lambda: gradstep.Table('{"table": 1,}')),
            ("shape: is given; expected None", lambda: gradstep.Table(table.config, shape=(5, 2))),
            ("type: unknown key", lambda: gradstep.Parameter(table.config, shape=5)),
            (f"view: {lacks}", table.view),
            (f"slots: {lacks}", table.slots),
            (f"set_numbers: {lacks}", lambda: table.set_numbers({"schedule.rate": 1.0})),
            (f"rows: {lacks}", lambda: gradstep.Model({"rows": table})),
            ('grow: the configuration does not contain the key "table"', lambda: with_shape.grow(6)),
            ('skipped: the configuration does not contain the key "table"', lambda: with_shape.skipped),
        ):
            with self.assertRaisesRegex(gradstep.Error, message):
                call()
        self.assertEqual((table.clock.step, table.values().any()), (0, False))
        table.release()
        with self.assertRaisesRegex(gradstep.ReleasedError, "this Table has been released"):
            table.update([1, 2], ones)


class KeyedTables(unittest.TestCase):
    """Tables whose rows have keys."""

    def test_they_give_the_bits_of_tables_with_numbers(self):
        decay = {"regularizer": {"name": "l2", "rate": 0.5}, "catch_up": "exact"}
        for rule, more in (("adam", {"average": {"name": "ema", "decay": 0.5}}), ("momentum", decay)):
            table, same = of_keys(rule, 0.125, 4, more, initial=0.5), of_text(rule, 0.125, (9, 4), more, initial=0.5)
            for each in (table, same):
                each.update(range(9), gradients(1, 36)[0])
            for g, kind in zip(gradients(5, 12), (numpy.int32, numpy.uint32, numpy.int64, numpy.uint64, list)):
                ids = [5, 0, 5] if kind is list else numpy.array([5, 0, 5], kind)
                for each in (table, same):
                    each.update(ids, g.reshape(3, 4), rate_scale=0.5, samples=3)
                    each.update_bags(ids, [0, 2], g[:8])
            numpy.testing.assert_array_equal(table.rows(range(9)), same.values())
            numpy.testing.assert_array_equal(table.row(5), same.row(5))
            self.assertEqual((table.clock, table.width, table.dtype), (same.clock, same.width, same.dtype))
            if "average" in more:
                numpy.testing.assert_array_equal(table.averages([5, 2]), same.averages([5, 2]))
                table.apply_average()
                numpy.testing.assert_array_equal(table.row(5), same.averages([5])[0])
                table.restore()
            table.flush()
        self.assertEqual(gradstep.KeyedTable(json.dumps(table.config)).config, table.config)

    def test_admission(self):
        table = of_keys("sgd", 1.0, 2, {"on_nonfinite": "skip"}, admit_after=2, max_rows=2, initial=0.5)
        table.reserve(2)
        ones = numpy.ones((4, 2), numpy.float32)
        table.update([-1, 7, 2**63, 2**64 - 1], ones)  # the last one is -1
        self.assertEqual((len(table), list(table), table.rows([7, -1]).tolist()), (1, [2**64 - 1], [[0.5, 0.5], [-0.5, -0.5]]))
        table.update([7, 2**63, 5, 5], ones)
        self.assertEqual(table.keys().tolist(), [2**64 - 1, 7])
        self.assertEqual([key in table for key in (7, -1, 2**64 - 1, 2**63, 5)], [True, True, True, False, False])
        table.update([7], numpy.full((1, 2), numpy.nan, numpy.float32))
        self.assertEqual(table.counts, gradstep.KeyCounts(admitted=2, turned_away=4, no_room=2, skipped=1, evicted=0))
        table.reset([7])
        self.assertEqual((table.row(7).tolist(), table.row(2**64 - 1).tolist()), ([0.5, 0.5], [-0.5, -0.5]))

    def test_eviction(self):
        table, one = of_keys("sgd", 1.0, 1, touch_counts=True), numpy.ones(1, numpy.float32)
        for key in (1, 2, 3, 4, 5, 6, 7, 3):
            table.update([key], one)
        self.assertEqual(table.evict_older_than(2), 1)
        table.hold([2, 4])
        self.assertEqual((table.evict_to(5), sorted(table)), (1, [2, 3, 4, 6, 7]))
        seen = []
        self.assertEqual(table.evict(lambda row: seen.append(row) or row.touch_count == 2), 1)
        self.assertEqual(sorted((row.key, row.age, row.touch_count, *row.values) for row in seen),
                         [(3, 0, 2, -2), (6, 2, 1, -1), (7, 1, 1, -1)])  # fmt: skip
        table.unhold([4, 2])
        self.assertEqual((table.evict_to(2, lambda row: -row.key), sorted(table)), (2, [2, 4]))
        self.assertEqual((table.evict(lambda row: False), table.evict(lambda row: numpy.bool_(True)), len(table)), (0, 2, 0))
        self.assertEqual(table.counts.evicted, 7)

    def test_the_state_of_a_row(self):
        average = {"average": {"name": "ema", "decay": 0.5}}
        for rule, more, shapes in (
            ("adam", average, {"m": (3,), "v": (3,), "average": (3,)}),
            ("rowwise_adagrad", {"catch_up": "exact"}, {"n": (1,)}),
            ("sgd", {"threads": 2}, {}),
        ):
            table, same = of_keys(rule, 0.5, 3, more), gradstep.Parameter(config(rule, 0.5, **{**more, "catch_up": "touch_only"}), shape=3)
            seen, g = [], numpy.array([1, 2, 4], numpy.float32)
            table.update([9], g)
            same.update(g)
            table.evict(seen.append)
            self.assertEqual({name: slot.shape for name, slot in seen[0].state.items()}, shapes)
            table.release()  # the arrays are copies
            if rule == "adam":
                for name, slot in same.slots().items():
                    numpy.testing.assert_array_equal(seen[0].state[name], slot)
                numpy.testing.assert_array_equal(seen[0].values, same.values())

    def test_functions_of_a_row_that_fail_evict_nothing(self):
        def interrupt() -> None:
            raise KeyboardInterrupt

        table = of_keys("sgd", 1.0, 1)
        table.update([1, 2, 3], numpy.ones(3, numpy.float32))
        for number, (kind, message, fails) in enumerate((
            (ZeroDivisionError, "division", lambda: 1 / 0),
            (KeyboardInterrupt, "", interrupt),
            (gradstep.SequenceError, "table: is called by your function of a row", lambda: table.row(1)),
            (gradstep.SequenceError, "table: is called by", lambda: table.evict_older_than(1)),
            (gradstep.SequenceError, "table: is called by", lambda: table.evict(lambda row: True)),
            (gradstep.DtypeError, "score: 'x' is a str; expected a number", lambda: "x"),
            (gradstep.InvalidError, "the score of key . is NaN; expected a number", lambda: math.nan),
        )):  # fmt: skip
            calls = [lambda judge: table.evict_to(0, judge)]
            if number < 5:
                calls.append(table.evict)
            for call in calls:
                seen = []
                with self.assertRaisesRegex(kind, message):
                    call(lambda row: seen.append(row) or (fails() if len(seen) == 2 else 1.0))
                self.assertEqual((len(table), table.counts.evicted), (3, 0))
                if number < 6:
                    self.assertEqual(len(seen), 2)  # no call after the failure
        self.assertEqual(table.evict_to(1), 2)

    def test_changes_for_a_replica(self):
        for content in ("values", "state"):
            table, replica = of_keys("momentum", 0.5, 2), of_keys("momentum", 0.5, 2)
            for step, g in enumerate(gradients(6, 4)):
                table.update([step, 9], g)
                if step % 3 == 2:
                    table.evict_older_than(step)
                    changes = table.changed_since(replica.clock.step, content=content)
                    self.assertIs(type(changes), bytes)
                    replica.apply_changes(memoryview(changes) if step == 2 else changes)
            self.assertEqual((sorted(replica), replica.clock), (sorted(table), table.clock))
            numpy.testing.assert_array_equal(replica.rows(table.keys()), table.rows(table.keys()))
            for each in (table, replica):
                each.update([9], numpy.ones(2, numpy.float32))
            self.assertEqual(numpy.array_equal(replica.row(9), table.row(9)), content == "state")
        with self.assertRaisesRegex(gradstep.SequenceError, "apply"):
            of_keys("momentum", 0.5, 2).apply_changes(table.changed_since(3))
        with self.assertRaisesRegex(gradstep.InvalidError, "content: 'int4' is out of range; expected one of 'values', 'state', 'int8'"):
            table.changed_since(0, content="int4")
        damaged = bytearray(changes)
        damaged[-1] ^= 1
        for wrong in (damaged, b""):
            with self.assertRaises(gradstep.InvalidError):
                replica.apply_changes(wrong)

    def test_rows_in_8_bits_and_seek(self):
        table, replica = of_keys("momentum", 0.5, 5), of_keys("momentum", 0.5, 5)
        table.update(numpy.arange(40), numpy.array(gradients(40, 5)))
        keys = table.keys()
        rows, coded = table.rows(keys), table.int8_rows(keys)
        self.assertEqual((coded.dtype, coded.shape), (numpy.uint8, (len(keys), 5 + 8)))
        self.assertEqual(table.int8_rows(keys.reshape(2, -1)).shape, (2, len(keys) // 2, 13))
        scale, offset = numpy.split(coded[:, 5:].copy().view(numpy.float32), 2, axis=1)
        low, reach = rows.min(1, keepdims=True), numpy.ptp(rows, axis=1, keepdims=True)
        numpy.testing.assert_array_equal(offset, low)
        numpy.testing.assert_array_equal(scale, reach / numpy.float32(255))
        numpy.testing.assert_array_equal(
            coded[:, :5], numpy.rint((rows - low) * (numpy.float32(255) / (reach + numpy.float32(1e-8)))))
        changes = table.changed_since(0, content="int8")
        self.assertLess(len(changes), len(table.changed_since(0)))
        replica.apply_changes(changes)
        numpy.testing.assert_array_equal(replica.rows(keys), coded[:, :5] * scale + offset)
        table.seek(table.clock._replace(step=90))
        self.assertEqual(table.clock.step, 90)
        with self.assertRaisesRegex(gradstep.InvalidError, "seek: step 3; expected from 90"):
            table.seek(gradstep.Clock(3, 0, 0))
        with self.assertRaisesRegex(gradstep.InvalidError, "int8_rows: the values of the table are int32"):
            gradstep.KeyedTable({"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1}, "type": "int32",
                                 "keyed_table": {"width": 2}}).int8_rows([1])

    def test_a_run_that_was_stopped_goes_on_with_the_same_bits(self):
        def made() -> gradstep.KeyedTable:
            initial = {"name": "uniform", "low": -1, "high": 1, "seed": 5}
            return of_keys("adam", 0.125, 2, {"catch_up": {"name": "replay", "max_steps": 9}}, admit_after=2, initial=initial)

        def train(table: gradstep.KeyedTable, begin: int, end: int) -> None:
            for number in range(begin, end):
                table.update([number % 3, 2**63 + number % 2], steps[number].reshape(2, 2))

        steps, once, first, of_memory, of_file = gradients(10, 4), made(), made(), made(), made()
        train(once, 0, 10)
        train(first, 0, 5)
        of_memory.load_state(first.save_state())
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "table.safetensors")
            first.save(path)
            self.assertTrue(of_file.load(path))
            self.assertFalse(of_file.load(path, missing="keep", unexpected="ignore", rename={"values": "other"}))
            with self.assertRaises(FileNotFoundError):
                first.load(Path(scratch, "nothing"))
        for each in (of_memory, of_file, pickle.loads(pickle.dumps(first)), copy.copy(first)):
            self.assertEqual(each.counts, first.counts)
            train(each, 5, 10)
            self.assertEqual((each.keys().tolist(), each.clock, each.counts), (once.keys().tolist(), once.clock, once.counts))
            numpy.testing.assert_array_equal(each.rows(once.keys()), once.rows(once.keys()))

    def test_several_threads(self):
        """No update or row is lost: the sums of ones are exact. Other threads read, evict and save meanwhile."""
        table = of_keys("sgd", 1.0, 2, concurrent=True)
        self.assertTrue(table.concurrent)
        steps = 200

        def run(number: int) -> int:
            ones, evicted = numpy.ones((2, 2), numpy.float32), 0
            for step in range(steps):
                if number % 2:
                    table.update([0, number], ones)
                else:
                    table.update_bags([0, 0, number], [0, 2], ones)
                row = table.row(0)
                self.assertEqual(row[0], row[1])  # no half of an update
                table.update([1000 * number + step], ones[:1])
                if step % 50 == number:
                    evicted += table.evict(lambda row: 1000 * number <= row.key < 1000 * (number + 1))
                    evicted += table.evict_to(20, lambda row: float(row.key < 4))  # the rows of all threads go last
                    self.assertIn(0, table.keys())
                    gradstep.KeyedTable(table.config).load_state(table.save_state())
            return evicted

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            evicted = sum(done.result() for done in [pool.submit(run, number) for number in (1, 2, 3)])
        self.assertEqual(len(table), 4 + 3 * steps - evicted)
        self.assertEqual(table.rows(range(4))[:, 0].tolist(), [-4.0 * steps, -1.0 * steps, -1.0 * steps, -1.0 * steps])
        self.assertEqual(table.clock.step, 6 * steps)

    def test_integers(self):
        for kind in ("int32", "uint32", "int64", "uint64"):
            table = of_keys("add_delta", 1.0, 1, {"type": kind})
            most = numpy.full(1, numpy.iinfo(kind).max, kind)
            table.update([3], most)
            table.update([3], most)
            seen = []
            table.evict(seen.append)
            self.assertEqual((seen[0].values.tolist(), seen[0].state, table.dtype), ((most + most).tolist(), {}, kind))

    def test_what_is_refused(self):
        table, ones = of_keys("sgd", 1.0, 2), numpy.ones((2, 2), numpy.float32)
        has = 'the configuration contains the key "keyed_table"'
        numbers = {**config("sgd", 1.0), "table": {"rows": 5, "width": 2}}
        for message, call in (
            (rf"ids: {2**64} is out of range; expected a key of 64 bits", lambda: table.rows([1, 2**64])),
            (rf"ids: {-(2**63) - 1} is out of range", lambda: table.rows([-(2**63) - 1])),
            ("ids: 1.5 is a float", lambda: table.update([1, 1.5], ones)),
            ("ids: are of float64", lambda: table.update(numpy.ones(2), ones)),
            ("key: 'x' is a str; expected integers", lambda: "x" in table),
            (r"key: \[\] is a list; expected integers", lambda: [] in table),
            (rf"key: {2**64} is out of range", lambda: table.row(2**64)),
            (r"offsets\[0\]: 1 is out of range; expected 0", lambda: table.update_bags([1, 2], [1, 2], ones)),
            ("gradient_rows: is of float64; expected float32", lambda: table.update([1], numpy.ones((1, 2)))),
            ("rows: -1 is out of range; expected >= 0", lambda: table.reserve(-1)),
            ("rows: -1 is out of range; expected >= 0", lambda: table.evict_to(-1)),
            ("step: 1.0 is a float", lambda: table.evict_older_than(1.0)),
            ("is not held", lambda: table.unhold([1])),
            ("changed_since: step 1; expected", lambda: table.changed_since(1)),
            ("no average is kept", lambda: table.averages([1])),
            ("keyed_table.wdth: unknown key", lambda: of_keys("sgd", 1.0, 2, wdth=3)),
            ("table: is missing; expected an object", lambda: gradstep.KeyedTable(config("sgd", 1.0))),
            ("is not JSON", lambda: gradstep.KeyedTable('{"keyed_table": 1,}')),
            (r'the key "table"; expected "keyed_table", or gradstep.Table\(config\)', lambda: gradstep.KeyedTable(numbers)),
            (r'the key "keyed_table"; expected "table", or gradstep.KeyedTable\(config\)', lambda: gradstep.Table(table.config)),
            (f"shape: is given; expected None, since {has}", lambda: gradstep.Table(table.config, shape=(5, 2))),
            (f"set_numbers: {has}", lambda: table.set_numbers({"schedule.rate": 1.0})),
            ("rows: is a KeyedTable; expected a Parameter or a Table", lambda: gradstep.Model({"rows": table})),
        ):
            with self.assertRaisesRegex(gradstep.Error, message):
                call()
        for name in ("set_rows", "grow", "append", "keep", "permute", "values", "view", "slots", "__getitem__"):
            self.assertFalse(hasattr(table, name), name)
        self.assertEqual((table.clock.step, len(table)), (0, 0))
        table.release()
        with self.assertRaisesRegex(gradstep.ReleasedError, "this KeyedTable has been released"):
            table.update([1, 2], ones)


class Processes(unittest.TestCase):
    """Children of fork, and processes that may use one core."""

    def in_child(self, step) -> None:
        """A child of fork calls `step`, which must return True within 300 seconds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of fork in a process that has threads
            child = os.fork()
        if child == 0:
            signal.alarm(300)
            code = 2
            try:
                code = 0 if step() else 1
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_child_of_fork_takes_steps(self):
        w, g = gradients(2, 1 << 20)
        settings = config("adam", 0.1, threads=2)
        alone, p = gradstep.Parameter(config("adam", 0.1), w), gradstep.Parameter(settings, w)
        updater, weights = gradstep.Updater(settings, "float32"), w.copy()
        state = updater.initialize(weights)

        def step() -> bool:
            p.update(g)
            updater.next_step()
            updater.apply(weights, g, state)
            return numpy.array_equal(p.values(), expected) and numpy.array_equal(weights, expected)

        def in_child() -> bool:
            new = gradstep.Parameter(settings, w)
            new.update(g)
            new.update(g)
            return step() and numpy.array_equal(new.values(), expected)

        alone.update(g)
        expected = alone.values()
        self.assertTrue(step())
        alone.update(g)
        expected = alone.values()
        self.in_child(in_child)
        self.assertTrue(step())

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_child_of_fork_does_not_wait_for_threads_of_openmp(self):
        code = """
import ctypes, os, signal
try:
    ctypes.CDLL("libgomp.so.1", ctypes.RTLD_GLOBAL)  # before the library looks for it
except OSError:
    raise SystemExit(77)
import numpy, gradstep

rule, schedule = {"name": "adam"}, {"name": "constant", "rate": 0.1}
p = gradstep.Parameter({"rule": rule, "schedule": schedule, "threads": 2}, shape=1 << 20)
g = numpy.ones(1 << 20, numpy.float32)
p.update(g)
child = os.fork()
if child == 0:
    signal.alarm(300)
    p.update(g)
    os._exit(p.clock.step - 2)
print(os.waitpid(child, 0)[1])
"""
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest("there is no libgomp here")
        self.assertEqual((done.stdout, done.stderr), ("0\n", ""))

    @unittest.skipUnless(hasattr(os, "sched_setaffinity"), "no affinity mask here")
    def test_threads_0_are_the_cores_of_the_affinity_mask(self):
        code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy, gradstep

def started(threads):
    before = len(os.listdir("/proc/self/task"))
    rule, schedule = {"name": "adam"}, {"name": "constant", "rate": 0.1}
    p = gradstep.Parameter({"rule": rule, "schedule": schedule, "threads": threads}, shape=1 << 20)
    p.update(numpy.ones(1 << 20, numpy.float32))
    return len(os.listdir("/proc/self/task")) - before

print(started(0), started(3))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "0 2\n")


class Constructors(unittest.TestCase):
    """`gradstep.adam(lr=...)` and the other functions that make configurations."""

    def arguments(self, function) -> dict:
        """Something for each argument that must be given."""
        values = {"inner": {"name": "external"}, "after": {"name": "external"}, "schedules": [{"name": "constant", "rate": 1}]}
        values.update(penalty={"name": "l1", "rate": 1}, regularizers=[], steps=5, width=5, warmup=5, stable=5, rise=5, fall=5)
        if function.__name__ == "after_step":
            values["decay"] = {"name": "decoupled", "rate": 1}
        if function.__name__ == "warmup_stable_decay":
            values["decay"] = 5
        if function.__name__ == "clamped":
            values.update(low=0.0, high=1.0)
        required = [x for x in inspect.signature(function).parameters.values() if x.default is x.empty and x.kind != x.VAR_KEYWORD]
        given = {x.name: values.get(x.name, 0.5) for x in required}
        return {"rates": [0.5]} if function.__name__ == "piecewise" else given

    def test_they_are_those_of_the_schema(self):
        schema = json.loads((HEADER.parents[3] / "docs/reference/configuration.schema.json").read_text())
        for kind, module in (
            ("rule", gradstep.rules), ("schedule", gradstep.schedules), ("regularizer", gradstep.regularizers),
            ("average", gradstep.averages), ("clip", gradstep.clips),
        ):  # fmt: skip
            policies = [x["properties"] for x in schema["$defs"][kind]["oneOf"] if "name" in x.get("properties", {})]
            self.assertEqual(set(module.__all__), {x["name"]["const"] for x in policies if "dialect" not in x})
        self.assertEqual(set(gradstep.dialects.__all__), {x["dialect"]["const"] for x in policies_with_dialect(schema)})
        for dialect in gradstep_dialects():
            name = dialect.__name__.rpartition(".")[2]
            names = {x["name"]["const"] for x in policies_with_dialect(schema) if x["dialect"]["const"] == name}
            self.assertEqual(set(dialect.__all__), names, name)
        options = set(schema["properties"]) - {"$schema", "rule", "schedule"}
        self.assertEqual(set(gradstep.Options.__annotations__), options)

    def test_they_make_what_the_library_reads(self):
        """With every argument left out that may be, they are the rule or policy of that name with its defaults."""
        for name in gradstep.rules.__all__:
            made = getattr(gradstep, name)(0.5)
            bare = {"rule": {"name": name}, "schedule": {"name": "constant", "rate": 0.5}}
            self.assertEqual(gradstep.canonical(made), gradstep.canonical(bare), name)
        for dialect in gradstep_dialects():
            for name in dialect.__all__:
                made = getattr(dialect, name)(0.5)
                rule = {"dialect": dialect.__name__.rpartition(".")[2], "name": name}
                bare = {"rule": rule, "schedule": {"name": "constant", "rate": 0.5}}
                self.assertEqual(gradstep.canonical(made), gradstep.canonical(bare), name)
        for key, module in (
            ("schedule", gradstep.schedules), ("regularizer", gradstep.regularizers), ("average", gradstep.averages),
            ("clip", gradstep.clips),
        ):  # fmt: skip
            for name in module.__all__:
                function = getattr(module, name)
                given = self.arguments(function)
                base = config("sgd", 0.5)
                self.assertEqual(
                    gradstep.canonical({**base, key: function(**given)}),
                    gradstep.canonical({**base, key: {"name": name, **given}}),
                    name,
                )

    def test_options(self):
        schedules, regularizers = gradstep.schedules, gradstep.regularizers
        made = gradstep.adam(
            schedules.warmup(schedules.cosine(numpy.float64(0.5), steps=numpy.int32(100)), steps=10),
            beta1=0.8,
            regularizer=regularizers.decoupled(0.01),
            average=gradstep.averages.ema(decay=0.99),
            clip=gradstep.clips.clip_norm(1),
            threads=2,
        )
        self.assertEqual(json.loads(json.dumps(made, allow_nan=False)), made)
        self.assertEqual(made["schedule"]["after"], {"name": "cosine", "rate": 0.5, "steps": 100, "end": 0.0})
        self.assertEqual((made["rule"]["beta1"], made["regularizer"]["rate"], made["threads"]), (0.8, 0.01, 2))
        self.assertEqual(gradstep.dgc_momentum(1)["rule"]["local_grad_clip_norm"], "infinity")
        p = gradstep.Parameter(gradstep.sgd(lr=0.5), numpy.ones(2))
        p.update(numpy.ones(2))
        self.assertEqual(p.values().tolist(), [0.5, 0.5])
        from gradstep import dialects

        of_weight_decay = r"adamw?: 'weight_decay' is not an argument \(.*regularizers.decoupled.*beta1.*regularizer"
        for make in gradstep.adam, dialects.torch.adamw:
            with self.assertRaisesRegex(TypeError, of_weight_decay):
                make(0.1, weight_decay=0.1)
        with self.assertRaisesRegex(TypeError, r"adam: 'beta_1' is not an argument \(did you mean 'beta1'\?\); expected one of lr"):
            gradstep.adam(0.1, beta_1=0.9)
        with self.assertRaisesRegex(AttributeError, r"no attribute 'adamw'; it is adam with .*decoupled"):
            gradstep.adamw
        with self.assertRaisesRegex(AttributeError, r"no attribute 'momentun'; did you mean 'momentum'\?"):
            gradstep.momentun
        for name in "AdamW", "ADAMW":
            for module in gradstep, gradstep.rules:
                with self.assertRaisesRegex(AttributeError, rf"no attribute '{name}'; it is adam with .*decoupled.*torch.adamw$"):
                    getattr(module, name)
        for module, name, meant in (
            *((gradstep, name.upper(), name) for name in gradstep.rules.__all__),
            (gradstep, "model", "Model"),
            (gradstep.schedules, "Cosine", "cosine"),
            (gradstep.regularizers, "L2", "l2"),
            (gradstep.averages, "EMA", "ema"),
            (gradstep.clips, "ClipNorm", "clip_norm"),
            (dialects.torch, "AdamW", "adamw"),
            (dialects.keras, "RMSprop", "rmsprop"),
        ):
            with self.assertRaisesRegex(AttributeError, f"no attribute '{name}'; did you mean '{meant}'"):
                getattr(module, name)
        with self.assertRaisesRegex(TypeError, r"'Beta1' is not an argument \(did you mean 'beta1'\?\)"):
            gradstep.adam(0.1, Beta1=0.9)
        with self.assertRaisesRegex(TypeError, r"'Weight_Decay' is not an argument \(weight decay is a regularizer"):
            gradstep.adam(0.1, Weight_Decay=0.9)
        with self.assertRaisesRegex(TypeError, r"'Rate_Scale' is no option of a step \(did you mean 'rate_scale'\?\)"):
            p.update(numpy.ones(2), Rate_Scale=0.5)
        with self.assertRaisesRegex(gradstep.DtypeError, r"dtype: 'BFloat16' \(did you mean 'bfloat16'\?\)"):
            gradstep.Parameter(gradstep.sgd(lr=0.5), shape=2, dtype="BFloat16")
        with self.assertRaisesRegex(gradstep.InvalidError, r"missing: 'Keep' is not known \(did you mean 'keep'\?\)"):
            gradstep.Model({"p": p}).load("nothing", missing="Keep")
        with self.assertRaisesRegex(gradstep.InvalidError, r"Weight: is no parameter of the model \(did you mean 'weight'\?\)"):
            gradstep.Model({"weight": p}).update({"Weight": numpy.ones(2)})
        for name, hint in (("Adam", r"did you mean \"adam\""), ("AdamW", "it is adam with"), ("FTRL", r"did you mean \"ftrl\"")):
            with self.assertRaisesRegex(gradstep.ConfigError, hint):
                gradstep.Parameter(config(name, 0.1), shape=2)
        with self.assertRaisesRegex(gradstep.ConfigError, r"config: 'adam' is not JSON; expected a dict"):
            gradstep.Parameter("adam", numpy.ones(2))
        for wrong in "null", "3":  # JSON, and no configuration
            with self.assertRaisesRegex(gradstep.ConfigError, r"the document: (null|3); expected an object"):
                gradstep.Parameter(wrong, numpy.ones(2))
        for dtype in "int32", "int64":
            with self.assertRaisesRegex(gradstep.DtypeError, f"dtype: {dtype} is an integer; expected float32"):
                gradstep.Parameter(gradstep.adam(0.1), numpy.ones(2, dtype))
        with self.assertRaisesRegex(TypeError, r"Model: parameters is a list; expected a dict"):
            gradstep.Model([p])
        with self.assertRaises(TypeError):
            gradstep.adam()
        with self.assertRaisesRegex(gradstep.ConfigError, "rule.beta1: nan is not"):
            gradstep.adam(0.1, beta1=float("nan"))

    def test_they_are_documented(self):
        for module in (gradstep.rules, gradstep.schedules, gradstep.regularizers, gradstep.averages, gradstep.clips):
            for name in module.__all__:
                document = getattr(module, name).__doc__
                page, anchor = re.search(r"\(docs/(\w+/\w+\.md)(?:#([\w-]+))?\)", document).groups()
                text = (HEADER.parents[3] / "docs" / page).read_text()
                if anchor:
                    headings = [re.sub("[`,]", "", x).lower().replace(" ", "-") for x in re.findall("^#+ (.*)$", text, re.M)]
                    self.assertIn(anchor, headings, name)


def gradstep_dialects() -> list:
    from gradstep import dialects

    return [getattr(dialects, name) for name in dialects.__all__]


class Documentation(unittest.TestCase):
    def test_the_ten_lines_run(self):
        pages = [(HEADER.parents[3] / page).read_text()
                 for page in ("README.md", "bindings/python/README.md", "docs/how_to/python.md", "docs/index.md")]
        blocks = [re.search(r"```python\n(import gradstep, numpy\n.*?)```", page, flags=re.DOTALL)[1] for page in pages]
        self.assertEqual(set(blocks), {blocks[0]})
        printed: list[str] = []
        names: dict = {"print": lambda x: printed.append(f"```text\n{x}\n```")}
        exec(blocks[0], names)
        for page in pages:
            self.assertIn(printed[0], page)
        self.assertLess(numpy.abs(names["w"].values() - [1.0, -2.0, 0.5]).max(), 0.01)


class Checkpoints(unittest.TestCase):
    def model(self) -> gradstep.Model:
        initial = numpy.linspace(-1, 1, 50, dtype=numpy.float32)
        return gradstep.Model(
            {
                "w": gradstep.Parameter(config("adam", 0.1), initial),
                "ü": gradstep.Parameter(config("sgd", 0.1), initial[:7]),
                "rows": gradstep.Table(config("adagrad", 0.1), shape=(10, 5)),
            }
        )

    def train(self, model: gradstep.Model, steps: list) -> None:
        for g in steps:
            model.update({"w": g, "ü": g[:7]})
            model["rows"].update(numpy.array([1, 4]), g[:10])

    def test_a_run_that_was_stopped_goes_on_with_the_same_bits(self):
        steps = gradients(20, 50)
        once, first, second = self.model(), self.model(), self.model()
        self.train(once, steps)
        self.train(first, steps[:10])
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "model.safetensors")
            first.save(path)
            first.release()
            second.load(str(path))
        self.train(second, steps[10:])
        for name in once:
            numpy.testing.assert_array_equal(once[name].values(), second[name].values())
            self.assertEqual(once[name].clock, second[name].clock)

    def test_pickles_and_copies(self):
        steps = gradients(20, 50)
        once, model = self.model(), self.model()
        self.train(once, steps)
        self.train(model, steps[:10])
        model = pickle.loads(pickle.dumps(model))
        self.train(model, steps[10:15])
        kept = copy.deepcopy(model)
        self.train(model, steps[15:])
        self.assertEqual(kept["w"].clock.step, 15)
        for name in once:
            numpy.testing.assert_array_equal(once[name].values(), model[name].values())

    def test_no_copy_shares_state(self):
        """copy, deepcopy and pickle of each class: a step of one moves no other, and the copies outlive the original."""
        g, ids, rows = gradients(1, 6)[0], [1, 0], gradients(1, 6)[0].reshape(2, 3)

        def updater():
            made = gradstep.Updater(config("adam", 0.1, element="stochastic", seed=5), "float16")
            made.next_step(samples=3, epoch=2)
            made.set_numbers({"rule.beta1": 0.75, "rule.beta2": 0.5})
            made.next_step(rate_scale=0.5, samples=4)
            return made

        def step_of_updater(made):
            w = numpy.ones(6, numpy.float16)
            state = made.initialize(w)
            made.apply(w, g.astype(numpy.float16), state)  # the step that is prepared
            made.next_step()
            made.apply(w, g.astype(numpy.float16), state)
            return w

        def step_of_parameter(made):
            made.update(g)
            return made.values()

        def step_of_table(made):
            made.update(ids, rows)
            return made.values()

        def step_of_model(made):
            made.update({"w": g})
            made["rows"].update(ids, rows)
            return numpy.concatenate([made["w"].values(), made["rows"].values()])

        def parameter():
            made = gradstep.Parameter(config("adam", 0.1), numpy.ones((2, 3), numpy.float32))
            made.update(g, samples=2)
            return made

        def table():
            made = gradstep.Table(config("adagrad", 0.1), numpy.ones((2, 3), numpy.float32))
            made.update(ids, rows)
            return made

        def model():
            return gradstep.Model({"w": parameter(), "rows": table()})

        ways = {
            "copy": copy.copy,
            "deepcopy": copy.deepcopy,
            **{f"pickle {x}": lambda y, x=x: pickle.loads(pickle.dumps(y, x)) for x in range(2, pickle.HIGHEST_PROTOCOL + 1)},
        }
        for make, step in (
            (updater, step_of_updater), (parameter, step_of_parameter), (table, step_of_table), (model, step_of_model),
        ):  # fmt: skip
            expected = step(make())
            for way, copied in ways.items():
                original = make()
                first, second = copied(original), copied(original)
                self.assertIs(type(first), type(original))
                if not isinstance(original, gradstep.Model):
                    self.assertNotEqual(first._handle, original._handle)
                    self.assertEqual((first.clock, first.config), (original.clock, original.config))
                    self.assertEqual(first.dtype, original.dtype)
                numpy.testing.assert_array_equal(step(first), expected, way)
                numpy.testing.assert_array_equal(step(original), expected, way)
                original.release()
                del original
                gc.collect()
                numpy.testing.assert_array_equal(step(second), expected, way)

    def test_a_copy_between_steps_has_no_prepared_step(self):
        updater = gradstep.Updater(config("adam", 0.1))
        w = numpy.ones(3, numpy.float32)
        state = updater.initialize(w)
        for prepare in (
            lambda: None,
            lambda: (updater.next_step(), updater.seek(gradstep.Clock(7, 8, 9))),
            lambda: (updater.next_step(), updater.set_numbers({"rule.beta1": 0.5})),
        ):
            prepare()
            again = copy.copy(updater)
            self.assertEqual(again.clock, updater.clock)
            with self.assertRaises(gradstep.SequenceError):
                again.apply(w, w.copy(), state)

    def test_what_is_released_is_not_copied(self):
        for made, named in (
            (gradstep.Updater(config("sgd", 1.0)), "Updater"),
            (gradstep.Parameter(config("sgd", 1.0), shape=3), "Parameter"),
            (gradstep.Table(config("sgd", 1.0), shape=(2, 3)), "Table"),
            (gradstep.Model({"w": gradstep.Parameter(config("sgd", 1.0), shape=3)}), "Parameter"),
        ):
            made.release()
            for way in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(gradstep.ReleasedError, f"this {named} has been released; expected one that is open"):
                    way(made)
        with self.assertRaisesRegex(TypeError, "a handle of the library is not copied"):
            copy.copy(gradstep.Updater(config("sgd", 1.0))._owned)

    def test_copies_of_subclasses(self):
        for made in (Named("w", [1]), NamedTable("w", [1]), NamedKeyedTable("w", [1]), NamedUpdater("w", [1]), NamedModel("w", [1])):
            made.note = "of a user"
            for way in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
                again = way(made)
                self.assertIs(type(again), type(made))
                self.assertEqual((again.name, again.tags, again.note), ("w", [1], "of a user"))
                self.assertEqual(again.tags is made.tags, way is copy.copy)

    def test_members_are_known(self):
        """What copies make anew, and do not take over."""
        for made in (
            gradstep.Parameter(config("sgd", 1.0), shape=3),
            gradstep.Table(config("sgd", 1.0), shape=(2, 3)),
            of_text("sgd", 1.0, (2, 3)),
            of_keys("sgd", 1.0, 3),
            gradstep.Updater(config("sgd", 1.0)),
            gradstep.Model(),
        ):
            self.assertEqual(set(vars(made)), set(type(made)._members))

    def test_copies_of_a_model(self):
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(2))
        model = gradstep.Model({"a": p, "b": p})
        for way in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
            again = way(model)
            self.assertIs(again["a"], again["b"])
            self.assertIsNot(again["a"], p)
            again.add("c", p)
            self.assertEqual(list(model), ["a", "b"])

    def test_pickles_of_another_process(self):
        code = """
import pickle, sys, numpy, gradstep
config = {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}
p, updater = gradstep.Parameter(config, numpy.ones(5, numpy.float32)), gradstep.Updater(config)
p.update(numpy.full(5, 2, numpy.float32))
updater.next_step()
sys.stdout.buffer.write(pickle.dumps([p, updater]))
"""
        run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        p, updater = pickle.loads(run.stdout)
        w, g = numpy.ones(5, numpy.float32), numpy.full(5, 2, numpy.float32)
        state = updater.initialize(w)
        updater.apply(w, g, state)
        numpy.testing.assert_array_equal(p.values(), w)
        p.update(g)
        updater.next_step()
        updater.apply(w, g, state)
        numpy.testing.assert_array_equal(p.values(), w)

    def test_a_schedule_free_rule(self):
        rule = {"rule": {"name": "schedule_free_sgd", "beta": 0.5}, "schedule": {"name": "constant", "rate": 0.5}}
        p, g = gradstep.Parameter(rule, shape=2), numpy.ones(2, numpy.float32)
        for _ in range(2):
            p.update(g)
        self.assertEqual(p.average().tolist(), [-0.75] * 2)  # the mean of z: -0.5, -1
        self.assertEqual(p.clock, gradstep.Clock(2, 0, 0, (0.5, 0.5, 0.0, 0.0)))
        trained = p.values().tolist()
        p.apply_average()
        self.assertEqual(p.values().tolist(), [-0.75] * 2)
        state = p.save_state()
        p.restore()
        self.assertEqual((p.values().tolist(), p.save_state()), (trained, state))
        resumed = gradstep.Parameter(rule, shape=2)
        resumed.load_state(state)
        resumed.seek(p.clock)
        resumed.update(g)
        p.update(g)
        self.assertEqual((resumed.values().tolist(), resumed.clock), (p.values().tolist(), p.clock))
        for clock, said in ((gradstep.Clock(3), "comes without state"), (gradstep.Clock(3, 0, 0, (1.0,)), "has 1 numbers")):
            with self.assertRaisesRegex(gradstep.InvalidError, said):
                p.seek(clock)

    def test_a_copy_has_the_trained_values_while_an_average_is_in_their_place(self):
        p = gradstep.Parameter(config("sgd", 1.0, average={"name": "polyak"}), shape=3)
        for _ in range(2):
            p.update(numpy.ones(3, numpy.float32))
        p.apply_average()
        for way in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
            found = way(p)
            self.assertEqual(found.values().tolist(), [-2] * 3)
            found.update(numpy.ones(3, numpy.float32))
            self.assertEqual(found.average().tolist(), [-2] * 3)
        self.assertEqual(p.values().tolist(), [-1.5] * 3)

    def test_what_is_refused_changes_nothing(self):
        model, other = self.model(), self.model()
        self.train(model, gradients(3, 50))
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "model.safetensors")
            model.save(path)
            whole = path.read_bytes()
            with self.assertRaisesRegex(gradstep.FileError, "nowhere"):
                model.save(Path(scratch, "nowhere", "model"))
            with self.assertRaises(OSError):
                model.load(Path(scratch, "missing"))
            for damaged in (whole[:-1], whole[:100], b"", whole + b"x"):
                path.write_bytes(damaged)
                with self.assertRaises(gradstep.Error):
                    other.load(path)
            path.write_bytes(whole)
            with self.assertRaises(gradstep.InvalidError):
                gradstep.Model({"w": other["w"]}).load(path)
            self.assertEqual(other["w"].clock.step, 0)
            other.load(path)
            self.assertEqual(other["w"].clock.step, 3)
        state = bytearray(model["w"].save_state())
        state[len(state) // 2] ^= 1
        for damaged in (state, state[:-1], b""):
            with self.assertRaises(gradstep.InvalidError):
                other["w"].load_state(damaged)
        numpy.testing.assert_array_equal(other["w"].values(), model["w"].values())


class PartialLoads(unittest.TestCase):
    """`Model.load` with `missing`, `unexpected`, `rename` and `rows`."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name, "model.safetensors")
        self.saved = self.model("head", "body", "old.tail")
        for number, parameter in enumerate(self.saved.values()):
            parameter.update(numpy.full(6, number + 1, numpy.float32))
        self.saved.save(self.path)

    def model(self, *names: str) -> gradstep.Model:
        made = {name: gradstep.Parameter(config("momentum", 0.5), shape=(2, 3)) for name in names}
        return gradstep.Model(made)

    def test_the_whole(self):
        model = self.model("old.tail", "body", "head")
        report = model.load(self.path)
        self.assertEqual(report, gradstep.LoadReport(("old.tail", "body", "head"), (), (), ()))
        for name, parameter in model.items():
            numpy.testing.assert_array_equal(parameter.values(), self.saved[name].values())
            numpy.testing.assert_array_equal(parameter.slots()["m"], self.saved[name].slots()["m"])

    def test_a_part(self):
        for names, options in (
            (("head", "body", "old.tail", "new"), {"missing": "keep"}),
            (("head", "body"), {"unexpected": "ignore"}),
            (("head", "new"), {"missing": "keep", "unexpected": "ignore"}),
            ((), {"unexpected": "ignore"}),
        ):
            model = self.model(*names)
            if "new" in model:
                model["new"].update(numpy.ones(6, numpy.float32), samples=7)
            before = {name: (x.values().tolist(), x.clock) for name, x in model.items()}
            for fewer in [{k: v for k, v in options.items() if k != left_out} for left_out in options]:
                with self.assertRaises(gradstep.InvalidError):
                    model.load(self.path, **fewer)
                self.assertEqual({name: (x.values().tolist(), x.clock) for name, x in model.items()}, before)
            report = model.load(self.path, **options)
            loaded = tuple(name for name in names if name in self.saved)
            ignored = tuple(sorted(set(self.saved) - set(names)))
            self.assertEqual((report.loaded, report.kept, report.ignored), (loaded, ("new",) * ("new" in names), ignored))
            for name in names:
                self.assertEqual(model[name].values().tolist(), self.saved.get(name, model[name]).values().tolist())
            if "new" in model:
                self.assertEqual((model["new"].values().tolist(), model["new"].clock), before["new"])

    def test_other_names(self):
        renames = ({"old.tail": "tail"}, lambda name: name.replace("old.", ""), types.MappingProxyType({"old.tail": "tail"}))
        for rename in renames:
            model = self.model("head", "tail", "body")
            report = model.load(self.path, rename=rename)
            self.assertEqual(report.loaded, ("head", "tail", "body"))
            self.assertEqual(model["tail"].values().tolist(), self.saved["old.tail"].values().tolist())
        swapped = self.model("head", "body", "old.tail")
        swapped.load(self.path, rename={"head": "body", "body": "head"})
        self.assertEqual(swapped["head"].values().tolist(), self.saved["body"].values().tolist())
        report = self.model("tail").load(self.path, rename=lambda name: name[-4:], unexpected="ignore")
        self.assertEqual(report, gradstep.LoadReport(("tail",), (), (), ("body", "head")))
        model = self.model("head", "body", "old.tail")
        for rename, kind in (
            ({"nowhere": "head"}, gradstep.InvalidError),  # which the file lacks
            (lambda name: "head", gradstep.InvalidError),  # three parameters under one name
            ({"head": 3}, gradstep.DtypeError),
            ({3: "head"}, gradstep.DtypeError),
            (lambda name: None, gradstep.DtypeError),
            ({"head": "a\0b"}, gradstep.InvalidError),
            ({"\ud800": "head"}, gradstep.InvalidError),
            (["head"], gradstep.DtypeError),
        ):
            with self.assertRaises(kind):
                model.load(self.path, rename=rename, missing="keep", unexpected="ignore")
        self.assertEqual({x.clock.step for x in model.values()}, {0})

    def test_other_numbers_of_rows(self):
        trained = gradstep.Model({"rows": gradstep.Table(config("momentum", 0.5), shape=(4, 2))})
        trained["rows"].update(range(4), numpy.arange(8, dtype=numpy.float32).reshape(4, 2))
        trained.save(self.path)
        old = trained["rows"].values()
        for number in (3, 4, 6):
            initial = numpy.full((number, 2), 9, numpy.float32)
            model = gradstep.Model({"rows": gradstep.Table(config("momentum", 0.5), initial)})
            if number != 4:
                with self.assertRaises(gradstep.InvalidError):
                    model.load(self.path)
                numpy.testing.assert_array_equal(model["rows"].values(), initial)
            report = model.load(self.path, rows="resize")
            self.assertEqual((report.loaded, report.resized), (("rows",), ()) if number == 4 else ((), ("rows",)))
            both = min(4, number)
            numpy.testing.assert_array_equal(model["rows"][:both], old[:both])
            numpy.testing.assert_array_equal(model["rows"][both:], initial[both:])
            numpy.testing.assert_array_equal(model["rows"].slots()["m"][:both], trained["rows"].slots()["m"][:both])
        narrow = gradstep.Model({"rows": gradstep.Table(config("momentum", 0.5), shape=(4, 3))})
        with self.assertRaises(gradstep.InvalidError):
            narrow.load(self.path, rows="resize")

    def test_many_and_long_names(self):
        """More bytes than the first buffer for them has."""
        p, names = gradstep.Parameter(config("sgd", 1.0), shape=1), [f"{'x' * 200}.{number}" for number in range(100)]
        gradstep.Model(dict.fromkeys(names, p)).save(self.path)
        model = gradstep.Model({"all": p, names[0]: p})
        report = model.load(self.path, missing="keep", unexpected="ignore", rename=lambda name: name)
        self.assertEqual((report.loaded, report.kept), ((names[0],), ("all",)))
        self.assertEqual(sorted(report.ignored), sorted(names[1:]))
        self.assertEqual(gradstep.file_names(self.path), sorted(names))

    def test_file_names(self):
        for path in (self.path, str(self.path), os.fsencode(self.path)):
            self.assertEqual(gradstep.file_names(path), ["body", "head", "old.tail"])
        table = gradstep.Table(config("adagrad", 0.5), shape=(2, 2))
        for names in ((), ("a", "b", "b.c", "ä", "𝄞", "B")):
            gradstep.Model(dict.fromkeys(names, table)).save(self.path)
            self.assertEqual(gradstep.file_names(self.path), sorted(names, key=str.encode))
        with self.assertRaises(FileNotFoundError) as raised:
            gradstep.file_names(self.path.with_name("nowhere"))
        self.assertEqual(raised.exception.filename, str(self.path.with_name("nowhere")))
        self.path.write_text("something else")
        for path, kind in ((self.path, gradstep.InvalidError), ("a\0b", gradstep.InvalidError), (3, gradstep.DtypeError)):
            with self.assertRaises(kind):
                gradstep.file_names(path)

    def test_options(self):
        model = self.model("head")
        for options, message in (
            ({"missing": "ignore"}, "missing: 'ignore' is not known; expected 'error' or 'keep'"),
            ({"unexpected": True}, "unexpected: True is not known; expected 'error' or 'ignore'"),
            ({"rows": None}, "rows: None is not known; expected 'error' or 'resize'"),
        ):
            with self.assertRaisesRegex(gradstep.InvalidError, message):
                model.load(self.path, **options)
        for call in (lambda: model.load("/nowhere/x", rename=str), lambda: model.load("/nowhere/x", missing="keep")):
            with self.assertRaises(FileNotFoundError) as caught:
                call()
            self.assertEqual(caught.exception.filename, "/nowhere/x")

    def test_shapes_are_compared(self):
        def of(shape, kind=gradstep.Parameter):
            return gradstep.Model({"w": kind(config("momentum", 0.5), shape=shape)})

        of((2, 3)).save(self.path)
        for other in (of((3, 2)), of(6), of((6, 1)), of((3, 2), gradstep.Table)):
            with self.assertRaisesRegex(gradstep.InvalidError, "shape"):
                other.load(self.path)
            self.assertEqual(other["w"].clock.step, 0)
        of((2, 3)).load(self.path)
        state = of((2, 3))["w"].save_state()
        with self.assertRaisesRegex(gradstep.InvalidError, "shape"):
            of((3, 2))["w"].load_state(state)

    def test_names_that_no_file_can_hold_together(self):
        p, q = (gradstep.Parameter(config("momentum", 0.5), shape=3) for _ in range(2))
        for names in (("w", "w/m"), ("w/m", "w"), ("a/b", "a/b/m"), ("a/b/m", "a/b"), ("__metadata__",), ("",)):
            model = gradstep.Model({name: p for name in names[:-1]})
            with self.assertRaises(gradstep.InvalidError):
                model.add(names[-1], q)
            with self.assertRaises(gradstep.InvalidError):
                gradstep.Model(dict.fromkeys(names, p))
            self.assertEqual(list(model), list(names[:-1]))
            for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
                with self.assertRaises(gradstep.InvalidError):
                    again.add(names[-1], q)
        model = gradstep.Model({name: p for name in ("w", "w/n", "w.m", "a/b/c", "a/b", "ü/m", "x/m/m")})
        model.save(self.path)
        model.load(self.path)


class Tagged:
    """A subclass with arguments and members of its own, one of them a slot."""

    __slots__ = ("tags",)


class Named(Tagged, gradstep.Parameter):
    def __init__(self, name, tags):
        super().__init__(config("sgd", 1.0), shape=3)
        self.name, self.tags = name, tags


class NamedTable(Tagged, gradstep.Table):
    def __init__(self, name, tags):
        super().__init__(config("sgd", 1.0), shape=(2, 3))
        self.name, self.tags = name, tags


class NamedKeyedTable(Tagged, gradstep.KeyedTable):
    def __init__(self, name, tags):
        super().__init__({**config("sgd", 1.0), "keyed_table": {"width": 3}})
        self.name, self.tags = name, tags


class NamedUpdater(Tagged, gradstep.Updater):
    def __init__(self, name, tags):
        super().__init__(config("sgd", 1.0))
        self.name, self.tags = name, tags


class NamedModel(Tagged, gradstep.Model):
    def __init__(self, name, tags):
        super().__init__()
        self.name, self.tags = name, tags


class Errors(unittest.TestCase):
    def refused(self, kind: type, python: type, message: str, call, *arguments, **options) -> None:
        with self.assertRaisesRegex(kind, message) as caught:
            call(*arguments, **options)
        self.assertIsInstance(caught.exception, python)
        self.assertIsInstance(caught.exception.code, gradstep.Status)
        self.assertLess(caught.exception.code, 0)
        self.assertEqual(caught.exception.id, caught.exception.code.name.lower())

    def test_configurations(self):
        def make(settings):
            return gradstep.Parameter(settings, shape=(3,))

        for settings, message in (
            ({"rule": {"name": "adam", "beta1": 1.5}, "schedule": {"name": "constant", "rate": 1}}, r"rule\.beta1: 1\.5"),
            ({"rule": {"name": "adam", "beta": 0.5}, "schedule": {"name": "constant", "rate": 1}}, "beta1"),
            ("{", "JSON"),
            (3, "config: is a int"),
            ({"rule": {1, 2}}, "rule: .* is a set; expected"),
            (config("adam", float("nan")), "schedule.rate: nan is not a number of JSON"),
            (config("sgd", 0.1, threads=-1), "threads"),
        ):
            self.refused(gradstep.ConfigError, ValueError, message, make, settings)
            self.refused(gradstep.ConfigError, ValueError, message, gradstep.Updater, settings)

    def test_arrays(self):
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros((4, 4), numpy.float32))
        good = numpy.ones((4, 4), numpy.float32)
        wide = numpy.ones((4, 8), numpy.float32)
        for gradient, kind, python, message in (
            (wide[:, ::2], gradstep.InvalidError, ValueError, "gradient: its elements do not lie next to each other"),
            (good.T, gradstep.InvalidError, ValueError, "ascontiguousarray"),
            (Foreign(good.T), gradstep.InvalidError, ValueError, "gradient: its elements do not lie next to each other"),
            (numpy.ones((4, 4)), gradstep.DtypeError, TypeError, "gradient: is of float64; expected float32"),
            (
                Foreign(numpy.ones((4, 4), numpy.int32)),
                gradstep.DtypeError,
                TypeError,
                "gradient: is of int32; expected float32",
            ),
            (good.astype(">f4"), gradstep.DtypeError, TypeError, "gradient: is of >f4"),
            (numpy.ones((4, 4), complex), gradstep.DtypeError, TypeError, "complex128"),
            (Foreign(numpy.ones((4, 4), complex)), gradstep.DtypeError, TypeError, "DLPack's 5, of 128 bits"),
            (Foreign(good, (2, 0)), gradstep.InvalidError, ValueError, "gradient: is in the memory of a device"),
            (wide, gradstep.InvalidError, ValueError, "gradient: has 32 elements; expected 16"),
            ([1.0] * 16, gradstep.DtypeError, TypeError, "gradient: is a list"),
            (None, gradstep.DtypeError, TypeError, "gradient: is a NoneType"),
        ):
            self.refused(kind, python, message, p.update, gradient)
        constant = good.copy()
        constant.flags.writeable = False
        p.update(constant, rate_scale=0)
        self.refused(gradstep.InvalidError, ValueError, "gradient: is read-only", p.update, constant, zero_gradient=True)
        shifted = numpy.zeros(65, numpy.uint8)[1:].view(numpy.float32).reshape(4, 4)
        self.refused(gradstep.InvalidError, ValueError, "", p.update, shifted)
        numpy.testing.assert_array_equal(p.values(), numpy.zeros((4, 4)))
        self.assertEqual(p.clock.step, 1)

    def test_memory_that_may_not_be_written(self):
        """Only an array that says that it may be written is."""
        updater = gradstep.Updater(config("sgd", 1.0), "float64")
        updater.next_step()
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3))
        g, w = numpy.ones(3), numpy.ones(3)
        constant = w.copy()
        constant.flags.writeable = False
        every = [(constant, "is read-only"), (Foreign(w), "is read-only .*Foreign does not say by DLPack 1.0")]
        if names_flags_of_dlpack():
            every += [(Versioned(constant), "is read-only; expected"), (Flagged(w, flags=2), "is read-only; expected")]  # a copy
        for array_, message in every:
            for call in (
                lambda x=array_: updater.apply(x, g),
                lambda x=array_: updater.apply_many([x], [g]),
                lambda x=array_: p.values(x),
                lambda x=array_: p.update(x, zero_gradient=True),
                lambda x=array_: gradstep.Model({"p": p}).update({"p": x}, zero_gradient=True),
            ):
                self.refused(gradstep.InvalidError, ValueError, message, call)
            self.assertEqual(w.tolist(), [1, 1, 1])
            gradstep.Parameter(config("sgd", 1.0), array_).update(array_)  # which reads it
        writable = [w] + [Versioned(w)] * names_flags_of_dlpack() + [torch_of_old(w)]
        for number, array_ in enumerate(writable):
            updater.apply(array_, g)
            self.assertEqual(w[0], -number)
        self.assertEqual(p.clock.step, 0)

    @needs_dlpack_1
    def test_tensors_that_cannot_be_read(self):
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3))
        ones = numpy.ones(3)

        class Negated(Versioned):
            def is_neg(self):
                return True

        class Storage:
            def data_ptr(self):
                return 0

        class Fake(Flagged):
            """As torch's, whose capsule has its offset for an address."""

            def untyped_storage(self):
                return Storage()

            def numel(self):
                return self.array.size

        for tensor, message in (
            (Fake(ones, data_of_tensor=12), "gradient: is a Fake without memory"),
            (Flagged(ones, data_of_tensor=None), "gradient: is a Flagged without memory"),
            (Flagged(ones, major_of_version=2), "gradient: is of DLPack 2.0; expected 1.x"),
            (Negated(ones), "gradient: its memory holds the negative .*resolve_neg"),
        ):
            self.refused(gradstep.InvalidError, ValueError, message, p.update, tensor)
        empty = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(0))
        empty.update(Flagged(numpy.ones(0), data_of_tensor=None))
        masked = numpy.ma.array(ones, mask=[0, 1, 0])
        self.refused(gradstep.DtypeError, TypeError, "gradient: is a masked array", p.update, masked)
        self.assertEqual(p.values().tolist(), [0, 0, 0])

    def test_values_that_are_not_set(self):
        p = gradstep.Parameter(config("adam", 1.0), numpy.zeros((2, 2)))
        p.update(numpy.ones(4))
        before, slots = p.values(), p.slots()
        for values, kind, message in (
            (numpy.zeros(3), gradstep.InvalidError, "values: has 3 elements; expected 4"),
            (numpy.zeros(4, "float32"), gradstep.DtypeError, "values: is of float32"),
            (numpy.zeros((2, 4))[:, ::2], gradstep.InvalidError, "values: its elements do not lie"),
            (p.view(), gradstep.InvalidError, "overlaps"),
            ([0.0] * 4, gradstep.DtypeError, "values: is a list"),
        ):
            with self.assertRaisesRegex(kind, message):
                p.set_values(values)
        numpy.testing.assert_array_equal(p.values(), before)
        self.assertEqual({x: y.tolist() for x, y in p.slots().items()}, {x: y.tolist() for x, y in slots.items()})
        p.release()
        self.refused(gradstep.ReleasedError, ValueError, "", p.set_values, before)
        average = gradstep.Parameter(config("sgd", 1.0, average={"name": "ema"}), shape=2)
        average.apply_average()
        self.refused(gradstep.SequenceError, RuntimeError, "", average.set_values, numpy.zeros(2, numpy.float32))

    def test_shapes(self):
        c = config("sgd", 1.0)
        for shape, expected in (
            ((2, 3), (2, 3)), ([2, 3], (2, 3)), (numpy.array([2, 3]), (2, 3)), (range(2, 4), (2, 3)), (3, (3,)), ((), ()),
            (numpy.int32(3), (3,)), ((numpy.int8(2), 0), (2, 0)),
        ):  # fmt: skip
            self.assertEqual(gradstep.Parameter(c, shape=shape).shape, expected)
        self.assertEqual(gradstep.Parameter(c, numpy.zeros((2, 3)), shape=[2, 3]).shape, (2, 3))
        for shape, kind, message in (
            ((2, -3), gradstep.InvalidError, r"shape: \(2, -3\) has a negative number; expected numbers >= 0"),
            (-1, gradstep.InvalidError, r"shape: \(-1,\) has a negative number"),
            ((2.0, 3), gradstep.DtypeError, r"shape: \(2.0, 3\) has a float; expected integers"),
            ((True, 3), gradstep.DtypeError, "has a bool"),
            ((numpy.bool_(True), 3), gradstep.DtypeError, "has a bool"),
            ((2, (3,)), gradstep.DtypeError, "has a tuple"),
            ((2, None), gradstep.DtypeError, "has a NoneType"),
            (True, gradstep.DtypeError, "has a bool"),
            (2.5, gradstep.DtypeError, "shape: 2.5 is a float; expected an integer or a tuple of integers"),
            ("23", gradstep.DtypeError, "shape: '23' is a str"),
            ({2, 3}, gradstep.DtypeError, "is a set"),
            (numpy.array([2.0, 3.0]), gradstep.DtypeError, "has a float64"),
            ((2**62, 4), gradstep.InvalidError, "has 2\\^63 elements or more"),
            ((2**64, 0), gradstep.InvalidError, "has 2\\^63 elements or more"),
        ):
            with self.assertRaisesRegex(kind, message):
                gradstep.Parameter(c, shape=shape)
            with self.assertRaises(kind):
                gradstep.Table(c, shape=shape)
        for shape in (3, (), (1, 2, 3)):
            self.refused(gradstep.InvalidError, ValueError, r"dimensions; expected \(rows, width\)", gradstep.Table, c, shape=shape)

    def test_ids(self):
        table = gradstep.Table(config("sgd", 1.0), shape=(5, 2))
        for ids, kind, message in (
            ([1, 2.5], gradstep.DtypeError, "ids: 2.5 is a float; expected integers"),
            ([1.0, 2.0], gradstep.DtypeError, "ids: 1.0 is a float"),
            ([1, True], gradstep.DtypeError, "ids: True is a bool"),
            ([[1, 2], [3, True]], gradstep.DtypeError, "ids: True is a bool"),
            (["1"], gradstep.DtypeError, "ids: '1' is a str"),
            ([None], gradstep.DtypeError, "ids: None is a NoneType"),
            ([[1], [2, 3]], gradstep.InvalidError, "ids: contains lists of different lengths"),
            ([2**64], gradstep.InvalidError, f"ids: {2**64} is out of range"),
            ([-1, 2**63], gradstep.InvalidError, f"ids: {2**63} is out of range"),
            ([2**63], gradstep.InvalidError, rf"ids\[0\]: {2**63} is out of range; expected \[0, 5\)"),
            (numpy.array([1, 2**64 - 1], numpy.uint64), gradstep.InvalidError, rf"ids\[1\]: {2**64 - 1}"),
            (range(2**64), gradstep.InvalidError, "ids: .* is out of range"),
            (range(4, 7), gradstep.InvalidError, "5"),
            ([-1], gradstep.InvalidError, "-1"),
            ("12", gradstep.DtypeError, "ids: '12' is a str; expected an array, a list or a range"),
            (b"12", gradstep.DtypeError, "is a bytes"),
            ({1, 2}, gradstep.DtypeError, "is a set"),
            (iter([1]), gradstep.DtypeError, "is a list_iterator"),
            (3, gradstep.DtypeError, "ids: 3 is a int; expected"),
            (numpy.int64(3), gradstep.DtypeError, "is a int64; expected"),
            (None, gradstep.DtypeError, "is a NoneType"),
            (numpy.array([True] * 5), gradstep.DtypeError, r"ids: are of bool; .*numpy.flatnonzero\(mask\)"),
            (numpy.array([1.0]), gradstep.DtypeError, "ids: are of float64"),
            (Foreign(numpy.array([1.0])), gradstep.DtypeError, "ids: are of float64"),
            (Foreign(numpy.array([1j])), gradstep.DtypeError, "ids: are of DLPack's type 5"),
            (numpy.ma.array([1, 2], mask=[0, 1]), gradstep.DtypeError, "ids: are a masked array"),
        ):
            with self.assertRaisesRegex(kind, message):
                table.rows(ids)
            with self.assertRaises(kind):
                table.update(ids, numpy.ones((2, 2), numpy.float32))
        self.assertEqual((table.clock.step, table.values().sum()), (0, 0))

    def test_paths_and_names(self):
        """C ends a text at NUL, and files hold UTF-8: what would be cut or could not be saved is refused at once."""
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3))
        model = gradstep.Model({"p": p})
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)  # for the name that would be left of "cut\0off"
            try:
                for path, kind, message in (
                    ("cut\0off", gradstep.InvalidError, r"path: 'cut\\x00off' contains NUL; expected the name of a file"),
                    (b"cut\0off", gradstep.InvalidError, "contains NUL"),
                    (Path("cut\0off"), gradstep.InvalidError, "contains NUL"),
                    ("\ud800", gradstep.InvalidError, r"path: '\\ud800' cannot be encoded"),
                    (3, gradstep.DtypeError, "path: 3 is a int; expected a str, bytes or an os.PathLike"),
                    (None, gradstep.DtypeError, "is a NoneType"),
                ):
                    for call in (model.save, model.load):
                        with self.assertRaisesRegex(kind, message):
                            call(path)
                self.assertEqual(os.listdir(scratch), [])
                model.save(b"bytes")
                model.save("\udcff")  # a name of bytes that are no UTF-8, as os.listdir gives it
                self.assertEqual(sorted(os.listdir(scratch)), ["bytes", "\udcff"])
                model.load("\udcff")
            finally:
                os.chdir("/")
        for name, kind, message in (
            ("w\0x", gradstep.InvalidError, r"name: 'w\\x00x' contains NUL"),
            ("\ud800", gradstep.InvalidError, "name: .* cannot be encoded"),
            ("\udcff", gradstep.InvalidError, "name: .* cannot be encoded"),
            (3, gradstep.DtypeError, "name: 3 is a int; expected a str"),
            (b"w", gradstep.DtypeError, "name: b'w' is a bytes; expected a str"),
            (None, gradstep.DtypeError, "name: None is a NoneType"),
        ):
            with self.assertRaisesRegex(kind, message):
                model.add(name, p)
            with self.assertRaisesRegex(kind, message):
                gradstep.Model({name: p})
        self.assertEqual(list(model), ["p"])

    def test_errors_of_files_are_those_of_python(self):
        model = gradstep.Model({"p": gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3))})
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch, "file")
            file.write_bytes(b"")
            for call, path, python, number in (
                (model.load, Path(scratch, "none"), FileNotFoundError, errno.ENOENT),
                (model.save, f"{scratch}/none/model", FileNotFoundError, errno.ENOENT),
                (model.load, scratch, IsADirectoryError, errno.EISDIR),
                (model.load, os.fsencode(file / "x"), NotADirectoryError, errno.ENOTDIR),
                (model.load, f"{scratch}/{'x' * 1000}", OSError, errno.ENAMETOOLONG),
            ):
                with self.assertRaises(python) as caught:
                    call(path)
                for found in (caught.exception, pickle.loads(pickle.dumps(caught.exception)), copy.copy(caught.exception)):
                    self.assertIsInstance(found, gradstep.FileError)
                    self.assertIs(type(found), type(caught.exception))
                    self.assertEqual((found.errno, found.filename), (number, os.fsdecode(path)))
                    self.assertEqual((found.strerror, found.code), (os.strerror(number), gradstep.Status.IO_ERROR))
                    self.assertRegex(str(found), "^cannot (read|write) .*")
            with self.assertRaises(gradstep.Error) as caught:
                model.load(file)  # which the system reads
            self.assertNotIsInstance(caught.exception, OSError)

    def test_options_of_a_step(self):
        """Numbers of every surface are refused before anything has moved."""
        g = numpy.ones(3)
        p, updater = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3)), gradstep.Updater(config("sgd", 1.0))
        table, model = gradstep.Table(config("sgd", 1.0), numpy.zeros((2, 3))), gradstep.Model({"p": p})
        rule = {"name": "dgc_momentum", "dense_below": 0, "num_trainers": 2}
        trainer = gradstep.Parameter({**config("sgd", 1.0), "rule": rule}, numpy.zeros(3, numpy.float32))
        nan, inf = float("nan"), float("inf")
        for option, kind, message in (
            *[({"rate": x}, gradstep.InvalidError, "rate") for x in (nan, inf, -1, -inf, 10**400)],
            *[({"rate_scale": x}, gradstep.InvalidError, "rate_scale") for x in (nan, inf, -1)],
            *[({"gradient_scale": x}, gradstep.InvalidError, "gradient_scale") for x in (nan, inf, -inf)],
            *[({"epoch": x}, gradstep.InvalidError, "epoch") for x in (-1, -(2**63), 2**63)],
            *[({"samples": x}, gradstep.InvalidError, "samples") for x in (-1, 2**64)],
            *[({x: "1"}, gradstep.DtypeError, f"{x}: '1' is a str") for x in ("rate", "rate_scale", "epoch", "samples")],
            *[({x: True}, gradstep.DtypeError, f"{x}: True is a bool") for x in ("rate", "gradient_scale", "epoch", "samples")],
            *[({x: 1.5}, gradstep.DtypeError, f"{x}: 1.5 is a float") for x in ("epoch", "samples")],
            *[({x: 1j}, gradstep.DtypeError, f"{x}: 1j is a complex") for x in ("rate", "gradient_scale")],
        ):
            for call in (
                lambda x=option: p.update(g, **x),
                lambda x=option: model.update({"p": g}, **x),
                lambda x=option: table.update([0], g, **x),
                lambda x=option: updater.next_step(**x),
                lambda x=option: trainer.compress(numpy.ones(3, numpy.float32), **x),
            ):
                self.refused(kind, ValueError if kind is gradstep.InvalidError else TypeError, message, call)
        self.assertEqual({x.clock for x in (p, table, updater, trainer)}, {gradstep.Clock()})
        self.assertEqual(p.values().tolist(), [0, 0, 0])
        p.update(g, rate=numpy.float32(0.5), rate_scale=numpy.int8(2), epoch=numpy.int64(3), samples=numpy.uint8(4))
        self.assertEqual((p.values()[0], p.clock), (-1, gradstep.Clock(1, 4, 3)))
        for wrong in ((1.5, 0, 0), (True, 0, 0), ("1", 0, 0)):
            self.refused(gradstep.DtypeError, TypeError, "step: .* expected an integer", p.seek, wrong)

    def test_numbers(self):
        p = gradstep.Parameter(config("sgd", 1.0, on_nonfinite="raise"), numpy.zeros(3))
        self.refused(gradstep.InvalidError, ValueError, "rate", p.update, numpy.ones(3), rate=-1)
        self.refused(gradstep.NotFiniteError, ArithmeticError, "", p.update, numpy.array([1, numpy.nan, 1]))
        self.assertEqual((p.clock.step, p.values()[0]), (0, 0))
        self.refused(gradstep.InvalidError, ValueError, "", p.seek, gradstep.Clock(step=-1))

    def test_integers_of_more_than_64_bits(self):
        p, table = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3)), gradstep.Table(config("sgd", 1.0), shape=(5, 2))
        updater, g = gradstep.Updater(config("sgd", 1.0)), numpy.ones(3)
        for wrong in (2**64 + 1, 2**63, -(2**64) + 1):
            for message, call, arguments, options in (
                ("row: is", table.row, (wrong,), {}),
                ("samples: is", p.update, (g,), {"samples": wrong}),
                ("epoch: is", p.update, (g,), {"epoch": wrong}),
                ("samples: is", gradstep.Model({"p": p}).update, ({"p": g},), {"samples": wrong}),
                ("samples: is", updater.next_step, (), {"samples": wrong}),
                ("step: is", p.seek, (gradstep.Clock(step=wrong),), {}),
                ("samples: is", updater.seek, (gradstep.Clock(samples=wrong),), {}),
                ("epoch: is", table.seek, (gradstep.Clock(epoch=wrong),), {}),
            ):
                self.refused(gradstep.InvalidError, ValueError, f"{message} {wrong}; expected", call, *arguments, **options)
        self.refused(
            gradstep.InvalidError, ValueError, "shape: ", gradstep.Parameter, config("sgd", 1.0), shape=(2**64 + 3,)
        )
        self.assertEqual({x.clock for x in (p, table, updater)}, {gradstep.Clock()})
        p.update(g, samples=numpy.int32(5))
        p.seek(p.clock._replace(step=2**63 - 1))
        self.assertEqual(p.clock, gradstep.Clock(2**63 - 1, 5, 0))
        numpy.testing.assert_array_equal(table.row(numpy.int64(4)), [0, 0])

    def test_making(self):
        c = config("sgd", 1.0)
        self.refused(gradstep.InvalidError, ValueError, "initial: is missing", gradstep.Parameter, c)
        self.refused(gradstep.InvalidError, ValueError, "shape: is", gradstep.Parameter, c, numpy.zeros(3), shape=(4,))
        self.refused(
            gradstep.InvalidError, ValueError, "dtype: is float32", gradstep.Parameter, c, numpy.zeros(3), dtype="float32"
        )
        self.refused(
            gradstep.DtypeError, TypeError, "expected one of int32", gradstep.Parameter, c, shape=(3,), dtype="float8"
        )
        self.refused(gradstep.DtypeError, TypeError, "", gradstep.Parameter, c, shape=(3,), dtype="int32")
        self.refused(gradstep.InvalidError, ValueError, r"expected \(rows, width\)", gradstep.Table, c, shape=(3,))

    def test_tables_and_models(self):
        table = gradstep.Table(config("sgd", 1.0), shape=(5, 2))
        ones = numpy.ones((1, 2), numpy.float32)
        self.refused(gradstep.InvalidError, ValueError, "5", table.update, numpy.array([5]), ones)
        self.refused(gradstep.InvalidError, ValueError, "-1", table.update, numpy.array([-1]), ones)
        self.refused(gradstep.DtypeError, TypeError, "ids: are of float64", table.update, numpy.array([1.0]), ones)
        self.refused(
            gradstep.InvalidError,
            ValueError,
            "gradient_rows: has 2 elements; expected 4",
            table.update,
            numpy.array([1, 2]),
            ones,
        )
        self.refused(gradstep.InvalidError, ValueError, "7", table.row, 7)
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(2))
        model = gradstep.Model({"p": p, "rows": table})
        self.refused(
            gradstep.InvalidError, ValueError, "q: is no parameter of the model; expected one of p, rows", model.update, {"q": ones}
        )
        self.refused(gradstep.InvalidError, ValueError, "rows: is a table; expected a Parameter", model.update, {"rows": ones})
        self.refused(gradstep.InvalidError, ValueError, "gradient of p: has 1 elements", model.update, {"p": numpy.ones(1)})
        self.refused(gradstep.InvalidError, ValueError, "p: is there already; expected another name", model.add, "p", p)
        self.refused(gradstep.InvalidError, ValueError, "x: is a int", model.add, "x", 3)
        model.add("same", p)
        self.refused(gradstep.Error, ValueError, "", model.update, {"p": numpy.ones(2), "same": numpy.ones(2)})
        self.assertEqual((table.clock.step, p.clock.step), (0, 0))

    def test_updaters(self):
        updater, w = gradstep.Updater(config("adam", 1.0)), numpy.zeros(4, numpy.float32)
        state = updater.initialize(w)
        self.refused(gradstep.SequenceError, RuntimeError, "next_step", updater.apply, w, w.copy(), state)
        updater.next_step()
        self.refused(
            gradstep.InvalidError, ValueError, "state: has m; expected m, v", updater.apply, w, w.copy(), {"m": state["m"]}
        )
        self.refused(
            gradstep.InvalidError, ValueError, "state m: has 3", updater.apply, w, w.copy(), {**state, "m": w[:3].copy()}
        )
        self.refused(gradstep.InvalidError, ValueError, "", updater.apply, w, w, state)
        self.refused(
            gradstep.InvalidError,
            ValueError,
            r"states\[1\]: state: has nothing",
            updater.apply_many,
            [w, w],
            [w, w],
            [state, {}],
        )
        self.refused(
            gradstep.InvalidError, ValueError, "2 parameters, 1 gradients", updater.apply_many, [w, w], [w], [state, state]
        )
        constant = numpy.ones(4, numpy.float32)
        constant.flags.writeable = False
        updater.seek(gradstep.Clock())
        updater.next_step(zero_gradient=True)
        self.refused(gradstep.InvalidError, ValueError, "gradient: is read-only", updater.apply, w, constant, state)
        self.refused(
            gradstep.InvalidError, ValueError, r"gradients\[0\]: is read", updater.apply_many, [w], [constant], [state]
        )
        numpy.testing.assert_array_equal(w, numpy.zeros(4))
        numpy.testing.assert_array_equal(constant, numpy.ones(4))
        updater.next_step()
        updater.apply(w, constant, state)  # which reads it

    def test_what_was_released_says_so(self):
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(3))
        g = numpy.ones(3)
        p.update(g)
        with p:
            pass
        p.release()
        for call in (
            lambda: p.update(g),
            lambda: p.update(g, rate_scale=1),
            p.values,
            p.slots,
            p.save_state,
            lambda: p.clock,
            lambda: p.config,
            lambda: gradstep.Model({"p": p}).update({"p": g}),
            lambda: gradstep.Model({"p": p}).save("x"),
        ):
            self.refused(gradstep.ReleasedError, ValueError, "this Parameter has been released", call)
        self.assertIn("released", repr(p))
        updater = gradstep.Updater(config("sgd", 1.0))
        updater.release()
        self.refused(gradstep.ReleasedError, ValueError, "this Updater has been released", updater.next_step)

    def test_errors_can_be_pickled(self):
        with self.assertRaises(gradstep.ConfigError) as caught:
            gradstep.canonical("{")
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(
            (type(again), str(again), again.code), (gradstep.ConfigError, str(caught.exception), gradstep.Status.BAD_CONFIG)
        )

    @unittest.skipIf(ml_dtypes, "numpy has bfloat16 here")
    def test_bfloat16_needs_ml_dtypes(self):
        p = gradstep.Parameter(config("sgd", 1.0), shape=(3,), dtype="bfloat16")
        self.refused(gradstep.DtypeError, TypeError, "expected ml_dtypes to be installed", p.values)


if __name__ == "__main__":
    unittest.main()
