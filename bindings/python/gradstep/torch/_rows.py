"""Parameters whose rows change while they train: `append`, `keep`, `permute` and `reset` of `Optimizer`.

A `Change` has the new values and the new state of one parameter. Its constructor checks everything and allocates all memory, and
writes nothing. `take` then puts the new memory in place, so that a call changes all of its parameters or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from .._library import Status, error
from . import _memory
from ._entries import Entry, Group
from ._updaters import NO_NUMBERS, Slot, Updater

_NEW = -1  # instead of a row: its state begins anew
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Order(NamedTuple):
    """Which row each row was before a change."""

    values: torch.Tensor | None  # None: every value stays in its row
    state: torch.Tensor  # also `_NEW`


OrderOf = Callable[[int, str], Order]  # the order for a parameter with these rows, and its place for errors


def appended(count: int) -> OrderOf:
    """Adds rows behind the others."""
    return lambda rows, what: Order(None, torch.cat([_all(rows), torch.full((count,), _NEW, device="cpu")]))


def kept(mask: Any) -> OrderOf:
    """Keeps the rows whose element of the mask is true."""
    values = _list_of(mask, "keep: the mask", (torch.bool,), "a bool for each row")

    def of(rows: int, what: str) -> Order:
        if len(values) != rows:
            raise error(Status.BAD_SIZE, f"{what}: the mask has {len(values)} elements; expected {rows}")
        left = values.nonzero().view(-1)
        return Order(left, left)

    return of


def permuted(order: Any) -> OrderOf:
    """Row i becomes what was row order[i]."""
    values = _list_of(order, "permute: the order", _INTEGERS, "the integers of all rows").long()

    def of(rows: int, what: str) -> Order:
        if len(values) != rows:
            raise error(Status.BAD_SIZE, f"{what}: the order has {len(values)} elements; expected {rows}")
        _check_range(values, rows, what)
        counts = torch.bincount(values, minlength=rows)
        if rows and counts.max() > 1:
            raise error(Status.BAD_VALUE, f"{what}: row {int(counts.argmax())} is in the order twice; expected each row once")
        return Order(values, values)

    return of


def begun(row_list: Any) -> OrderOf:
    """The state of these rows begins anew."""
    values = _list_of(row_list, "reset: the list of rows", _INTEGERS, "integers").long()

    def of(rows: int, what: str) -> Order:
        _check_range(values, rows, what)
        return Order(None, _all(rows).index_fill_(0, values, _NEW))

    return of


def _all(rows: int) -> torch.Tensor:
    return torch.arange(rows, device="cpu")


def _check_range(values: torch.Tensor, rows: int, what: str) -> None:
    wrong = ((values < 0) | (values >= rows)).nonzero().view(-1)
    if len(wrong):
        first = int(wrong[0])
        raise error(Status.BAD_VALUE, f"{what}: element {first} is {int(values[first])}; expected a row in [0, {rows})")


def _list_of(given: Any, about: str, dtypes: tuple[torch.dtype, ...], expected: str) -> torch.Tensor:
    """A mask or a list of rows as a tensor of one dimension."""
    if isinstance(given, torch.Tensor):
        found = _memory.on_cpu(given, about)
    else:
        try:
            found = torch.as_tensor(given, device="cpu")
        except (OverflowError, RuntimeError, TypeError, ValueError):
            raise error(Status.BAD_VALUE, f"{about} is {given!r:.80}; expected {expected}") from None
        if found.numel() == 0:  # an empty list has no dtype
            found = found.to(dtypes[0])
    if found.dtype not in dtypes:
        raise error(Status.UNSUPPORTED_TYPE, f"{about} is of {found.dtype}; expected {expected}")
    if found.ndim != 1:
        raise error(Status.BAD_SIZE, f"{about} has the shape {tuple(found.shape)}; expected one dimension")
    return found


class Change:
    """The values and the state of a parameter after a change of its rows."""

    def __init__(
        self,
        parameter: torch.Tensor,
        state: dict[str, Any],
        group: Group,
        what: str,
        order_of: OrderOf,
        added: torch.Tensor | None,
    ) -> None:
        if _memory.is_dtensor(parameter):
            raise error(Status.BAD_BUFFER, f"{what}: the tensor is a DTensor; expected a torch.Tensor")
        own = self._own = _memory.on_cpu(parameter, f"{what}: the tensor")
        if own.is_inference():
            raise error(Status.BAD_BUFFER, f"{what}: the tensor was made in inference mode; expected one made outside")
        if own.ndim == 0:
            raise error(Status.BAD_SIZE, f"{what}: the tensor has the shape (), which has no rows; expected one dimension at least")
        memory = [x.untyped_storage() for x in (own, *state.values()) if isinstance(x, torch.Tensor) and x.is_cpu]
        if any(storage.is_shared() for storage in memory):
            raise error(
                Status.BAD_BUFFER,
                f"{what}: the tensor or its state is in shared memory, which other processes use; expected memory of this process",
            )
        self.parameter, self._state, self._what = parameter, state, what
        self._numbers = ("step", "clock", group.kept_rate)  # of the whole parameter
        self._order = order_of(own.shape[0], what)
        self.values: torch.Tensor | None = None
        if added is not None:
            self.values = _memory.settled(torch.cat([own.detach(), self._checked(added)]))
        elif self._order.values is not None:
            self.values = _memory.settled(own.detach().index_select(0, self._order.values))
        self._updater = group.updater_of(own.dtype, what)
        self.changes = self._moved() if any(x is not None for x in state.values()) else {}

    def _checked(self, added: Any) -> torch.Tensor:
        """The new rows of `append`."""
        about = f"{self._what}: the tensor of new rows"
        if _memory.is_dtensor(added):
            raise error(Status.BAD_BUFFER, f"{about} is a DTensor; expected a torch.Tensor")
        rows: torch.Tensor = _memory.on_cpu(added, about)
        if rows.dtype is not self._own.dtype:
            raise error(Status.UNSUPPORTED_TYPE, f"{about} is of {rows.dtype}; expected {self._own.dtype}")
        if rows.ndim != self._own.ndim or rows.shape[1:] != self._own.shape[1:]:
            width = ", ".join(["rows", *map(str, self._own.shape[1:])])
            raise error(
                Status.BAD_SIZE,
                f"{self._what}: the tensor of new rows has the shape {tuple(rows.shape)}; expected ({width})",
            )
        return rows.detach()

    def _moved(self) -> dict[str, Any]:
        """The new entries of the state."""
        before, after = self._own, self._own if self.values is None else self.values
        slots = {slot.name: slot for slot in self._updater.slots_of(before)}
        first = self._first_state(after)
        changes = {}
        for name, old in self._state.items():
            slot, about = slots.get(name), f"{self._what}: its state {name}"
            if slot is not None and old is not None:
                if slot.single or slot.factor == "columns":  # belongs to all rows
                    continue
                dtype = first[name].dtype
                shape = (before.shape[0], *first[name].shape[1:])
                changes[name] = self._rows(Entry.usable(old, False, shape, dtype, about), first[name])
            elif isinstance(old, torch.Tensor) and name not in self._numbers:  # no step uses it now
                old = _memory.on_cpu(old, about)
                if old.ndim == 0:
                    continue
                if old.shape != before.shape:
                    raise error(Status.BAD_SIZE, f"{about} has the shape {tuple(old.shape)}; expected {tuple(before.shape)}")
                changes[name] = self._rows(old, torch.zeros(after.shape, dtype=old.dtype, device="cpu"))
        return changes

    def _first_state(self, after: torch.Tensor) -> dict[str, torch.Tensor]:
        """All slots as they begin, of a parameter with the new rows."""
        updater = self._updater
        memory = torch.empty(after.shape, dtype=_memory.dtype_like(updater.dtype, after), device="cpu").copy_(after)
        slots = updater.slots_of(memory)
        first = [self._empty(slot, memory) for slot in slots]
        if slots and bool((self._order.state == _NEW).any()):
            updater.initialize(memory, first, *self._clock())
        return {slot.name: x for slot, x in zip(slots, first)}

    def _clock(self) -> tuple[int, tuple[float, ...] | None]:
        """The number of steps, which averages account for. A rule with numbers in the clock has no such average."""
        step = self._state.get("step")
        if step is None or self._updater.keeps_clock:
            return 0, NO_NUMBERS if self._updater.keeps_clock else None
        return int(Entry.number_of("step", step, self._what, "a count of steps")), None

    @staticmethod
    def _empty(slot: Slot, memory: torch.Tensor) -> torch.Tensor:
        dtype = slot.dtype if slot.single else _memory.dtype_like(slot.dtype, memory)
        return _memory.empty_like(Entry.shaped_like(slot, memory, dtype), dtype)

    def _rows(self, old: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        """The rows of `old` at their new places in `first`."""
        moves = self._order.state != _NEW
        return first.index_copy_(0, moves.nonzero().view(-1), old.index_select(0, self._order.state[moves]).to(first.dtype))

    def take(self) -> None:
        """Puts the new memory in place. The Parameter object and its place in modules and groups stay."""
        self._state.update(self.changes)
        if self.values is not None:
            self.parameter.grad = None
            # torch makes a new node for the gradient if the dtype changes. The old one, which a graph of an earlier step can keep
            # alive, expects gradients of the old shape.
            other = torch.float32 if self.values.dtype is torch.float64 else torch.float64
            self.parameter.data = torch.empty(0, dtype=other, device="cpu")
            self.parameter.data = self.values


def listed(call: str, parameters: Any) -> list[Any]:
    """The parameters of a call: one tensor, or several."""
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Iterable):
        raise error(Status.BAD_VALUE, f"{call}: parameters is a {type(parameters).__name__}; expected a tensor or a list of tensors")
    return list(parameters)


def require_apart(call: str, changes: list[Change], groups: list[dict[str, Any]], places: Mapping[int, str]) -> None:
    """Raises if memory that is replaced is also memory of another parameter, which would keep the old rows."""
    usual = [x for group in groups for x in group["params"] if x.layout is torch.strided and x.is_cpu and not _memory.is_dtensor(x)]
    for change in changes:
        if change.values is None:
            continue
        own = [_memory.extent(change.parameter)]
        for other in usual:
            if other is not change.parameter and _memory.meet(own, [_memory.extent(other)]):
                raise error(
                    Status.BAD_BUFFER,
                    f"{places[id(change.parameter)]}: {call}: the tensor shares memory with {places[id(other)]}; expected separate "
                    "memory for each",
                )
