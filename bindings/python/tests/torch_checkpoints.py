"""Checkpoints from torch and to torch: runs of gradstep.torch and torch.optim go on in gradstep.Model, and back.
`./dev test python-torch` runs it, where torch is installed.

GRADSTEP_PROGRAM is the program gradstep, GRADSTEP_SAFETENSORS a folder with the package safetensors.
"""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy
import torch

import gradstep
import gradstep.torch

site.addsitedir(os.environ["GRADSTEP_SAFETENSORS"])
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ["GRADSTEP_PROGRAM"]


def documented(name: str):
    """A function of docs/how_to/checkpoints.md, so that what the page shows is what is tested."""
    page = (ROOT / "docs/how_to/checkpoints.md").read_text()
    code = next(x for x in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if f"def {name}" in x)
    out: dict = {}
    exec(code, out)
    return out[name]


save_for_gradstep, load_from_gradstep = documented("save_for_gradstep"), documented("load_from_gradstep")


class Net(torch.nn.Module):
    """Names with dots, a number alone, an empty tensor, a parameter without gradient, and one that two modules have."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        made = lambda *shape: torch.nn.Parameter((torch.rand(shape, generator=generator) * 2 - 1).to(dtype))
        self.body = torch.nn.ModuleDict({"first": torch.nn.Module(), "tied": torch.nn.Module()})
        self.body["first"].weight = made(7, 5)
        self.body["tied"].weight = self.body["first"].weight
        self.kernel, self.scale, self.empty, self.frozen = made(2, 3, 4), made(), made(0, 3), made(3)
        self.head = made(130)

    def groups(self, of_head: dict) -> list:
        """The head, which has options of its own, is not the last: the order of the groups is not that of the names."""
        others = [self.body["first"].weight, self.kernel, self.scale, self.empty, self.frozen]
        return [{"params": [self.head], **of_head}, {"params": others}]


MOVED = ("body.first.weight", "kernel", "scale", "head")


def gradients(step: int, dtype: torch.dtype) -> dict:
    generator = torch.Generator().manual_seed(100 + step)
    shapes = {name: x.shape for name, x in Net().named_parameters()}
    return {name: (torch.rand(shapes[name], generator=generator) * 2 - 1).to(dtype) for name in MOVED}


def step(optimizer, net: Net, number: int) -> None:
    of = gradients(number, net.head.dtype)
    for name, x in net.named_parameters():
        x.grad = of.get(name)
    optimizer.step()


def array(x: torch.Tensor) -> numpy.ndarray:
    """What gradstep takes: numpy has no bfloat16, and DLPack has."""
    return x.detach().clone()


def model_of(file: Path) -> gradstep.Model:
    """The model of a checkpoint, by the policies that it has."""
    parameters = {}
    with safe_open(file, "pt") as saved:
        for key, text in saved.metadata().items():
            if not key.startswith("gradstep.parameter."):
                continue
            name, described = key.removeprefix("gradstep.parameter."), json.loads(text)
            config = json.loads(described["policies"])
            if "<" in described["element"]:
                config["element"] = described["element"].split("<")[0]
            parameters[name] = gradstep.Parameter(config, array(saved.get_tensor(name)))
    net = gradstep.Model(parameters)
    net.load(file)
    return net


def bits(x) -> bytes:
    x = torch.from_dlpack(x) if not isinstance(x, torch.Tensor) else x.detach()
    return x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def values_of(net: gradstep.Model, folder: Path) -> dict:
    net.save(folder / "values.safetensors")
    return load_file(folder / "values.safetensors")


class Case(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def run_program(self, *arguments: object, fails: bool = False) -> str:
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode != 0, fails, done.stderr + done.stdout)
        return done.stderr if fails else done.stdout

    def assert_same(self, net: torch.nn.Module, ours: dict, what: object, is_exact: bool = True) -> None:
        for name, x in net.named_parameters():
            if is_exact:
                self.assertEqual(bits(x), bits(ours[name]), (what, name))
            elif x.numel():  # six steps of 16 roundings of numbers below 8
                far = float((x.detach().reshape(-1) - ours[name].detach().reshape(-1)).abs().max())
                self.assertLess(far, 6 * 16 * 8 * 2.0**-24, (what, name))


F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
# The class, its options, and the options of the head.
CLASSES = [
    ("SGD", {}, {}),
    ("SGD", {"momentum": 0.9}, {"momentum": 0}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}, {"nesterov": True, "dampening": 0}),
    ("SGD", {"maximize": True}, {}),
    ("Adam", {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.01}, {"lr": 0.25}),
    ("Adam", {"amsgrad": True}, {"amsgrad": False}),
    ("Adam", {"foreach": False, "lr": torch.tensor(0.0625)}, {"betas": (0.5, 0.75)}),
    ("AdamW", {}, {"weight_decay": 0}),
    ("AdamW", {"amsgrad": True, "fused": True}, {}),
    ("Adagrad", {"lr_decay": 0.125, "initial_accumulator_value": 0.1}, {"eps": 1e-3}),
    ("RMSprop", {}, {"alpha": 0.5}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.01}, {}),
    ("RMSprop", {"centered": True}, {"centered": True, "momentum": 0.5}),
    ("Adadelta", {"lr": 0.5}, {"rho": 0.5}),
    ("Adamax", {}, {"eps": 1e-3}),
    ("NAdam", {"momentum_decay": 0.25}, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}, {"weight_decay": 0.1}),
    ("ASGD", {"lambd": 0.25, "t0": 3}, {"lambd": 0.5, "t0": 100}),
    ("ASGD", {"lambd": 0.25, "alpha": 0.0, "t0": 2, "weight_decay": 0.01}, {"lambd": 0, "t0": 0}),
]
HAS_64_AND_16_BITS = {"SGD", "Adam", "AdamW", "Adagrad"}


def is_exact(name: str, options: dict) -> bool:
    """Whether C++ goes on with the same bits: ASGD keeps its rate in float32, which C++ computes anew."""
    return name != "ASGD" or options.get("alpha") == 0


CONFIGS = [
    {"rule": {"name": "sgd"}},
    {"rule": {"name": "lion"}, "regularizer": {"name": "decoupled", "rate": 0.1}},
    {"rule": {"name": "lamb"}},
    {"rule": {"name": "rowwise_adam"}},  # has a number for a whole tensor
    {"rule": {"name": "yogi", "initial_accumulator": 0.25}},
    {"rule": {"name": "adam"}, "regularizer": {"name": "all_of", "regularizers": [{"name": "l1", "rate": 0.01},
                                                                                  {"name": "l2", "rate": 0.01}]}},
    {"rule": {"dialect": "tensorflow", "name": "rmsprop"}},
    {"rule": {"name": "momentum"}, "average": {"name": "ema", "decay": 0.9}},
]
FORMS = [
    ({"rule": {"name": "adam"}, "element": "mixed"}, BF16),
    ({"rule": {"name": "momentum"}, "element": "mixed"}, F16),
    ({"rule": {"name": "adam"}, "element": "stochastic", "seed": 5}, BF16),
    ({"rule": {"name": "adagrad", "initial_accumulator": 0.5}}, BF16),
]


# Those that a class of torch has, too.
CONFIGS_OF_TORCH = [CONFIGS[0], FORMS[-1][0]]


def ours_cases() -> list:
    out = []
    for name, options, of_head in CLASSES:
        dtypes = [F32]
        if name in HAS_64_AND_16_BITS and not options.get("amsgrad"):
            dtypes += [F64, BF16, F16]
        elif name == "ASGD":
            dtypes.append(F64)
        for dtype in dtypes:
            out.append((name, {"lr": 0.125, **options}, of_head, dtype))
    for config in CONFIGS:
        out.append(("Optimizer", {"lr": 0.125, "config": config}, {"lr": 0.25}, F32))
    for config, dtype in FORMS:
        out.append(("Optimizer", {"lr": 0.125, "config": config}, {"lr": 0.25}, dtype))
    return out


def sign(options: dict) -> dict:
    return {"gradient_scale": -1.0} if options.get("maximize") else {}


class OfGradstepTorch(Case):
    """A run of gradstep.torch goes on in gradstep.Model, bit for bit; and from there in gradstep.torch."""

    def test_there_and_back(self):
        for name, options, of_head, dtype in ours_cases():
            for before in (0, 4):
                with self.subTest(name, **options, of_head=of_head, dtype=dtype, before=before):
                    self.there_and_back(name, options, of_head, dtype, before)

    def there_and_back(self, name: str, options: dict, of_head: dict, dtype: torch.dtype, before: int) -> None:
        made = getattr(gradstep.torch, name)
        net = Net(dtype)
        optimizer = made(net.groups(of_head), **options)
        for t in range(before):
            step(optimizer, net, t)
        there, checkpoint = self.folder / "there", self.folder / "checkpoint"
        save_for_gradstep(there, net, optimizer)
        self.run_program("import-torch", there, checkpoint, *(["--step", before] if name == "SGD" else []))
        model = model_of(checkpoint)
        for t in range(before, before + 4):
            step(optimizer, net, t)
            model.update({key: array(g) for key, g in gradients(t, dtype).items()}, **sign(options))
            self.assert_same(net, values_of(model, self.folder), t, is_exact(name, options))

        back, again = self.folder / "back", Net(dtype)
        model.save(checkpoint)
        said = self.run_program("export-torch", checkpoint, back)
        is_config = "gradstep.torch.Optimizer" in said
        has_class = name != "Optimizer" or options["config"] in CONFIGS_OF_TORCH
        self.assertEqual(is_config, not has_class, said)
        found = re.match(r"for (?:gradstep\.torch\.)?(\w+): 6 parameters in \d groups?\n", said).group(1)
        self.assertEqual("does not keep its step" in said, found == "SGD")
        make = getattr(gradstep.torch, found)
        resumed = load_from_gradstep(
            back, again, (lambda groups: make(groups, groups[0]["config"])) if is_config else make
        )
        for t in range(before + 4, before + 8):
            if options.get("maximize"):
                for group in resumed.param_groups:
                    group["maximize"] = True
            step(optimizer, net, t)
            step(resumed, again, t)
            self.assert_same(net, dict(again.named_parameters()), t, is_exact(name, options))

    def test_an_exported_file_is_imported_as_the_same_checkpoint(self):
        for name, options, of_head, dtype in ours_cases():
            with self.subTest(name, **options, dtype=dtype):
                net = Net(dtype)
                optimizer = getattr(gradstep.torch, name)(net.groups(of_head), **{**options, "lr": 0.125})
                for t in range(4):
                    step(optimizer, net, t)
                first, second = self.folder / "first", self.folder / "second"
                save_for_gradstep(self.folder / "file", net, optimizer)
                count = ["--step", 4] if name == "SGD" else []
                self.run_program("import-torch", self.folder / "file", first, *count)
                said = self.run_program("export-torch", first, self.folder / "file")
                self.run_program(
                    "import-torch", self.folder / "file", second, *(["--step", 4] if said.startswith("for SGD") else [])
                )
                a, b = load_file(first), load_file(second)
                self.assertEqual({key: bits(x) for key, x in a.items()}, {key: bits(x) for key, x in b.items()})
                with safe_open(first, "pt") as x, safe_open(second, "pt") as y:
                    for key, text in x.metadata().items():
                        described = [json.loads(text), json.loads(y.metadata()[key])]
                        if isinstance(described[0], dict):
                            for each in described:
                                each.pop("policies"), each.pop("id", None)
                                if said.startswith("for SGD"):  # in which a parameter without gradient is as the others
                                    each.pop("clock")
                        self.assertEqual(*described, key)


class EveryRule(Case):
    """A run of gradstep.torch.Optimizer goes through a checkpoint and back, and continues bit for bit, with every rule."""

    def test_there_and_back(self):
        for rule in gradstep.rules.__all__:
            if rule == "dgc_momentum":  # no optimizer of torch sends messages
                continue
            for before in (0, 3):
                with self.subTest(rule, before=before):
                    self.there_and_back(rule, before)

    def there_and_back(self, rule: str, before: int) -> None:
        def stepped(optimizer, net: Net, number: int) -> None:
            of = gradients(number, F32)
            for name, x in net.named_parameters():
                x.grad = of.get(name)
            optimizer.step(lambda: torch.tensor(0.5))  # the loss, which some rules need

        def groups(net: Net) -> list:
            matrices = [net.body["first"].weight, net.kernel, net.empty]
            same_rate = rule.startswith("momo")  # which settles the rate once for the model
            return [{"params": matrices}] if rule == "muon" else net.groups({} if same_rate else {"lr": 0.0625})

        config, net = {"rule": {"name": rule}}, Net()
        optimizer = gradstep.torch.Optimizer(groups(net), config, lr=0.125)
        for t in range(before):
            stepped(optimizer, net, t)
        there, checkpoint, back = (self.folder / x for x in ("there", "checkpoint", "back"))
        save_for_gradstep(there, net, optimizer)
        self.run_program("import-torch", there, checkpoint)
        self.run_program("export-torch", checkpoint, back, "--optimizer", "Optimizer")
        a, b = load_file(there), load_file(back)
        named = lambda file, tensors: {  # by the parameter's name instead of its number
            (name, key.split(".", 2)[2]): (x.dtype, x.shape, bits(x))
            for group in json.loads(self.metadata_of(file)["param_groups"])
            for index, name in zip(group["params"], group["param_names"])
            for key, x in tensors.items()
            if key.startswith(f"state.{index}.")
        }
        self.assertEqual(named(there, a), named(back, b))
        again = Net()
        resumed = load_from_gradstep(back, again, lambda of: gradstep.torch.Optimizer(of, of[0]["config"]))
        for t in range(before, before + 3):
            stepped(optimizer, net, t)
            stepped(resumed, again, t)
            for (name, x), y in zip(net.named_parameters(), again.parameters()):
                self.assertEqual(bits(x), bits(y), (t, name))

    def test_noise_of_a_model_goes_on(self):
        """The ids of its parameters are 64 bits of a hash."""
        config = {"rule": {"name": "sgld"}, "schedule": {"name": "constant", "rate": 0.125}}
        net = torch.nn.Module()
        net.b, net.a = (torch.nn.Parameter(torch.zeros(8)) for _ in range(2))
        model = gradstep.Model({name: gradstep.Parameter(config, numpy.zeros(8, numpy.float32)) for name in "ab"})
        update = lambda: model.update({name: numpy.zeros(8, numpy.float32) for name in "ab"})
        update(), update()
        model.save(self.folder / "checkpoint")
        self.run_program("export-torch", self.folder / "checkpoint", self.folder / "file")
        resumed = load_from_gradstep(
            self.folder / "file", net, lambda groups: gradstep.torch.Optimizer(groups, groups[0]["config"])
        )
        for _ in range(3):
            net.a.grad = net.b.grad = torch.zeros(8)
            resumed.step(), update()
            for name, x in net.named_parameters():
                self.assertEqual(bits(x), bits(torch.from_numpy(model[name].values())), name)

    def metadata_of(self, file: Path) -> dict:
        with safe_open(file, "pt") as saved:
            return saved.metadata()


class OfTorch(Case):
    """What torch.optim keeps is read, and what it is given goes on as in gradstep.torch, but for roundings."""

    CLASSES = [x for x in CLASSES if "fused" not in x[1]]

    def test_there_and_back(self):
        for name, options, of_head in self.CLASSES:
            with self.subTest(name, **options, of_head=of_head):
                net, made = Net(), getattr(torch.optim, name)
                optimizer = made(net.groups(of_head), **{"lr": 0.125, **options})
                for t in range(8):
                    step(optimizer, net, t)
                there, checkpoint, back = (self.folder / x for x in ("there", "checkpoint", "back"))
                save_for_gradstep(there, net, optimizer)
                self.run_program("import-torch", there, checkpoint, *(["--step", 8] if name == "SGD" else []))
                model = model_of(checkpoint)
                said = self.run_program("export-torch", checkpoint, back)
                self.assertTrue(said.startswith(f"for {name}: 6 parameters in {2 if of_head else 1} group"), said)
                again = Net()
                resumed = load_from_gradstep(back, again, made)
                if options.get("maximize"):
                    for group in resumed.param_groups:
                        group["maximize"] = True
                for t in range(8, 14):
                    step(optimizer, net, t)
                    step(resumed, again, t)
                    model.update({key: array(g) for key, g in gradients(t, F32).items()}, **sign(options))
                found = values_of(model, self.folder)
                for (key, x), y in zip(net.named_parameters(), again.parameters()):
                    self.assertEqual(found[key].shape, x.shape, key)
                    # torch's own bits, where it keeps all of its state; six steps of 16 roundings of numbers below 8 otherwise.
                    if name not in ("ASGD", "NAdam", "Adagrad") and "lr" not in options:
                        self.assertEqual(bits(x), bits(y), key)
                    for other in (y.detach().reshape(-1), found[key]):
                        if x.numel():
                            far = float((x.detach().reshape(-1) - other.reshape(-1)).abs().max())
                            self.assertLess(far, 6 * 16 * 8 * 2.0**-24, (name, key))

    def test_one_number_for_a_parameter_of_one_element(self):
        """A checkpoint that does not say the shape of a parameter has [1] for both."""
        config = {"rule": {"name": "rowwise_adam"}, "schedule": {"name": "constant", "rate": 0.125}}
        for shape in ((), (1, 1), (1,)):
            model = gradstep.Model({"w": gradstep.Parameter(config, numpy.ones(1, numpy.float32))})
            update = lambda: model.update({"w": numpy.full(1, 0.5, numpy.float32)})
            update(), update()
            model.save(self.folder / "checkpoint")
            self.run_program("export-torch", self.folder / "checkpoint", self.folder / "file")
            net = torch.nn.Module()
            net.w = torch.nn.Parameter(torch.zeros(shape))
            optimizer = load_from_gradstep(
                self.folder / "file", net, lambda groups: gradstep.torch.Optimizer(groups, groups[0]["config"])
            )
            for _ in range(3):
                net.w.grad = torch.full(shape, 0.5)
                optimizer.step(), update()
                self.assertEqual(float(net.w.detach()), float(model["w"].values()[0]), shape)
            save_for_gradstep(self.folder / "file", net, optimizer)
            self.run_program("import-torch", self.folder / "file", self.folder / "checkpoint")

    def test_torch_loads_what_16_bits_keep(self):
        net = Net(BF16)
        optimizer = gradstep.torch.Adam(net.groups({}), lr=0.125)
        for t in range(4):
            step(optimizer, net, t)
        save_for_gradstep(self.folder / "file", net, optimizer)
        self.run_program("import-torch", self.folder / "file", self.folder / "checkpoint")
        self.run_program("export-torch", self.folder / "checkpoint", self.folder / "file")
        again = Net(BF16)
        resumed = load_from_gradstep(self.folder / "file", again, torch.optim.Adam)
        state, expected = resumed.state[again.head], optimizer.state[net.head]
        self.assertEqual(bits(state["exp_avg"]), bits(expected["exp_avg"].to(BF16)))
        step(resumed, again, 4)

    def test_master_copies_become_the_weights_of_a_class_of_torch(self):
        net = Net(BF16)
        optimizer = gradstep.torch.Optimizer(net.groups({}), {"rule": {"name": "adam"}, "element": "mixed"}, lr=0.125)
        for t in range(4):
            step(optimizer, net, t)
        save_for_gradstep(self.folder / "file", net, optimizer)
        self.run_program("import-torch", self.folder / "file", self.folder / "checkpoint")
        self.run_program("export-torch", self.folder / "checkpoint", self.folder / "file", "--optimizer", "Adam")
        again = Net()
        resumed = load_from_gradstep(self.folder / "file", again, torch.optim.Adam)
        self.assertEqual(bits(again.head), bits(optimizer.state[net.head]["master"]))
        self.assertEqual(bits(resumed.state[again.head]["exp_avg"]), bits(optimizer.state[net.head]["m"]))


class Refusals(Case):
    def trained(self, optimizer_type=gradstep.torch.Adam, **options) -> tuple:
        net = Net()
        optimizer = optimizer_type(net.groups({}), lr=0.125, **options)
        step(optimizer, net, 0)
        return net, optimizer

    def imported(self, net, optimizer, *arguments: object, fails: bool = False) -> str:
        save_for_gradstep(self.folder / "file", net, optimizer)
        return self.run_program("import-torch", self.folder / "file", self.folder / "out", *arguments, fails=fails)

    def step_in(self) -> int:
        with safe_open(self.folder / "out", "pt") as saved:
            return json.loads(saved.metadata()["gradstep.parameter.head"])["clock"]["step"]

    def test_counts_that_are_not_exact_need_step(self):
        net, optimizer = self.trained()
        for dtype, stored, count in (
            (F32, 2**24, 2**24 + 5),
            (BF16, 10000, 10000),
            (F16, 10001, 10001),
            (BF16, 3, 3),
            (F64, 2**53, 2**53 + 1),
        ):
            with self.subTest(dtype=dtype, stored=stored):
                optimizer.state[net.head]["step"] = torch.tensor(float(stored)).to(dtype)
                self.assertIn("give --step, how many steps were taken", self.imported(net, optimizer, fails=True))
                self.assertIn("expected in --step the count", self.imported(net, optimizer, "--step", 5, fails=True))
                self.imported(net, optimizer, "--step", count)
                self.assertEqual(self.step_in(), count)
        for exact in (torch.tensor(2.0**24 - 1), torch.tensor(2.0**53 - 1, dtype=F64), 7, torch.tensor(2**53 + 1), 2.0**24 + 1):
            with self.subTest(exact=exact):
                optimizer.state[net.head]["step"] = exact
                self.imported(net, optimizer)
                self.assertEqual(self.step_in(), int(exact))
                self.assertIn("--step is for counts that", self.imported(net, optimizer, "--step", 3, fails=True))

    def test_numbers_of_the_command(self):
        net, optimizer = Net(), None
        optimizer = torch.optim.SGD(net.parameters(), lr=0.125, momentum=0.5)
        step(optimizer, net, 0)
        for wrong in ("1e3", "9223372036854775808", "3.0", " 3", "0x10", "3 ", "1,000"):
            with self.subTest(wrong):
                self.assertIn("whole number", self.imported(net, optimizer, f"--step={wrong}", fails=True))
        self.imported(net, optimizer, "--step", "9007199254740993")
        self.assertEqual(self.step_in(), 9007199254740993)
        for wrong in ("fast", "1e400", "0,1", "-1", "nan"):
            with self.subTest(wrong):
                said = self.run_program("export-torch", self.folder / "out", self.folder / "x", f"--rate={wrong}", fails=True)
                self.assertIn("--rate", said)

    def test_what_is_not_known_is_named(self):
        net, optimizer = self.trained()
        optimizer.state[net.head]["momentum"] = torch.zeros(130)
        said = self.imported(net, optimizer, fails=True)
        self.assertIn('tensor "state.0.momentum" is not known', said)
        self.assertIn("step, exp_avg, exp_avg_sq", said)
        del optimizer.state[net.head]["momentum"]
        optimizer.param_groups[0]["layer"] = 3
        self.assertIn("param_groups[0].layer: Adam has no option of this name", self.imported(net, optimizer))
        del optimizer.state[net.head]["step"]
        self.assertIn('tensor "state.0.step" is missing; expected it; give --step', self.imported(net, optimizer, fails=True))
        self.imported(net, optimizer, "--step", 1)
        del optimizer.state[net.head]["exp_avg"]
        self.assertIn('tensor "state.0.exp_avg" is missing', self.imported(net, optimizer, "--step", 1, fails=True))

    def test_parameters_that_the_model_does_not_have(self):
        net, own = Net(), torch.nn.Parameter(torch.zeros(2, 3))
        optimizer = gradstep.torch.Adam([{"params": list(net.parameters())}, {"params": [own]}])
        with self.assertRaisesRegex(ValueError, r"parameters of the shapes \[\(2, 3\)\]; expected only parameters of the model"):
            save_for_gradstep(self.folder / "file", net, optimizer)
        self.assertFalse((self.folder / "file").exists())

    def test_a_config_is_checked(self):
        net, optimizer = self.trained(gradstep.torch.Optimizer, config={"rule": {"name": "adam"}})
        optimizer.param_groups[1]["config"] = {"rule": {"name": "adam", "beta1": 2}}
        self.assertIn("param_groups[1].config.rule.beta1: 2", self.imported(net, optimizer, fails=True))
        optimizer.param_groups[1]["config"] = {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 1}}
        self.assertIn("param_groups[1].config: schedule", self.imported(net, optimizer, fails=True))

    def test_momentum_that_begins_later_is_not_damped(self):
        net, optimizer = self.trained(gradstep.torch.SGD)
        for group in optimizer.param_groups:
            group.update(momentum=0.5, dampening=0.5)
        optimizer.state[net.head]["step"] = torch.tensor(1.0)  # as earlier versions of gradstep.torch wrote it
        said = self.imported(net, optimizer)
        self.assertIn('"head" has no momentum after 1 steps: its clock begins at 0', said)
        self.assertEqual(self.step_in(), 0)

    def test_export_refuses_what_torch_does_not_keep(self):
        constant = {"name": "constant", "rate": 0.1}
        net = gradstep.Model(
            {"w": gradstep.Table({"rule": {"name": "sgd"}, "schedule": constant, "catch_up": "exact"}, shape=(3, 4))}
        )
        net.save(self.folder / "table")
        said = self.run_program("export-torch", self.folder / "table", self.folder / "out", fails=True)
        self.assertIn('"w": is a table', said)
        net = gradstep.Model({"w": gradstep.Parameter({"rule": {"name": "lion"}, "schedule": {"name": "external"}}, shape=(3,))})
        net.save(self.folder / "lion")
        said = self.run_program("export-torch", self.folder / "lion", self.folder / "out", fails=True)
        self.assertIn("give --rate", said)
        arguments = ["export-torch", self.folder / "lion", self.folder / "out", "--rate", "1e-3"]
        self.assertIn("gradstep.torch.Optimizer", self.run_program(*arguments))
        self.assertIn("AdamW does not keep the state of lion", self.run_program(*arguments, "--optimizer", "AdamW", fails=True))
        config = {"rule": {"name": "dgc_momentum"}, "schedule": constant}
        gradstep.Model({"w": gradstep.Parameter(config, shape=(3,))}).save(self.folder / "dgc")
        said = self.run_program("export-torch", self.folder / "dgc", self.folder / "out", fails=True)
        self.assertIn('"w": is of the rule dgc_momentum, which sends messages; expected another rule', said)
        said = self.run_program(*arguments, "--optimizer", "adamw", fails=True)
        self.assertIn('--optimizer: "adamw" is not known (did you mean "AdamW"?)', said)
        self.assertIn('--optimizer: "Muon" is not known; expected one of SGD', self.run_program(*arguments, "--optimizer", "Muon", fails=True))


if __name__ == "__main__":
    unittest.main()
