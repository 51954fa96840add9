"""The optimizers of gradstep.torch._more against torch.optim: `./dev test python-torch` runs it, where torch is installed."""

from __future__ import annotations

import copy
import inspect
import pickle
import unittest

import torch

import gradstep.torch

CASES = [
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.01}),
    ("Adamax", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.01, "maximize": True}),
    ("RAdam", {"lr": 0.01, "betas": (0.8, 0.9)}),
    ("RAdam", {"lr": 0.01, "betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("NAdam", {"lr": 0.01, "momentum_decay": 0.25, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
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
                    if name == "NAdam":
                        allowed = TOLERANCE[torch.float32]
                    ours, theirs = start(dtype), start(dtype)
                    a = getattr(gradstep.torch, name)(ours, **arguments)
                    b = getattr(torch.optim, name)(theirs, **arguments, foreach=False)
                    before = ours[0].detach().clone()
                    steps(a, ours, 30), steps(b, theirs, 30)
                    self.assert_near(ours, theirs, allowed)
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
        for name in NAMES:
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
        for name in NAMES:
            with self.subTest(name):
                parameters = start(torch.float32)
                optimizer = getattr(gradstep.torch, name)(parameters)
                steps(optimizer, parameters, 3)
                again, copied = pickle.loads(pickle.dumps((optimizer, parameters)))
                steps(optimizer, parameters, 3, 3), steps(again, copied, 3, 3)
                for x, y in zip(parameters, copied):
                    self.assertTrue(torch.equal(x, y))

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


if __name__ == "__main__":
    unittest.main()
