"""Model-wise rules in gradstep.torch.Optimizer: `./dev test python-torch` runs it.

They are compared with the numbers of the packages of their authors and of optax (test/golden/model_wise.hpp), and bit for bit with
gradstep.Model.
"""

from __future__ import annotations

import copy
import ctypes
import io
import math
import pickle
import re
import unittest
import warnings
from pathlib import Path

import torch

import gradstep
import gradstep.torch

HEADER = (Path(__file__).parents[3] / "test/golden/model_wise.hpp").read_text()
GOLDEN = {
    name: [float.fromhex(x) for x in numbers.split(", ")]
    for name, numbers in re.findall(r"double, \d+> (\w+)\{(-?0x[^}]*)\}", HEADER)
}
STEPS, SIZES = 12, (37, 20)
RATES, LOSSES = [1.0] * 8 + [0.5] * 4, [8.0 + t % 4 for t in range(STEPS)]
# As in test/rules/model_wise.cpp, where it is derived, with the roundings of float32 in 40 operations of a step. The sums are in
# float64 here.
RELATIVE = STEPS * 40 * 8 * 16 * 2.0**-23

PRODIGY = {"name": "prodigy", "beta1": 0.75, "beta2": 0.875, "epsilon": 1e-3, "d0": 1 / 128}
MOMO = {"name": "momo", "beta": 0.75, "lower_bound": 0.5}
MOMO_ADAM = {"name": "momo_adam", "beta1": 0.75, "beta2": 0.875, "epsilon": 1e-3, "lower_bound": 0.5}
DADAPT = {"name": "dadapt_adam", "beta1": 0.75, "beta2": 0.875, "epsilon": 1e-3, "d0": 1 / 128}
DECOUPLED, L2 = {"name": "decoupled", "rate": 0.125}, {"name": "l2", "rate": 0.25}
# The name in the header, the rule, the regularizer, and which numbers of the clock the header has.
CASES = [
    ("prodigyopt", PRODIGY, DECOUPLED, (0, 1, 2)),
    ("prodigyopt_bounded", {**PRODIGY, "growth_rate": 1.25, "use_bias_correction": True}, {"name": "l2", "rate": 0.125}, (0, 1, 2)),
    ("prodigyopt_safeguard", {**PRODIGY, "safeguard_warmup": True, "beta3": 0.5, "d_coef": 0.5}, None, (0, 1, 2)),
    ("dog", {"name": "dog", "initial": 0.125, "epsilon": 1e-3}, L2, (0, 1)),
    ("optax_dowg", {"name": "dowg", "initial": 0.25, "epsilon": 1e-3}, L2, (0, 1)),
    ("dadapt_adam", DADAPT, DECOUPLED, (0, 1)),
    ("dadapt_sgd", {"name": "dadapt_sgd", "mu": 0.25, "d0": 1 / 16}, None, (0, 1, 2)),
    ("optax_polyak", {"name": "polyak_sgd", "f_min": 0.5, "max_learning_rate": 0.125}, None, ()),
    ("momo_corrected", {**MOMO, "decay": 0.25, "bias_correction": True, "adapt_lower_bound": True}, None, (0, 1, 2)),
    ("momo_adam", {**MOMO_ADAM, "decay": 0.25}, None, (0, 1, 2)),
]
NEEDS_LOSS = ("polyak_sgd", "momo", "momo_adam")


def sequence(seed: int, size: int) -> torch.Tensor:
    i = torch.arange(size)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128).float() / 64


def config_of(rule: dict, regularizer: dict | None = None) -> dict:
    return {"rule": rule, **({"regularizer": regularizer} if regularizer else {})}


def leaves(seed: int = 1) -> list[torch.Tensor]:
    """Tensors of several dtypes and layouts; one is longer than a block of a sum."""
    g = torch.Generator().manual_seed(seed)
    big, few, of_columns = torch.randn(97, 53, generator=g), torch.randn(7, generator=g), torch.randn(6, 5, 2, generator=g)
    return [x.requires_grad_() for x in (big, few.half(), of_columns[..., 0], big[:5].clone().t(), few.bfloat16())]


def set_gradients(parameters: list[torch.Tensor], seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    for p in parameters:
        p.grad = (p.detach().float() - torch.randn(p.shape, generator=g) / 8).to(p.dtype)


def twin(config: dict, rate: float, p: torch.Tensor) -> gradstep.Parameter:
    return gradstep.Parameter({**config, "schedule": {"name": "constant", "rate": rate}}, memory_of(p).float())


def round_in_memory(parameter: gradstep.Parameter, values: torch.Tensor) -> None:
    """16-bit weights are rounded after the step, and their state stays. With set_values, it would follow the weights."""
    view, rounded = parameter.view(), values.float().contiguous().numpy()
    ctypes.memmove(view.ctypes.data, rounded.ctypes.data, view.nbytes)


def memory_of(x: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie in memory, which is the order of the sums."""
    x = x.detach()
    return x.t().contiguous() if x.ndim == 2 and x.stride(0) == 1 else x.contiguous()


class ModelWise(unittest.TestCase):
    def test_the_numbers_are_those_of_the_authors_and_of_optax(self) -> None:
        """Also if each tensor is a group of its own."""
        for name, rule, regularizer, in_clock in CASES:
            for is_split in (False, True):
                with self.subTest(name, is_split=is_split):
                    w = [sequence(1 + k, size).requires_grad_() for k, size in enumerate(SIZES)]
                    groups = [{"params": [x]} for x in w] if is_split else w
                    optimizer = gradstep.torch.Optimizer(groups, config_of(rule, regularizer), lr=1.0)
                    for t in range(STEPS):
                        for k, x in enumerate(w):
                            x.grad = x.detach() - sequence(t + 3 + k, SIZES[k]) / 8
                        for group in optimizer.param_groups:
                            group["lr"] = RATES[t]
                        optimizer.step((lambda: LOSSES[t]) if rule["name"] in NEEDS_LOSS else None)
                    theirs = GOLDEN[name]
                    ours = torch.cat([x.detach() for x in w])
                    self.assertLess(float((ours - torch.tensor(theirs[:57])).abs().max()), 8 * RELATIVE)
                    for i, expected in zip(in_clock, theirs[57:]):
                        self.assertLess(abs(float(optimizer.state[w[1]]["clock"][i]) / expected - 1), RELATIVE)
                    self.assertEqual(len(theirs), 57 + len(in_clock))

    def test_groups_are_one_model_bit_for_bit(self) -> None:
        """Groups with other rates, weight decays and dtypes, the state_dict of a file, a pickle and a deep copy in between."""
        for _, rule, regularizer, _ in CASES:
            with self.subTest(**rule):
                ours = leaves()
                rates = (1.0, 1.0) if rule["name"] in ("momo", "momo_adam") else (1.0, 0.5)
                plain, decayed = config_of(rule), config_of(rule, regularizer)
                of_group = [(plain, rates[0]), (decayed, rates[1])]

                def made(parameters: list[torch.Tensor]) -> gradstep.torch.Optimizer:
                    return gradstep.torch.Optimizer(
                        [{"params": parameters[:3]}, {"params": parameters[3:], "config": decayed, "lr": rates[1]}],
                        plain,
                        lr=rates[0],
                    )

                optimizer = made(ours)
                model = gradstep.Model({str(k): twin(*of_group[k >= 3], p) for k, p in enumerate(ours)})
                for t in range(9):
                    if t == 3:  # the run goes on from a file
                        file = io.BytesIO()
                        torch.save(optimizer.state_dict(), file)
                        file.seek(0)
                        optimizer = made(ours)
                        optimizer.load_state_dict(torch.load(file))
                    if t == 5:
                        optimizer = pickle.loads(pickle.dumps(optimizer))
                        ours = [x for group in optimizer.param_groups for x in group["params"]]
                    if t == 7:
                        optimizer = copy.copy(copy.deepcopy(optimizer))
                        ours = [x for group in optimizer.param_groups for x in group["params"]]
                    set_gradients(ours, t)
                    loss = torch.tensor(8.0 + t % 3)
                    given = optimizer.step((lambda: loss) if rule["name"] in NEEDS_LOSS else None)
                    self.assertIs(given, loss if rule["name"] in NEEDS_LOSS else None)
                    model.update({str(k): memory_of(p.grad).float() for k, p in enumerate(ours)}, loss=float(loss))
                    for k, p in enumerate(ours):
                        expected = torch.from_numpy(model[str(k)].values()).to(p.dtype)
                        self.assertTrue(torch.equal(memory_of(p), expected), k)
                        if p.dtype is not torch.float32:
                            round_in_memory(model[str(k)], expected)
                for k, p in enumerate(ours):
                    self.assertEqual(optimizer.state[p]["step"], 9)
                    if "clock" in optimizer.state[p]:
                        self.assertEqual(tuple(optimizer.state[p]["clock"].tolist()), model[str(k)].clock.state)
                self.assertEqual("clock" in optimizer.state[ours[0]], rule["name"] != "polyak_sgd")

    def test_a_plan_goes_on_and_finds_new_rates(self) -> None:
        for count in (1, 2):
            p, q = (torch.randn(5000, generator=torch.Generator().manual_seed(3)).requires_grad_() for _ in range(2))
            optimizer = gradstep.torch.Optimizer([p], {"rule": PRODIGY}, lr=1.0, threads=count)
            twin_of_q = twin({"rule": PRODIGY}, 1.0, q)
            plans = set()
            for t, rate in enumerate((1.0, 1.0, 0.5, 0.25)):
                set_gradients([p], t)
                optimizer.param_groups[0]["lr"] = rate
                optimizer.step()
                twin_of_q.update(p.grad.numpy(), rate=rate)
                plans.add(id(optimizer._plan))
                self.assertEqual(p.tolist(), twin_of_q.values().tolist())
            self.assertEqual(len(plans), 1)

    def test_parameters_without_a_gradient_are_left_out_and_the_clock_goes_on(self) -> None:
        """Also for a parameter whose first gradient comes later, and for a group that is added."""
        ours = [x.detach().clone().requires_grad_() for x in (sequence(k, 5 + k).float() for k in range(4))]
        there = [x.detach().clone() for x in ours]
        optimizer = gradstep.torch.Optimizer(ours[:3], {"rule": PRODIGY}, lr=1.0)
        updater = gradstep.Updater({"rule": PRODIGY, "schedule": {"name": "constant", "rate": 1.0}})
        states: list = [None] * 4
        for t, present in enumerate(((0, 1), (0,), (1, 2), (0, 1, 2), (3,), (0, 1, 2, 3), (0, 1, 2, 3))):
            if t == 4:
                optimizer.add_param_group({"params": [ours[3]]})
            set_gradients(ours, t)
            for k, p in enumerate(ours):
                if k not in present:
                    p.grad = None
                elif states[k] is None:
                    states[k] = updater.initialize(there[k])
            optimizer.step()
            updater.next_step()
            updater.apply_many([there[k] for k in present], [ours[k].grad for k in present], [states[k] for k in present])
            for p, q in zip(ours, there):
                self.assertEqual(p.tolist(), q.tolist())
            for p in ours:
                if p in optimizer.state:
                    self.assertEqual(optimizer.state[p]["step"], t + 1)
                    self.assertEqual(tuple(optimizer.state[p]["clock"].tolist()), updater.clock.state)

    def test_groups_with_other_numbers_are_other_models(self) -> None:
        ours = [sequence(k, 9).float().requires_grad_() for k in range(3)]
        rules = (PRODIGY, {**PRODIGY, "d_coef": 0.5}, {"name": "adam"})
        optimizer = gradstep.torch.Optimizer(
            [{"params": [p], "config": {"rule": rule}} for p, rule in zip(ours, rules)], {"rule": PRODIGY}, lr=1.0
        )
        there = [twin({"rule": rule}, 1.0, p) for p, rule in zip(ours, rules)]
        for t in range(4):
            set_gradients(ours, t)
            optimizer.step()
            for p, q in zip(ours, there):
                q.update(p.grad.numpy())
                self.assertEqual(p.tolist(), q.values().tolist())
        self.assertNotEqual(*(optimizer.state[p]["clock"].tolist() for p in ours[:2]))
        # With the same numbers they would be one model, of two clocks.
        before = [p.tolist() for p in ours]
        optimizer.param_groups[1]["config"] = {"rule": PRODIGY}
        set_gradients(ours, 9)
        with self.assertRaisesRegex(
            gradstep.InvalidError, "parameter 0 of group 1: its step 4 and clock .* differ from 4 and .* of parameter 0 of group 0"
        ):
            optimizer.step()
        self.assertEqual([p.tolist() for p in ours], before)
        for name in ("step", "clock"):  # they go on from the first one's
            optimizer.state[ours[1]][name] = optimizer.state[ours[0]][name].clone()
        optimizer.step()
        # A number that changes makes two models of one.
        optimizer.param_groups[1]["config"]["rule"] = {**PRODIGY, "beta1": 0.5}
        set_gradients(ours, 10)
        optimizer.step()
        self.assertNotEqual(*(optimizer.state[p]["clock"].tolist() for p in ours[:2]))

    def test_a_gradient_that_is_skipped_skips_the_model(self) -> None:
        ours = [sequence(k, 9).float().requires_grad_() for k in range(3)]
        config = {"rule": PRODIGY, "on_nonfinite": "skip"}
        groups = [{"params": ours[:1]}, {"params": ours[1:2]}, {"params": ours[2:], "config": {"rule": {"name": "sgd"}}}]
        optimizer = gradstep.torch.Optimizer(groups, config, lr=1.0)
        for t in range(2):
            set_gradients(ours, t)
            optimizer.step()
        before = [p.tolist() for p in ours]
        clock = optimizer.state[ours[0]]["clock"].tolist()
        ours[1].grad[3] = math.inf
        optimizer.step()
        self.assertEqual([p.tolist() == old for p, old in zip(ours, before)], [True, True, False])
        self.assertEqual([optimizer.state[p]["step"] for p in ours], [2, 2, 3])
        self.assertEqual(optimizer.state[ours[0]]["clock"].tolist(), clock)
        optimizer.param_groups[1]["config"] = {"rule": PRODIGY, "on_nonfinite": "raise"}
        before = [p.tolist() for p in ours]
        with self.assertRaisesRegex(gradstep.NotFiniteError, "parameter 0 of group 1: the gradient is not finite"):
            optimizer.step()
        self.assertEqual([p.tolist() for p in ours], before)

    def test_a_step_that_needs_the_loss_gets_it_from_the_closure(self) -> None:
        for rule in ({"name": "polyak_sgd"}, {"name": "momo"}, {"name": "momo_adam"}):
            p, q = (torch.tensor([1.0, -2.0], requires_grad=True) for _ in range(2))
            optimizer = gradstep.torch.Optimizer([p, q], {"rule": rule}, lr=1.0)
            p.grad = q.grad = torch.ones(2)
            expected = f"step: {rule['name']} computes its step size from the loss, and none is given; expected a closure that"
            for closure, said in (
                (None, expected),
                (lambda: None, expected),
                (lambda: "much", "step: the closure returned 'much'; expected the loss, a number"),
                (lambda: torch.ones(2), r"step: the closure returned tensor\(\[1., 1.\]\); expected the loss, a number"),
                (lambda: math.nan, "step_options.loss: nan is out of range; expected finite"),
            ):
                with self.assertRaisesRegex(gradstep.InvalidError, said):
                    optimizer.step(closure)
                self.assertEqual([p.tolist(), q.tolist()], [[1, -2], [1, -2]])
                self.assertFalse(optimizer.state)
            scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
            p.grad = q.grad = None
            loss = (p.square() + q.square()).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer, lambda: loss)
            scaler.update()
            there = twin({"rule": rule}, 1.0, torch.cat([torch.tensor([1.0, -2.0])] * 2))
            there.update(torch.tensor([2.0, -4.0] * 2), loss=10.0)
            self.assertEqual(p.tolist() + q.tolist(), there.values().tolist())

    def test_sam_clipping_and_maximize(self) -> None:
        def loss_of(p: torch.Tensor) -> torch.Tensor:
            return (p.square() * torch.arange(1, 6)).sum()

        def backward(p: torch.Tensor) -> torch.Tensor:
            p.grad = None
            loss = loss_of(p)
            loss.backward()
            return loss

        for rule in (PRODIGY, MOMO):
            p, q = (torch.linspace(-1, 1, 5).requires_grad_() for _ in range(2))
            optimizer = gradstep.torch.Optimizer([p], {"rule": rule}, lr=1.0)
            there = twin({"rule": rule}, 1.0, q)
            for _ in range(4):
                backward(p)
                torch.nn.utils.clip_grad_norm_([p], 2.0)
                optimizer.ascend(rho=0.25)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    loss = optimizer.descend(lambda: backward(p))
                there.update(p.grad.numpy(), loss=float(loss.detach()))
                self.assertEqual(p.tolist(), there.values().tolist())
        optimizer.ascend()
        with self.assertRaisesRegex(gradstep.InvalidError, "step: momo computes its step size from the loss"):
            optimizer.descend()
        self.assertEqual(p.tolist(), there.values().tolist())

        p, q = (torch.linspace(-1, 1, 5).requires_grad_() for _ in range(2))
        both = [gradstep.torch.Optimizer([x], {"rule": PRODIGY}, lr=1.0, maximize=x is q) for x in (p, q)]
        for t in range(3):
            set_gradients([p], t)
            q.grad = -p.grad
            for optimizer in both:
                optimizer.step()
        self.assertEqual(p.tolist(), q.tolist())

    def test_what_is_no_model_is_refused_before_anything_is_written(self) -> None:
        def refused(optimizer: gradstep.torch.Optimizer, said: str, closure: object = None) -> None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            before, state = [p.tolist() for p in parameters], copy.deepcopy(optimizer.state_dict()["state"])
            with self.assertRaisesRegex(gradstep.InvalidError, said):
                optimizer.step(closure)
            self.assertEqual([p.tolist() for p in parameters], before)
            self.assertEqual(str(optimizer.state_dict()["state"]), str(state))

        memory = torch.linspace(0, 1, 8)
        for parameters in ([memory[:5], memory[4:]], [memory[0::2], memory[1::2]]):
            parameters = [p.requires_grad_() for p in parameters]
            set_gradients(parameters, 1)
            refused(
                gradstep.torch.Optimizer(parameters, {"rule": PRODIGY}),
                "parameter 1 of group 0: shares memory with parameter 0 of group 0, and prodigy updates all parameters together; "
                "expected separate memory for each",
            )
        alone = torch.ones(3, requires_grad=True)
        optimizer = gradstep.torch.Optimizer([alone], {"rule": PRODIGY})
        set_gradients([alone], 1)
        optimizer.step()
        optimizer.state[alone]["x0"] = alone.detach()
        refused(optimizer, "parameter 0 of group 0: shares memory with its state, and prodigy updates all parameters together")
        p, q = torch.linspace(0, 1, 4).requires_grad_(), torch.linspace(1, 2, 4).requires_grad_()
        set_gradients([p, q], 1)
        for rule in (MOMO, MOMO_ADAM):
            optimizer = gradstep.torch.Optimizer([{"params": [p], "lr": 0.5}, {"params": [q]}], {"rule": rule}, lr=1.0)
            said = "tensor 1: rate: differs from the learning rate of tensor 0, .*; expected the same rate"
            refused(optimizer, said, lambda: 1.0)
            optimizer.param_groups[0]["lr"] = 1.0
            optimizer.step(lambda: 1.0)
            for name, value, said in (
                ("step", torch.tensor(7.0), r"parameter 0 of group 1: its step 7 and clock \[.*\] differ from 1 and"),
                ("clock", torch.zeros(3), r"parameter 0 of group 1: its state clock has the shape \(3,\); expected \(4,\)"),
                ("clock", None, "parameter 0 of group 1: its state has .* and no 'clock'"),
            ):
                kept, optimizer.state[q][name] = optimizer.state[q][name], value
                with self.assertRaisesRegex(gradstep.Error, said):
                    optimizer.step(lambda: 1.0)
                optimizer.state[q][name] = kept
        p.grad = torch.eye(4)[0].to_sparse()
        optimizer = gradstep.torch.Optimizer([p, q], {"rule": PRODIGY})
        refused(optimizer, "parameter 0 of group 0: the gradient is sparse; expected a dense one")

    def test_shards_are_refused(self) -> None:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        try:
            from torch.distributed.tensor import Shard, distribute_tensor
        except ImportError:
            from torch.distributed._tensor import Shard, distribute_tensor
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            mesh = init_device_mesh("cpu", (1,))
            w = torch.nn.Parameter(distribute_tensor(torch.ones(3, 4), mesh, [Shard(0)]))
            w.grad = distribute_tensor(torch.ones(3, 4), mesh, [Shard(0)])
            optimizer = gradstep.torch.Optimizer([w], {"rule": PRODIGY})
            with self.assertRaisesRegex(
                gradstep.InvalidError, "parameter 0 of group 0: is a DTensor, .*, and prodigy looks at whole tensors; expected"
            ):
                optimizer.step()
            self.assertFalse(optimizer.state)
        finally:
            dist.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
