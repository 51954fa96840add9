"""The embeddings of gradstep.torch against torch.nn and FBGEMM: `./dev test python-torch` runs it, where torch is installed.

All weights, gradients and weights of samples are positive, so that sums do not cancel: the relative error of a sum is at most the
number of its terms, times the rounding of one operation. Steps have a fixed gradient, so that errors do not grow from step to step.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import logging
import pickle
import tempfile
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.functional import embedding_bag

import gradstep
import gradstep.torch
from gradstep.dialects import fbgemm
from gradstep.dialects import torch as presets

ROWS, WIDTH, STEPS, IDS = 12, 5, 6, 20
OPTIMIZERS: dict[str, tuple[Any, dict]] = {
    "SGD": (functools.partial(torch.optim.SGD, lr=0.01), presets.sgd(lr=0.01)),
    "Adagrad": (functools.partial(torch.optim.Adagrad, lr=0.1), presets.adagrad(lr=0.1)),
    "SparseAdam": (functools.partial(torch.optim.SparseAdam, lr=0.01), presets.sparse_adam(lr=0.01)),
}
LAYOUTS = ("offsets", "last_offset", "two_dimensions")
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24}  # the rounding of one operation


def positive(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) + 0.5).to(dtype)


def batch(layout: str, t: int, ids_below: int = ROWS, of: torch.dtype = torch.int64) -> tuple[torch.Tensor, torch.Tensor | None, int]:
    """Ids with duplicates, where bags begin, and the number of bags. Bags are empty or have up to eight ids."""
    ids = torch.randint(ids_below, (IDS,), generator=torch.Generator().manual_seed(1000 + t), dtype=of)
    if layout == "two_dimensions":
        return ids.view(4, IDS // 4), None, 4
    begins = [0, 0, 3, 4, 12, 12, IDS] if t % 2 else [0, 8, 9, 9, 16, IDS, IDS]
    offsets = torch.tensor(begins if layout == "last_offset" else begins[:-1], dtype=of)
    return ids, offsets, 6


def of_torch(layout: str, start: torch.Tensor, **arguments: Any) -> torch.nn.EmbeddingBag:
    return torch.nn.EmbeddingBag(
        *start.shape, sparse=True, _weight=start.clone(), include_last_offset=layout == "last_offset", dtype=start.dtype, **arguments
    )


def ours(layout: str, start: torch.Tensor, config: dict, **arguments: Any) -> gradstep.torch.EmbeddingBag:
    return gradstep.torch.EmbeddingBag(
        *start.shape, config, initial=start, include_last_offset=layout == "last_offset", **arguments
    )


def values(module: Any) -> torch.Tensor:
    return torch.from_numpy(module.table.values())


@contextlib.contextmanager
def of_one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        torch.set_num_threads(1)  # torch's threads wait for each other, which takes longer than these small batches
        torch.sparse.check_sparse_tensor_invariants.disable()  # a decision, without which torch warns

    def assert_rows(self, found: torch.Tensor, expected: torch.Tensor, start: torch.Tensor, terms: int = IDS) -> None:
        """Rows after steps whose gradients have up to `terms` terms. A step in one direction has the relative error of its gradient,
        which has a product and a quotient a term, and of the 20 operations of a rule; in both systems. It is rounded once."""
        unit = UNIT[found.dtype]
        largest = torch.maximum(expected.abs(), start.abs())
        allowed = 2 * (2 * terms + 20) * unit * (expected - start).abs() + 2 * STEPS * unit * largest
        self.assertTrue(((found - expected).abs() <= allowed).all(), (found - expected).abs().max())

    def assert_sums(self, found: torch.Tensor, expected: torch.Tensor, terms: int) -> None:
        """Sums of products of positive numbers, in both systems, of rows with the error of `assert_rows`."""
        unit = UNIT[found.dtype]
        self.assertEqual(found.shape, expected.shape)
        torch.testing.assert_close(found, expected, atol=0, rtol=2 * (terms + 2) * unit + 4 * (2 * IDS + 20) * unit)

    def test_bags_as_in_torch(self) -> None:
        for (name, (make, config)), layout, mode, padding, fused in itertools.product(
            OPTIMIZERS.items(), LAYOUTS, ("sum", "mean", "weights"), (None, 3, -1), (True, False)
        ):
            with self.subTest(name, layout=layout, mode=mode, padding=padding, fused=fused):
                start = 4 + positive(ROWS, WIDTH, seed=1)
                arguments = {"mode": "sum" if mode == "weights" else mode, "padding_idx": padding}
                theirs, bag = of_torch(layout, start, **arguments), ours(layout, start, config, fused=fused, **arguments)
                steps = make(theirs.parameters())
                steps_of_ours = None if fused else gradstep.torch.TableOptimizer(bag)
                for t in range(STEPS):
                    ids, offsets, bags = batch(layout, t, of=torch.int32 if t == 1 else torch.int64)
                    weights = [None, None]
                    if mode == "weights":
                        weights = [positive(*ids.shape, seed=t).requires_grad_() for _ in range(2)]
                    out, expected = bag(ids, offsets, weights[0]), theirs(ids, offsets, weights[1])
                    self.assert_sums(out, expected, IDS)
                    gradient = positive(bags, WIDTH, seed=10 + t)
                    steps.zero_grad()
                    expected.backward(gradient)
                    out.backward(gradient)
                    steps.step()
                    if steps_of_ours:
                        steps_of_ours.step()
                    if mode == "weights":
                        self.assert_sums(weights[0].grad, weights[1].grad, WIDTH)
                self.assert_rows(values(bag), theirs.weight.detach(), start)
                self.assertEqual(bag.table.clock.step, STEPS)
                bag.eval()
                ids, offsets, _ = batch(layout, 0)
                self.assertFalse(bag(ids, offsets).requires_grad)

    def test_embedding_as_in_torch(self) -> None:
        for (name, (make, config)), padding, shape in itertools.product(OPTIMIZERS.items(), (None, 3, -1), ((IDS,), (4, 5), (2, 2, 5))):
            with self.subTest(name, padding=padding, shape=shape):
                start = 4 + positive(ROWS, WIDTH, seed=1)
                theirs = torch.nn.Embedding(ROWS, WIDTH, padding, sparse=True, _weight=start.clone())
                module = gradstep.torch.Embedding(ROWS, WIDTH, config, padding_idx=padding, initial=start)
                steps = make(theirs.parameters())
                for t in range(STEPS):
                    ids = batch("offsets", t)[0].view(shape)
                    out, expected = module(ids), theirs(ids)
                    self.assert_sums(out, expected, 1)
                    gradient = positive(*shape, WIDTH, seed=10 + t)
                    steps.zero_grad()
                    expected.backward(gradient)
                    out.backward(gradient)
                    steps.step()
                self.assert_rows(values(module), theirs.weight.detach(), start)

    def test_gradients_of_weights(self) -> None:
        """autograd's, also in eval mode, where the table does not change."""
        start = 4 + positive(ROWS, WIDTH, seed=1)
        for layout, padding, training in itertools.product(LAYOUTS, (None, 3), (True, False)):
            bag = ours(layout, start, gradstep.sgd(lr=0.01), mode="sum", padding_idx=padding).train(training)
            ids, offsets, bags = batch(layout, 1)
            found, expected = (positive(*ids.shape, seed=2).requires_grad_() for _ in range(2))
            bag(ids, offsets, 2 * found).backward(positive(bags, WIDTH, seed=3))
            out = embedding_bag(ids, start, offsets, mode="sum", per_sample_weights=2 * expected, padding_idx=padding,
                                include_last_offset=layout == "last_offset")
            out.backward(positive(bags, WIDTH, seed=3))
            self.assert_sums(found.grad, expected.grad, WIDTH)
            self.assertEqual(torch.equal(values(bag), start), not training)
            self.assertEqual(bag.table.clock.step, int(training))

    def test_max_norm_as_in_torch(self) -> None:
        """torch scales a row down when it is read, we do after its step. Readers see the same rows."""
        start, limit = positive(ROWS, WIDTH, seed=1), 4.0
        make, config = OPTIMIZERS["Adagrad"]
        theirs = of_torch("offsets", start, mode="sum", max_norm=limit)
        bag = ours("offsets", start, config, mode="sum", max_norm=limit)
        steps = make(theirs.parameters(), lr=0.5)
        bag = ours("offsets", start, presets.adagrad(lr=0.5), mode="sum", max_norm=limit)
        for t in range(STEPS):
            ids, offsets, bags = batch("offsets", t)
            out, expected = bag(ids, offsets), theirs(ids, offsets)
            # torch divides by the norm plus 1e-7, which adds up over the steps.
            torch.testing.assert_close(out, expected, atol=0, rtol=2 * STEPS * 1e-7 / limit)
            gradient = -positive(bags, WIDTH, seed=t)
            steps.zero_grad(), expected.backward(gradient), out.backward(gradient), steps.step()
        norms = values(bag).norm(dim=1)
        self.assertLessEqual(float(norms.max()), limit * (1 + 4 * WIDTH * 2.0**-53))
        self.assertGreater(int((norms > 0.999 * limit).sum()), 3)

    def test_rows_in_8_bits_as_in_torch(self) -> None:
        for width in (1, 7, 64, 100):
            table = gradstep.KeyedTable({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1},
                                         "keyed_table": {"width": width, "initial": {"name": "normal", "mean": 0.3, "deviation": 2, "seed": 5}}})
            keys = torch.arange(1000)
            packed = torch.ops.quantized.embedding_bag_byte_prepack(torch.from_numpy(table.rows(keys)))
            self.assertTrue(torch.equal(torch.from_numpy(table.int8_rows(keys)), packed))

    def test_rowwise_adagrad_as_in_fbgemm(self) -> None:
        logging.disable(logging.WARNING)
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

        logging.disable(logging.NOTSET)
        width, start = 8, 4 + positive(ROWS, 8, seed=1, dtype=torch.float32)
        config = fbgemm.exact_rowwise_adagrad(lr=0.1)
        for mode in ("sum", "mean", "weights"):
            with self.subTest(mode=mode):
                theirs = SplitTableBatchedEmbeddingBagsCodegen(
                    [(ROWS, width, EmbeddingLocation.HOST, ComputeDevice.CPU)], optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
                    learning_rate=0.1, eps=config["rule"]["eps"], pooling_mode=PoolingMode.MEAN if mode == "mean" else PoolingMode.SUM)
                rows = theirs.split_embedding_weights()[0]
                rows.copy_(start)
                bag = ours("last_offset", start, config, mode="mean" if mode == "mean" else "sum")
                for t in range(STEPS):
                    ids, offsets, bags = batch("last_offset", t)
                    weights = [positive(IDS, seed=t, dtype=torch.float32).requires_grad_() if mode == "weights" else None for _ in range(2)]
                    out, expected = bag(ids, offsets, weights[0]), theirs(ids, offsets, weights[1])
                    self.assert_sums(out, expected, IDS)
                    gradient = positive(bags, width, seed=10 + t, dtype=torch.float32)
                    out.backward(gradient), expected.backward(gradient)
                    if mode == "weights":
                        self.assert_sums(weights[0].grad, weights[1].grad, width)
                self.assert_rows(values(bag), rows, start, IDS + width)

    def test_keyed_bags(self) -> None:
        """The rows of 64-bit keys are those of an EmbeddingBag for the places of the keys in a list."""
        keys = torch.tensor([0, 7, 2**63 - 1, -1, -(2**63), 5**27 % 2**62, 11, 12, 13, 14, 15, -99])
        config = {**presets.adagrad(lr=0.1), "keyed_table": {"initial": 4.5}}
        for layout, mode, padding in itertools.product(LAYOUTS, ("sum", "mean", "weights"), (None, 3)):
            with self.subTest(layout=layout, mode=mode, padding=padding):
                start = torch.full((ROWS, WIDTH), 4.5, dtype=torch.float64)
                arguments: dict[str, Any] = {"mode": "sum" if mode == "weights" else mode, "include_last_offset": layout == "last_offset"}
                dense = ours(layout, start, presets.adagrad(lr=0.1), mode=arguments["mode"], padding_idx=padding)
                keyed = gradstep.torch.KeyedEmbeddingBag(
                    WIDTH, config, dtype=torch.float64, padding_idx=2**64 - 1 if padding else None, **arguments)
                for t in range(STEPS):
                    ids, offsets, bags = batch(layout, t)
                    weights = positive(*ids.shape, seed=t) if mode == "weights" else None
                    of_keys = keys[ids].view(torch.uint64) if t == 2 else keys[ids]
                    one, two = dense(ids, offsets, weights), keyed(of_keys, offsets, weights)
                    self.assertTrue(torch.equal(one, two))
                    gradient = positive(bags, WIDTH, seed=t)
                    one.backward(gradient), two.backward(gradient)
                self.assertTrue(torch.equal(torch.from_numpy(keyed.table.rows(keys)), values(dense)))
                self.assertEqual(-1 % 2**64 in keyed.table, padding is None)

    def test_admission_and_eviction(self) -> None:
        bag = gradstep.torch.KeyedEmbeddingBag(
            WIDTH, {**gradstep.sgd(lr=0.5), "keyed_table": {"admit_after": 2, "initial": 1}}, mode="sum")
        for _ in range(2):
            bag(torch.tensor([[5, 9]])).sum().backward()
            bag(torch.tensor([[5, 5]])).sum().backward()
        self.assertEqual(sorted(bag.table), [5, 9])
        bag.table.evict_to(1)
        self.assertEqual(list(bag.table), [5])
        self.assertTrue((bag(torch.tensor([[9]])) == 1).all())
        self.assertEqual(repr(bag), "KeyedEmbeddingBag(5, sgd, mode='sum')")

    def test_one_step_for_all_backwards(self) -> None:
        """Accumulated gradients are one step, like torch's."""
        start = 4 + positive(ROWS, WIDTH, seed=1)
        for name, (make, config) in OPTIMIZERS.items():
            theirs, bag = of_torch("offsets", start, mode="sum"), ours("offsets", start, config, mode="sum", fused=False)
            steps, steps_of_ours = make(theirs.parameters()), gradstep.torch.TableOptimizer(torch.nn.ModuleList([bag]))
            for t in range(STEPS):
                steps.zero_grad()
                for part in range(3):
                    ids, offsets, bags = batch("offsets", 10 * t + part)
                    weights = positive(IDS, seed=t) if part == 1 else None
                    for x in (bag, theirs):
                        x(ids, offsets, weights).backward(positive(bags, WIDTH, seed=20 + part))
                steps.step(), steps_of_ours.step()
            self.assertEqual(bag.table.clock.step, STEPS, name)
            self.assert_rows(values(bag), theirs.weight.detach(), start, 3 * IDS)
        before = values(bag)
        bag(*batch("offsets", 0)[:2]).sum().backward()
        steps_of_ours.zero_grad()
        steps_of_ours.step()
        self.assertTrue(torch.equal(values(bag), before))
        self.assertEqual(bag.table.clock.step, STEPS)

    def test_schedulers_closures_and_copies_of_the_optimizer(self) -> None:
        start = positive(ROWS, WIDTH, seed=1)
        bag = ours("two_dimensions", start, gradstep.sgd(lr=123), mode="sum", fused=False)
        optimizer = gradstep.torch.TableOptimizer(bag, lr=1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = bag(torch.tensor([[1]])).sum()
            loss.backward()
            return loss

        for t in range(3):
            with torch.no_grad():
                loss = optimizer.step(closure)
            self.assertTrue(loss.requires_grad)
            scheduler.step()
        torch.testing.assert_close(values(bag)[1], start[1] - 1.75)
        other, table = pickle.loads(pickle.dumps((optimizer, bag)))
        self.assertIs(other.tables[0], table)
        self.assertEqual(other.state_dict(), optimizer.state_dict())
        other.load_state_dict(optimizer.state_dict())
        table(torch.tensor([[1]])).sum().backward()
        other.step()
        torch.testing.assert_close(values(table)[1], start[1] - 1.875)
        torch.testing.assert_close(values(bag)[1], start[1] - 1.75)

    def test_copies_and_checkpoints(self) -> None:
        """Every copy goes on bit for bit, and leaves the first module as it was."""
        keyed = {**presets.sparse_adam(lr=0.01), "keyed_table": {"admit_after": 2}}
        makers: list[Callable[..., Any]] = [
            lambda: gradstep.torch.EmbeddingBag(ROWS, WIDTH, presets.sparse_adam(lr=0.01), mode="sum", padding_idx=0),
            lambda: gradstep.torch.KeyedEmbeddingBag(WIDTH, keyed, mode="sum", dtype=torch.float64),
            lambda: gradstep.torch.EmbeddingBag(ROWS, WIDTH, presets.adagrad(lr=0.01), fused=False),
        ]

        def train(module: Any, first: int) -> None:
            for t in range(first, first + 3):
                ids, offsets, bags = batch("offsets", t)
                module(ids, offsets).backward(positive(bags, WIDTH, seed=t, dtype=module.dtype))
                if not module.fused:
                    module.step()

        def loaded(module: Any, make: Callable[..., Any]) -> Any:
            file = io.BytesIO()
            torch.save(torch.nn.ModuleDict({"bag": module}).state_dict(), file)
            model = torch.nn.ModuleDict({"bag": make()})
            file.seek(0)
            model.load_state_dict(torch.load(file, weights_only=True))
            return model["bag"]

        for make in makers:
            module = make()
            train(module, 0)
            before = module.table.save_state()
            copies = [pickle.loads(pickle.dumps(module)), copy.deepcopy(module), loaded(module, make)]
            for each in copies:
                self.assertEqual(repr(each), repr(module))
                train(each, 3)
            self.assertEqual(module.table.save_state(), before)
            train(module, 3)
            for each in copies:
                self.assertEqual(each.table.save_state(), module.table.save_state())
        state = makers[0]().state_dict()
        self.assertEqual(list(state), ["_extra_state"])
        with self.assertRaisesRegex(gradstep.DtypeError, "_extra_state: is a str; expected the bytes of a table"):
            module.load_state_dict({"_extra_state": "x"})
        with self.assertRaises(gradstep.InvalidError):
            module.load_state_dict(state)  # of another rule

    def test_first_values(self) -> None:
        """torch.manual_seed determines them; they have the distribution of torch's."""
        torch.manual_seed(5)
        one, two = (gradstep.torch.Embedding(1000, 64, gradstep.sgd(lr=1), padding_idx=2) for _ in range(2))
        torch.manual_seed(5)
        again = gradstep.torch.Embedding(1000, 64, gradstep.sgd(lr=1), padding_idx=2)
        self.assertTrue(torch.equal(values(one), values(again)))
        self.assertFalse(torch.equal(values(one), values(two)))
        self.assertFalse(values(one)[2].any())
        # The mean and the variance of 63936 numbers: five times their deviations.
        self.assertLess(abs(float(values(one).mean())), 5 / 63936**0.5)
        self.assertLess(abs(float(values(one).var()) - 1), 5 * (2 / 63936) ** 0.5 + 1 / 999)
        config = {**gradstep.sgd(lr=1), "table": {"initial": 3}}
        self.assertTrue((values(gradstep.torch.EmbeddingBag(2, 3, config)) == 3).all())

    def test_modes_of_torch(self) -> None:
        bag = gradstep.torch.EmbeddingBag(ROWS, WIDTH, gradstep.sgd(lr=1))
        ids = torch.tensor([[1, 2]])
        with torch.no_grad():
            self.assertFalse(bag(ids).requires_grad)
        with torch.inference_mode():
            bag(ids)
        with torch.device("meta"):
            on_cpu = ids.to("cpu")
            bag(on_cpu).sum().backward()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            (bag(ids) @ torch.ones(WIDTH, 1)).sum().backward()
        self.assertEqual(bag.table.clock.step, 2)
        self.assertEqual(list(bag.parameters()), [])
        compiled = torch.compile(torch.nn.Sequential(bag, torch.nn.Linear(WIDTH, 1)), backend="eager")
        compiled(ids).sum().backward()
        self.assertEqual(bag.table.clock.step, 3)
        out = torch.utils.checkpoint.checkpoint(bag, ids, use_reentrant=False)
        out.sum().backward()
        self.assertEqual(bag.table.clock.step, 4)

    def test_memory_and_graph(self) -> None:
        bag = gradstep.torch.EmbeddingBag(ROWS, WIDTH, {**gradstep.sgd(lr=1), "table": {"initial": 0}}, mode="sum")
        ids = torch.tensor([[1, 2], [3, 4]])
        strided = torch.tensor([[1, 3], [2, 4]]).t()
        gradient = torch.arange(2.0)[:, None].expand(2, WIDTH)  # rows of stride 0
        self.assertTrue(torch.equal(bag(ids), bag(strided)))
        bag(strided).backward(torch._neg_view(gradient))
        self.assertTrue(torch.equal(values(bag)[1:5, 0], torch.tensor([0.0, 0, 1, 1])))
        out = bag(ids)
        out.sum().backward(retain_graph=True)
        ids[0, 0] = 5
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            out.sum().backward()
        for empty in (torch.empty(0, 3, dtype=torch.int64), torch.empty(2, 0, dtype=torch.int64)):
            out = bag(empty)
            self.assertEqual(out.shape, (len(empty), WIDTH))
            self.assertFalse(out.any())
            out.sum().backward()

    def test_double_backward_is_refused(self) -> None:
        bag = gradstep.torch.EmbeddingBag(ROWS, WIDTH, gradstep.sgd(lr=1), mode="sum")
        before = values(bag)
        weights = torch.ones(1, 2, requires_grad=True)
        loss = bag(torch.tensor([[1, 2]]), per_sample_weights=weights).square().sum()
        with self.assertRaisesRegex(gradstep.SequenceError, "backward: create_graph is True; expected False"):
            torch.autograd.grad(loss, weights, create_graph=True)
        self.assertTrue(torch.equal(values(bag), before))

    def test_errors_name_place_and_value(self) -> None:
        sgd, Bag, Keyed = gradstep.sgd(lr=1), gradstep.torch.EmbeddingBag, gradstep.torch.KeyedEmbeddingBag
        bag, mean = Bag(ROWS, WIDTH, sgd, mode="sum"), Bag(ROWS, WIDTH, sgd, include_last_offset=True)
        ids, flat = torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 2, 3])
        Invalid, Dtype, Config, Sequence = gradstep.InvalidError, gradstep.DtypeError, gradstep.ConfigError, gradstep.SequenceError
        cases: list[tuple[Callable[[], Any], type, str]] = [
            (lambda: Bag(ROWS, WIDTH, sgd, mode="max"), Invalid, "mode: is 'max'; expected 'sum' or 'mean'"),
            (lambda: Keyed(WIDTH, sgd, mode="max"), Invalid, "mode: is 'max'; expected 'sum' or 'mean'"),
            (lambda: Keyed(WIDTH, sgd, padding_idx=2**64), Invalid, "padding_idx: 18446744073709551616 is out of range; expected"),
            (lambda: Bag(ROWS, WIDTH, sgd, padding_idx=ROWS), Invalid, r"padding_idx: 12 is out of range; expected \[-12, 12\)"),
            (lambda: Bag(ROWS, WIDTH, "sgd"), Config, "config: 'sgd' is not JSON"),
            (lambda: Bag(ROWS, WIDTH, "[1]"), Config, r"config: \[1\] has no options; expected a dict"),
            (lambda: Bag(ROWS, WIDTH, {**sgd, "table": {"rows": 3}}), Config, "table.rows is 3; expected the argument num_embeddings"),
            (lambda: Keyed(WIDTH, {**sgd, "keyed_table": {"ignore_key": 3}}), Config,
             "keyed_table.ignore_key is 3; expected the argument padding_idx"),
            (lambda: Bag(ROWS, WIDTH, {**sgd, "type": "float64"}, dtype=torch.float32), Config,
             "type is \"float64\"; expected the argument dtype instead|type is 'float64'"),
            (lambda: Bag(ROWS, WIDTH, {**sgd, "table": {"row": 3}}), Config, "table.row: unknown key"),
            (lambda: Bag(ROWS, WIDTH, sgd, initial=torch.ones(3, 2)), Invalid, r"initial: has the shape \(3, 2\); expected \(12, 5\)"),
            (lambda: bag(ids, torch.tensor([0])), Invalid, "offsets: are given with an input of two dimensions; expected None"),
            (lambda: bag(flat), Invalid, "offsets: are missing; expected them, since the input has one dimension"),
            (lambda: bag(ids[None]), Invalid, r"input: has the shape \(1, 2, 2\); expected one or two dimensions"),
            (lambda: bag(flat, ids), Invalid, r"offsets: has the shape \(2, 2\); expected one dimension"),
            (lambda: bag(flat, torch.tensor([1, 2])), Invalid, r"offsets\[0\]: 1 is out of range; expected 0"),
            (lambda: bag(flat, torch.tensor([0, 4])), Invalid, r"offsets\[1\]: 4 is out of range; expected at most 3"),
            (lambda: mean(flat, torch.tensor([0, 2])), Invalid, "offsets: ends with 2; expected 3 at the end"),
            (lambda: mean(flat, torch.tensor([], dtype=torch.int64)), Invalid, "offsets: is empty; expected 3 at the end"),
            (lambda: mean(ids, None, torch.ones(2, 2)), Invalid, "per_sample_weights: are given with mode 'mean'; expected mode 'sum'"),
            (lambda: bag(ids, None, torch.ones(4)), Invalid, r"per_sample_weights: has the shape \(4,\); expected \(2, 2\)"),
            (lambda: bag(ids, None, torch.ones(2, 2).double()), Dtype, "per_sample_weights: is of torch.float64; expected torch.float32"),
            (lambda: bag(ids.to("meta")), Invalid, "input is on meta; expected the CPU"),
            (lambda: bag(torch.ones(2, 2)), Dtype, "ids: are of"),
            (lambda: bag([1, 2]), Dtype, "input: is a list; expected a tensor"),
            (lambda: Keyed(WIDTH, sgd)([1, 2]), Dtype, "input: is a list; expected a tensor"),
            (lambda: bag(flat, [0]), Dtype, "offsets: is a list; expected a tensor"),
            (lambda: Bag(ROWS, WIDTH, sgd, padding_idx="x"), Dtype, "padding_idx: 'x' is a str; expected an integer"),
            (lambda: bag.weight, AttributeError, "EmbeddingBag has no weight; the rows are in its table"),
            (lambda: bag(ids + 10), Invalid, r"ids\[1\]: 12 is out of range; expected \[0, 12\)"),
            (lambda: bag.step(), Sequence, "step: the module is fused, and backward has taken the step; expected fused=False"),
            (lambda: gradstep.torch.TableOptimizer(bag), Sequence, "the EmbeddingBag 0 is fused, and backward takes its steps"),
            (lambda: gradstep.torch.TableOptimizer(torch.nn.Linear(1, 1)), Invalid, "modules: have no embedding of gradstep.torch"),
        ]
        for call, kind, said in cases:
            with self.subTest(said), self.assertRaisesRegex(kind, said):
                call()
        self.assertEqual(bag.table.clock.step, 0)

    def test_a_failed_step_keeps_the_gradients(self) -> None:
        bag = gradstep.torch.EmbeddingBag(ROWS, WIDTH, {**gradstep.sgd(lr=1), "on_nonfinite": "raise"}, fused=False)
        before = values(bag)
        bag(torch.tensor([[1, 2]])).backward(torch.full((1, WIDTH), float("nan")))
        for _ in range(2):
            with self.assertRaises(gradstep.NotFiniteError):
                bag.step()
        bag.zero_grad()
        bag.step()
        self.assertTrue(torch.equal(values(bag), before))

    def test_repr(self) -> None:
        make = gradstep.torch.EmbeddingBag
        config = gradstep.adagrad(lr=1)
        self.assertEqual(repr(make(ROWS, WIDTH, config)), "EmbeddingBag(12, 5, adagrad, mode='mean')")
        bag = make(ROWS, WIDTH, config, mode="sum", padding_idx=-1, include_last_offset=True, max_norm=2, fused=False)
        self.assertEqual(
            repr(bag), "EmbeddingBag(12, 5, adagrad, mode='sum', padding_idx=11, include_last_offset=True, max_norm=2, fused=False)")
        self.assertEqual(repr(gradstep.torch.Embedding(ROWS, WIDTH, config, padding_idx=0)), "Embedding(12, 5, adagrad, padding_idx=0)")
        bag.table.grow(20)
        self.assertEqual((bag.num_embeddings, bag.embedding_dim, bag.dtype), (20, WIDTH, torch.float32))

    def test_concurrent_threads(self) -> None:
        """Threads share a module whose table is concurrent. No step is lost."""
        from concurrent.futures import ThreadPoolExecutor

        config = {**gradstep.sgd(lr=1), "table": {"concurrent": True, "initial": 0}}
        bag = gradstep.torch.EmbeddingBag(ROWS, WIDTH, config, mode="sum")
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(lambda: bag(torch.tensor([[1, 2]])).sum().backward()) for _ in range(100)]:
                done.result()
        self.assertEqual(float(values(bag)[1, 0]), -100)

    def test_ranks_have_the_same_bits(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(train_ranks, (2, folder), nprocs=2)

    def test_one_rank(self) -> None:
        with of_one_rank():
            alone, grouped = (
                gradstep.torch.EmbeddingBag(ROWS, WIDTH, gradstep.sgd(lr=1), initial=torch.ones(ROWS, WIDTH), process_group=group)
                for group in (None, dist.group.WORLD)
            )
            for module in (alone, grouped):
                module(torch.tensor([[1, 2]])).sum().backward()
            self.assertTrue(torch.equal(values(alone), values(grouped)))
            self.assertIsNone(pickle.loads(pickle.dumps(grouped)).process_group)


class Model(torch.nn.Module):
    def __init__(self, kind: str, group: Any) -> None:
        super().__init__()
        config, dtype = presets.adagrad(lr=0.1), torch.float64
        arguments: dict[str, Any] = {"dtype": dtype, "fused": "fused" in kind, "process_group": group}
        if "keyed" in kind:
            config = {**config, "keyed_table": {"initial": 4.5}}
            self.bag: Any = gradstep.torch.KeyedEmbeddingBag(WIDTH, config, mode="sum", **arguments)
        elif "words" in kind:
            self.bag = gradstep.torch.Embedding(ROWS, WIDTH, config, **arguments)
        else:
            self.bag = gradstep.torch.EmbeddingBag(ROWS, WIDTH, config, mode="mean" if "mean" in kind else "sum", **arguments)
        self.top = torch.nn.Linear(WIDTH, 1, dtype=dtype)

    def forward(self, *arguments: Any) -> torch.Tensor:
        return self.top(self.bag(*arguments))


KINDS = ("fused", "fused mean", "fused weights", "fused keyed", "fused words", "apart weights", "apart words")


def inputs_of(kind: str, rank: int, t: int) -> tuple:
    """Other numbers of ids and bags on every rank. A rank can have weights where another has none."""
    ids, offsets, _ = batch("offsets", 10 * t + rank)
    assert offsets is not None
    ids, offsets = ids[rank:], (offsets - rank).clamp(min=0)[: 6 - rank]
    if rank == 1 and t == 1:
        ids, offsets = ids[:0], offsets[:0]
    if "words" in kind:
        return (ids,)
    return ids, offsets, positive(len(ids), seed=t + rank) if "weights" in kind and rank == 0 else None


def train_ranks(rank: int, ranks: int, folder: str) -> None:
    """Trains a model under DistributedDataParallel, and compares the tables of all ranks with those of one process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=ranks)
    for kind in KINDS:
        torch.manual_seed(rank)  # rank 0 gives its rows to the others
        module = Model(kind, dist.group.WORLD)
        model = torch.nn.parallel.DistributedDataParallel(module)
        steps = [torch.optim.SGD(model.parameters(), lr=0.01)]
        if not module.bag.fused:
            steps.append(gradstep.torch.TableOptimizer(model))
        torch.manual_seed(0)
        single = Model(kind, None)  # sees the batches of all ranks
        single.bag.fused = False
        single.top.load_state_dict(module.top.state_dict())
        single.bag.load_state_dict(module.bag.state_dict())
        step_of_single = torch.optim.SGD(single.parameters(), lr=0.01)
        accumulated = 2 if "apart" in kind else 1
        for t in range(STEPS):
            model.zero_grad()
            for part in range(accumulated):
                with model.no_sync() if part + 1 < accumulated else contextlib.nullcontext():
                    model(*inputs_of(kind, rank, accumulated * t + part)).sum().backward()
            sums: list = []  # the gradients of the linear layer on each rank
            for other in range(ranks):
                single.top.zero_grad()
                for part in range(accumulated):
                    (single(*inputs_of(kind, other, accumulated * t + part)).sum() / ranks).backward()
                sums.append([p.grad for p in single.top.parameters()])
            for p, first, second in zip(single.top.parameters(), *sums):
                p.grad = first + second
            for each in steps:
                each.step()
            step_of_single.step(), single.bag.step()
        assert module.bag.table.clock.step == STEPS
        state = module.bag.get_extra_state()
        all_states = [torch.empty_like(state) for _ in range(ranks)]
        dist.all_gather(all_states, state)
        assert all(torch.equal(state, x) for x in all_states), kind
        ids = torch.arange(ROWS)
        rows, expected = (torch.from_numpy(x.bag.table.rows(ids)) for x in (module, single))
        assert torch.equal(rows, expected), kind  # the same sums in the same order; dividing by two ranks is exact
    # A rank without a gradient takes part in the step.
    words = gradstep.torch.Embedding(
        ROWS, WIDTH, gradstep.sgd(lr=1.0), initial=torch.ones(ROWS, WIDTH), fused=False, process_group=dist.group.WORLD)
    words.step()
    assert words.table.clock.step == 0
    if rank == 1:
        words(torch.tensor([3])).sum().backward()
    words.step()
    assert words.table.row(3).tolist() == [0.5] * WIDTH, words.table.row(3)
    assert words.table.clock.step == 1
    dist.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
