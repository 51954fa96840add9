"""`append`, `keep`, `permute` and `reset` of gradstep.torch: `./dev test python-torch` runs it, where torch is installed.

The oracle is a new optimizer with the state that this file has rearranged by hand. Both runs must have the same bits.
"""

from __future__ import annotations

import copy
import pickle
import unittest
from collections.abc import Callable

import torch

import gradstep
import gradstep.torch

ADAM = {"name": "adam"}
# The class, its arguments, the dtype, the shapes, and the entries of the state that do not begin at zero: a number, or None for the
# values of the new rows.
ALL, MATRICES = [(5, 3), (5,), (5, 2, 2)], [(5, 3), (5, 1)]
CASES = [
    ("AdamW", {"lr": 0.1, "amsgrad": True}, torch.float32, ALL, {}),
    ("Adam", {"lr": 0.1}, torch.complex64, ALL, {}),
    ("AdamW", {"lr": 0.1}, torch.bfloat16, ALL, {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}, torch.float64, ALL, {}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}, torch.float32, ALL, {"sum": 0.5}),
    ("ASGD", {"lr": 0.1, "t0": 1}, torch.float32, ALL, {"ax": None}),
    ("Adafactor", {"lr": 0.1}, torch.float32, [(5, 3), (5,)], {}),
    ("Muon", {"lr": 0.1}, torch.float32, MATRICES, {}),
    ("Optimizer", {"config": {"rule": ADAM, "average": {"name": "ema", "decay": 0.5}}}, torch.float32, ALL, {"average": None}),
    ("Optimizer", {"config": {"rule": ADAM, "element": "mixed"}}, torch.bfloat16, ALL, {"master": None}),
    ("Optimizer", {"config": {"rule": {"name": "rowwise_adagrad"}}}, torch.float32, ALL, {}),
    ("Optimizer", {"config": {"rule": {"name": "adafactor"}}}, torch.float32, ALL, {}),
    ("Optimizer", {"config": {"rule": {"name": "prodigy"}}}, torch.float32, ALL, {"x0": None}),
]
FACTORS = ("row_var", "r")  # have a number for each row


def random(shape: tuple, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.promote_types(dtype, torch.float32)).to(dtype)


def steps(optimizer, parameters: list, count: int, seed: int) -> None:
    for t in range(count):
        for k, p in enumerate(parameters):
            p.grad = random(p.shape, p.dtype, seed + 10 * t + k)
        optimizer.step()


def start(name: str, arguments: dict, dtype: torch.dtype, shapes: list) -> tuple:
    parameters = [torch.nn.Parameter(random(x, dtype, k)) for k, x in enumerate([*shapes, shapes[0]])]
    groups = [{"params": parameters[:-1]}, {"params": parameters[-1:], "lr": 0.01}]
    return getattr(gradstep.torch, name)(groups, **arguments), parameters


def by_hand(optimizer, parameters: list, sources: list, begins: dict, added: list | None = None) -> tuple:
    """A new optimizer: row i of all parameters but the last was row sources[i] before; None is a row whose state begins anew."""
    new = []
    for k, p in enumerate(parameters[:-1]):
        rows = list(p.detach()) + (list(added[k]) if added else [])
        places = range(len(rows)) if None in sources else sources
        new.append(torch.nn.Parameter(torch.stack([rows[i] for i in places])))
    new.append(torch.nn.Parameter(parameters[-1].detach().clone()))
    saved = copy.deepcopy(optimizer.state_dict())
    for k, p in enumerate(parameters[:-1]):
        for name, old in saved["state"][k].items():
            if old.ndim and (old.shape == p.shape or name in FACTORS) and name != "clock":
                begin = begins.get(name, 0)
                fresh = [new[k][i].detach().to(old.dtype) if begin is None else torch.full_like(old[0], begin) for i in range(len(sources))]
                saved["state"][k][name] = torch.stack([fresh[i] if s is None else old[s] for i, s in enumerate(sources)])
    groups = [{"params": new[:-1]}, {"params": new[-1:], "lr": 0.01}]
    made = type(optimizer)(groups, **({"config": optimizer.defaults["config"]} if "config" in optimizer.defaults else
                                      {"initial_accumulator_value": 0.5} if "sum" in begins else {}))
    made.load_state_dict(saved)
    return made, new


class Rows(unittest.TestCase):
    def assert_same(self, one: tuple, other: tuple) -> None:
        for p, q in zip(one[1], other[1], strict=True):
            self.assertTrue(torch.equal(p, q))
            a, b = one[0].state[p], other[0].state[q]
            self.assertEqual(a.keys(), b.keys())
            for name in a:
                self.assertTrue(torch.equal(a[name], b[name]), name)

    def test_the_state_follows_the_rows(self) -> None:
        for name, arguments, dtype, shapes, begins in CASES:
            with self.subTest(name, **arguments, dtype=dtype):
                optimizer, parameters = start(name, arguments, dtype, shapes)
                few = parameters[:-1]
                steps(optimizer, parameters, 3, 100)
                added = [random((2, *p.shape[1:]), dtype, 50 + k) for k, p in enumerate(few)]
                mask = torch.tensor([True, False, True, True, False, True, True])
                changes: list[tuple[Callable, list, list | None]] = [
                    (lambda: optimizer.append(dict(zip(few, added))), [0, 1, 2, 3, 4, None, None], added),
                    (lambda: optimizer.keep(few, mask), [0, 2, 3, 5, 6], None),
                    (lambda: optimizer.permute(few, [3, 0, 4, 1, 2]), [3, 0, 4, 1, 2], None),
                    (lambda: optimizer.reset(few, torch.tensor([4, 1])), [0, None, 2, 3, None], None),
                ]
                for k, (change, sources, rows) in enumerate(changes):
                    other = by_hand(optimizer, parameters, sources, begins, rows)
                    change()
                    for p in parameters[:-1]:
                        self.assertTrue(p.is_contiguous() and p.requires_grad)
                        self.assertEqual(p.grad is None, k < 3)
                    self.assertIsNotNone(parameters[-1].grad)
                    self.assert_same((optimizer, parameters), other)
                    steps(optimizer, parameters, 3, 1000 * k), steps(*other, 3, 1000 * k)
                    self.assert_same((optimizer, parameters), other)

    def test_checkpoints_after_a_change(self) -> None:
        for name, arguments, dtype, shapes, _ in CASES:
            with self.subTest(name, **arguments, dtype=dtype):
                optimizer, parameters = start(name, arguments, dtype, shapes)
                steps(optimizer, parameters, 2, 100)
                optimizer.keep(parameters[:-1], [True, False, True, True, False])
                loaded, copied = start(name, arguments, dtype, [(3, *x[1:]) for x in shapes])
                copied[-1] = torch.nn.Parameter(parameters[-1].detach().clone())
                loaded.param_groups[1]["params"] = copied[-1:]
                loaded.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
                for p, q in zip(copied, parameters):
                    p.data.copy_(q.detach())
                pair = pickle.loads(pickle.dumps((optimizer, parameters)))
                for x in ((optimizer, parameters), (loaded, copied), pair):
                    steps(*x, 3, 200)
                self.assert_same((optimizer, parameters), (loaded, copied))
                self.assert_same((optimizer, parameters), pair)

    def test_before_the_first_step_and_without_rows(self) -> None:
        for name, arguments, dtype, shapes, _ in CASES:
            with self.subTest(name, **arguments, dtype=dtype):
                runs = [start(name, arguments, dtype, shapes), start(name, arguments, dtype, [(2, *x[1:]) for x in shapes])]
                optimizer, parameters = runs[0]
                optimizer.keep(parameters[:-1], [False] * 5)
                optimizer.append({p: q.detach() for p, q in zip(parameters[:-1], runs[1][1])})
                runs[1][1][-1] = parameters[-1].detach().clone().requires_grad_()
                runs[1][0].param_groups[1]["params"] = runs[1][1][-1:]
                if name == "Adagrad":  # whose state is there from the beginning
                    runs[1][0]._begin_state(runs[1][1][-1], dtype)
                for run in runs:
                    steps(*run, 2, 100)
                self.assert_same(*runs)

    def test_autograd_sees_the_new_shape(self) -> None:
        """A program keeps the graph of the last step, as in a loop whose variable is the loss."""
        calls: list[torch.Size] = []
        p = torch.nn.Parameter(torch.ones(3, 2))
        p.register_hook(lambda g: calls.append(g.shape))
        optimizer = gradstep.torch.SGD([p], lr=0.5)
        kept, module = (p * p).sum(), torch.nn.Module()
        module.weight, before = p, p
        kept.backward(retain_graph=True)
        optimizer.step()
        optimizer.append({p: torch.full((1, 2), 3.0)})
        self.assertIs(module.weight, before)
        loss = (module.weight * torch.arange(4.0)[:, None]).sum()
        loss.backward()
        self.assertEqual(calls, [torch.Size((3, 2)), torch.Size((4, 2))])
        self.assertEqual(p.grad.tolist(), [[0, 0], [1, 1], [2, 2], [3, 3]])
        optimizer.step()
        self.assertEqual(p.tolist(), [[0, 0], [-0.5, -0.5], [-1, -1], [1.5, 1.5]])
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            kept.backward()

    def test_modes_devices_and_layouts(self) -> None:
        p = torch.nn.Parameter(torch.arange(6.0).view(2, 3).t())  # its columns are contiguous
        optimizer = gradstep.torch.Adam([p], lr=0.5)
        steps(optimizer, [p], 1, 0)
        values, moments = p.detach().clone(), optimizer.state[p]["exp_avg"].clone()
        with torch.inference_mode():
            optimizer.permute(p, torch.tensor([2, 0, 1]))
        with torch.device("meta"):
            optimizer.reset([p], [1])
            optimizer.append({p: torch.ones(1, 2, device="cpu")})
        self.assertTrue(torch.equal(p[:3], values[[2, 0, 1]]))
        moments = moments[[2, 0, 1]]
        moments[1] = 0
        self.assertTrue(torch.equal(optimizer.state[p]["exp_avg"], torch.cat([moments, torch.zeros(1, 2)])))
        steps(optimizer, [p], 1, 0)
        self.assertFalse(p.is_inference() or p.grad is None)

    def test_entries_that_no_step_uses_move_too(self) -> None:
        p = torch.nn.Parameter(torch.arange(3.0))
        optimizer = gradstep.torch.SGD([p], momentum=0.9)
        steps(optimizer, [p], 1, 0)
        old = optimizer.state[p]["momentum_buffer"].clone()
        optimizer.param_groups[0]["momentum"] = 0
        optimizer.keep(p, [True, False, True])
        optimizer.append({p: torch.ones(1)})
        self.assertTrue(torch.equal(optimizer.state[p]["momentum_buffer"], torch.cat([old[[0, 2]], torch.zeros(1)])))

    def test_an_error_leaves_all_parameters_as_they_were(self) -> None:
        a, b = torch.nn.Parameter(torch.ones(4, 3)), torch.nn.Parameter(torch.ones(4))
        single, other = torch.nn.Parameter(torch.tensor(1.0)), torch.nn.Parameter(torch.ones(5))
        both = torch.ones(8)
        tied = [torch.nn.Parameter(both[:5]), torch.nn.Parameter(both[4:])]
        stranger, shared = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4).share_memory_())
        bad = torch.nn.Parameter(torch.ones(4))
        optimizer = gradstep.torch.Adam([{"params": [a, single, *tied]}, {"params": [b, other, shared, bad]}])
        steps(optimizer, [a, b], 2, 0)
        optimizer.state[bad].update(step=torch.tensor(1.0), exp_avg=torch.ones(3), exp_avg_sq=torch.ones(4))
        unknown = torch.nn.Parameter(torch.ones(4))
        optimizer.add_param_group({"params": [unknown]})
        optimizer.state[unknown]["history"] = torch.ones(2, 4)
        Invalid, Dtype = gradstep.InvalidError, gradstep.DtypeError
        four, rows = [True] * 4, torch.ones(2, 3)
        cases: list[tuple[Callable, type, str]] = [
            (lambda: optimizer.keep([a, stranger], four), Invalid, "keep: tensor 1 is no parameter of this optimizer; expected a"),
            (lambda: optimizer.keep([a, "b"], four), Invalid, "keep: tensor 1 is no parameter of this optimizer"),
            (lambda: optimizer.keep("means", four), Invalid, "keep: parameters is a str; expected a tensor or a list of tensors"),
            (lambda: optimizer.keep([a, a], four), Invalid, "parameter 0 of group 0: keep: the tensor is given twice; expected each"),
            (lambda: optimizer.keep([a, other], four), Invalid, "parameter 1 of group 1: keep: the mask has 4 elements; expected 5"),
            (lambda: optimizer.keep(a, [1, 0, 1, 1]), Dtype, "keep: the mask is of torch.int64; expected a bool for each row"),
            (lambda: optimizer.keep(a, [four]), Invalid, r"keep: the mask has the shape \(1, 4\); expected one dimension"),
            (lambda: optimizer.keep(a, "mask"), Invalid, "keep: the mask is 'mask'; expected a bool for each row"),
            (lambda: optimizer.keep(a, torch.ones(4, device="meta")), Invalid, "keep: the mask is on meta; expected the CPU"),
            (lambda: optimizer.keep([a, single], four), Invalid, r"parameter 1 of group 0: keep: the tensor has the shape \(\), which"),
            (lambda: optimizer.keep(tied[0], [True] * 5), Invalid,
             "parameter 2 of group 0: keep: the tensor shares memory with parameter 3 of group 0; expected separate memory for each"),
            (lambda: optimizer.keep([a, shared], four), Invalid, "parameter 2 of group 1: keep: the tensor or its state is in shared"),
            (lambda: optimizer.keep([a, bad], four), Invalid, r"its state exp_avg has the shape \(3,\); expected \(4,\)"),
            (lambda: optimizer.keep([a, unknown], four), Invalid, r"its state history has the shape \(2, 4\); expected \(4,\)"),
            (lambda: optimizer.permute([a, b], [0, 1, 2]), Invalid, "group 0: permute: the order has 3 elements; expected 4"),
            (lambda: optimizer.permute([a, b], [0, 1, 2, 2]), Invalid, "permute: row 2 is in the order twice; expected each row once"),
            (lambda: optimizer.permute([a, b], [0, 1, 2, 4]), Invalid, r"permute: element 3 is 4; expected a row in \[0, 4\)"),
            (lambda: optimizer.permute(a, torch.ones(4)), Dtype, "permute: the order is of torch.float32; expected the integers"),
            (lambda: optimizer.reset([other, a], [4]), Invalid, r"parameter 0 of group 0: reset: element 0 is 4; expected a row in"),
            (lambda: optimizer.reset(a, [0, -1]), Invalid, r"reset: element 1 is -1; expected a row in \[0, 4\)"),
            (lambda: optimizer.reset(a, four), Dtype, "reset: the list of rows is of torch.bool; expected integers"),
            (lambda: optimizer.append([a, rows]), Invalid, "append: rows is a list; expected a dict of parameters and their new rows"),
            (lambda: optimizer.append({a: rows, b: [1, 2]}), Invalid, "append: value 1 is a list; expected a tensor of new rows"),
            (lambda: optimizer.append({a: torch.tensor(1.0)}), Invalid, r"append: value 0 is a tensor with the shape \(\); expected"),
            (lambda: optimizer.append({a: rows, b: torch.ones(3)}), Invalid, "append: value 1 has 3 rows; expected 2, as many as value 0"),
            (lambda: optimizer.append({b: torch.ones(2), a: torch.ones(2, 4)}), Invalid,
             r"parameter 0 of group 0: append: the tensor of new rows has the shape \(2, 4\); expected \(rows, 3\)"),
            (lambda: optimizer.append({b: torch.ones(2), a: rows.double()}), Dtype, "new rows is of torch.float64; expected torch.float32"),
            (lambda: optimizer.append({b: torch.ones(2), a: rows.to("meta")}), Invalid, "new rows is on meta; expected the CPU"),
            (lambda: optimizer.append({b: torch.ones(2), a: rows.to_sparse()}), Invalid, "layout torch.sparse_coo; expected torch.strided"),
        ]
        parameters = [x for group in optimizer.param_groups for x in group["params"]]
        now = lambda: [(p.data_ptr(), p.shape, p._version, p.grad, {x: y for x, y in optimizer.state.get(p, {}).items()}) for p in parameters]
        before = now()
        for call, kind, said in cases:
            with self.subTest(said), self.assertRaisesRegex(kind, said):
                call()
            for one, two in zip(before, now()):
                self.assertEqual(one[:3], two[:3])
                self.assertIs(one[3], two[3])
                self.assertTrue(one[4].keys() == two[4].keys() and all(one[4][x] is two[4][x] for x in one[4]))
        optimizer.state.pop(bad), optimizer.state.pop(unknown)
        steps(optimizer, [a, b], 1, 0)
        optimizer.ascend()
        with self.assertRaisesRegex(gradstep.SequenceError, r"keep: ascend\(\) has moved the weights; expected descend"):
            optimizer.keep(a, four)
        optimizer.restore()
        optimizer.keep([], four), optimizer.append({})

    def test_other_tensors_are_refused(self) -> None:
        with torch.inference_mode():
            inside = torch.ones(3)
        sparse = torch.eye(3).to_sparse().requires_grad_()
        for other, said in ((inside, "was made in inference mode"), (sparse, "has the layout torch.sparse_coo")):
            with self.assertRaisesRegex(gradstep.InvalidError, f"keep: the tensor {said}"):
                gradstep.torch.SGD([other]).keep(other, [True] * 3)

    def test_new_rows_have_the_average_of_rows_that_stood_still(self) -> None:
        window = {"rule": {"name": "sgd"}, "average": {"name": "window", "rate": 0.15, "min": 4, "max": 8}}
        p = torch.nn.Parameter(torch.full((2,), 7.0))
        optimizer = gradstep.torch.Optimizer([p], window)
        for change in (None, lambda: optimizer.append({p: torch.full((2,), 7.0)}), lambda: optimizer.reset(p, [1])):
            if change is not None:
                change()
            for _ in range(9):
                p.grad = torch.zeros_like(p)
                optimizer.step()
                sums = sum(optimizer.state[p][f"sum_{i}"] for i in (1, 2, 3))
                self.assertEqual((sums - sums[0]).abs().max(), 0)

    def test_weights_that_are_set(self) -> None:
        configs = [{"rule": {"name": x}} for x in ("schedule_free_sgd", "schedule_free_adam", "madgrad", "dadapt_sgd", "cocob")]
        configs += [{"rule": {"name": "sgd"}, "average": {"name": "lookahead"}}]
        for config in configs:
            a, b = torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(3))
            optimizer = gradstep.torch.Optimizer([{"params": [a]}, {"params": [b], "lr": 0.05}], config, lr=0.1)
            optimizer.weights_set()  # there is no state yet
            steps(optimizer, [a, b], 3, 0)
            with torch.no_grad():
                a.fill_(5), b.fill_(-2)
            optimizer.weights_set()
            for _ in range(12):
                a.grad, b.grad = torch.zeros_like(a), torch.zeros_like(b)
                optimizer.step()
            torch.testing.assert_close(a.detach(), torch.full((2, 3), 5.0), rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(b.detach(), torch.full((3,), -2.0), rtol=1e-6, atol=1e-6)
            with torch.no_grad():
                a.fill_(1), b.fill_(1)
            optimizer.weights_set(a)
            a.grad, b.grad = torch.zeros_like(a), None
            optimizer.step()
            torch.testing.assert_close(a.detach(), torch.ones(2, 3), rtol=1e-6, atol=1e-6)
        with self.assertRaisesRegex(gradstep.InvalidError, "weights_set: a tensor is no parameter of this optimizer"):
            optimizer.weights_set(torch.ones(3))

    def test_shards_are_refused(self) -> None:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        try:
            from torch.distributed.tensor import Shard, distribute_tensor
        except ImportError:
            from torch.distributed._tensor import Shard, distribute_tensor
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            shards = distribute_tensor(torch.ones(3, 4), init_device_mesh("cpu", (1,)), [Shard(0)])
            for p, rows, said in (
                (torch.nn.Parameter(shards), torch.ones(1, 4), "append: the tensor is a DTensor; expected a torch.Tensor"),
                (torch.nn.Parameter(torch.ones(3, 4)), shards, "append: the tensor of new rows is a DTensor; expected a torch.Tensor"),
            ):
                with self.assertRaisesRegex(gradstep.InvalidError, said):
                    gradstep.torch.SGD([p]).append({p: rows})
                self.assertEqual(p.shape, (3, 4))
        finally:
            dist.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
