"""One step of all groups: `Plan` checks and prepares it from their entries, then `Plan.run` updates the parameters.

A plan that is kept for the next step holds addresses and numbers but no tensor, so it keeps no memory of the program alive.
Before it is used again, `Plan.is_current` compares everything that the addresses depend on, whole lists at a time.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, compress, repeat
from operator import attrgetter, is_, is_not, itemgetter
from typing import Any

import torch

from .._library import CTensorOptions, Status, check, error, library
from . import _memory
from ._entries import Entry, Group
from ._updaters import NO_NUMBERS, Updater, rows_and_columns, snapshot

_parameters_of, _gradient_of, _value_of = itemgetter("params"), attrgetter("grad"), attrgetter("value")


class Models:
    """The step counts and clocks of the model-wise rules: groups whose rule has the same name and numbers are one model.

    A model has one clock, which the state of each of its parameters contains. The constructor checks that they are equal.
    """

    def __init__(self, groups: list[Group], parameters: list[list[torch.Tensor]], state: Any) -> None:
        self._begin: dict[str, tuple[float, tuple[float, ...]]] = {}
        self._of_groups: dict[int, str] = {}
        self._idle: list[tuple[str, torch.Tensor, bool]] = []
        where: dict[str, str] = {}
        for group, of_group in zip(groups, parameters):
            for position, parameter in enumerate(of_group):
                what = f"parameter {position} of group {group.number}"
                updater = group.updater_of(parameter.dtype, what)
                if updater.model is None:
                    break  # like the other parameters of the group
                self._of_groups[group.number] = updater.model
                known = state.get(parameter) or {}
                step, clock = known.get("step"), known.get("clock")
                if step is None or (clock is None and updater.keeps_clock):
                    continue
                kept = NO_NUMBERS
                if updater.keeps_clock:
                    kept = tuple(Entry.usable(clock, False, (4,), torch.float64, f"{what}: its state clock").tolist())
                now = Entry.number_of("step", step, what, "a count of steps"), kept
                first = self._begin.setdefault(updater.model, now)
                if first != now:
                    raise error(
                        Status.BAD_VALUE,
                        f"{what}: its step {now[0]:.0f} and clock {list(kept)} differ from {first[0]:.0f} and {list(first[1])} of "
                        f"{where[updater.model]}, which has the same rule {updater.rule}; expected the same step and clock",
                    )
                where.setdefault(updater.model, what)
                if parameter.grad is None:
                    self._idle.append((updater.model, parameter, updater.keeps_clock))

    def begin_of(self, group: Group) -> Group:
        """The group with the clock of its model, at which its parameters without state begin."""
        model = self._of_groups.get(group.number)
        return group._replace(begin=self._begin[model]) if model in self._begin else group

    def advance_idle(self, plan: Plan, state: Any) -> bool:
        """Sets the clocks of parameters without a gradient, after a step; False if there are none."""
        taken = {x.updater.model: x for x in plan.batches}
        for model, parameter, keeps_clock in self._idle:
            if model in taken:
                state[parameter]["step"] = torch.tensor(taken[model].after, dtype=torch.float64, device="cpu")
                if keeps_clock:
                    state[parameter]["clock"] = torch.tensor(taken[model].kept, dtype=torch.float64, device="cpu")
        return bool(self._idle)


class _Batch:
    """Entries that one call of the library updates: they share an updater, a learning rate and a step count."""

    def __init__(self, entries: list[Entry]) -> None:
        first, self.number = entries[0], len(entries)
        self.updater, self.scale, self.after = first.updater, first.group.gradient_scale, first.after
        self.rate_options, self.rate, self.kept_rate = first.group.rate_options, 0.0, first.kept_rate
        self.kept = first.kept
        self.loss: float | None = None
        self.groups = sorted({x.group.number for x in entries})
        pointers = ctypes.c_void_p * self.number
        self.parameters = pointers(*[x.memory.data_ptr() for x in entries])
        self._slots = [self.updater.pointers(x.memory, x.slots) for x in entries]
        self.slots = pointers(*map(ctypes.addressof, self._slots))
        counts = ctypes.c_uint64 * self.number
        self.counts = self.rows = counts(*[_memory.numbers(x.memory) for x in entries])
        self.columns = None
        if self.updater.uses_shape:
            extents = [rows_and_columns(x.memory) for x in entries]
            self.rows = counts(*[rows for rows, _ in extents])
            self.columns = counts(*[columns for _, columns in extents])
        self._ids = counts(*[x.id for x in entries])
        self._options = CTensorOptions(ctypes.sizeof(CTensorOptions), ids=ctypes.addressof(self._ids))
        self.options = ctypes.byref(self._options)
        self.gradients = array("Q", [x.gradient.data_ptr() for x in entries])
        self.cells = [x.cell for x in entries if x.cell is not None]
        self.rate_cells = [x.rate_cell for x in entries if x.rate_cell is not None]
        self.clock_cells = [x.clock_cell for x in entries if x.clock_cell is not None]
        self.loads = [x for each in entries for x in each.loads]
        self.stores = [x for each in entries for x in each.stores]

    def prepare(self, rate_of: Callable[[tuple[float, ...], int], float], loss: Any) -> None:
        """Prepares the step in the library. Raises if a number is out of range. loss: what the closure returned."""
        self._find_rate(rate_of)
        self.loss = _loss_of(loss, self.updater.rule) if self.updater.needs_loss else None
        self.updater.next_step(self.after, self.rate, self.scale, self.kept, self.loss)

    def _find_rate(self, rate_of: Callable[[tuple[float, ...], int], float]) -> None:
        if self.kept_rate is None:
            self.rate = rate_of(self.rate_options, self.after)
        else:
            self.rate, self.next_rate = self.kept_rate, rate_of(self.rate_options, self.after + 1)

    def follow(self, rate_of: Callable[[tuple[float, ...], int], float]) -> bool:
        """Continues after a step of another batch on the same parameter; False if there was none."""
        if not self.cells or self.cells[0].value == self.after:
            return False
        self.after = int(self.cells[0].value)
        if self.rate_cells:
            self.kept_rate = self.rate_cells[0].value
        if self.clock_cells:
            self.kept = tuple(self.clock_cells[0])
        self._find_rate(rate_of)
        return True

    @property
    def is_current(self) -> bool:
        """Whether the numbers in the state have not changed since the last step."""
        return (
            (not self.cells or list(map(_value_of, self.cells)) == [self.after] * self.number)
            and (not self.rate_cells or list(map(_value_of, self.rate_cells)) == [self.kept_rate] * self.number)
            and all(tuple(x) == self.kept for x in self.clock_cells)
        )

    def load(self) -> None:
        """Copies what the step cannot read in its place."""
        for load in self.loads:
            load()

    def run(self, is_prepared: bool) -> None:
        if self.updater.model is None:  # otherwise it is prepared and loaded, and settled with the rest of its model
            if not is_prepared:  # another batch of the same updater has taken its step since
                self.updater.next_step(self.after, self.rate, self.scale, self.kept)
            self.load()
        gradients = self.gradients.buffer_info()[0]
        self.updater.apply(self.parameters, gradients, self.slots, self.rows, self.columns, self.number, self.options)
        for store in self.stores:
            store()
        if self.cells:
            self.after += 1
            for cell in self.cells:
                cell.value = self.after
            if self.rate_cells:
                for cell in self.rate_cells:
                    cell.value = self.next_rate
                self.kept_rate = self.rate_cells[0].value
            if self.clock_cells:
                self.kept = self.updater.kept()
                for cell in self.clock_cells:
                    cell[:] = self.kept
        elif self.after == 0:
            self.after = 1


class _Model:
    """The batches with the same model-wise rule: their sums are added in the order of the parameters, as in gradstep.Model."""

    def __init__(self, batches: list[tuple[_Batch, list[int]]]) -> None:
        self.batches = [batch for batch, _ in batches]
        parts = sorted((index, b, k) for b, (_, indices) in enumerate(batches) for k, index in enumerate(indices))
        self.order = [(b, k) for _, b, k in parts]
        members = [(self.batches[b], k) for b, k in self.order]
        self.number = len(members)
        pointers = ctypes.c_void_p * self.number
        self.updaters = pointers(*[x.updater.handle for x, _ in members])
        self.parameters = pointers(*[x.parameters[k] for x, k in members])
        self.slots = pointers(*[x.slots[k] for x, k in members])
        self.counts = (ctypes.c_uint64 * self.number)(*[x.counts[k] for x, k in members])
        self.failure = self.batches[0].updater.failure

    def settle(self) -> None:
        """Settles the prepared steps. It reads the tensors, and raises before anything is written."""
        for batch in self.batches:
            batch.load()
        if len(self.batches) == 1:
            gradients = self.batches[0].gradients
        else:
            of_batches = [x.gradients for x in self.batches]
            gradients = array("Q", [of_batches[b][k] for b, k in self.order])
        at = gradients.buffer_info()[0]
        check(
            library.gradstep_updaters_settle(
                self.updaters, self.parameters, at, self.slots, self.counts, self.number, ctypes.byref(self.failure)
            ),
            self.failure,
        )


class Plan:
    """The step of all parameters that have a gradient."""

    def __init__(self, entries: list[Entry], rate_of: Callable[[tuple[float, ...], int], float]) -> None:
        self.rate_of = rate_of
        # Parameters that share memory are updated one after the other, as in torch.
        self.is_sequence = _share_memory(entries)
        of_model = next((x.updater for x in entries if x.updater.model is not None), None)
        if self.is_sequence and of_model is not None:
            some = next(x for k in (1, 2) for x in combinations(entries, k) if _share_memory(x))
            raise error(
                Status.BAD_BUFFER,
                f"{some[-1].what}: shares memory with {some[0].what if len(some) > 1 else 'its state'}, and {of_model.rule} updates "
                "all parameters together; expected separate memory for each",
            )
        found: dict[Any, list[int]] = {}
        for index, x in enumerate(entries):
            alike = x.updater, x.group.gradient_scale, x.group.rate_options, x.after, x.kept_rate, x.kept
            key = index if self.is_sequence else alike
            found.setdefault(key, []).append(index)
        self.indices = list(found.values())
        self.batches = [_Batch([entries[i] for i in each]) for each in self.indices]
        models: dict[str, list[tuple[_Batch, list[int]]]] = {}
        for batch, each in zip(self.batches, self.indices):
            if batch.updater.model is not None:
                models.setdefault(batch.updater.model, []).append((batch, each))
        self.models = [_Model(x) for x in models.values()]

    def prepare(self, loss: Any) -> None:
        """Prepares all batches, so that errors occur before the first write. loss: what the closure returned."""
        for batch in self.batches:
            batch.prepare(self.rate_of, loss)
        for model in self.models:
            model.settle()

    def run(self) -> None:
        """Takes the prepared step."""
        several = len({x.updater for x in self.batches}) < len(self.batches)
        for batch in self.batches:
            if self.is_sequence and batch.follow(self.rate_of):  # a parameter that occurs twice
                several = True
            batch.run(is_prepared=not several)

    def keep(self, entries: list[Entry], groups: list[dict[str, Any]], state: Any, options_of: Any, rates_of: Any) -> bool:
        """Stores what `is_current` compares; False if the plan is valid for one step only."""
        if self.is_sequence or not entries or not all(x.can_be_kept for x in entries):
            return False
        self.options_of, self.rates_of = options_of, rates_of
        try:
            self.options = [snapshot(options_of(group)) for group in groups]
        except KeyError:  # a group lacks an option that no step needs
            return False
        self.sizes = list(map(len, map(_parameters_of, groups)))
        self.rates = [snapshot(rates_of(group)) for group in groups]
        present = [x.grad is not None for group in groups for x in group["params"]]
        self.present = None if all(present) else present
        by_names: dict[tuple[str, ...], list[int]] = {}
        for index, x in enumerate(entries):
            by_names.setdefault(x.names, []).append(index)
        self.names = [(names, None if len(by_names) == 1 else at) for names, at in by_names.items() if names]
        self.parameters = [x.parameter for x in entries]
        gradients: list[Any] = [x.parameter.grad for x in entries]
        tensors = self._tensors(self.parameters, state)
        if not _memory.USUAL_TYPES.issuperset(map(type, tensors)):
            return False
        self.guard = _memory.Guard([*tensors, *gradients])
        self.addresses = list(map(_memory.address_of, tensors))
        self.parameters = []
        self.gradients_at = list(map(_memory.address_of, gradients))
        self.written = _memory.Written([x for each in entries for x in each.extents], [x.nbytes for x in gradients])
        return True

    def _tensors(self, parameters: list[torch.Tensor], state: Any) -> list[torch.Tensor]:
        """The parameters, and the entries of their state that a step uses."""
        if not self.names:
            return parameters
        if len(state) == len(parameters) and all(map(is_, state, parameters)):
            states = list(state.values())  # faster than a look-up, which calls a Python function to hash each tensor
        else:
            states = [state.get(x) for x in parameters]
        tensors = list(parameters)
        for names, indices in self.names:
            each = states if indices is None else [states[i] for i in indices]
            for name in names:
                tensors += map(itemgetter(name), each)
        return tensors

    def is_current(
        self,
        groups: list[dict[str, Any]],
        state: Any,
        group_of: Callable[[int], Group],
        forget: Callable[[Updater], None],
    ) -> bool:
        """Whether the plan is valid for the next step. Hyperparameters can have changed; everything else must be the same."""
        try:
            options = list(map(self.options_of, groups))
            if options != self.options and not self._take_options(options, group_of, forget):
                return False
            of_groups = list(map(_parameters_of, groups))
            if list(map(len, of_groups)) != self.sizes:
                return False
            parameters = list(chain.from_iterable(of_groups))
            gradients = list(map(_gradient_of, parameters))
            present = list(map(is_not, gradients, repeat(None)))
            if self.present is not None:
                if present != self.present:
                    return False
                parameters, gradients = list(compress(parameters, present)), list(compress(gradients, present))
            elif not all(present):
                return False
            tensors = self._tensors(parameters, state)
            if not self.guard.holds(*tensors, *gradients) or list(map(_memory.address_of, tensors)) != self.addresses:
                return False
            if not all(batch.is_current for batch in self.batches):
                return False
            at = list(map(_memory.address_of, gradients))
            if at != self.gradients_at and self.written.meets(at):
                return False
            rates = list(map(self.rates_of, groups))
            if rates != self.rates and not self._take_rates(rates):
                return False
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            return False  # the next plan raises the error
        for batch, indices in zip(self.batches, self.indices):
            batch.gradients = array("Q", at if len(self.batches) == 1 else [at[i] for i in indices])
        self.parameters, self.gradients_at = parameters, at
        return True

    def _take_options(
        self, options: list[Any], group_of: Callable[[int], Group], forget: Callable[[Updater], None]
    ) -> bool:
        """Uses new hyperparameters, if the groups of each updater still share them and only numbers have changed."""
        if self.models:  # groups that were one model can be two, or the other way round
            return False
        groups = [group_of(i) for i in range(len(options))]
        policies: dict[Updater, Mapping[str, Any]] = {}
        for batch in self.batches:
            first = groups[batch.groups[0]]
            for of_group in [groups[i] for i in batch.groups]:
                if of_group.gradient_scale != batch.scale or of_group.policies != first.policies:
                    return False
            if policies.setdefault(batch.updater, first.policies) != first.policies:
                return False
        changes = {updater: updater.changes_to(config) for updater, config in policies.items()}
        if any(x is None for x in changes.values()):
            return False
        for updater, numbers in changes.items():
            if numbers:
                forget(updater)  # its key is the old configuration
                updater.change(policies[updater], numbers)
        self.options = list(map(snapshot, options))
        return True

    def _take_rates(self, rates: list[Any]) -> bool:
        """Uses new learning rates, if the groups of each batch still have the same rates."""
        known = [snapshot(x) for x in rates]
        options = [x if isinstance(x, tuple) else (x,) for x in known]
        if not all(0 <= value < math.inf for of_group in options for value in of_group):
            return False
        for batch in self.batches:
            if len({options[i] for i in batch.groups}) != 1:
                return False
        for batch in self.batches:
            batch.rate_options = options[batch.groups[0]]
        self.rates = known
        return True


def _share_memory(entries: Sequence[Entry]) -> bool:
    """Whether a step writes memory twice, or memory of a gradient."""
    written = [extent for x in entries for extent in x.extents]
    return _memory.overlap(written) or _memory.meet(written, [_memory.extent(x.gradient) for x in entries])


def _loss_of(loss: Any, rule: str) -> float:
    """The loss of a step, from what the closure returned."""
    if loss is None:
        raise error(
            Status.BAD_VALUE,
            f"step: {rule} computes its step size from the loss, and none is given; expected a closure that returns it",
        )
    try:
        return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
    except (RuntimeError, TypeError, ValueError):
        raise error(Status.BAD_VALUE, f"step: the closure returned {loss!r}; expected the loss, a number") from None
