"""Trains with the package as users do, and gives it what it has to refuse. Only numpy is needed; without ml_dtypes the cases of
bfloat16 arrays are left out."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest
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


class Foreign:
    """A tensor of another library: it has __dlpack__ and nothing else."""

    def __init__(self, array, device=None):
        self.array, self.device = array, device

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class Contract(unittest.TestCase):
    """What the package repeats of the header."""

    def test_numbers_are_those_of_the_header(self):
        text = HEADER.read_text()
        number = {name: int(value) for name, value in re.findall(r"GRADSTEP_(\w+) = (-?\d+)", text)}
        self.assertEqual(
            {x.name: x.value for x in gradstep.Status},
            {name: number[name] for name in number if number[name] <= 0 and name != "INT32"},
        )
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
                "pointer" if "*" in x or x.startswith("gradstep_run") else kinds[re.sub(r"^const ", "", x).split()[0]]
                for x in each
            )
        not_used = {"executor_from_callback", "parameter_set_executor", "updater_set_executor"}
        known = {
            name: tuple(x.__name__ if x.__name__ in kinds.values() else "pointer" for x in types)
            for name, types in _library._FUNCTIONS.items()
        }
        self.assertEqual(known, {name: declared[name] for name in declared if name not in not_used})

    def test_structures_are_those_of_the_header(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
        for ours in (_library.CError, _library.CSlot, _library.CStepOptions, _library.CClock):
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", ours.__name__[1:]).lower()
            body = re.search(r"typedef struct gradstep_%s \{(.*?)\}" % name, text, flags=re.DOTALL)[1]
            members = re.findall(r"(\w+)(?:\[\d+\])?\s*[,;]", body)
            self.assertEqual([x[0] for x in ours._fields_], members, name)

    def test_version(self):
        version = re.findall(r"#define GRADSTEP_VERSION_\w+ (\d+)", (HEADER.parents[1] / "version.hpp").read_text())
        self.assertEqual(gradstep.version(), ".".join(version))
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


def without_library(folder: Path, to: Path) -> None:
    """A copy of the package."""
    to.mkdir()
    for file in folder.glob("*.py"):
        (to / file.name).write_bytes(file.read_bytes())


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
        with self.assertRaisesRegex(TypeError, "'ratescale' is no option of a step: there is gradient_scale, rate_scale"):
            p.update(g, ratescale=2)
        before = p.values().copy(), p.clock
        for bad, says in (
            ({"rate": math.nan}, "rate"),
            ({"rate": math.inf}, "rate"),
            ({"rate": -1.0}, "rate"),
            ({"epoch": -1}, "epoch"),
            ({"epoch": -(2**63)}, "epoch"),
        ):
            with self.assertRaisesRegex(gradstep.InvalidError, f"step_options.{says} = "):
                p.update(g, **bad)
            with self.assertRaisesRegex(gradstep.InvalidError, f"step_options.{says} = "):
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
            with self.assertRaisesRegex(gradstep.SequenceError, "call apply first"):
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
        with self.assertRaisesRegex(gradstep.SequenceError, "call compress first"):
            trainers[0].apply(messages)
        with self.assertRaisesRegex(gradstep.InvalidError, "must be dgc_momentum"):
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
        g.dtype = "uint8"
        for step in (lambda: p.update(g), lambda: model.update({"p": g})):
            with self.assertRaisesRegex(gradstep.DtypeError, "is of uint8"):
                step()
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

    def test_configurations_are_read_back(self):
        text = '{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}'
        complete = gradstep.canonical(text)
        self.assertEqual(complete["rule"]["beta1"], 0.9)
        self.assertEqual(gradstep.canonical(complete), complete)
        self.assertEqual(gradstep.Parameter(text, shape=(3,)).config, complete)
        self.assertEqual(gradstep.Updater(text).config, complete)


class Documentation(unittest.TestCase):
    def test_the_ten_lines_run(self):
        pages = [(HEADER.parents[3] / page).read_text() for page in ("README.md", "docs/python.md")]
        blocks = [re.search(r"```python\n(import gradstep, numpy\n.*?)```", page, flags=re.DOTALL)[1] for page in pages]
        self.assertEqual(*blocks)
        names: dict = {"print": lambda *_: None}
        exec(blocks[0], names)
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


class Errors(unittest.TestCase):
    def refused(self, kind: type, python: type, message: str, call, *arguments, **options) -> None:
        with self.assertRaisesRegex(kind, message) as caught:
            call(*arguments, **options)
        self.assertIsInstance(caught.exception, python)
        self.assertIsInstance(caught.exception.code, gradstep.Status)
        self.assertLess(caught.exception.code, 0)

    def test_configurations(self):
        def make(settings):
            return gradstep.Parameter(settings, shape=(3,))

        for settings, message in (
            ({"rule": {"name": "adam", "beta1": 1.5}, "schedule": {"name": "constant", "rate": 1}}, r"rule\.beta1: 1\.5"),
            ({"rule": {"name": "adam", "beta": 0.5}, "schedule": {"name": "constant", "rate": 1}}, "beta1"),
            ("{", "JSON"),
            (3, "config: is a int"),
            ({"rule": {1, 2}}, "config: "),
            (config("adam", float("nan")), "config: "),
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
            (numpy.ones((4, 4)), gradstep.DtypeError, TypeError, "gradient: is of float64: must be of float32"),
            (
                Foreign(numpy.ones((4, 4), numpy.int32)),
                gradstep.DtypeError,
                TypeError,
                "gradient: is of int32: must be of float32",
            ),
            (good.astype(">f4"), gradstep.DtypeError, TypeError, "gradient: is of >f4"),
            (numpy.ones((4, 4), complex), gradstep.DtypeError, TypeError, "complex128"),
            (Foreign(numpy.ones((4, 4), complex)), gradstep.DtypeError, TypeError, "DLPack's 5, of 128 bits"),
            (Foreign(good, (2, 0)), gradstep.InvalidError, ValueError, "gradient: is in the memory of a device"),
            (wide, gradstep.InvalidError, ValueError, "gradient: has 32 elements: must have 16"),
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
                self.refused(gradstep.InvalidError, ValueError, f"{message} {wrong}: must be", call, *arguments, **options)
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
            gradstep.DtypeError, TypeError, "must be one of int32", gradstep.Parameter, c, shape=(3,), dtype="float8"
        )
        self.refused(gradstep.DtypeError, TypeError, "", gradstep.Parameter, c, shape=(3,), dtype="int32")
        self.refused(gradstep.InvalidError, ValueError, r"must be \(rows, width\)", gradstep.Table, c, shape=(3,))

    def test_tables_and_models(self):
        table = gradstep.Table(config("sgd", 1.0), shape=(5, 2))
        ones = numpy.ones((1, 2), numpy.float32)
        self.refused(gradstep.InvalidError, ValueError, "5", table.update, numpy.array([5]), ones)
        self.refused(gradstep.InvalidError, ValueError, "-1", table.update, numpy.array([-1]), ones)
        self.refused(gradstep.DtypeError, TypeError, "ids: are of float64", table.update, numpy.array([1.0]), ones)
        self.refused(
            gradstep.InvalidError,
            ValueError,
            "gradient_rows: has 2 elements: must have 4",
            table.update,
            numpy.array([1, 2]),
            ones,
        )
        self.refused(gradstep.InvalidError, ValueError, "7", table.row, 7)
        p = gradstep.Parameter(config("sgd", 1.0), numpy.zeros(2))
        model = gradstep.Model({"p": p, "rows": table})
        self.refused(
            gradstep.InvalidError, ValueError, "q: is no parameter of the model: it has p, rows", model.update, {"q": ones}
        )
        self.refused(gradstep.InvalidError, ValueError, "rows: is a table", model.update, {"rows": ones})
        self.refused(gradstep.InvalidError, ValueError, "gradient of p: has 1 elements", model.update, {"p": numpy.ones(1)})
        self.refused(gradstep.InvalidError, ValueError, "p: is there twice", model.add, "p", p)
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
            gradstep.InvalidError, ValueError, "state has m: must have m, v", updater.apply, w, w.copy(), {"m": state["m"]}
        )
        self.refused(
            gradstep.InvalidError, ValueError, "state m: has 3", updater.apply, w, w.copy(), {**state, "m": w[:3].copy()}
        )
        self.refused(gradstep.InvalidError, ValueError, "", updater.apply, w, w, state)
        self.refused(
            gradstep.InvalidError,
            ValueError,
            r"states\[1\]: state has nothing",
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
        self.refused(gradstep.DtypeError, TypeError, "install ml_dtypes", p.values)


if __name__ == "__main__":
    unittest.main()
