"""Embeddings whose rows are in a table of gradstep: the backward of a module is a step of its table.

A module has no parameters. Its forward reads rows of the table, through `_Lookup`, whose backward gives the gradient to the module.
A fused module updates the table at once. The others keep the gradients until `step`. With a process group, a step first gathers
the gradients of all ranks, so that the tables of all ranks stay equal bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union

import torch

from .._library import Status, error
from .._parameter import KeyedTable, Table
from .._shared import Config, StepOptions, config_bytes, integer
from . import _memory
from ._optimizer import uncompiled

if TYPE_CHECKING:
    from typing_extensions import Unpack

_AnyTable = TypeVar("_AnyTable", bound=Union[Table, KeyedTable])


class _Batch(NamedTuple):
    """The rows of a call: in each bag the sum or mean of its ids. Without offsets, every id is for itself."""

    ids: torch.Tensor
    offsets: torch.Tensor | None
    weights: torch.Tensor | None


class _Gradient(NamedTuple):
    """The gradient of the rows that a call returned: a row for each bag, or for each id."""

    batch: _Batch
    rows: torch.Tensor


def _tensor(given: Any, what: str) -> torch.Tensor:
    """An argument of forward, which is a tensor on the CPU."""
    if not isinstance(given, torch.Tensor):
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: is a {type(given).__name__}; expected a tensor")
    return _memory.on_cpu(given, what)


def _padding(padding_idx: Any, first: int, behind: int) -> int | None:
    """Checks the id of the padding."""
    if padding_idx is None:
        return None
    number = integer(padding_idx)
    if number is None:
        raise error(Status.UNSUPPORTED_TYPE, f"padding_idx: {padding_idx!r} is a {type(padding_idx).__name__}; expected an integer")
    if not first <= number < behind:
        raise error(Status.BAD_VALUE, f"padding_idx: {number} is out of range; expected [{first}, {behind})")
    return number


class _Lookup(torch.autograd.Function):
    """Reads rows of a table. The anchor requires a gradient, so that torch calls `backward`; its gradient is None."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor | None,
        weights: torch.Tensor | None,
        module: _TableModule,
        ids: torch.Tensor,
        offsets: torch.Tensor | None,
    ) -> torch.Tensor:
        batch = _Batch(ids, offsets, None if weights is None else weights.detach())
        single = module._read(batch._replace(offsets=None, weights=None)) if ctx.needs_input_grad[1] else None
        ctx.module = module
        ctx.save_for_backward(*batch, single)
        return module._read(batch)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise error(
                Status.BAD_SEQUENCE, "backward: create_graph is True; expected False, since a step of a table has no derivative"
            )
        ids, offsets, weights, single = ctx.saved_tensors
        rows, of_weights = _memory.settled(gradient), None
        if single is not None:
            lengths = torch.diff(offsets, append=offsets.new_tensor([len(ids)]))
            of_weights = (single * rows.repeat_interleave(lengths, dim=0)).sum(dim=1).to(weights.dtype)
            if ctx.module.padding_idx is not None:
                of_weights.masked_fill_(ids == ctx.module.padding_idx, 0)
        if ctx.needs_input_grad[0]:
            ctx.module._take(_Gradient(_Batch(ids, offsets, weights), rows))
        return None, of_weights, None, None, None


class _TableModule(torch.nn.Module):
    """The base class of modules with a table."""

    table: Any

    def __init__(
        self,
        table: Table | KeyedTable,
        mode: str,
        padding_idx: int | None,
        max_norm: float | None,
        fused: bool,
        process_group: Any,
    ) -> None:
        super().__init__()
        self.table = table
        self.mode = mode  #: "sum" or "mean"
        self.padding_idx = padding_idx  #: the id of the padding
        self.max_norm = max_norm  #: the largest norm of a row after its step; None: no limit
        self.fused = bool(fused)  #: whether backward updates the table; otherwise `step` does
        self.process_group = process_group  #: the ranks that train the table together; None: this process alone
        self._collected: list[_Gradient] = []
        if process_group is not None:
            self._follow_first_rank()

    @property
    def embedding_dim(self) -> int:
        """The number of elements of a row."""
        return int(self.table.width)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the rows."""
        found: torch.dtype = getattr(torch, self.table.dtype)
        return found

    @property
    def _weight_dtype(self) -> torch.dtype:
        return torch.float64 if self.dtype is torch.float64 else torch.float32

    def __getattr__(self, name: str) -> Any:
        if name == "weight":
            raise AttributeError(f"{type(self).__name__} has no weight; the rows are in its table: table.rows(ids)")
        return super().__getattr__(name)

    def _looked_up(self, batch: _Batch) -> torch.Tensor:
        """The rows of a batch, with a node in the graph if a gradient is needed."""
        of_weights = batch.weights is not None and batch.weights.requires_grad
        if not torch.is_grad_enabled() or not (self.training or of_weights):
            return self._read(batch if batch.weights is None else batch._replace(weights=batch.weights.detach()))
        anchor = torch.empty(0, device="cpu", requires_grad=True) if self.training else None
        found: torch.Tensor = _Lookup.apply(anchor, batch.weights, self, batch.ids, batch.offsets)
        return found

    def _read(self, batch: _Batch) -> torch.Tensor:
        rows = batch.ids if batch.offsets is None else batch.offsets
        out = torch.empty((len(rows), self.embedding_dim), dtype=self.dtype, device="cpu")
        if batch.offsets is None:
            self.table.rows(batch.ids, out)
        else:
            self.table.bags(batch.ids, batch.offsets, weights=batch.weights, mode=self.mode, out=out)
        return out

    def _take(self, gradient: _Gradient) -> None:
        """Takes the gradient of a backward."""
        if self.fused:
            self._update([gradient], {})
        else:
            self._collected.append(gradient)

    def _update(self, gradients: list[_Gradient], options: StepOptions) -> None:
        """One step with all of these gradients, and with the gradients of the other ranks."""
        gradient, ranks = _joined(gradients), 1
        if self.process_group is not None:
            ranks = torch.distributed.get_world_size(self.process_group)
            gradient = self._of_all_ranks(gradient, ranks)
        if gradient is None:
            return
        if ranks > 1:
            options = {**options, "gradient_scale": options.get("gradient_scale", 1.0) / ranks}
        ids, offsets, weights = gradient.batch
        if offsets is None:
            self.table.update(ids, gradient.rows, **options)
        else:
            self.table.update_bags(ids, offsets, gradient.rows, weights=weights, mode=self.mode, **options)

    def step(self, **options: Unpack[StepOptions]) -> None:
        """Updates the table with the gradients of all backwards since the last step. A module without gradients does not change.

        The options are the members of `StepOptions`. Raises `SequenceError` if the module is fused. If it raises, the table does
        not change, and the gradients stay.
        """
        if self.fused:
            raise error(Status.BAD_SEQUENCE, "step: the module is fused, and backward has taken the step; expected fused=False")
        self._update(self._collected, options)
        self._collected = []

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients that `step` would use."""
        super().zero_grad(set_to_none)
        self._collected = []

    def get_extra_state(self) -> torch.Tensor:
        """The rows, the state of the optimizer and the clock as bytes, for `state_dict`."""
        return torch.frombuffer(bytearray(self.table.save_state()), dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Loads the bytes of `get_extra_state`, for `load_state_dict`. Raises `InvalidError` if they do not match the table."""
        if not isinstance(state, torch.Tensor) or state.dtype is not torch.uint8:
            given = f"a tensor of {state.dtype}" if isinstance(state, torch.Tensor) else f"a {type(state).__name__}"
            raise error(Status.UNSUPPORTED_TYPE, f"_extra_state: is {given}; expected the bytes of a table, a tensor of torch.uint8")
        self.table.load_state(_memory.settled(state.cpu()).numpy().data)

    def _follow_first_rank(self) -> None:
        """Gives the table of rank 0 to all ranks, as DistributedDataParallel does with parameters."""
        dist, group = torch.distributed, self.process_group
        first, state = dist.get_global_rank(group, 0), self.get_extra_state()
        size = torch.tensor([len(state)], device="cpu")
        dist.broadcast(size, first, group=group)
        if dist.get_rank(group) != 0:
            state = torch.empty(int(size), dtype=torch.uint8, device="cpu")
        dist.broadcast(state, first, group=group)
        if dist.get_rank(group) != 0:
            self.set_extra_state(state)

    def _of_all_ranks(self, own: _Gradient | None, ranks: int) -> _Gradient | None:
        """The gradients of all ranks, in the order of the ranks. None if no rank has one."""
        dist, group = torch.distributed, self.process_group
        facts = [0, 0, 0, 0] if own is None else [1, len(own.batch.ids), len(own.rows), own.batch.weights is not None]
        all_facts = [torch.empty(4, dtype=torch.int64, device="cpu") for _ in range(ranks)]
        dist.all_gather(all_facts, torch.tensor(facts, dtype=torch.int64, device="cpu"), group=group)
        given, ids, rows, weighted = zip(*(x.tolist() for x in all_facts))
        if not any(given):
            return None

        def gathered(of_own: torch.Tensor | None, counts: tuple[int, ...], dtype: torch.dtype, width: tuple[int, ...]) -> Any:
            padded = torch.zeros((max(counts), *width), dtype=dtype, device="cpu")
            if of_own is not None:
                padded[: len(of_own)] = of_own
            parts = [torch.empty_like(padded) for _ in counts]
            dist.all_gather(parts, padded, group=group)
            return [part[:count] for part, count in zip(parts, counts)]

        batch = _Batch(None, None, None) if own is None else own.batch  # type: ignore[arg-type]
        all_rows = gathered(None if own is None else own.rows, rows, self.dtype, (self.embedding_dim,))
        all_ids = gathered(batch.ids, ids, torch.int64, ())
        all_offsets = gathered(batch.offsets, rows, torch.int64, ()) if isinstance(self, _Bags) else [None] * ranks
        all_weights = [None] * ranks
        if any(weighted):
            of_own = batch.weights
            if own is not None and of_own is None:
                of_own = torch.ones(len(batch.ids), dtype=self._weight_dtype, device="cpu")
            all_weights = gathered(of_own, ids, self._weight_dtype, ())
        return _joined([_Gradient(_Batch(*x), y) for x, y in zip(zip(all_ids, all_offsets, all_weights), all_rows)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "process_group": None}  # it belongs to this process

    def extra_repr(self) -> str:
        """The sizes, the rule, and the arguments that are not the defaults, for `repr`."""
        table = self.table
        size = str(table.width) if isinstance(table, KeyedTable) else f"{len(table)}, {table.width}"
        shown = (f"{name}={value!r}" for name, value in self._shown().items() if value is not None)
        return ", ".join([size, table.config["rule"]["name"], *shown])

    def _shown(self) -> dict[str, Any]:
        """The arguments that repr shows, or None for the default."""
        return {"max_norm": self.max_norm, "fused": None if self.fused else False}


def _joined(gradients: list[_Gradient]) -> _Gradient | None:
    """Several gradients as one, in their order."""
    if len(gradients) < 2:
        return gradients[0] if gradients else None
    ids = [x.batch.ids for x in gradients]
    offsets, weights = None, None
    if gradients[0].batch.offsets is not None:
        begins = [0]
        for each in ids:
            begins.append(begins[-1] + len(each))
        offsets = torch.cat([x.batch.offsets.long() + begin for x, begin in zip(gradients, begins) if x.batch.offsets is not None])
    dtypes = {x.batch.weights.dtype for x in gradients if x.batch.weights is not None}
    if dtypes:
        ones = torch.ones(max(map(len, ids)), dtype=dtypes.pop(), device="cpu")
        weights = torch.cat([ones[: len(x.batch.ids)] if x.batch.weights is None else x.batch.weights for x in gradients])
    return _Gradient(_Batch(torch.cat([x.long() for x in ids]), offsets, weights), torch.cat([x.rows for x in gradients]))


def _made(
    make: Callable[[Any], _AnyTable], key: str, config: Config, dtype: torch.dtype | None, arguments: Mapping[str, Any]
) -> _AnyTable:
    """Makes a table of a configuration. Its part `key` can have more options than the arguments of the module."""
    document = json.loads(config_bytes(config))
    given = document.get(key, {}) if isinstance(document, dict) else None
    if not isinstance(given, dict):
        raise error(Status.BAD_CONFIG, f'config: {document!r:.80} has no options; expected a dict, as gradstep.adagrad(lr=0.1) makes')
    names = {"rows": "num_embeddings", "width": "embedding_dim", "ignore_id": "padding_idx", "ignore_key": "padding_idx"}
    for name in (*names, "max_norm"):
        if name in given:
            argument = names.get(name, name)
            raise error(Status.BAD_CONFIG, f"config: {key}.{name} is {given[name]!r}; expected the argument {argument} instead")
    if dtype is not None and "type" in document:
        raise error(Status.BAD_CONFIG, f'config: type is {document["type"]!r}; expected the argument dtype instead')
    seed = int(torch.randint(2**62, (), device="cpu"))  # torch.manual_seed determines the rows, as in torch
    options = {"initial": {"name": "normal", "mean": 0, "deviation": 1, "seed": seed}, **given}
    options.update({name: value for name, value in arguments.items() if value is not None})
    usual = {"type": str(dtype or torch.get_default_dtype()).removeprefix("torch."), "threads": torch.get_num_threads()}
    return make({**usual, **document, key: options})


def _table_of_rows(
    num_embeddings: int,
    embedding_dim: int,
    config: Config,
    initial: torch.Tensor | None,
    padding_idx: int | None,
    max_norm: float | None,
    dtype: torch.dtype | None,
) -> tuple[Table, int | None]:
    """Makes the table of a module, and the id of the padding, which is not negative."""
    padding_idx = _padding(padding_idx, -num_embeddings, num_embeddings)
    if padding_idx is not None:
        padding_idx %= num_embeddings
    arguments = {"rows": num_embeddings, "width": embedding_dim, "ignore_id": padding_idx, "max_norm": max_norm}
    if initial is not None:
        initial = _memory.settled(_tensor(initial, "initial").detach())
        if initial.shape != (num_embeddings, embedding_dim):
            raise error(
                Status.BAD_SIZE,
                f"initial: has the shape {tuple(initial.shape)}; expected {(num_embeddings, embedding_dim)}",
            )
        dtype = initial.dtype if dtype is None else dtype
    table = _made(Table, "table", config, dtype, arguments)
    if initial is not None:
        table.set_values(initial)
    elif padding_idx is not None:
        table.set_rows([padding_idx], torch.zeros(1, embedding_dim, dtype=getattr(torch, table.dtype), device="cpu"))
    return table, padding_idx


class Embedding(_TableModule):
    """Replaces torch.nn.Embedding: the rows are in a `gradstep.Table`, and backward updates the rows of the batch.

        words = gradstep.torch.Embedding(1000, 64, gradstep.adagrad(lr=0.1))
        loss_of(words(ids)).backward()          # also the step of the table

    num_embeddings, embedding_dim, padding_idx, max_norm, dtype: as in torch.
    config: the optimizer, as for `gradstep.Table`. Its key "table" can have more options, such as "initial" and "duplicates".
    initial: the values of all rows, such as the weight of a torch.nn.Embedding. By default they are random, as in torch.
    fused: whether backward updates the table. Otherwise `step` does, or a `TableOptimizer`.
    process_group: a group of torch.distributed whose ranks train the table together: with the mean of the gradients of all ranks.

    The module has no parameters: other optimizers do not see it. `table` has the rows and their state: `table.rows(ids)`.
    `state_dict` contains both. In eval mode and under torch.no_grad there is no step. A row above `max_norm` is scaled down after
    its step.

    If a forward pass calls the module several times, use fused=False. Otherwise every call becomes a step.
    """

    table: Table  #: the rows and their state

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        config: Config,
        *,
        initial: torch.Tensor | None = None,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        dtype: torch.dtype | None = None,
        fused: bool = True,
        process_group: Any = None,
    ) -> None:
        table, padding_idx = _table_of_rows(num_embeddings, embedding_dim, config, initial, padding_idx, max_norm, dtype)
        super().__init__(table, "sum", padding_idx, max_norm, fused, process_group)

    @property
    def num_embeddings(self) -> int:
        """The number of rows."""
        return len(self.table)

    @uncompiled
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Returns a row for each id. The shape is (*input.shape, embedding_dim)."""
        ids = _tensor(input, "input")
        found = self._looked_up(_Batch(ids.reshape(-1), None, None))
        return found.view(*ids.shape, self.embedding_dim)

    def _shown(self) -> dict[str, Any]:
        return {"padding_idx": self.padding_idx, **super()._shown()}


class _Bags(_TableModule):
    """The base class of modules that return sums or means of rows."""

    def __init__(
        self,
        table: Table | KeyedTable,
        mode: str,
        padding_idx: int | None,
        max_norm: float | None,
        fused: bool,
        process_group: Any,
        include_last_offset: bool,
    ) -> None:
        super().__init__(table, mode, padding_idx, max_norm, fused, process_group)
        self.include_last_offset = bool(include_last_offset)  #: whether the last offset is the end of the ids

    @uncompiled
    def forward(
        self, input: torch.Tensor, offsets: torch.Tensor | None = None, per_sample_weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns the sum or the mean of the rows of each bag, of the shape (number of bags, embedding_dim). An empty bag is 0.

        input: the ids: one bag in each row of two dimensions, or all bags in one dimension.
        offsets: where each bag begins, if the input has one dimension. With include_last_offset, its last element is the end.
        per_sample_weights: a factor for each id, with mode "sum". It gets a gradient.
        """
        return self._looked_up(self._batch(input, offsets, per_sample_weights))

    def _batch(self, input: torch.Tensor, offsets: torch.Tensor | None, weights: torch.Tensor | None) -> _Batch:
        ids = _tensor(input, "input")
        if weights is not None:
            weights = _tensor(weights, "per_sample_weights")
            if self.mode != "sum":
                raise error(
                    Status.BAD_VALUE, f"per_sample_weights: are given with mode {self.mode!r}; expected mode 'sum', or no weights"
                )
            if weights.shape != ids.shape:
                raise error(
                    Status.BAD_SIZE,
                    f"per_sample_weights: has the shape {tuple(weights.shape)}; expected {tuple(ids.shape)}, the input's",
                )
            if weights.dtype is not self._weight_dtype:
                raise error(Status.UNSUPPORTED_TYPE, f"per_sample_weights: is of {weights.dtype}; expected {self._weight_dtype}")
            weights = weights.reshape(-1)
        offsets = self._begins(ids, offsets)
        return _Batch(ids.reshape(-1), offsets, weights)

    def _begins(self, ids: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor:
        """Where each bag begins."""
        if ids.ndim == 2:
            if offsets is not None:
                raise error(Status.BAD_VALUE, "offsets: are given with an input of two dimensions; expected None")
            bags, length = ids.shape
            return torch.arange(bags, dtype=torch.int32 if ids.dtype is torch.int32 else torch.int64, device="cpu") * length
        if ids.ndim != 1:
            raise error(Status.BAD_SIZE, f"input: has the shape {tuple(ids.shape)}; expected one or two dimensions")
        if offsets is None:
            raise error(Status.BAD_VALUE, "offsets: are missing; expected them, since the input has one dimension")
        offsets = _tensor(offsets, "offsets")
        if offsets.ndim != 1:
            raise error(Status.BAD_SIZE, f"offsets: has the shape {tuple(offsets.shape)}; expected one dimension")
        if self.include_last_offset:
            if len(offsets) == 0 or int(offsets[-1]) != len(ids):
                given = f"ends with {int(offsets[-1])}" if len(offsets) else "is empty"
                raise error(Status.BAD_VALUE, f"offsets: {given}; expected {len(ids)} at the end, because of include_last_offset")
            offsets = offsets[:-1]
        return offsets

    def _shown(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "padding_idx": self.padding_idx,
            "include_last_offset": self.include_last_offset or None,
            **super()._shown(),
        }


def _check_mode(mode: str) -> None:
    if mode not in ("sum", "mean"):
        raise error(Status.BAD_VALUE, f"mode: is {mode!r}; expected 'sum' or 'mean'")


class EmbeddingBag(_Bags):
    """Replaces torch.nn.EmbeddingBag: the rows are in a `gradstep.Table`, and backward updates the rows of the batch.

        features = gradstep.torch.EmbeddingBag(1000, 64, gradstep.adagrad(lr=0.1), mode="sum")
        loss_of(features(ids, offsets)).backward()      # also the step of the table

    num_embeddings, embedding_dim, max_norm, include_last_offset, padding_idx, dtype: as in torch.
    mode: "sum" or "mean" of the rows of a bag.

    The other arguments, and what a module has, are as in `Embedding`.
    """

    table: Table  #: the rows and their state

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        config: Config,
        *,
        initial: torch.Tensor | None = None,
        max_norm: float | None = None,
        mode: Literal["sum", "mean"] = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: torch.dtype | None = None,
        fused: bool = True,
        process_group: Any = None,
    ) -> None:
        _check_mode(mode)
        table, padding_idx = _table_of_rows(num_embeddings, embedding_dim, config, initial, padding_idx, max_norm, dtype)
        super().__init__(table, mode, padding_idx, max_norm, fused, process_group, include_last_offset)

    @property
    def num_embeddings(self) -> int:
        """The number of rows."""
        return len(self.table)


class KeyedEmbeddingBag(_Bags):
    """An `EmbeddingBag` for 64-bit keys, such as hashes of features, without a vocabulary: the rows are in a `gradstep.KeyedTable`.

        config = {**gradstep.adagrad(lr=0.1), "keyed_table": {"admit_after": 2}}
        features = gradstep.torch.KeyedEmbeddingBag(64, config, mode="sum")
        loss_of(features(keys, offsets)).backward()     # also the step of the table
        features.table.evict_older_than(features.table.clock.step - 10_000)

    config: the optimizer, as for `gradstep.KeyedTable`. Its key "keyed_table" can have options of admission and eviction.
    padding_idx: the key of the padding.

    A key gets its row in backward, when the table admits it. A key without a row has the initial values in forward. `table` has
    the rows, and evicts them. Keys of int64 and uint64 are the same 64 bits. The other arguments, and what a module has, are as in
    `EmbeddingBag`.
    """

    table: KeyedTable  #: the rows and their state

    def __init__(
        self,
        embedding_dim: int,
        config: Config,
        *,
        max_norm: float | None = None,
        mode: Literal["sum", "mean"] = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: torch.dtype | None = None,
        fused: bool = True,
        process_group: Any = None,
    ) -> None:
        _check_mode(mode)
        padding_idx = _padding(padding_idx, -(2**63), 2**64)
        key = None if padding_idx is None else padding_idx % 2**64
        arguments = {"width": embedding_dim, "ignore_key": key, "max_norm": max_norm}
        table = _made(KeyedTable, "keyed_table", config, dtype, arguments)
        if padding_idx is not None and padding_idx >= 2**63:  # as tensors of int64 have it
            padding_idx -= 2**64
        super().__init__(table, mode, padding_idx, max_norm, fused, process_group, include_last_offset)

    def _batch(self, input: torch.Tensor, offsets: torch.Tensor | None, weights: torch.Tensor | None) -> _Batch:
        if getattr(input, "dtype", None) is getattr(torch, "uint64", "none"):  # torch compares and joins int64 only
            input = input.view(torch.int64)
        return super()._batch(input, offsets, weights)


class TableOptimizer(torch.optim.Optimizer):
    """Takes the steps of modules with fused=False, so that a training loop calls `optimizer.step()`.

        optimizer = gradstep.torch.TableOptimizer(model, lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
        loss.backward()
        optimizer.step()

    modules: a module, such as the whole model, or several. Their embeddings of gradstep.torch are updated.
    lr: the learning rate, which every torch.optim.lr_scheduler can change. None: the schedule of each table's configuration.

    The state is in the tables: save the `state_dict` of the model, too.
    """

    def __init__(self, modules: torch.nn.Module | Iterable[torch.nn.Module], lr: float | None = None) -> None:
        given = [modules] if isinstance(modules, torch.nn.Module) else list(modules)
        found = {id(x): x for each in given for x in each.modules() if isinstance(x, _TableModule)}
        if not found:
            raise error(Status.BAD_VALUE, "modules: have no embedding of gradstep.torch; expected one at least")
        self.tables = list(found.values())  #: the modules that `step` updates
        for number, module in enumerate(self.tables):
            if module.fused:
                raise error(
                    Status.BAD_SEQUENCE,
                    f"modules: the {type(module).__name__} {number} is fused, and backward takes its steps; expected fused=False",
                )
        super().__init__([torch.empty(0, device="cpu")], {"lr": lr})  # torch needs a tensor

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all tables with the gradients since the last step. Returns the loss of the closure."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        rate = self.param_groups[0]["lr"]
        for module in self.tables:
            module.step(rate=None if rate is None else float(rate))
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients that `step` would use."""
        for module in self.tables:
            module.zero_grad(set_to_none)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "tables": self.tables}
