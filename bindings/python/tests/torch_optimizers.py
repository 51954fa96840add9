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
import os
import pickle
import signal
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
    """Element, steps and rate of a comparison. A centered RMSprop divides by a small difference, which loses digits."""
    if name == "RMSprop" and arguments.get("centered"):
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


HAS_DECOUPLED_ADAM = "decoupled_weight_decay" in torch.optim.Adam([torch.zeros(1)]).defaults  # since torch 2.7
HAS_NAMES = "param_names" in (torch.optim.Optimizer.load_state_dict.__doc__ or "")  # of parameters, since torch 2.6
if not HAS_DECOUPLED_ADAM:
    CASES = [x for x in CASES if "decoupled_weight_decay" not in x[1]]


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
                names = [{x for group in y.param_groups for x in group} - {"decoupled_weight_decay"} for y in (a, b)]
                self.assertEqual(*names)

    def test_defaults_are_torchs(self):
        for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop"):
            ours, theirs = getattr(gradstep.torch, name)(start()).defaults, getattr(torch.optim, name)(start()).defaults
            self.assertEqual({**ours, **theirs}, ours, name)
            self.assertLessEqual(ours.keys() - theirs.keys(), set() if HAS_DECOUPLED_ADAM else {"decoupled_weight_decay"})

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

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_child_of_fork_takes_a_step(self):
        """On one thread: the child has lost those of OpenMP, and a parallel region would wait for them for ever."""
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(2)
        w, other = (torch.linspace(-1, 1, 1 << 20).requires_grad_() for _ in range(2))
        w.grad = other.grad = torch.ones_like(w)
        optimizer, twin = gradstep.torch.AdamW([w], lr=LR), gradstep.torch.AdamW([other], lr=LR)
        optimizer.step()
        twin.step()
        twin.step()
        expected = other.detach().numpy().tobytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of fork in a process that has threads
            child = os.fork()
        if child == 0:
            signal.alarm(300)
            code = 2
            try:
                optimizer.step()
                code = 0 if w.detach().numpy().tobytes() == expected else 1
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        optimizer.step()
        self.assertEqual(w.detach().numpy().tobytes(), expected)

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
            optimizer = getattr(gradstep.torch, name)(net.named_parameters() if HAS_NAMES else net.parameters(), **arguments)

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

        for kind, message, call in (
            (
                TypeError,
                "parameter 0 of group 0: is of torch.float8_e5m2; expected torch.float32",
                lambda: make([torch.zeros(4, dtype=torch.float8_e5m2).requires_grad_()]),
            ),
            (ValueError, "capturable: True; expected False", lambda: make([w], capturable=True)),
            (ValueError, "differentiable: True; expected False", lambda: make([w], differentiable=True)),
            (ValueError, "Invalid learning rate: -1", lambda: make([w], lr=-1)),
            (ValueError, "Invalid learning rate: nan", lambda: make([w], lr=float("nan"))),
            (ValueError, "lr: nan; expected a number >= 0", lambda: gradstep.torch.SGD([w], lr=float("nan"))),
            (ValueError, "threads: -1", lambda: make([w], threads=-1)),
            (ValueError, r"Invalid beta parameter at index 0: 1\.5", lambda: make([w], betas=(1.5, 0.9))),
            (ValueError, "Invalid weight_decay value: -1", lambda: make([w], weight_decay=-1)),
            (ValueError, "Nesterov momentum requires", lambda: gradstep.torch.SGD([w], nesterov=True)),
            (
                ValueError,
                "Nesterov momentum requires a momentum and zero dampening",
                lambda: gradstep.torch.SGD([w], momentum=0.9, dampening=0.5, nesterov=True),
            ),
            (ValueError, "Invalid lr_decay value: -1", lambda: gradstep.torch.Adagrad([w], lr_decay=-1)),
            (
                ValueError,
                "schedule: .* is given; expected none: the learning rate is lr",
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
        self.assertEqual((float(w.detach().abs().max()), len(optimizer.state)), (0, 0))
        optimizer.param_groups[1]["lr"] = 1.0
        optimizer.step()
        self.assertEqual((float(w[0].detach()), int(optimizer.state[w]["step"])), (-1, 1))

    def test_gradients_and_weights(self):
        w, v = torch.zeros(4, requires_grad=True), torch.zeros(4, requires_grad=True)
        optimizer = gradstep.torch.RMSprop([w, v])
        v.grad = torch.ones(4)
        v.data = v.data[:2]
        w.grad = torch.ones(4)
        with self.assertRaisesRegex(gradstep.Error, r"parameter 1 of group 0: the gradient has the shape \(4,\)"):
            optimizer.step()
        v.data = torch.zeros(4)
        w.grad, v.grad = torch.ones(4), torch.sparse_coo_tensor([[1]], [1.0], (4,), check_invariants=True)
        with self.assertRaisesRegex(gradstep.Error, "parameter 1 of group 0: the gradient is sparse; expected a dense one"):
            optimizer.step()
        self.assertEqual(float(w.detach().abs().max()), 0)
        for p, message in (
            (torch.zeros(4, device="meta"), "is on meta"),
            (torch.zeros(1, 4).expand(4, 4), "its elements share memory"),
        ):
            p = p.detach().requires_grad_()
            p.grad = torch.ones(p.shape, device=p.device)
            with self.assertRaisesRegex(gradstep.Error, "parameter 0 of group 0.*" + message):
                gradstep.torch.SGD([p]).step()
        v.grad, optimizer.param_groups[0]["weight_decay"] = None, -1
        with self.assertRaises(gradstep.ConfigError):
            optimizer.step()


def ones(*shape, **options) -> torch.Tensor:
    return torch.ones(shape, device="cpu", **options).requires_grad_()


def step_with(optimizer, *gradients) -> None:
    """A step with these gradients, numbers or tensors, for the parameters in order."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for p, g in zip(parameters, gradients):
        p.grad = g if g is None or isinstance(g, torch.Tensor) else torch.full(p.shape, g, dtype=p.dtype, device="cpu")
    optimizer.step()


class StateFromElsewhere(unittest.TestCase):
    """After load_state_dict, unpickling or an edit of `state`, the next step is torch's, or raises and changes nothing."""

    def beside(self, name: str, state_dict: dict, arguments: dict, gradient: float = 0.5) -> None:
        """The next step after loading, beside that of torch's class: the same weights, or an error of both."""
        results = []
        for module in (gradstep.torch, torch.optim):
            w = ones(3)
            optimizer = getattr(module, name)([w], **arguments)
            try:
                optimizer.load_state_dict(copy.deepcopy(state_dict))
                step_with(optimizer, gradient)
                results.append(w.detach().clone())
            except KeyError:
                results.append(None)
                self.assertTrue(torch.equal(w, torch.ones(3)), name)
        ours, theirs = results
        self.assertEqual(ours is None, theirs is None, (name, results))
        if ours is not None:
            self.assertTrue(torch.allclose(ours, theirs, rtol=0, atol=1e-6), (name, results))

    def test_copies_have_state_of_their_own(self):
        mixed = lambda p: gradstep.torch.Optimizer(p, {"rule": {"name": "adam"}, "element": "mixed"}, lr=0.1)  # noqa: E731
        kinds = [(lambda p, name=name: getattr(gradstep.torch, name)(p, lr=0.1), torch.float32)
                 for name in ("Adam", "SGD", "Adagrad", "NAdam", "ASGD")]  # fmt: skip
        for make, dtype in [*kinds, (mixed, torch.bfloat16)]:
            w = torch.ones(3, dtype=dtype, requires_grad=True)
            optimizer = make([{"params": [w], "lr": 0.1}])
            step_with(optimizer, 0.5)
            copied = copy.copy(optimizer)
            saved, weights = copy.deepcopy(optimizer.state_dict()), w.detach().clone()
            step_with(copied, 0.5)
            after = w.detach().clone()
            copied.param_groups[0]["lr"] = 7.0
            self.assertIs(copied.param_groups[0]["params"][0], w)
            self.assertEqual(str(optimizer.state_dict()), str(saved))
            with torch.no_grad():
                w.copy_(weights)
            step_with(optimizer, 0.5)  # as the copy did
            self.assertTrue(torch.equal(w, after), type(optimizer).__name__)

    def test_state_dicts_of_every_class_in_every_class(self):
        kinds = [
            ("SGD", {}), ("SGD", {"momentum": 0.9, "dampening": 0.5}), ("Adam", {"weight_decay": 0.1}), ("Adam", {"amsgrad": True}),
            ("AdamW", {"weight_decay": 0.1}), ("Adagrad", {}), ("RMSprop", {}), ("RMSprop", {"momentum": 0.9}),
        ]  # fmt: skip
        for saved_by, arguments in kinds:
            for module in (torch.optim, gradstep.torch):
                saved = getattr(module, saved_by)([ones(3)], lr=0.1, **arguments)
                for gradient in (0.5, -1.0):
                    step_with(saved, gradient)
                for name, others in kinds:
                    if not HAS_DECOUPLED_ADAM and saved_by == "AdamW" and name == "Adam":
                        continue  # there Adam does not look at what kind of decay was saved
                    with self.subTest(saved_by=saved_by, loaded_by=name, arguments=arguments, others=others):
                        self.beside(name, saved.state_dict(), {"lr": 0.1, **others})

    def test_weight_decay_of_adamw_is_decoupled_whatever_is_loaded(self):
        w = ones(2)
        optimizer = gradstep.torch.AdamW([w], lr=0.1, weight_decay=0.1)
        optimizer.load_state_dict(gradstep.torch.Adam([ones(2)], lr=0.1, weight_decay=0.1).state_dict())
        again = pickle.loads(pickle.dumps(optimizer))
        for each in (optimizer, again):
            step_with(each, 0)
            self.assertAlmostEqual(float(each.param_groups[0]["params"][0][0].detach()), 0.99, 6)

    def test_missing_entries(self):
        for name, lost in (("Adam", "exp_avg"), ("Adam", "exp_avg_sq"), ("Adam", "step"), ("RMSprop", "square_avg"), ("Adagrad", "sum")):
            w = ones(2)
            optimizer = getattr(gradstep.torch, name)([w], lr=0.1)
            step_with(optimizer, 1)
            del optimizer.state[w][lost]
            before, state = w.detach().clone(), copy.deepcopy(optimizer.state[w])
            with self.assertRaisesRegex(KeyError, f"parameter 0 of group 0: its state has .* and no '{lost}'"):
                step_with(optimizer, 1)
            self.assertTrue(torch.equal(w, before))
            self.assertEqual(set(optimizer.state[w]), set(state))

    def test_optimizers_do_not_share_state(self):
        for name, arguments in (("AdamW", {}), ("SGD", {"momentum": 0.9}), ("Adagrad", {}), ("Optimizer", {"config": {"rule": {"name": "adam"}, "element": "mixed"}})):
            dtype = torch.bfloat16 if name == "Optimizer" else torch.float32
            a = getattr(gradstep.torch, name)([ones(8, dtype=dtype)], lr=0.1, **arguments)
            step_with(a, 1)
            b = getattr(gradstep.torch, name)([ones(8, dtype=dtype)], lr=0.1, **arguments)
            b.load_state_dict(a.state_dict())
            p = a.param_groups[0]["params"][0]
            before = copy.deepcopy(a.state[p])
            step_with(b, -1)
            for key, value in before.items():
                self.assertTrue(torch.equal(a.state[p][key], value), (name, key))

    def test_the_first_step_of_sgd_is_that_without_a_buffer(self):
        results = []
        for module in (gradstep.torch, torch.optim):
            w, v = ones(1), ones(1)
            optimizer = module.SGD([w, v], lr=1.0, dampening=0.5)
            step_with(optimizer, 1.0, None)
            optimizer.param_groups[0]["momentum"] = 0.5
            for _ in range(3):
                step_with(optimizer, 1.0, 1.0)
            del optimizer.state[w]["momentum_buffer"]
            step_with(optimizer, 1.0, 1.0)
            optimizer.param_groups[0]["nesterov"], optimizer.param_groups[0]["dampening"] = True, 0
            step_with(optimizer, 1.0, 1.0)
            results.append([w.item(), v.item(), optimizer.state[w]["momentum_buffer"].item()])
        for ours, theirs in zip(*results):
            self.assertAlmostEqual(ours, theirs, 5)

    def test_steps_are_counted_exactly(self):
        for fused in (None, True):
            w = ones(2)
            optimizer = gradstep.torch.AdamW([w], fused=fused)
            step_with(optimizer, 1)
            saved = copy.deepcopy(optimizer.state_dict())
            saved["state"][0]["step"] = torch.tensor(2.0**24 + 1, dtype=torch.float64)
            optimizer.load_state_dict(saved)
            self.assertEqual(float(optimizer.state_dict()["state"][0]["step"]), 2**24 + 1)
            step_with(optimizer, 1)
            self.assertEqual(float(optimizer.state_dict()["state"][0]["step"]), 2**24 + 2)
        for step, counted in ((7, 8), (7.0, 8), (torch.tensor(7), 8), (torch.tensor(7.0), 8), (torch.tensor([7.0]), 8), (torch.tensor(7.0, dtype=torch.bfloat16), 8)):
            optimizer.state[w]["step"] = step
            step_with(optimizer, 1)
            self.assertEqual(float(optimizer.state[w]["step"]), counted)
        wrong = (-1, 0.5, float("nan"), float("inf"), 10**400, "seven", [7], torch.tensor(-1.0), torch.ones(2), torch.tensor(7j))
        for step in wrong:
            optimizer.state[w]["step"] = step
            before = w.detach().clone()
            with self.assertRaisesRegex(gradstep.Error, "its step is"):
                step_with(optimizer, 1)
            self.assertTrue(torch.equal(w, before))

    def test_what_is_no_state(self):
        for wrong, message in (
            (torch.zeros(5), r"has the shape \(5,\); expected \(3,\)"),
            (torch.zeros(3, device="meta"), "is on meta"),
            (torch.zeros(3, dtype=torch.int64), r"is of torch\.int64; expected torch\.float32"),
            (torch.zeros(3, dtype=torch.bool), r"is of torch\.bool; expected torch\.float32"),
            (torch.zeros(3, dtype=torch.complex64), r"is of torch\.complex64; expected torch\.float32"),
            ([0.0] * 3, "is a list"),
        ):
            w, v = ones(3), ones(3)
            optimizer = gradstep.torch.Adam([w, v])
            step_with(optimizer, 1, 1)
            optimizer.state[v]["exp_avg"] = wrong
            before = w.detach().clone()
            with self.assertRaisesRegex(gradstep.Error, "parameter 1 of group 0: its state exp_avg.*" + message):
                step_with(optimizer, 1, 1)
            self.assertTrue(torch.equal(w, before))
        optimizer.state[v]["exp_avg"] = optimizer.state[v]["exp_avg_sq"]
        with self.assertRaisesRegex(gradstep.Error, "two entries of its state share memory"):
            step_with(optimizer, 1, 1)

    def test_state_of_other_dtypes_and_layouts_is_converted(self):
        w = torch.rand(4, 5).t().detach().requires_grad_()
        optimizer, reference = gradstep.torch.Adam([w]), gradstep.torch.Adam([w.detach().clone().requires_grad_()])
        g = torch.rand(5, 4)
        for each in (optimizer, reference):
            step_with(each, g.clone())
        optimizer.state[w]["exp_avg"] = optimizer.state[w]["exp_avg"].double().contiguous()
        optimizer.state[w]["exp_avg_sq"] = torch._neg_view(-optimizer.state[w]["exp_avg_sq"])
        for each in (optimizer, reference):
            step_with(each, g.clone())
        self.assertTrue(torch.equal(w, reference.param_groups[0]["params"][0]))


class WhereTensorsAre(unittest.TestCase):
    """Addresses are looked at before they are used; nothing is kept that the program gave up."""

    def test_default_devices(self):
        for default in ("meta", "cuda"):
            for name, arguments in CASES:
                try:
                    torch.set_default_device(default)
                    w = ones(3, dtype=form(name, arguments)[0])
                    saved = getattr(gradstep.torch, name)([w], **arguments)
                    step_with(saved, 1)
                    again = getattr(gradstep.torch, name)([w], **arguments)
                    again.load_state_dict(copy.deepcopy(saved.state_dict()))
                    step_with(again, torch.ones(3, dtype=w.dtype, device="cpu"))
                finally:
                    torch.set_default_device(None)
                self.assertNotEqual(float(w[0].detach()), 1)
                for value in again.state[w].values():
                    self.assertEqual(value.device.type, "cpu")

    def test_state_of_torch_under_a_default_device(self):
        v = ones(3)
        theirs = torch.optim.AdamW([v])
        step_with(theirs, 1)
        for device in ("meta", "cuda"):
            w = ones(3)
            ours = gradstep.torch.AdamW([w])
            with torch.device(device):
                ours.load_state_dict(theirs.state_dict())
                step_with(ours, 1)
            self.assertEqual(float(ours.state[w]["step"]), 2)

    def test_wrappers_are_named(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            fake = torch.zeros(3, requires_grad=True)
            fake.grad = torch.ones(3)
        w, v = ones(3), ones(3)
        w.grad = torch.ones(3)
        optimizer = gradstep.torch.AdamW([w, fake])
        with self.assertRaisesRegex(gradstep.Error, "parameter 1 of group 0: the tensor is a FakeTensor; expected"):
            optimizer.step()
        optimizer = gradstep.torch.AdamW([w, v])
        step_with(optimizer, 1, 1)
        before = w.detach().clone()
        meta = torch.zeros(3, device="meta", requires_grad=True)
        meta.grad = torch.ones(3, device="meta")
        optimizer.param_groups[0]["params"][1] = meta
        optimizer.state[meta] = optimizer.state.pop(v)
        with self.assertRaisesRegex(gradstep.Error, "parameter 1 of group 0: the tensor is on meta"):
            optimizer.step()
        self.assertTrue(torch.equal(w, before))
        functional = torch._to_functional_tensor(torch.ones(3))
        u = ones(3)
        optimizer = gradstep.torch.SGD([u])
        optimizer.param_groups[0]["params"][0] = functional
        functional.grad = torch._to_functional_tensor(torch.ones(3))
        with self.assertRaisesRegex(gradstep.Error, "parameter 0 of group 0: the tensor is a wrapper or a tensor without memory"):
            optimizer.step()

    def test_what_changes_between_steps_without_a_new_address(self):
        def transposed_data(w, g):
            w.data = w.data.t()
            return g.t()

        def transposed_in_place(w, g):
            with torch.no_grad():
                w.t_()
            return g.t().contiguous()

        def reshaped(w, g):
            w.data = w.data.view(2, 8)
            return g.view(2, 8)

        def negative_parameter(w, g):
            w.data = torch._neg_view(w.data)
            return g

        def negative_gradient(w, g):
            return torch._neg_view(g)

        def part(w, g):
            w.data = w.data[:2]
            return g[:2]

        def transposed_state(w, g):
            for value in STATE[w].values():
                if value.dim() == 2:
                    value.data = value.data.t().contiguous().t()
            return g

        for change in (transposed_data, transposed_in_place, reshaped, negative_parameter, negative_gradient, part, transposed_state):
            for name, arguments in (("SGD", {"lr": 0.5}), ("Adam", {"lr": 0.5}), ("SGD", {"lr": 0.5, "momentum": 0.9})):
                if name == "Adam" or arguments.get("momentum"):
                    if change in (transposed_data, transposed_in_place, reshaped, part):
                        continue  # state of another shape: torch raises, too
                with self.subTest(change.__name__, name=name, **arguments):
                    results = []
                    for module in (gradstep.torch, torch.optim):
                        w = torch.arange(16.0).view(4, 4).requires_grad_()
                        g = torch.arange(16.0).view(4, 4).flip(0) + 1
                        optimizer = getattr(module, name)([w], **arguments)
                        STATE = optimizer.state
                        step_with(optimizer, g)
                        step_with(optimizer, g)
                        w.grad = None
                        new = change(w, g)
                        w.grad = new
                        optimizer.step()
                        results.append(w.detach().resolve_neg().clone())
                    self.assertTrue(torch.allclose(*results, rtol=1e-5), results)

    def test_a_gradient_of_another_shape(self):
        w = ones(2, 3)
        optimizer = gradstep.torch.SGD([w])
        step_with(optimizer, torch.ones(2, 3))
        w.data = w.data.view(3, 2)
        with self.assertRaisesRegex(gradstep.Error, r"the gradient has the shape \(2, 3\); expected \(3, 2\)"):
            optimizer.step()

    def test_replaced_parameters_are_freed(self):
        import gc
        import weakref

        w = ones(1000)
        optimizer = gradstep.torch.AdamW([w])
        gone = []
        for _ in range(5):
            step_with(optimizer, 1)
            new = ones(1000)
            optimizer.state[new] = {key: x.clone() for key, x in optimizer.state.pop(w).items()}
            optimizer.param_groups[0]["params"][0] = new
            gone.append(weakref.ref(w))
            w = new
        step_with(optimizer, 1)
        gc.collect()
        self.assertEqual([x() for x in gone], [None] * 5)
        held = [weakref.ref(x) for x in optimizer.state[w].values()]
        optimizer.state.clear()
        self.assertEqual([x() for x in held], [None] * 3)
        parameter = weakref.ref(w)
        del w, new, optimizer.param_groups[0]["params"][0]
        gc.collect()
        self.assertIsNone(parameter())

    def test_parameters_that_share_memory_are_updated_in_order(self):
        for name, arguments in CASES:
            dtype = form(name, arguments)[0]
            for overlapping in (
                lambda a: a.detach(),
                lambda a: a.detach()[10:],
                lambda a: a.detach().view(-1, 10)[:, 3],
            ):
                with self.subTest(name, **arguments):
                    results = []
                    for module in (gradstep.torch, torch.optim):
                        a = torch.linspace(-1, 1, 100_000, dtype=dtype).requires_grad_()
                        b = overlapping(a).requires_grad_()
                        extra = {} if name == "RMSprop" else {"fused": False}
                        optimizer = getattr(module, name)([a, b], lr=0.01, **{**arguments, **extra, "foreach": False})
                        for step in range(3):
                            step_with(optimizer, 1.0 + step, 3.0)
                        results.append(a.detach())
                    self.assertTrue(torch.allclose(*results, rtol=1e-4, atol=1e-6))

    def test_gradients_that_are_weights(self):
        results = []
        for module in (gradstep.torch, torch.optim):
            a, b = torch.linspace(1, 2, 50).requires_grad_(), torch.linspace(2, 3, 50).requires_grad_()
            optimizer = module.SGD([a, b], lr=0.25, momentum=0.5)
            a.grad, b.grad = b.detach(), a.detach()
            for _ in range(3):
                optimizer.step()
            results.append(torch.stack([a, b]).detach())
        self.assertTrue(torch.allclose(*results))

    def test_gradients_that_begin_to_share_memory_with_weights(self):
        """In the middle of a run, with the memory of a parameter of the same group, of another, and of another dtype."""
        for name, arguments in CASES:
            dtype = form(name, arguments)[0]
            for of_first, first_dtype in (({}, dtype), ({"lr": 0.25}, dtype), ({}, torch.float64)):
                with self.subTest(name, **arguments, first=(of_first, first_dtype)):
                    results = []
                    for shares in (True, False):
                        memory = torch.linspace(1, 2, 20, dtype=dtype)
                        a, b = ones(5, dtype=first_dtype), memory[:10].requires_grad_()
                        optimizer = getattr(gradstep.torch, name)([{"params": [a], **of_first}, {"params": [b]}], **arguments)
                        for step in range(3):
                            step_with(optimizer, 1.0 + step, 1.0)
                        for offset in (1, 3, 10):
                            a.grad, b.grad = torch.ones_like(a), memory[offset : offset + 10]
                            b.grad = b.grad if shares else b.grad.clone()
                            optimizer.step()
                        results.append((a.detach(), b.detach()))
                    for shared, apart in zip(*results):
                        self.assertTrue(torch.equal(shared, apart))

    def test_a_duplicate_warns_and_takes_two_steps(self):
        for name, arguments in CASES:
            results = []
            for module in (gradstep.torch, torch.optim):
                w = ones(3, dtype=form(name, arguments)[0])
                with self.assertWarnsRegex(UserWarning, "duplicate parameters"):
                    optimizer = getattr(module, name)([w, w], lr=0.1, foreach=False, **{k: x for k, x in arguments.items() if k != "fused"})
                for gradient in (1.0, 0.5, -1.0):
                    step_with(optimizer, gradient, gradient)
                results.append(w.detach())
            self.assertTrue(torch.allclose(*results, rtol=1e-5), (name, arguments, results))


class MoreTensors(unittest.TestCase):
    """What torch's own inputs (torch_inputs.py) do not have."""

    def test_every_class_of_16_bits_is_that_of_float_rounded(self):
        for dtype in (torch.bfloat16, torch.float16):
            for name, arguments in CASES:
                w = numbers = torch.linspace(-1, 1, 100).to(dtype)
                w, wide = numbers.clone().requires_grad_(), numbers.float().requires_grad_()
                a = getattr(gradstep.torch, name)([w], lr=0.125, **arguments)
                b = getattr(gradstep.torch, name)([wide], lr=0.125, **arguments)
                for step in range(3):
                    with torch.no_grad():
                        wide.copy_(w)
                    g = torch.linspace(-1, 2, 100).to(dtype) / (1 + step)
                    step_with(a, g)
                    step_with(b, g.float())
                    self.assertTrue(torch.equal(w, wide.to(dtype)), (dtype, name, arguments))
                self.assertTrue(all(x.dtype is not dtype for x in a.state[w].values()))

    def test_complex_state_is_complex_and_goes_to_torch_and_back(self):
        for name, arguments in CASES:
            if name == "RMSprop" and arguments.get("centered"):
                continue  # its root in float, as above
            ours, theirs = (torch.linspace(-1, 1, 10, dtype=torch.complex128).requires_grad_() for _ in range(2))
            arguments = {x: y for x, y in arguments.items() if x != "fused"}  # which torch does not have for them
            a, b = getattr(gradstep.torch, name)([ours], **arguments), of_torch(name, [theirs], **arguments)
            for optimizer in (a, b):
                step_with(optimizer, torch.linspace(1, 2, 10).to(torch.complex128) * (1 + 2j))
            a_saved, b_saved = copy.deepcopy(a.state_dict()), copy.deepcopy(b.state_dict())
            a.load_state_dict(b_saved)
            b.load_state_dict(a_saved)
            for optimizer in (a, b):
                step_with(optimizer, torch.linspace(1, 2, 10).to(torch.complex128).conj() * 1j)
            self.assertTrue(torch.allclose(ours, theirs, rtol=1e-12), (name, arguments))

    def test_shards_of_dtensors(self):
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_gloo_available()):
            self.skipTest("torch has no gloo")
        from torch.distributed.device_mesh import init_device_mesh

        try:
            from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
        except ImportError:
            from torch.distributed._tensor import DTensor, Replicate, Shard, distribute_tensor
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            mesh = init_device_mesh("cpu", (1,))
            for name, arguments in CASES:
                results = []
                for module in (gradstep.torch, torch.optim):
                    w = torch.nn.Parameter(distribute_tensor(torch.linspace(1, 2, 12).view(3, 4), mesh, [Shard(0)]))
                    extra = {} if name == "RMSprop" else {"fused": False}
                    arguments = {**arguments, **extra, "foreach": False}
                    optimizer = getattr(module, name)([w], lr=0.01, **arguments)
                    for step in range(4):
                        if step == 2:
                            saved = copy.deepcopy(optimizer.state_dict())
                            optimizer = getattr(module, name)([w], lr=0.01, **arguments)
                            optimizer.load_state_dict(saved)
                        w.grad = distribute_tensor(torch.full((3, 4), 1.0 + step), mesh, [Shard(0)])
                        optimizer.step()
                    results.append(w.detach().to_local().clone())
                    for key, value in optimizer.state[w].items():
                        self.assertEqual(isinstance(value, DTensor), key != "step")
                self.assertTrue(torch.allclose(*results, rtol=1e-4), (name, arguments, results))
            before = w.detach().to_local().clone()
            for rule in ("sm3", "muon", "lamb", "lars", "novograd", "fromage", "stable_adamw", "rowwise_adagrad"):
                with self.assertRaisesRegex(gradstep.Error, f"is a DTensor, .*, and {rule} looks at whole tensors; expected"):
                    gradstep.torch.Optimizer([w], {"rule": {"name": rule}}).step()
            self.assertTrue(torch.equal(w.detach().to_local(), before))
            gradstep.torch.Optimizer([w], {"rule": {"name": "lion"}}).step()  # elementwise
            whole = torch.nn.Parameter(distribute_tensor(before.clone(), mesh, [Replicate()]))
            whole.grad = distribute_tensor(torch.ones(3, 4), mesh, [Replicate()])
            gradstep.torch.Optimizer([whole], {"rule": {"name": "lamb"}}).step()
            self.assertFalse(torch.equal(w.detach().to_local(), before) or torch.equal(whole.detach().to_local(), before))
        finally:
            dist.destroy_process_group()

    def test_a_subclass_that_is_only_a_name(self):
        class Named(torch.Tensor):
            pass

        w = torch.ones(3).as_subclass(Named).requires_grad_()
        optimizer = gradstep.torch.SGD([w], lr=0.5)
        for _ in range(2):
            step_with(optimizer, torch.ones(3))
        self.assertEqual(float(w.detach()[0]), 0)

    def test_sparse_gradients(self):
        for name, arguments in (("SGD", {}), ("SGD", {"momentum": 0.9, "dampening": 0.5}), ("SGD", {"maximize": True}), ("Adagrad", {"lr_decay": 0.5}), ("SparseAdam", {})):
            results = []
            for module in (gradstep.torch, torch.optim):
                embedding = torch.nn.Embedding(10, 4, sparse=True, dtype=torch.float64, _weight=torch.linspace(-1, 1, 40, dtype=torch.float64).view(10, 4))
                optimizer = getattr(module, name)(embedding.parameters(), lr=0.1, **arguments)
                warnings.filterwarnings("ignore", message="Sparse invariant checks")  # of torch's own classes
                for step in range(4):
                    optimizer.zero_grad()
                    (embedding(torch.tensor([1, step, 7, 1])) * torch.arange(1.0, 5.0, dtype=torch.float64)).sum().backward()
                    optimizer.step()
                results.append(embedding.weight.detach())
            self.assertTrue(torch.allclose(*results, rtol=1e-12), name)
        for name in ("SGD", "Adagrad"):
            w = ones(4, 2)
            optimizer = getattr(gradstep.torch, name)([w], weight_decay=0.1)
            with self.assertRaisesRegex(gradstep.Error, "the gradient is sparse; expected a dense one, or no weight_decay"):
                step_with(optimizer, torch.sparse_coo_tensor([[1]], [[1.0, 1.0]], (4, 2), check_invariants=True))
        with self.assertRaisesRegex(gradstep.Error, "the gradient is dense; expected a sparse one"):
            step_with(gradstep.torch.SparseAdam([w]), 1)

    def test_gradients_that_are_not_finite(self):
        for element in ("plain", "mixed"):
            for bad in (float("nan"), float("inf")):
                dtype = torch.float32 if element == "plain" else torch.bfloat16
                w, v = ones(4, dtype=dtype), ones(4, dtype=dtype)
                config = {"rule": {"name": "adam"}, "element": element, "on_nonfinite": "skip"}
                optimizer = gradstep.torch.Optimizer([w, v], config, lr=0.5)
                g = torch.ones(4, dtype=dtype)
                g[2] = bad
                step_with(optimizer, g, 1)
                self.assertTrue(torch.equal(w, torch.ones(4, dtype=dtype)))
                self.assertNotIn(w, optimizer.state)
                self.assertEqual((float(v[0].detach()), float(optimizer.state[v]["step"])), (0.5, 1))
                optimizer.param_groups[0]["config"]["on_nonfinite"] = "raise"
                with self.assertRaisesRegex(gradstep.NotFiniteError, "parameter 0 of group 0: the gradient is not finite"):
                    step_with(optimizer, g, 1)
                self.assertEqual((float(v[0].detach()), float(optimizer.state[v]["step"])), (0.5, 1))
                step_with(optimizer, 1, 1)
                self.assertEqual(float(w[0].detach()), 0.5)

    def test_torch_compile_leaves_a_step_as_it_is(self):
        w, reference = ones(5), ones(5)
        a, b = gradstep.torch.AdamW([w]), gradstep.torch.AdamW([reference])
        compiled = torch.compile(a.step, backend="eager")
        with warnings.catch_warnings(), self.assertNoLogs("torch._dynamo", "WARNING"):
            warnings.filterwarnings("error", message=".*[Dd]ynamo.*")
            for step in range(3):
                for p in (w, reference):
                    p.grad = torch.full((5,), 1.0 + step)
                compiled()
                b.step()
        self.assertTrue(torch.equal(w, reference))
        self.assertEqual(float(a.state[w]["step"]), 3)

    def test_torch_compile_does_not_look_into_a_step(self):
        """Not even at its outermost frame, whose guards would be checked at every step; and it goes on behind it."""
        from torch._dynamo.testing import CompileCounter
        from torch._dynamo.utils import counters

        w = ones(5)
        optimizer, backend = gradstep.torch.AdamW([w], lr=0.5), CompileCounter()
        w.grad = torch.ones(5)
        torch._dynamo.reset(), counters.clear()
        compiled = torch.compile(optimizer.step, backend=backend)
        compiled(), compiled()
        self.assertEqual((counters["frames"]["total"], backend.frame_count), (0, 0))

        def train(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            optimizer.step()
            return y + 1

        compiled = torch.compile(train, backend=backend)
        for _ in range(2):
            self.assertTrue(torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0)))
        self.assertEqual(backend.frame_count, 2)  # before the step and behind it
        self.assertEqual(float(optimizer.state[w]["step"]), 4)

    def test_hyperparameters_that_change_every_step(self):
        """Rate, momentum and betas by OneCycleLR, in one group and in several."""
        for name, arguments in (("SGD", {"momentum": 0.9}), ("AdamW", {}), ("RMSprop", {"momentum": 0.9})):
            for number_of_groups in (1, 3):
                models = [[ones(4, dtype=torch.float64) for _ in range(3)] for _ in range(2)]
                optimizers = [
                    getattr(module, name)(
                        model if number_of_groups == 1 else [{"params": [p], "weight_decay": 0.01 * i} for i, p in enumerate(model)],
                        lr=LR,
                        **arguments,
                        **({"foreach": False}),
                    )
                    for module, model in zip((gradstep.torch, torch.optim), models)
                ]
                schedulers = [torch.optim.lr_scheduler.OneCycleLR(x, LR, 25) for x in optimizers]
                for step in range(20):
                    for optimizer, scheduler in zip(optimizers, schedulers):
                        step_with(optimizer, *[1.0 + step % 3 + i for i in range(3)])
                        scheduler.step()
                for p, q in zip(*models):
                    self.assertTrue(torch.allclose(p, q, rtol=1e-9), (name, number_of_groups))

    def test_a_parameter_that_moves_to_the_next_group(self):
        a, b, c = ones(2), ones(2), ones(2)
        optimizer = gradstep.torch.SGD([{"params": [a]}, {"params": [b, c], "lr": 0.25}], lr=0.5)
        step_with(optimizer, 1, 1, 1)
        optimizer.param_groups[0]["params"].append(optimizer.param_groups[1]["params"].pop(0))
        step_with(optimizer, 1, 1, 1)
        self.assertEqual([float(x[0].detach()) for x in (a, b, c)], [0, 0.25, 0.5])

    def test_a_step_that_two_parameters_share_counts_twice(self):
        results = []
        for module in (gradstep.torch, torch.optim):
            w, v = ones(2, dtype=torch.float64), ones(2, dtype=torch.float64)
            optimizer = module.Adam([w, v], lr=0.1, foreach=False)
            step_with(optimizer, 1, 1)
            optimizer.state[v]["step"] = optimizer.state[w]["step"]
            for gradient in (0.5, -1):
                step_with(optimizer, gradient, gradient)
            results.append(torch.stack([w, v]).detach())
        self.assertTrue(torch.allclose(*results, rtol=1e-12))

    def test_options_of_the_program(self):
        w, v = ones(2), ones(2)
        optimizer = gradstep.torch.SGD([{"params": [w], "name": "first"}, {"params": [v]}], lr=0.5)
        for _ in range(2):
            step_with(optimizer, 1, 1)
        self.assertEqual(float(v[0].detach()), 0)

    def test_what_is_known_is_used_again(self):
        """Only the first step looks at every tensor by itself, whatever the layouts, dtypes, groups and schedules are."""

        class Counting(gradstep.torch.AdamW):
            looked = 0

            def _step_anew(self, loss):
                self.looked += 1
                super()._step_anew(loss)

        image = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).requires_grad_()
        parameters = [ones(3), image, ones(2, dtype=torch.float64), ones(4), ones(1, dtype=torch.bfloat16)]
        optimizer = Counting([{"params": parameters[:3]}, {"params": parameters[3:], "lr": 0.5}])
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.1, 0.5], 100)
        for _ in range(5):
            for p in parameters[1:]:  # the first one has no gradient
                p.grad = torch.ones_like(p)
            optimizer.step()
            scheduler.step()
        self.assertEqual(optimizer.looked, 1)
        parameters[0].grad = torch.ones(3)
        optimizer.step()
        optimizer.step()
        self.assertEqual(optimizer.looked, 2)

    def test_options_that_are_tensors_may_change_where_they_are(self):
        lr, results = torch.tensor(0.5), []
        for module in (gradstep.torch, torch.optim):
            lr.fill_(0.5)
            w = ones(3)
            optimizer = module.SGD([w], lr=lr)
            step_with(optimizer, 1)
            lr.fill_(0.125)
            step_with(optimizer, 1)
            results.append(float(w[0].detach()))
        self.assertEqual(*results)


class NothingIsWrittenBeforeAnError(unittest.TestCase):
    def test_errors_in_the_second_group_and_dtype(self):
        def bad_options(optimizer, v):
            optimizer.param_groups[1]["betas"] = (1.5, 0.9)

        def bad_rate(optimizer, v):
            optimizer.param_groups[1]["lr"] = float("nan")

        def bad_gradient(optimizer, v):
            v.grad = torch.sparse_coo_tensor([[1]], [1.0], (4,), dtype=v.dtype, check_invariants=True)

        def bad_state(optimizer, v):
            optimizer.state[v] = {"step": torch.tensor(3.0)}

        def bad_step(optimizer, v):
            optimizer.state[v]["step"] = -1

        def lost_option(optimizer, v):
            del optimizer.param_groups[1]["eps"]

        def freed_gradient(optimizer, v):
            v.grad.untyped_storage().resize_(0)

        def freed_state(optimizer, v):
            if v in optimizer.state:
                optimizer.state[v]["exp_avg"].untyped_storage().resize_(0)
            else:
                freed_gradient(optimizer, v)

        spoilers = (bad_options, bad_rate, bad_gradient, bad_state, bad_step, lost_option, freed_gradient, freed_state)
        for spoil in spoilers:
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                for steps_before in (0, 3):
                    w, v = ones(4), ones(4, dtype=dtype)
                    optimizer = gradstep.torch.AdamW([{"params": [w]}, {"params": [v]}])
                    for _ in range(steps_before):
                        step_with(optimizer, 1, 1)
                    w.grad, v.grad = torch.ones(4), torch.ones(4, dtype=dtype)
                    before, state = w.detach().clone(), copy.deepcopy(dict(optimizer.state.get(w, {})))
                    spoil(optimizer, v)
                    for _ in range(2):
                        with self.assertRaises((gradstep.Error, KeyError)):
                            optimizer.step()
                    self.assertTrue(torch.equal(w, before), spoil)
                    for key, value in state.items():
                        self.assertTrue(torch.equal(optimizer.state[w][key], value), spoil)

    def test_a_config_that_is_no_dict(self):
        with self.assertRaisesRegex(gradstep.ConfigError, "config: 'lion' is a str; expected a dict, such as"):
            gradstep.torch.Optimizer([ones(1)], "lion")

    def test_a_group_inherits_what_it_does_not_set(self):
        sgd, lion = {"rule": {"name": "sgd"}}, {"rule": {"name": "lion"}}
        for own, after in (({}, 0), ({"config": lion}, 0.5), ({"lr": 0.25}, 0.5), ({"config": lion, "lr": 1e-3}, 0.999)):
            w, v = ones(1), ones(1)
            optimizer = gradstep.torch.Optimizer([{"params": [w]}, {"params": [v], **own}], sgd, lr=0.5)
            step_with(optimizer, 2, 2)
            self.assertAlmostEqual(v.item(), after, places=6)

    def test_a_clip_by_a_norm_and_a_rule_without_float64(self):
        for clip in ({"name": "clip_norm", "limit": 1}, {"name": "clip_global_norm", "limit": 1}, {"name": "clip_adaptive"}):
            with self.assertRaisesRegex(gradstep.ConfigError, f"clip: {clip['name']} is given; expected none or clip_value; torch.nn"):
                gradstep.torch.Optimizer([ones(1)], {"rule": {"name": "sgd"}, "clip": clip})
        gradstep.torch.Optimizer([ones(1)], {"rule": {"name": "sgd"}, "clip": {"name": "clip_value", "limit": 1}})
        with self.assertRaisesRegex(gradstep.NotCompiledError, "float64: lion.*expected float32"):
            gradstep.torch.Optimizer([ones(1, dtype=torch.float64)], {"rule": {"name": "lion"}})


if __name__ == "__main__":
    unittest.main()
