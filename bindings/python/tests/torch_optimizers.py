"""gradstep.torch against torch.optim: `./dev test python-torch` runs it, where torch is installed.

How far two runs may be apart is derived. Where no sum cancels, what a step of K roundings adds to a weight carries at
most K t roundings at step t, since the state remembers at most all steps before; where a sum cancels, its terms bound it.
The largest that a step can be is lr * LARGEST. So T steps of two systems differ by less than
2 u (T |w| + K T^2 lr LARGEST), u = 2^-53 in double, and by twice that where weight decay feeds the difference back
(decay * lr * T < ln 2 here). A formula that differs, as by another place of epsilon, is 1e-9 or more away. What the
library does not have in double is compared in float, over fewer and smaller steps.
"""

from __future__ import annotations

import copy
import io
import pickle
import unittest
import warnings

import torch

import gradstep
import gradstep.torch

T, K, LARGEST, LR = 50, 16, 40, 0.1


def bound(weights: torch.Tensor) -> float:
    if weights.dtype is torch.float32:
        return 2 * 2 * 2**-24 * (T * float(weights.detach().abs().max()) + K * 100 * LR / 100 * LARGEST)
    return 2 * 2 * 2**-53 * (T * float(weights.detach().abs().max()) + K * T * T * LR * LARGEST)


def form(name: str, arguments: dict) -> tuple:
    """Element, steps and rate of a comparison."""
    if arguments.get("amsgrad") or (name == "RMSprop" and (arguments.get("momentum") or arguments.get("centered"))):
        return torch.float32, 10, LR / 100
    return torch.float64, T, LR


def start(dtype=torch.float64) -> list:
    """Contiguous, transposed, channels_last, empty, of one number."""
    generator = torch.Generator().manual_seed(3)
    shapes = [(7, 5), (130,), (2, 3, 4, 5), (0,), ()]
    tensors = [torch.rand(x, generator=generator, dtype=torch.float64) * 2 - 1 for x in shapes]
    tensors[0] = tensors[0].t()
    tensors[2] = tensors[2].contiguous(memory_format=torch.channels_last)
    return [x.to(dtype).requires_grad_() for x in tensors]


def steps(optimizers: list, models: list, count: int = T, seed: int = 5, scheduler=None) -> None:
    """The same gradients for each, of magnitudes in [0.5, 1] and of both signs, and of the type of the first model's weights;
    some parameters have none now and then."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(count):
        for position, each in enumerate(zip(*models)):
            g = (torch.rand(each[0].shape, generator=generator, dtype=torch.float64) + 1) / 2
            g *= torch.randint(2, g.shape, generator=generator) * 2 - 1
            for p in each:
                p.grad = None if (step + position) % 7 == 3 else g.to(each[0].dtype).to(p.dtype).contiguous()
        for number, optimizer in enumerate(optimizers):
            optimizer.step()
            if scheduler:
                scheduler[number].step()


def of_torch(name: str, parameters: list, **arguments) -> torch.optim.Optimizer:
    """torch's, in the loop over tensors: its fused kernel takes no notice of the layouts of `start`."""
    return getattr(torch.optim, name)(
        parameters, **{**arguments, **({} if name == "RMSprop" else {"fused": False}), "foreach": False}
    )


CASES = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"weight_decay": 0.01, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.01}),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"weight_decay": 0.01, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "maximize": True}),
    ("AdamW", {"weight_decay": 0, "fused": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.01, "initial_accumulator_value": 0.1, "eps": 1e-3}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "alpha": 0.9, "weight_decay": 0.01}),
]


class AgainstTorch(unittest.TestCase):
    def assert_near(self, ours: list, theirs: list, what: object) -> None:
        for a, b in zip(ours, theirs):
            if a.numel():
                self.assertLess(float((a - b).detach().abs().max()), bound(b), what)

    def test_the_numbers_of_torch(self):
        for name, arguments in CASES:
            with self.subTest(name, **arguments):
                dtype, count, lr = form(name, arguments)
                ours, theirs = start(dtype), start(dtype)
                optimizers = [
                    getattr(gradstep.torch, name)(ours, lr=lr, **arguments),
                    of_torch(name, theirs, lr=lr, **arguments),
                ]
                before = [x.detach().clone() for x in ours]
                steps(optimizers, [ours, theirs], count)
                self.assert_near(ours, theirs, (name, arguments))
                self.assertGreater(float((ours[0] - before[0]).detach().abs().max()), 1e-3)

    def test_state_has_torchs_names_and_values(self):
        for name, arguments in CASES:
            with self.subTest(name, **arguments):
                dtype, _, lr = form(name, arguments)
                ours, theirs = start(dtype), start(dtype)
                a, b = getattr(gradstep.torch, name)(ours, lr=lr, **arguments), of_torch(name, theirs, lr=lr, **arguments)
                steps([a, b], [ours, theirs], 9)
                for p, q in zip(ours, theirs):
                    if p.numel() == 0:
                        continue
                    expected = {x: y for x, y in b.state[q].items() if y is not None}
                    self.assertEqual(set(a.state[p]) - {"step"}, set(expected) - {"step"})
                    for key, value in expected.items():
                        self.assertLess(float((a.state[p][key] - value).abs().max()), bound(q), key)
                self.assertEqual(
                    {x for group in a.param_groups for x in group}, {x for group in b.param_groups for x in group}
                )

    def test_defaults_are_torchs(self):
        for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop"):
            ours, theirs = getattr(gradstep.torch, name)(start()).defaults, getattr(torch.optim, name)(start()).defaults
            self.assertEqual(ours, theirs, name)

    def test_schedulers(self):
        make = {
            "LambdaLR": lambda x: torch.optim.lr_scheduler.LambdaLR(x, lambda t: 1 / (1 + t)),
            "CosineAnnealingLR": lambda x: torch.optim.lr_scheduler.CosineAnnealingLR(x, T),
            "OneCycleLR": lambda x: torch.optim.lr_scheduler.OneCycleLR(x, LR, T + 1),  # changes betas as well
            "SequentialLR": lambda x: torch.optim.lr_scheduler.SequentialLR(
                x, [torch.optim.lr_scheduler.LinearLR(x), torch.optim.lr_scheduler.ExponentialLR(x, 0.9)], [10]
            ),
        }
        for name, scheduler in make.items():
            with self.subTest(name):
                ours, theirs = start(), start()
                optimizers = [gradstep.torch.AdamW(ours, lr=LR), torch.optim.AdamW(theirs, lr=LR, foreach=False)]
                steps(optimizers, [ours, theirs], T, scheduler=[scheduler(x) for x in optimizers])
                self.assert_near(ours, theirs, name)
                self.assertEqual(optimizers[0].param_groups[0]["lr"], optimizers[1].param_groups[0]["lr"])

    def test_state_dicts_of_torch_are_taken_and_given(self):
        for name, arguments in CASES:
            with self.subTest(name, **arguments):
                dtype, count, lr = form(name, arguments)
                ours, theirs, again = start(dtype), start(dtype), start(dtype)
                a, b = getattr(gradstep.torch, name)(ours, lr=lr, **arguments), of_torch(name, theirs, lr=lr, **arguments)
                steps([b], [theirs], count // 3)
                for p, q in zip(ours, theirs):
                    p.data.copy_(q.data)
                a.load_state_dict(copy.deepcopy(b.state_dict()))
                steps([a, b], [ours, theirs], count // 3, seed=6)
                self.assert_near(ours, theirs, (name, arguments))
                for p, q in zip(again, ours):
                    p.data.copy_(q.data)
                c = of_torch(name, again, lr=lr, **arguments)
                c.load_state_dict(copy.deepcopy(a.state_dict()))
                steps([b, c], [theirs, again], count // 3, seed=7)
                self.assert_near(again, theirs, (name, arguments))


class AsAnOptimizer(unittest.TestCase):
    def test_a_run_that_was_stopped_goes_on_with_the_same_bits(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            for name, arguments in CASES[::3]:
                if dtype is not torch.float32 and form(name, arguments)[0] is torch.float32:
                    continue
                make = getattr(gradstep.torch, name)
                once, twice = start(dtype), start(dtype)
                a, b = make(once, lr=LR, **arguments), make(twice, lr=LR, **arguments)
                steps([a], [once], 10)
                steps([b], [twice], 10)
                file = io.BytesIO()
                torch.save(b.state_dict(), file)
                file.seek(0)
                c = make(twice, lr=1)
                c.load_state_dict(torch.load(file))
                steps([a], [once], 10, seed=8)
                steps([c], [twice], 10, seed=8)
                for p, q in zip(once, twice):
                    self.assertTrue(torch.equal(p, q), (dtype, name))

    def test_state_of_16_bits_is_float(self):
        for dtype in (torch.bfloat16, torch.float16):
            w = start(dtype)
            a = gradstep.torch.AdamW(w, lr=LR)
            wide = [x.detach().float().requires_grad_() for x in w]
            b = torch.optim.AdamW(wide, lr=LR, foreach=False)
            for step in range(20):
                with (
                    torch.no_grad()
                ):  # each step from the same weights: torch's of float, rounded, is at most one place away
                    for p, q in zip(w, wide):
                        q.copy_(p)
                steps([a, b], [w, wide], 1, seed=step)
                for p, q in zip(w, wide):
                    rounded = q.to(dtype)
                    place = (
                        torch.nextafter(rounded, torch.full_like(rounded, float("inf"))).float() - rounded.float()
                    ).abs()
                    self.assertTrue(bool(((p.float() - rounded.float()).abs() <= place).all()), (dtype, step))
            self.assertEqual(a.state[w[0]]["exp_avg"].dtype, torch.float32)
            c = gradstep.torch.AdamW(w)
            c.load_state_dict(a.state_dict())
            self.assertTrue(torch.equal(c.state[w[1]]["exp_avg"], a.state[w[1]]["exp_avg"]))

    def test_it_trains_a_network(self):
        torch.manual_seed(0)
        x = torch.randn(256, 8)
        y = torch.sin(x.sum(1, keepdim=True))
        for name in ("AdamW", "RMSprop", "SGD"):
            net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
            arguments = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.01}
            optimizer = getattr(gradstep.torch, name)(net.named_parameters(), **arguments)

            def closure():
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(net(x), y)
                loss.backward()
                return loss

            first = optimizer.step(closure).item()
            for _ in range(300):
                last = optimizer.step(closure).item()
            self.assertLess(last, first / 4, name)

    def test_autograd_sees_that_weights_have_changed(self):
        w = torch.ones(3, requires_grad=True)
        optimizer = gradstep.torch.SGD([w])
        loss = (w * w).sum()
        w.grad = torch.ones(3)
        optimizer.step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_groups_hooks_and_copies(self):
        a, b = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True, dtype=torch.float64)
        optimizer = gradstep.torch.SGD([{"params": [a]}], lr=1.0)
        optimizer.add_param_group({"params": [b], "lr": 0.5})
        seen = []
        optimizer.register_step_post_hook(lambda *_: seen.append(1))
        a.grad, b.grad = torch.ones(3), torch.ones(3, dtype=torch.float64)
        optimizer.step()
        self.assertEqual((float(a[0].detach()), float(b[0].detach()), seen), (-1, -0.5, [1]))
        for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
            p = other.param_groups[0]["params"][0]
            p.grad = torch.ones(3)
            other.step()
            self.assertEqual((float(p[0].detach()), float(a[0].detach())), (-2, -1))

    def test_a_gradient_scaler(self):
        w = torch.ones(2, requires_grad=True)
        optimizer = gradstep.torch.SGD([w], lr=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for factor, expected in ((1.0, 0.5), (float("inf"), 0.5), (1.0, 0.0)):  # a step that overflows is left out
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            self.assertEqual(float(w[0].detach()), expected)

    def test_what_moves_is_found(self):
        """Weights, state and gradients may lie elsewhere at every step, and be of another type."""
        w, reference = [torch.ones(10, requires_grad=True)], [torch.ones(10, requires_grad=True)]
        a, b = gradstep.torch.AdamW(w, lr=LR), gradstep.torch.AdamW(reference, lr=LR)
        for step in range(6):
            steps([a, b], [w, reference], 1, seed=step)
            w[0].data = w[0].data.clone()
            a.state[w[0]]["exp_avg"] = a.state[w[0]]["exp_avg"].clone()
            a.state[w[0]]["exp_avg_sq"].data = a.state[w[0]]["exp_avg_sq"].data.clone()
            a.state[w[0]]["step"] = int(a.state[w[0]]["step"])
        self.assertTrue(torch.equal(w[0], reference[0]))
        w[0].data = w[0].data.double()
        w[0].grad = torch.ones(10, dtype=torch.float64)
        a.step()
        self.assertEqual(a.state[w[0]]["exp_avg"].dtype, torch.float64)

    def test_options_may_change(self):
        w = torch.zeros(2, requires_grad=True)
        optimizer = gradstep.torch.Optimizer([w], {"rule": {"name": "momentum", "mu": 0.5}}, lr=1.0)
        for mu, expected in ((0.5, -1), (0, -2), (0.5, -3.5)):  # m = 1, 1, 1.5
            optimizer.param_groups[0]["config"]["rule"]["mu"] = mu
            w.grad = torch.ones(2)
            optimizer.step()
            self.assertEqual(float(w[0].detach()), expected)

    def test_tensors_of_different_ages(self):
        """A parameter that gets its first gradient later has its own bias correction, as in torch."""
        for name in ("AdamW", "Adagrad"):
            ours, theirs = ([torch.ones(3, dtype=torch.float64, requires_grad=True) for _ in range(4)] for _ in range(2))
            arguments = {"lr": LR, "lr_decay": 0.5} if name == "Adagrad" else {"lr": LR}
            optimizers = [getattr(gradstep.torch, name)(ours, **arguments), of_torch(name, theirs, **arguments)]
            for step in range(6):
                for model in (ours, theirs):
                    for k, p in enumerate(model):
                        p.grad = torch.full((3,), 0.5 + k, dtype=torch.float64) if step >= k else None
                for optimizer in optimizers:
                    optimizer.step()
            for p, q in zip(ours, theirs):
                self.assertLess(float((p - q).detach().abs().max()), bound(q), name)
            self.assertEqual([int(optimizers[0].state[p]["step"]) for p in ours], [6, 5, 4, 3])

    def test_any_rule(self):
        w = [torch.ones(10, dtype=torch.bfloat16, requires_grad=True)]
        optimizer = gradstep.torch.Optimizer(w, {"rule": {"name": "lion"}, "element": "mixed"}, lr=2.0**-12)
        for _ in range(2):
            w[0].grad = torch.ones(10, dtype=torch.bfloat16)
            optimizer.step()
        self.assertEqual(set(optimizer.state[w[0]]), {"step", "m", "master"})
        self.assertEqual(float(optimizer.state[w[0]]["master"][0]), 1 - 2.0**-11)
        self.assertEqual(float(w[0][0].detach()), 1)


class Refused(unittest.TestCase):
    def test_what_is_not_here(self):
        w = torch.zeros(4, requires_grad=True)
        make = gradstep.torch.AdamW

        def twice(parameters):
            with warnings.catch_warnings():  # of torch
                warnings.simplefilter("ignore")
                make(parameters)

        for kind, message, call in (
            (
                TypeError,
                "parameter 0 is of torch.complex64",
                lambda: make([torch.zeros(4, dtype=torch.complex64, requires_grad=True)]),
            ),
            (ValueError, "capturable: True is not here", lambda: make([w], capturable=True)),
            (ValueError, "differentiable: True is not here", lambda: make([w], differentiable=True)),
            (ValueError, "lr: -1", lambda: make([w], lr=-1)),
            (ValueError, "threads: -1", lambda: make([w], threads=-1)),
            (ValueError, r"beta1: 1\.5", lambda: make([w], betas=(1.5, 0.9))),
            (ValueError, "rate", lambda: make([w], weight_decay=-1)),
            (ValueError, "there twice", lambda: twice([w, w])),
            (ValueError, "momentum", lambda: gradstep.torch.SGD([w], nesterov=True)),
            (
                ValueError,
                "dampening: 0.5 must be 0",
                lambda: gradstep.torch.SGD([w], momentum=0.9, dampening=0.5, nesterov=True),
            ),
            (ValueError, "lr_decay: -1", lambda: gradstep.torch.Adagrad([w], lr_decay=-1)),
            (
                ValueError,
                "schedule: leave it out",
                lambda: gradstep.torch.Optimizer([w], {"rule": {"name": "sgd"}, "schedule": {"name": "external"}}),
            ),
        ):
            with self.assertRaisesRegex(kind, message) as caught:
                call()
            self.assertIsInstance(caught.exception, gradstep.Error)

    def test_a_group_that_is_refused_leaves_the_others_as_they_are(self):
        w, v = torch.zeros(4, requires_grad=True), torch.zeros(4, requires_grad=True)
        optimizer = gradstep.torch.AdamW([{"params": [w]}, {"params": [v]}], lr=1.0)
        w.grad, v.grad = torch.ones(4), torch.ones(4)
        for wrong in (-1.0, float("nan"), 1000.0):  # 1000 * weight_decay > 1: weights would change their sign
            optimizer.param_groups[1]["lr"] = wrong
            with self.assertRaises(gradstep.Error):
                optimizer.step()
        self.assertEqual((float(w.detach().abs().max()), int(optimizer.state[w]["step"])), (0, 0))
        optimizer.param_groups[1]["lr"] = 1.0
        optimizer.step()
        self.assertEqual((float(w[0].detach()), int(optimizer.state[w]["step"])), (-1, 1))

    def test_gradients_and_weights(self):
        w, v = torch.zeros(4, requires_grad=True), torch.zeros(4, requires_grad=True)
        optimizer = gradstep.torch.SGD([w, v])
        v.grad = torch.ones(4)
        v.data = v.data[:2]
        w.grad = torch.ones(4)
        with self.assertRaisesRegex(gradstep.Error, r"parameter 1 of group 0: the gradient has the shape \(4,\)"):
            optimizer.step()
        v.data = torch.zeros(4)
        w.grad, v.grad = torch.ones(4), torch.sparse_coo_tensor([[1]], [1.0], (4,), check_invariants=True)
        with self.assertRaisesRegex(gradstep.Error, "parameter 1 of group 0: the gradient is sparse"):
            optimizer.step()
        self.assertEqual(float(w.detach().abs().max()), 0)
        for p, message in (
            (torch.zeros(4, device="meta"), "is on meta"),
            (torch.zeros(4, 4)[:, :2], "do not lie next to each other"),
        ):
            p.requires_grad_()
            p.grad = torch.ones_like(p)
            with self.assertRaisesRegex(gradstep.Error, "parameter 0 of group 0.*" + message):
                gradstep.torch.SGD([p]).step()
        v.grad, optimizer.param_groups[0]["weight_decay"] = None, -1
        with self.assertRaises(gradstep.ConfigError):
            optimizer.step()


if __name__ == "__main__":
    unittest.main()
