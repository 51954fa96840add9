"""The optimizers of gradstep.torch._more against torch.optim: `./dev test python-torch` runs it, where torch is installed."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import math
import pickle
import unittest
import warnings

import torch

import gradstep
import gradstep.torch

CASES = [
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.01}),
    ("Adamax", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.01, "maximize": True}),
    ("RAdam", {"lr": 0.01, "betas": (0.8, 0.9)}),
    ("RAdam", {"lr": 0.01, "betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("NAdam", {"lr": 0.01, "momentum_decay": 0.25, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "alpha": 0.9, "t0": 4}),
    ("ASGD", {"lr": 0.1, "lambd": 0, "weight_decay": 0.1, "t0": 0, "maximize": True}),
    ("ASGD", {"lr": torch.tensor(0.1), "lambd": 0.05, "weight_decay": 0.1, "t0": math.inf}),
]
NAMES = sorted({name for name, _ in CASES})
# Thirty steps of 16 roundings of numbers below 4. torch keeps NAdam's product in float32 for doubles, too.
TOLERANCE = {torch.float64: 30 * 16 * 4 * 2.0**-53, torch.float32: 30 * 16 * 4 * 2.0**-24}


def start(dtype: torch.dtype) -> list:
    generator = torch.Generator().manual_seed(3)
    shapes = [(7, 5), (130,), (), (0,)]
    return [(torch.rand(x, generator=generator) * 2 - 1).to(dtype).requires_grad_() for x in shapes]


def steps(optimizer, parameters: list, count: int, first: int = 0) -> None:
    for t in range(first, first + count):
        generator = torch.Generator().manual_seed(100 + t)
        for p in parameters:
            g = (torch.rand(p.shape, generator=generator) + 1) / 2
            p.grad = (g * (torch.randint(2, p.shape, generator=generator) * 2 - 1)).to(p.dtype)
        optimizer.step()


class More(unittest.TestCase):
    def assert_near(self, ours: list, theirs: list, allowed: float) -> None:
        for a, b in zip(ours, theirs):
            if a.numel():
                self.assertLess(float((a - b).detach().abs().max()), allowed)

    def test_the_numbers_of_torch(self):
        for name, arguments in CASES:
            for dtype, allowed in TOLERANCE.items():
                with self.subTest(name, **arguments, dtype=dtype):
                    if name == "NAdam" or isinstance(arguments["lr"], torch.Tensor):  # a rate that torch computes in float32
                        allowed = TOLERANCE[torch.float32]
                    ours, theirs = start(dtype), start(dtype)
                    a = getattr(gradstep.torch, name)(ours, **arguments)
                    b = getattr(torch.optim, name)(theirs, **arguments, foreach=False)
                    before = ours[0].detach().clone()
                    steps(a, ours, 30), steps(b, theirs, 30)
                    self.assert_near(ours, theirs, allowed)
                    if name == "ASGD":  # whose shares torch keeps in float32
                        averages = [[x.state[p]["ax"] for p in each] for x, each in ((a, ours), (b, theirs))]
                        self.assert_near(*averages, TOLERANCE[torch.float32])
                    self.assertGreater(float((ours[0] - before).detach().abs().max()), 1e-2)
                    # Each takes the state of the other.
                    c = getattr(gradstep.torch, name)(theirs, **arguments)
                    d = getattr(torch.optim, name)(ours, **arguments, foreach=False)
                    c.load_state_dict(copy.deepcopy(b.state_dict())), d.load_state_dict(copy.deepcopy(a.state_dict()))
                    for x, y in zip(theirs, ours):
                        y.data.copy_(x)
                    steps(c, theirs, 5, 30), steps(d, ours, 5, 30)
                    self.assert_near(ours, theirs, 2 * allowed)

    def test_signatures_defaults_and_names(self):
        for name in [*NAMES, "Adafactor"]:
            with self.subTest(name):
                ours, theirs = getattr(gradstep.torch, name), getattr(torch.optim, name)
                a = [(x.name, x.default) for x in inspect.signature(ours).parameters.values() if x.name != "threads"]
                self.assertEqual(a, [(x.name, x.default) for x in inspect.signature(theirs).parameters.values()])
                p, q = start(torch.float32)[:1], start(torch.float32)[:1]
                a, b = ours(p), theirs(q)
                self.assertEqual(a.defaults, b.defaults)
                steps(a, p, 1), steps(b, q, 1)
                self.assertEqual(set(a.state_dict()["state"][0]), set(b.state_dict()["state"][0]))

    def test_16_bits(self):
        for name in NAMES:
            with self.subTest(name):
                ours, theirs = start(torch.bfloat16), start(torch.bfloat16)
                steps(getattr(gradstep.torch, name)(ours, lr=0.1), ours, 4)
                steps(getattr(torch.optim, name)(theirs, lr=0.1, foreach=False), theirs, 4)
                self.assert_near(ours, theirs, 0.1)

    def test_pickle(self):
        for name in [*NAMES, "Adafactor"]:
            with self.subTest(name):
                parameters = start(torch.float32)
                optimizer = getattr(gradstep.torch, name)(parameters)
                steps(optimizer, parameters, 3)
                again, copied = pickle.loads(pickle.dumps((optimizer, parameters)))
                steps(optimizer, parameters, 3, 3), steps(again, copied, 3, 3)
                for x, y in zip(parameters, copied):
                    self.assertTrue(torch.equal(x, y))

    def test_asgd_takes_its_rate_from_the_state(self):
        """The rate of a step is by the options of the step before: also under a schedule, and after loading."""
        for dtype, allowed in TOLERANCE.items():
            models = [start(dtype), start(dtype)]
            optimizers = [
                kind(model, lr=0.1, lambd=0.1, t0=3, weight_decay=0.01)
                for kind, model in zip((gradstep.torch.ASGD, torch.optim.ASGD), models)
            ]
            schedules = [torch.optim.lr_scheduler.ExponentialLR(x, 0.7) for x in optimizers]
            for t in range(12):
                for optimizer, schedule, model in zip(optimizers, schedules, models):
                    if t == 6:
                        optimizer.param_groups[0].update(lambd=0.2, alpha=0.5)
                    if t == 8:  # parameters of one group then have other rates
                        optimizer.state[model[0]]["eta"].fill_(0.03)
                    for p in model:
                        p.grad = None
                    steps(optimizer, model[: 2 if t % 3 else 4], 1, t), schedule.step()
                for p, q in zip(*models):
                    a, b = (x.state[y] for x, y in zip(optimizers, (p, q)))
                    self.assertEqual((a["step"], a["eta"]), (b["step"], b["eta"]))
            self.assert_near(*models, allowed)
            again = gradstep.torch.ASGD(models[0])
            again.load_state_dict(copy.deepcopy(optimizers[1].state_dict()))
            self.assertNotIn("mu", again.state[models[0][0]])
            for p, q in zip(*models):
                p.data.copy_(q.detach())
            steps(again, models[0], 3, 12), steps(optimizers[1], models[1], 3, 12)
            self.assert_near(*models, allowed)

    def test_asgd_twice_in_a_group(self):
        models = [start(torch.float64)[:1], start(torch.float64)[:1]]
        for kind, (p,) in zip((gradstep.torch.ASGD, torch.optim.ASGD), models):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                optimizer = kind([p, p], lr=0.1, lambd=0.5, t0=1, **({} if kind is gradstep.torch.ASGD else {"foreach": False}))
            steps(optimizer, [p], 3)
            self.assertEqual(float(optimizer.state[p]["step"]), 6)
        self.assert_near(*models, TOLERANCE[torch.float64])

    def test_asgd_refuses_state_that_does_not_fit(self):
        p = start(torch.float32)[0]
        optimizer = gradstep.torch.ASGD([p], t0=2)
        steps(optimizer, [p], 4)
        saved, before = copy.deepcopy(optimizer.state_dict()), p.detach().clone()
        self.assertEqual(set(saved["state"][0]), {"step", "eta", "mu", "ax"})
        self.assertEqual(float(saved["state"][0]["mu"]), 0.5)
        optimizer.state[p]["eta"] = float(optimizer.state[p]["eta"])  # as torch's first versions kept it
        steps(optimizer, [p], 1, 4)
        self.assertIs(optimizer.state[p]["eta"].dtype, torch.float32)
        self.assertFalse(torch.equal(p, before))
        before = p.detach().clone()
        for wrong, said in ((torch.tensor(math.nan), "its eta is nan; expected a rate >= 0"), ("fast", "its eta is 'fast'; expected a rate")):
            optimizer.state[p]["eta"] = wrong
            with self.assertRaisesRegex(gradstep.Error, said):
                optimizer.step()
        del optimizer.state[p]["eta"]
        with self.assertRaisesRegex(KeyError, "no 'eta'; expected 'step', 'eta', 'ax', or no state"):
            optimizer.step()
        saved["param_groups"][0]["t0"] = 1
        with self.assertRaisesRegex(gradstep.Error, "its state mu is 0.5; expected 0.333.*, which t0 gives after 4 steps"):
            optimizer.load_state_dict(saved)
        for t0 in (0.5, -1, math.nan):
            with self.assertRaisesRegex(gradstep.Error, "t0: .*; expected a whole number >= 0"):
                gradstep.torch.ASGD([p], t0=t0)
        self.assertTrue(torch.equal(p, before))

    def test_a_product_of_other_momenta_is_refused(self):
        parameters = start(torch.float32)
        of_torch = torch.optim.NAdam(parameters)
        steps(of_torch, parameters, 3)
        saved = copy.deepcopy(of_torch.state_dict())
        saved["param_groups"][0]["betas"] = (0.5, 0.999)
        ours = gradstep.torch.NAdam(parameters)
        with self.assertRaisesRegex(gradstep.Error, "mu_product is 0.0912.*; expected 0.0156.*they changed during the run"):
            ours.load_state_dict(saved)
        self.assertEqual(len(ours.state), 0)
        self.assertEqual(ours.param_groups[0]["betas"], (0.9, 0.999))


@contextlib.contextmanager
def iterations_in_float32():
    """torch.optim.Muon orthogonalizes in bfloat16. With this it does in float32, so that the formula can be compared."""
    convert = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = lambda x: x.float().clone()
    try:
        yield
    finally:
        torch.Tensor.bfloat16 = convert


@unittest.skipUnless(hasattr(torch.optim, "Muon"), "torch.optim.Muon is there since torch 2.9")
class Muon(unittest.TestCase):
    """The bound is that of test/support/muon_bound.hpp for five iterations of up to 9 x 9 elements: a step is off by less than
    scale * 0.02 in float32, and both systems round."""

    CASES = [
        {"weight_decay": 0},
        {"momentum": 0.8, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"},
        {"ns_steps": 3, "ns_coefficients": (2.0, -1.5, 0.5), "weight_decay": 0.5, "adjust_lr_fn": "original"},
    ]
    SHAPES = [(9, 4), (4, 9), (6, 6), (1, 5)]

    def models(self, dtype: torch.dtype = torch.float32) -> list:
        generator = torch.Generator().manual_seed(3)
        tensors = [(torch.rand(x, generator=generator) * 2 - 1).to(dtype) for x in self.SHAPES]
        tensors[1] = tensors[1].t().contiguous().t()  # in column-major order
        return [[x.clone(memory_format=torch.preserve_format).requires_grad_() for x in tensors] for _ in range(2)]

    def test_the_numbers_of_torch(self):
        for arguments in self.CASES:
            with self.subTest(**arguments):
                ours, theirs = self.models()
                a = gradstep.torch.Muon(ours, lr=0.01, **arguments)
                b = torch.optim.Muon(theirs, lr=0.01, **arguments)
                with iterations_in_float32():
                    for t in range(5):
                        steps(a, ours, 1, t)
                        steps(b, theirs, 1, t)
                for p, q in zip(ours, theirs):
                    self.assertLess(float((p - q).detach().abs().max()), 2 * 5 * 0.01 * 1.5 * 0.02)
                    self.assertEqual(a.state[p]["momentum_buffer"].shape, p.shape)

    def test_a_run_goes_on_from_a_state_dict_of_torch(self):
        ours, theirs = self.models()
        b = torch.optim.Muon(theirs, lr=0.01)
        steps(b, theirs, 3)
        a = gradstep.torch.Muon(ours, lr=0.01)
        for p, q in zip(ours, theirs):
            p.data.copy_(q.data)
        a.load_state_dict(b.state_dict())
        with iterations_in_float32():
            steps(a, ours, 1, 3)
            steps(b, theirs, 1, 3)
        for p, q in zip(ours, theirs):
            self.assertLess(float((p - q).detach().abs().max()), 2 * 0.01 * 1.5 * 0.02)
        b.load_state_dict(a.state_dict())
        steps(b, theirs, 1, 4)

    def test_16_bits_compute_in_float32(self):
        ours, _ = self.models(torch.bfloat16)
        before = [x.detach().clone() for x in ours]
        optimizer = gradstep.torch.Muon(ours, lr=0.5)
        steps(optimizer, ours, 2)
        for p, q in zip(ours, before):
            self.assertFalse(torch.equal(p, q))
            self.assertEqual(optimizer.state[p]["momentum_buffer"].dtype, torch.float32)

    def test_what_is_refused(self):
        vector, matrix = torch.zeros(4, requires_grad=True), torch.zeros(3, 4, requires_grad=True)
        for kind, message, call in (
            (ValueError, "Muon only supports 2D parameters", lambda: gradstep.torch.Muon([matrix, vector])),
            (ValueError, "Learning rate should be >= 0", lambda: gradstep.torch.Muon([matrix], lr=-1.0)),
            (ValueError, "Adjust learning rate function x is not supported", lambda: gradstep.torch.Muon([matrix], adjust_lr_fn="x")),
        ):
            with self.assertRaisesRegex(kind, message) as caught:
                call()
            self.assertIsInstance(caught.exception, gradstep.Error)
        vector.grad = torch.ones(4)
        any_rule = gradstep.torch.Optimizer([vector], {"rule": {"name": "muon"}}, lr=0.1)
        with self.assertRaisesRegex(gradstep.Error, r"has the shape \(4,\); expected a real matrix"):
            any_rule.step()
        filters = torch.ones(4, 3, 2, 2, requires_grad=True)
        filters.grad = torch.rand(4, 3, 2, 2)
        gradstep.torch.Optimizer([filters], {"rule": {"name": "muon"}}, lr=0.1).step()  # as 4 x 12
        self.assertLess(float(filters.detach().min()), 1)


@unittest.skipUnless(hasattr(torch.optim, "Adafactor"), "torch.optim.Adafactor is there since torch 2.5")
class Adafactor(unittest.TestCase):
    """The bound is that of test/rules/adafactor.cpp, with torch's sums of N numbers in the dtype: N u for the unit roundoff u.

    torch rounds the mean of squares N + 3 times, and the average five times: after t steps r, c and v are off by e = t (N + 8) u. A step
    adds to the error of a weight |move| (3 e + 20 u + N u + error / RMS(w)) + 4 u |w|. Both systems round.
    """

    CASES = [
        {},
        {"lr": 0.5, "weight_decay": 0.1, "maximize": True, "d": 1.5, "beta2_decay": -0.5, "eps": (0.5, 0.1)},
        {"lr": torch.tensor(0.25), "eps": (None, 1.0), "weight_decay": 0.5, "foreach": True},
    ]
    SHAPES = [(7, 5), (4, 9), (1, 6), (6, 1), (130,), (1,), ()]

    def models(self, dtype: torch.dtype = torch.float32) -> list:
        generator = torch.Generator().manual_seed(3)
        tensors = [(torch.rand(x, generator=generator) * 2 - 1).to(dtype) for x in self.SHAPES]
        tensors[1] = tensors[1].t().contiguous().t()  # in column-major order
        return [[x.clone(memory_format=torch.preserve_format).requires_grad_() for x in tensors] for _ in range(2)]

    def train(self, a, ours: list, b, theirs: list, first: int, last: int, errors: list | None = None) -> list:
        """Takes steps of both, and compares the weights with the bound. Returns the bounds."""
        u, errors = 2.0 ** (-24 if ours[0].dtype is torch.float32 else -53), errors or [0.0] * len(ours)
        kept = [1 - float(group["lr"]) * group["weight_decay"] for group in a.param_groups for _ in group["params"]]
        for t in range(first, last):
            before = [x.detach().clone() for x in ours]
            steps(a, ours, 1, t), steps(b, theirs, 1, t)
            for i, (p, q, old) in enumerate(zip(ours, theirs, before)):
                move, weight = float((p - kept[i] * old).detach().abs().max()), float(old.abs().max())
                of_w, of_sum = float(old.square().mean().sqrt()), p.numel() * u
                e = (t + 1) * (of_sum + 8 * u)
                errors[i] += move * (3 * e + 20 * u + of_sum + errors[i] / of_w) + 4 * u * (weight + move)
                self.assertLessEqual(float((p - q).detach().abs().max()), 2 * errors[i])
                self.assertGreater(move, 100 * errors[i])
        return errors

    def test_the_numbers_of_torch(self):
        for arguments, dtype in [*((x, torch.float32) for x in self.CASES), (self.CASES[1], torch.float64)]:
            with self.subTest(**arguments, dtype=dtype):
                ours, theirs = self.models(dtype)
                groups = [[{"params": x[:3]}, {"params": x[3:], "lr": 0.125, "d": 2.0}] for x in (ours, theirs)]
                a, b = gradstep.torch.Adafactor(groups[0], **arguments), torch.optim.Adafactor(groups[1], **arguments)
                errors = self.train(a, ours, b, theirs, 0, 3)
                for x in (a, b):
                    x.param_groups[0]["lr"], x.param_groups[1]["weight_decay"] = 0.03, 0.25
                errors = self.train(a, ours, b, theirs, 3, 5, errors)
                of_ours, of_theirs = a.state_dict(), b.state_dict()
                for index, state in of_theirs["state"].items():
                    own = of_ours["state"][index]
                    self.assertEqual({n: x.shape for n, x in own.items()}, {n: x.shape for n, x in state.items()})
                # Each takes the state of the other.
                groups = [[{"params": x[:3]}, {"params": x[3:]}] for x in (ours, theirs)]
                c, d = gradstep.torch.Adafactor(groups[1]), torch.optim.Adafactor(groups[0])
                c.load_state_dict(copy.deepcopy(of_theirs)), d.load_state_dict(copy.deepcopy(of_ours))
                self.train(c, theirs, d, ours, 5, 7, errors)

    def test_16_bits_are_float_rounded(self):
        for dtype, unit in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
            for eps, scale in ((None, 2.0**-11), (0.25, 1.0)):  # the machine epsilon of the dtype matters for small gradients
                with self.subTest(dtype=dtype, eps=eps):
                    ours, _ = self.models(dtype)
                    theirs = [x.detach().float().requires_grad_() for x in ours]
                    a = gradstep.torch.Adafactor(ours, lr=0.25, weight_decay=0.5, eps=(eps, 1e-3))
                    b = torch.optim.Adafactor(theirs, lr=0.25, weight_decay=0.5, eps=(eps or torch.finfo(dtype).eps, 1e-3))
                    generator = torch.Generator().manual_seed(5)
                    for _ in range(4):
                        for p, q in zip(ours, theirs):
                            q.data.copy_(p.data)
                            q.grad = scale * torch.randn(p.shape, generator=generator)
                            p.grad = q.grad.to(dtype)
                            q.grad.copy_(p.grad)
                        a.step(), b.step()
                        for p, q in zip(ours, theirs):
                            # Moves are below 1, and 2 (3 e + 20 u + N u) below 2^-12. Weights are below 2, and rounded once.
                            self.assertLessEqual(float((p.float() - q).detach().abs().max()), 2 * unit + 2.0**-12)
                            self.assertTrue(all(x.dtype is torch.float32 for n, x in a.state[p].items() if n != "step"))

    def test_what_is_refused(self):
        matrix = torch.ones(3, 4, requires_grad=True)
        optimizer = gradstep.torch.Adafactor([matrix])
        for kind, message, call in (
            (ValueError, "Clipping threshold d should be >= 1 but is: 0.5", lambda: gradstep.torch.Adafactor([matrix], d=0.5)),
            (ValueError, "beta2_decay should be <= 0", lambda: gradstep.torch.Adafactor([matrix], beta2_decay=0.5)),
            (
                ValueError,
                r"parameter 1 of group 0: has the shape \(2, 3, 4\); expected at most two dimensions, or gradstep.torch.Optimizer",
                lambda: gradstep.torch.Adafactor([matrix, torch.ones(2, 3, 4)]),
            ),
            (
                TypeError,
                "parameter 0 of group 0: is of torch.int32; expected torch.float32",
                lambda: gradstep.torch.Adafactor([torch.ones(2, dtype=torch.int32)]),
            ),
        ):
            with self.assertRaisesRegex(kind, message) as caught:
                call()
            self.assertIsInstance(caught.exception, gradstep.Error)
        with self.assertRaisesRegex(RuntimeError, "Adafactor does not support complex parameters"):
            optimizer.add_param_group({"params": [torch.ones(2, dtype=torch.complex64)]})
        self.assertEqual(len(optimizer.param_groups), 1)
        steps(optimizer, [matrix], 1)
        before = matrix.detach().clone()
        row_var = optimizer.state[matrix].pop("row_var")
        for wrong, message in (
            (None, "its state has 'col_var', 'step' and no 'row_var'; expected 'step', 'row_var', 'col_var', or no state"),
            (torch.zeros(4, 1), r"its state row_var has the shape \(4, 1\); expected \(3, 1\)"),
        ):
            if wrong is not None:
                optimizer.state[matrix]["row_var"] = wrong
            with self.assertRaisesRegex(gradstep.Error, message):
                optimizer.step()
        optimizer.state[matrix]["row_var"] = row_var
        matrix.grad = torch.ones(3, 4).to_sparse()
        with self.assertRaisesRegex(gradstep.Error, "is sparse; expected a dense one"):
            optimizer.step()
        self.assertTrue(torch.equal(matrix, before))

    def test_every_factored_rule(self):
        """`Optimizer` has the bits of gradstep.Parameter, and a run goes on from a file."""
        shapes = [(7, 5), (4, 3, 2), (1, 6), (130,), ()]
        for name in ("adafactor", "sm3", "momentum_sm3", "came"):
            with self.subTest(name):
                config = {"rule": {"name": name}, "regularizer": {"name": "decoupled", "rate": 0.5}}
                generator = torch.Generator().manual_seed(3)
                ours = [(torch.rand(x, generator=generator) - 0.5).requires_grad_() for x in shapes]
                ours[0] = ours[0].detach().t().contiguous().t().requires_grad_()  # in column-major order
                schedule = {"name": "constant", "rate": 0.125}
                theirs = [gradstep.Parameter({**config, "schedule": schedule}, x.detach().contiguous().numpy()) for x in ours]
                optimizer = gradstep.torch.Optimizer(ours, config, lr=0.125)
                for t in range(6):
                    if t == 3:
                        file = io.BytesIO()
                        torch.save(optimizer.state_dict(), file)
                        file.seek(0)
                        optimizer = gradstep.torch.Optimizer(ours, config, lr=0.125)
                        optimizer.load_state_dict(torch.load(file))
                    steps(optimizer, ours, 1, t)
                    for p, twin in zip(ours, theirs):
                        twin.update(p.grad.contiguous().numpy())
                        self.assertEqual(p.tolist(), twin.values().tolist())
                of_filters, of_vector = optimizer.state[ours[1]], optimizer.state[ours[3]]
                self.assertEqual((of_filters["r"].shape, of_filters["c"].shape), ((4, 1), (1, 6)))
                self.assertEqual(("v" in of_filters, "r" in of_vector, of_vector["v"].shape), (False, False, (130,)))
        empty = [torch.ones(x, requires_grad=True) for x in ((0,), (5, 0), (0, 5))]
        optimizer = gradstep.torch.Optimizer(empty, config)
        steps(optimizer, empty, 2)
        self.assertEqual(optimizer.state[empty[1]]["s_r"].tolist(), [[0.0]] * 5)
        self.assertEqual(optimizer.state[empty[2]]["c"].tolist(), [[0.0] * 5])
        pairs = torch.ones(3, dtype=torch.complex64, requires_grad=True)
        pairs.grad = torch.ones_like(pairs)
        with self.assertRaisesRegex(gradstep.Error, "is of torch.complex64; expected a real tensor"):
            gradstep.torch.Optimizer([pairs], config).step()


class RandomNumbers(unittest.TestCase):
    """The id of a tensor is its group and its position: equal tensors draw different numbers."""

    NOISY = {"rule": {"name": "sgld"}}

    @staticmethod
    def step(optimizer, parameters: list) -> None:
        for p in parameters:
            p.grad = torch.zeros_like(p)
        optimizer.step()

    @staticmethod
    def zeros(count: int, dtype: torch.dtype = torch.float32) -> list:
        return [torch.zeros(16, dtype=dtype, requires_grad=True) for _ in range(count)]

    def optimizer(self, groups: list, config: dict | None = None, lr: float = 0.125):
        return gradstep.torch.Optimizer([{"params": x} for x in groups], config or self.NOISY, lr=lr)

    def assert_different(self, parameters: list) -> None:
        self.assertEqual(len({tuple(p.tolist()) for p in parameters}), len(parameters))

    def test_tensors_of_all_batches_differ(self):
        for config in (self.NOISY, {**self.NOISY, "id": 7}):
            apart, shared = self.zeros(4), self.zeros(3)
            memory = torch.zeros(32)
            shared += [memory[:16].requires_grad_(), memory[8:24].requires_grad_()]  # one after the other
            for parameters in (apart, shared):
                optimizer = self.optimizer([parameters[:2], parameters[2:]], config)
                for _ in range(2):
                    self.step(optimizer, parameters)
            self.assert_different(apart)
            self.assert_different(shared[:3])
            for a, b in zip(apart[:3], shared):
                self.assertTrue(torch.equal(a, b))
        with self.assertRaisesRegex(gradstep.Error, r"group 0: id: -1; expected an integer from 0 to 2\^64 - 1"):
            gradstep.torch.Optimizer([{"params": self.zeros(1), "id": -1}], self.NOISY)
        # A group's own id instead of its number.
        moved = self.zeros(3)
        groups = [{"params": moved[1:2], "id": 1}, {"params": moved[2:], "id": 2**32}, {"params": moved[:1], "id": 0}]
        optimizer = gradstep.torch.Optimizer(groups, {**self.NOISY, "id": 7}, lr=0.125)
        for _ in range(2):
            self.step(optimizer, moved)
        for a, b in zip(apart, moved):
            self.assertTrue(torch.equal(a, b))
        # Another dtype is another batch.
        wide, narrow = self.zeros(2), self.zeros(2, torch.float16)
        self.step(self.optimizer([[wide[0], narrow[0], wide[1], narrow[1]]]), wide + narrow)
        self.assert_different([x.float() for x in wide + narrow])

    def test_a_resumed_run_draws_the_same_numbers(self):
        for left_out in (None, 0):  # a parameter without a gradient
            a, b, added = self.zeros(3), self.zeros(3), self.zeros(1)
            first = self.optimizer([a[:2], a[2:]])
            self.step(first, a)
            second = self.optimizer([b[:2], b[2:]])
            with torch.no_grad():
                for x, y in zip(a, b):
                    y.copy_(x)
            second.load_state_dict(first.state_dict())
            second.add_param_group({"params": added})
            for _ in range(3):
                for parameters, optimizer in ((a, first), (b + added, second)):
                    for k, p in enumerate(parameters):
                        p.grad = None if k == left_out else torch.zeros_like(p)
                    optimizer.step()
            for x, y in zip(a, b):
                self.assertTrue(torch.equal(x, y))
            self.assert_different(b + added)


class ConstantNumbers(unittest.TestCase):
    """Numbers that must be the same in all steps cannot change in the options of a group."""

    CASES = [
        ("NAdam", {"momentum_decay": 0.25}, "momentum_decay", 0.5, "rule.momentum_decay"),
        ("Optimizer", {"config": {"rule": {"name": "adagrad", "initial_accumulator": 0.25}}}, "config",
         {"rule": {"name": "adagrad", "initial_accumulator": 0.5}}, "rule.initial_accumulator"),
    ]

    def test_groups_whose_numbers_change(self):
        for name, arguments, key, other, path in self.CASES:
            for keeps_plan in (True, False):
                with self.subTest(name, keeps_plan=keeps_plan):
                    parameters = start(torch.float32)
                    optimizer = getattr(gradstep.torch, name)(parameters, lr=0.01, **arguments)
                    group = optimizer.param_groups[0]
                    group[key], before = other, group[key]
                    group[key] = before  # before the first step, all is allowed
                    steps(optimizer, parameters, 2)
                    if not keeps_plan:
                        optimizer.load_state_dict(optimizer.state_dict())
                    values = [p.detach().clone() for p in parameters]
                    group = optimizer.param_groups[0]
                    group[key] = other
                    with self.assertRaisesRegex(gradstep.ConfigError, f"group 0: {path}: is 0.5 now, and 0.25 in earlier steps"):
                        steps(optimizer, parameters, 1)
                    for p, value in zip(parameters, values):
                        self.assertTrue(torch.equal(p, value))
                    group[key] = arguments[key]
                    steps(optimizer, parameters, 1)

    def test_a_config_that_changes(self):
        parameters = start(torch.float32)
        config = {"rule": {"name": "schedule_free_adam", "beta1": 0.9}}
        optimizer = gradstep.torch.Optimizer(parameters, config, lr=0.01)
        steps(optimizer, parameters, 2)
        optimizer.param_groups[0]["config"] = {"rule": {"name": "schedule_free_adam", "beta1": 0.9, "beta2": 0.5}}
        steps(optimizer, parameters, 1)
        for copied in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: x):
            other = copied(optimizer)
            other.param_groups[0]["config"] = {"rule": {"name": "schedule_free_adam", "beta1": 0.5}}
            own = other.param_groups[0]["params"]
            with self.assertRaisesRegex(gradstep.ConfigError, "group 0: rule.beta1: is 0.5 now, and 0.9 in earlier steps"):
                steps(other, own, 1)


class NumbersOfTheClock(unittest.TestCase):
    """Rules that keep numbers in the clock: each parameter has its own, in its state."""

    SCHEDULE_FREE = [
        {"name": "schedule_free_sgd", "beta": 0.75},
        {"name": "schedule_free_adam", "beta1": 0.75},
        {"name": "schedule_free_radam", "beta1": 0.75, "beta2": 0.75},
    ]
    RATES = (0.5, 0.25, 0.25)

    def optimizer_of(self, rule: dict, parameters: list) -> gradstep.torch.Optimizer:
        groups = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": self.RATES[1]}]
        return gradstep.torch.Optimizer(groups, {"rule": rule}, lr=self.RATES[0])

    def test_every_parameter_has_the_numbers_of_its_own_steps(self):
        for rule in self.SCHEDULE_FREE:
            with self.subTest(**rule):
                generator = torch.Generator().manual_seed(3)
                ours = [(torch.rand(5, generator=generator) - 0.5).requires_grad_() for _ in self.RATES]
                theirs = [
                    gradstep.Parameter({"rule": rule, "schedule": {"name": "constant", "rate": rate}}, x.detach().numpy())
                    for rate, x in zip(self.RATES, ours)
                ]
                optimizer = self.optimizer_of(rule, ours)
                for t in range(8):
                    if t == 4:  # the run goes on from a file
                        file = io.BytesIO()
                        torch.save(optimizer.state_dict(), file)
                        file.seek(0)
                        optimizer = self.optimizer_of(rule, ours)
                        optimizer.load_state_dict(torch.load(file))
                    if t == 6:
                        optimizer = copy.copy(pickle.loads(pickle.dumps(optimizer)))
                        ours = [x for group in optimizer.param_groups for x in group["params"]]
                    for index, (p, twin) in enumerate(zip(ours, theirs)):
                        p.grad = None
                        if index < 2 or t >= 2:  # the last one has its first gradient later
                            p.grad = torch.rand(5, generator=generator) - 0.25
                            twin.update(p.grad.numpy())
                    optimizer.step()
                    for p, twin in zip(ours, theirs):
                        self.assertEqual(p.tolist(), twin.values().tolist())
                for p, twin in zip(ours, theirs):
                    state = optimizer.state[p]
                    self.assertEqual(state["clock"].tolist()[:2], list(twin.clock.state)[:2])
                    average = torch.lerp(p.detach(), state["z"], 1 - 1 / 0.75)
                    twin.apply_average()
                    # y and z are below 8, and three roundings of numbers below 8 / 3 + 8 make the difference.
                    self.assertLess(float((average - torch.from_numpy(twin.values().copy())).abs().max()), 3 * 11 * 2.0**-24)

    def test_a_parameter_that_is_in_two_groups(self):
        rule = self.SCHEDULE_FREE[0]
        p = torch.ones(3, requires_grad=True)
        twin = gradstep.Parameter({"rule": rule, "schedule": {"name": "constant", "rate": 0.5}}, p.detach().numpy())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = gradstep.torch.Optimizer([p, p], {"rule": rule}, lr=0.5)
        p.grad = torch.tensor([0.5, -1.0, 2.0])
        for _ in range(3):
            optimizer.step()
            twin.update(p.grad.numpy())
            twin.update(p.grad.numpy())
            self.assertEqual(p.tolist(), twin.values().tolist())

    def test_a_clock_that_does_not_fit_is_refused(self):
        p = torch.ones(3, requires_grad=True)
        optimizer = gradstep.torch.Optimizer([p], {"rule": self.SCHEDULE_FREE[0]}, lr=0.5)
        p.grad = torch.ones(3)
        optimizer.step()
        before, kept = p.tolist(), optimizer.state[p]["clock"]
        for clock, said in (
            (torch.zeros(4, dtype=torch.float64), "comes without state"),
            (torch.ones(3, dtype=torch.float64), r"its state clock has the shape \(3,\); expected \(4,\)"),
            (7, "its state clock is a int; expected a torch.Tensor"),
        ):
            optimizer.state[p]["clock"] = clock
            with self.assertRaisesRegex(gradstep.InvalidError, said):
                optimizer.step()
        del optimizer.state[p]["clock"]
        with self.assertRaisesRegex(gradstep.torch.StateError, "no 'clock'"):
            optimizer.step()
        self.assertEqual(p.tolist(), before)
        optimizer.state[p]["clock"] = kept.float()  # exact: the sum is 1, and the rate 0.5
        optimizer.step()
        self.assertEqual(optimizer.state[p]["clock"].dtype, torch.float64)

    def test_rules_over_the_whole_model_are_known(self):
        """torch_model_wise.py tests their steps."""
        found = []
        for name in gradstep.rules.__all__:
            try:
                optimizer = gradstep.torch.Optimizer([torch.ones(3, requires_grad=True)], {"rule": {"name": name}})
            except gradstep.NotCompiledError:
                continue
            (updater,) = optimizer._updaters.values()
            if updater.model is not None:
                found.append((name, updater.needs_loss))
        names = ["dadapt_adam", "dadapt_sgd", "dog", "dowg", "momo", "momo_adam", "polyak_sgd", "prodigy"]
        self.assertEqual(sorted(found), [(name, name in ("momo", "momo_adam", "polyak_sgd")) for name in names])


if __name__ == "__main__":
    unittest.main()
