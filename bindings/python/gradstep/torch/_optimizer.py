"""The base class of all optimizers for torch, which also runs any configuration of gradstep."""

from __future__ import annotations

import functools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

import torch

from .._library import ConfigError, Error, Status, error
from .._shared import check_change
from . import _memory, _rows
from ._entries import Entry, Group, Sparse
from ._steps import Models, Plan
from ._updaters import Updater, number, snapshot


def _increment_versions(parameters: list[torch.Tensor]) -> None:
    for parameter in parameters:
        torch.autograd.graph.increment_version(parameter)


try:
    torch.autograd.graph.increment_version([torch.empty(0, device="cpu")])
    _increment_versions = torch.autograd.graph.increment_version  # type: ignore[assignment]
except (AttributeError, RuntimeError, TypeError):
    pass  # torch before 2.5 accepts one tensor per call


def _compiler_skips(function: Any) -> bool:
    """Excludes the frames of a function from torch's compiler; False if this version of torch cannot."""
    of_frames = torch._C._dynamo.eval_frame
    try:
        if hasattr(of_frames, "skip_code"):  # before torch 2.6
            of_frames.skip_code(function.__code__)
        else:
            skip, default = of_frames._FrameAction.SKIP, of_frames._FrameAction.DEFAULT
            of_frames.set_code_exec_strategy(function.__code__, of_frames._FrameExecStrategy(skip, default))
    except (AttributeError, TypeError):
        return False
    return True


def uncompiled(function: Callable[..., Any]) -> Any:
    """Excludes a function that calls the library from torch.compile, which cannot make it faster.

    It has the effect of torch.compiler.disable and takes less time, because the compiler has no extra frame to guard.
    """
    set_compiler = torch._C._dynamo.eval_frame.set_eval_frame

    @functools.wraps(function)
    def outermost(*args: Any, **kwargs: Any) -> Any:
        compiler = set_compiler(None)
        try:
            return function(*args, **kwargs)
        finally:
            if compiler is not None:
                set_compiler(compiler)

    if not _compiler_skips(outermost):
        of_torch: Any = torch.compiler
        return of_torch.disable(function)
    result: Any = outermost
    # The compiler reads these attributes if another function calls this one.
    result._torchdynamo_disable = result._torchdynamo_disable_recursive = True
    result._torchdynamo_disable_msg = "gradstep runs in its library"
    return result


_MOST_UPDATERS = 100


class Optimizer(torch.optim.Optimizer):
    """Runs any configuration of gradstep on torch's tensors on the CPU.

        gradstep.torch.Optimizer(model.parameters(), {"rule": {"name": "lion"}, "regularizer": {"name": "decoupled", "rate": 0.1}}, lr=1e-4)

    params: tensors or parameter groups, as in torch. A group can have its own `config`, and an `id` for random numbers: its
        parameter k draws as `id` + k, which must not change. By default, `id` is the number of the group times 2^32.
    config: the optimizer, a dict without "schedule" (docs/how_to/configuration.md).
    lr: the learning rate, which every torch.optim.lr_scheduler can change.
    maximize: whether to maximize the objective instead of minimizing it.
    threads: the number of threads of a step; 0: torch.get_num_threads().

    The state has the library's names, such as "m", "v" and "master". "clock" has the numbers that a rule keeps of the whole run:
    schedule-free rules for each parameter, model-wise rules such as prodigy for the model. The parameters of all groups whose rule
    has the same name and numbers are one model, whose clock is the same in the state of each of them. Rules that use shapes, such
    as muon and adafactor, join the dimensions of a tensor after the first one.

    Subclasses with torch's names override `_names`, `_counts` and `_policies`, and some also `_rate`, `_kept_rate` and `_sparse`.
    """

    _names: Mapping[str, str] = {}  # torch's names for the library's slots
    _counts = True  # whether the state has "step"
    _rate_options: tuple[str, ...] = ("lr",)  # the options of a group that `_rate` reads
    _policy_options: tuple[str, ...] = ()  # those that `_policies` reads, too
    _kept_rate: str | None = None  # the entry of the state with the rate of the next step, from the options of this step
    _later_options: Mapping[str, Any] = {}  # options that old versions of torch lack, with their values then

    # Results of a step that the next one uses again. They are neither copied nor pickled.
    _updaters: dict[Any, Updater]
    _plan: Plan | None
    _plan_for: int  # the number of threads
    _known_policies: dict[int, Any]  # of the parameters with state, by their id()
    _kept: list[tuple[torch.Tensor, torch.Tensor]] | None = None  # the parameters before `ascend`, and their values

    def __init__(
        self,
        params: Any,
        config: Mapping[str, Any],
        lr: float | torch.Tensor = 1e-3,
        *,
        maximize: bool = False,
        threads: int = 0,
    ) -> None:
        if not isinstance(config, Mapping):
            raise error(
                Status.BAD_CONFIG,
                f'config: {config!r} is a {type(config).__name__}; expected a dict, such as {{"rule": {{"name": "lion"}}}}',
            )
        self._begin(params, {"lr": lr, "config": dict(config), "maximize": maximize}, threads)

    def _begin(self, params: Any, defaults: dict[str, Any], threads: int) -> None:
        if threads < 0:
            raise error(Status.BAD_VALUE, f"threads: {threads}; expected a number >= 0")
        self.threads = threads
        super().__init__(params, defaults)

    def _patch_step_function(self) -> None:
        super()._patch_step_function()
        kind: Any = type(self)
        if not getattr(kind.step, "is_outermost", False):
            kind.step = uncompiled(kind.step)
            kind.step.hooked = kind.step.is_outermost = True

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration of a group, without a schedule."""
        config: dict[str, Any] = group["config"]
        if "schedule" in config:
            raise error(
                Status.BAD_CONFIG,
                f"schedule: {config['schedule']!r} is given; expected none: the learning rate is lr, which "
                "torch.optim.lr_scheduler changes",
            )
        return config

    def _of_dtype(self, policies: Mapping[str, Any], dtype: torch.dtype) -> Mapping[str, Any]:
        """The policies of parameters of a dtype."""
        return policies

    @staticmethod
    def _rate(options: tuple[float, ...], after: int) -> float:
        """The learning rate of step `after + 1`, from the group's `_rate_options`."""
        return options[0]

    def _sparse(self, group: Mapping[str, Any]) -> Sparse:
        """What a step does with sparse gradients."""
        return Sparse.REFUSED

    def _group(self, index: int) -> Group:
        """A group in the form that its entries need. Raises if an option is out of range."""
        group = self.param_groups[index]
        for name in ("capturable", "differentiable"):
            if group.get(name):
                raise error(Status.BAD_VALUE, f"group {index}: {name}: {group[name]}; expected False")
        options = tuple(number(group[name]) for name in self._rate_options)
        for name, value in zip(self._rate_options, options):
            if not 0 <= value < math.inf:
                raise error(Status.BAD_VALUE, f"group {index}: {name}: {value}; expected a number >= 0")
        policies = self._policies(group)

        def updater_of(dtype: torch.dtype, what: str) -> Updater:
            return self._updater(index, policies, _memory.real_dtype(dtype), what)

        scale = -1.0 if group["maximize"] else 1.0
        first_rate = self._rate(options, 0)
        first_id = group.get("id")
        if first_id is None:
            first_id = index << 32
        elif not isinstance(first_id, int) or not 0 <= first_id < 2**64:
            raise error(Status.BAD_VALUE, f"group {index}: id: {first_id!r}; expected an integer from 0 to 2^64 - 1")
        return Group(
            index, first_id, policies, updater_of, options, scale, self._counts, self._kept_rate, first_rate, self._sparse(group)
        )

    def _updater(self, index: int, policies: Mapping[str, Any], dtype: torch.dtype, what: str) -> Updater:
        """The updater of policies and a dtype. Groups share it."""
        config = {
            "threads": self.threads or torch.get_num_threads(),
            **self._of_dtype(policies, dtype),
            "schedule": {"name": "external"},
        }
        try:
            key = json.dumps(config, sort_keys=True), dtype
        except (TypeError, ValueError) as reason:
            raise error(Status.BAD_CONFIG, f"group {index}: {reason}") from reason
        updaters: dict[Any, Updater] = self.__dict__.setdefault("_updaters", {})

        def updater_at(place: Any) -> Updater:
            if place not in updaters:
                if dtype not in Updater.dtypes:
                    raise error(
                        Status.UNSUPPORTED_TYPE,
                        f"{what}: is of {dtype}; expected {', '.join(map(str, Updater.dtypes))}, complex64 or complex128",
                    )
                if len(updaters) >= _MOST_UPDATERS:  # most of them have old hyperparameters
                    updaters.clear()
                updaters[place] = Updater(config, dtype, self._names)
            return updaters[place]

        found = updater_at(key)
        # The groups of a model all prepare their steps before any is taken, so that each needs its own.
        return found if found.model is None or index == 0 else updater_at((key, index))

    def _forget(self, updater: Updater) -> None:
        """Removes an updater whose configuration changes."""
        self._updaters = {key: x for key, x in self._updaters.items() if x is not updater}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters. Raises if its options or dtypes are invalid.

        param_group: a dict with "params" and the options that differ from the defaults, as in torch.
        """
        super().add_param_group(param_group)
        try:
            group = self._group(len(self.param_groups) - 1)
            for position, parameter in enumerate(self.param_groups[-1]["params"]):
                group.updater_of(parameter.dtype, f"parameter {position} of group {group.number}")
        except Exception:
            self.param_groups.pop()
            raise

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient: one step.

        closure: a function that computes the gradients again and returns the loss. Returns its result, or None.

        Everything is checked before anything is written. The rules polyak_sgd, momo and momo_adam compute their step size from the
        loss, without loss scaling, and raise without it. If you have it already: `optimizer.step(lambda: loss)`.
        """
        self._require_trained("step")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        plan = self.__dict__.get("_plan")
        if (
            plan is not None
            and self._plan_for == (self.threads or torch.get_num_threads())
            and plan.is_current(self.param_groups, self.state, self._group, self._forget)
        ):
            parameters, plan.parameters = plan.parameters, []
            plan.prepare(loss)
            _increment_versions(parameters)
            plan.run()
        else:
            self._plan = None
            with torch.no_grad():
                self._step_anew(loss)
        return loss

    def ascend(self, rho: float = 0.05, *, adaptive: bool = False, eta: float = 0.01, epsilon: float = 1e-12) -> float:
        """The first half of a step of sharpness-aware minimization (SAM): moves every parameter along its gradient.

            loss_of(batch).backward()
            optimizer.ascend(rho=0.05)
            optimizer.zero_grad()
            loss_of(batch).backward()           # at the parameters that `ascend` has left
            optimizer.descend()

        Foret et al. 2021, arXiv:2010.01412: w <- w + rho / (norm + epsilon) * g, with the norm of all gradients together. The norm
        is a sum in float64 in a fixed order, so that its bits do not depend on the number of threads. Returns it.

        rho: the length of the move, >= 0.
        adaptive: whether to move by ASAM (Kwon et al. 2021, arXiv:2102.11600): a^2 g in place of g, and the norm of a g, where a is
            abs(w) + eta.
        eta: of ASAM, >= 0.
        epsilon: >= 0; keeps a gradient of zeros from a division by 0.

        Between the halves, `step`, `state_dict` and a second `ascend` raise `SequenceError`; `restore` gives up the step. Raises for
        sparse gradients, and for a norm that is not finite. Nothing has changed then.
        """
        self._require_trained("ascend")
        for name, value in (("rho", rho), ("eta", eta), ("epsilon", epsilon)):
            if not 0 <= value < math.inf:
                raise error(Status.BAD_VALUE, f"ascend: {name}: {value}; expected a number >= 0")
        with torch.no_grad():
            moved = [x for group in self.param_groups for x in group["params"] if x.grad is not None]
            for parameter in moved:
                if parameter.grad.layout != torch.strided:
                    raise error(Status.BAD_VALUE, "ascend: a gradient is sparse; expected dense gradients")
            norm = math.sqrt(math.fsum(x for parameter in moved for x in _squares(parameter, adaptive, eta)))
            if not math.isfinite(norm):
                raise error(Status.BAD_VALUE, f"ascend: the norm of the gradients is {norm}; expected finite gradients")
            scale = rho / (norm + epsilon) if norm > 0 else 0.0
            self._kept = [(parameter, parameter.detach().clone()) for parameter in moved]
            for group in self.param_groups:
                for parameter in group["params"]:
                    gradient = parameter.grad
                    if gradient is not None:
                        if adaptive:
                            gradient = (parameter.abs() + eta).square() * gradient
                        parameter.add_(gradient, alpha=-scale if group["maximize"] else scale)
        return norm

    def descend(self, closure: Callable[[], Any] | None = None) -> Any:
        """The second half: restores every parameter bit for bit, and takes a step with the gradients at the moved parameters.

        closure: a function that computes these gradients and returns the loss. Returns its result, or None.

        If the step raises, the parameters are restored, and the step is over.
        """
        if self._kept is None:
            raise error(Status.BAD_SEQUENCE, "descend: the weights have not been moved; expected ascend() first")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.restore()
        self.step(None if closure is None else lambda: loss)
        return loss

    def restore(self) -> None:
        """Restores the parameters after `ascend`, bit for bit, without a step."""
        if self._kept is None:
            raise error(Status.BAD_SEQUENCE, "restore: the weights have not been moved; expected ascend() first")
        with torch.no_grad():
            for parameter, before in self._kept:
                parameter.copy_(before)
        self._kept = None

    def weights_set(self, parameters: torch.Tensor | Iterable[torch.Tensor] | None = None) -> None:
        """Call it after you have set weights, for example by `model.load_state_dict`: state that contains weights follows them.

            model.load_state_dict(pretrained)
            optimizer.weights_set()

        parameters: the tensors whose weights were set; None: all.

        Training goes on from the new weights. Without the call, schedule-free rules, madgrad, dadapt_sgd, cocob and the ftrl rules,
        lookahead and master copies pull the weights back to the old ones. Moments and the step count do not change. Before the
        first step there is no state, and the call has no effect. docs/how_to/checkpoints.md says what each rule does. Raises for
        tensors and state that a step refuses, and between `ascend` and `descend`. Nothing has changed then.
        """
        self._require_trained("weights_set")
        chosen = None if parameters is None else {id(x) for x in _rows.listed("weights_set", parameters)}
        with torch.inference_mode(False), torch.no_grad():
            entries = []
            for index, of_group in enumerate(self.param_groups):
                group = self._group(index)._replace(sparse=Sparse.REFUSED)
                for position, parameter in enumerate(of_group["params"]):
                    state = self.state.get(parameter)
                    if chosen is not None and id(parameter) not in chosen:
                        continue
                    if chosen is not None:
                        chosen.discard(id(parameter))
                    if state and any(x is not None for x in state.values()):
                        entries.append(Entry(parameter, torch.zeros_like(parameter), state, group, position, {}))
            if chosen:
                raise error(
                    Status.BAD_VALUE, "weights_set: a tensor is no parameter of this optimizer; expected tensors of its param_groups"
                )
            self._plan = None  # its state can have new tensors
            for entry in entries:
                entry.weights_set()
                self.state[entry.parameter].update(entry.changes)

    def append(self, rows: Mapping[torch.Tensor, torch.Tensor]) -> None:
        """Adds rows behind the others while the parameters train.

            optimizer.append({means: new_means, colors: new_colors})

        rows: for each parameter the values of its new rows, with its dtype. A row is an element of the first dimension. All
            parameters get as many rows.

        The Parameter objects stay, so that modules and groups keep them; their memory is new and contiguous, and `grad` is None.
        The state of the rows begins as the state of a new parameter, averages included. The step count does not change: bias
        corrections count the steps of the parameter, also for new rows. docs/how_to/growing_parameters.md says what follows a row.

        Everything is checked and allocated before anything is changed. Raises for a tensor that is no parameter of this optimizer,
        has no dimension, is a DTensor, is in shared memory or shares its memory with another parameter, for values of another
        shape, dtype or device, and between `ascend` and `descend`.
        """
        if not isinstance(rows, Mapping):
            raise error(Status.BAD_VALUE, f"append: rows is a {type(rows).__name__}; expected a dict of parameters and their new rows")
        values = list(rows.values())
        for number, value in enumerate(values):
            if not isinstance(value, torch.Tensor) or value.ndim == 0:
                given = "a tensor with the shape ()" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
                raise error(Status.BAD_VALUE, f"append: value {number} is {given}; expected a tensor of new rows")
            if len(value) != len(values[0]):
                raise error(
                    Status.BAD_SIZE, f"append: value {number} has {len(value)} rows; expected {len(values[0])}, as many as value 0"
                )
        self._change_rows("append", list(rows), _rows.appended(len(values[0]) if values else 0), values)

    def keep(self, parameters: torch.Tensor | Iterable[torch.Tensor], mask: Any) -> None:
        """Keeps the rows whose element of the mask is true, in their order, and removes the others with their state.

        parameters: one parameter, or several with the same number of rows.
        mask: a bool for each row: a tensor, an array or a list.

        The memory is new and `grad` is None, as after `append`. All parameters are changed, or after an error none.
        """
        self._change_rows("keep", _rows.listed("keep", parameters), _rows.kept(mask))

    def permute(self, parameters: torch.Tensor | Iterable[torch.Tensor], order: Any) -> None:
        """Puts the rows and their state in another order: row i becomes what was row order[i].

        parameters: one parameter, or several with the same number of rows.
        order: every row once: a tensor, an array or a list of integers.

        The memory is new and `grad` is None, as after `append`. All parameters are changed, or after an error none.
        """
        self._change_rows("permute", _rows.listed("permute", parameters), _rows.permuted(order))

    def reset(self, parameters: torch.Tensor | Iterable[torch.Tensor], rows: Any) -> None:
        """Lets the state of these rows begin anew, like the state of the rows of `append`. The values and `grad` stay.

        parameters: one parameter, or several.
        rows: their numbers: a tensor, an array or a list of integers.

        The state of all parameters is changed, or after an error of none.
        """
        self._change_rows("reset", _rows.listed("reset", parameters), _rows.begun(rows))

    def _change_rows(
        self, call: str, parameters: list[Any], order_of: _rows.OrderOf, added: list[torch.Tensor] | None = None
    ) -> None:
        self._require_trained(call)
        places = {
            id(x): (index, f"parameter {position} of group {index}")
            for index, group in enumerate(self.param_groups)
            for position, x in enumerate(group["params"])
        }
        with torch.inference_mode(False), torch.no_grad():
            changes: dict[int, _rows.Change] = {}
            for number, parameter in enumerate(parameters):
                if id(parameter) not in places:
                    raise error(
                        Status.BAD_VALUE,
                        f"{call}: tensor {number} is no parameter of this optimizer; expected a tensor of its param_groups",
                    )
                index, what = places[id(parameter)]
                if id(parameter) in changes:
                    raise error(Status.BAD_VALUE, f"{what}: {call}: the tensor is given twice; expected each parameter once")
                changes[id(parameter)] = _rows.Change(
                    parameter,
                    self.state.get(parameter, {}),
                    self._group(index),
                    f"{what}: {call}",
                    order_of,
                    None if added is None else added[number],
                )
            all_changes = list(changes.values())
            _rows.require_apart(call, all_changes, self.param_groups, {key: what for key, (_, what) in places.items()})
            self._plan = None  # its addresses
            for change in all_changes:
                change.take()
            _increment_versions([x.parameter for x in all_changes if x.values is not None])

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, as in torch. Raises between `ascend` and `descend`, when the parameters are not the trained ones."""
        self._require_trained("state_dict")
        return super().state_dict()

    def _require_trained(self, call: str) -> None:
        if self._kept is not None:
            raise error(Status.BAD_SEQUENCE, f"{call}: ascend() has moved the weights; expected descend() or restore() first")

    def _step_anew(self, loss: Any) -> None:
        """A step without a plan from an earlier step: finds and checks everything, then updates the parameters."""
        entries: list[Entry] = []
        begun: dict[int, dict[str, Any]] = {}
        left_out: set[str | None] = set()  # the models with a gradient that is not finite
        groups = [self._group(index) for index in range(len(self.param_groups))]
        policies = self._checked_policies(groups)
        models = Models(groups, [group["params"] for group in self.param_groups], self.state)
        for of_group, group in zip(map(models.begin_of, groups), self.param_groups):
            for position, parameter in enumerate(group["params"]):
                gradient = parameter.grad
                if gradient is not None:
                    state, earlier = self.state.get(parameter) or {}, begun.get(id(parameter), {})
                    entry = Entry(parameter, gradient, state, of_group, position, earlier)
                    if entry.is_left_out:
                        left_out.add(entry.updater.model)
                    else:
                        entries.append(entry)
                        begun[id(parameter)] = {**earlier, **entry.changes}
        entries = [x for x in entries if x.updater.model is None or x.updater.model not in left_out]
        plan = Plan(entries, self._rate)
        plan.prepare(loss)
        self._known_policies = policies
        changed = [x.parameter for x in entries] + [x.own for x in entries if x.own is not x.parameter]
        _increment_versions([x for x in changed if not x.is_inference()])
        for entry in entries:
            if entry.changes:
                self.state[entry.parameter].update(entry.changes)
        plan.run()
        if not models.advance_idle(plan, self.state) and self._can_keep(plan, entries):
            self._plan, self._plan_for = plan, self.threads or torch.get_num_threads()

    def _checked_policies(self, groups: list[Group]) -> dict[int, Any]:
        """The policies of every parameter by its id(). Raises if they do not fit its state: if a number has changed that must
        be the same in all steps, such as an initial value.
        """
        known: dict[int, Any] = self.__dict__.get("_known_policies", {})
        result: dict[int, Any] = {}
        for group, options in zip(groups, self.param_groups):
            now = snapshot(dict(group.policies))
            equal: set[tuple[int, torch.dtype]] = set()  # the id() of policies with which these have been compared
            for parameter in options["params"]:
                before = known.get(id(parameter), now) if self.state.get(parameter) else now
                result[id(parameter)] = before
                if before is now:
                    continue
                dtype = _memory.real_dtype(parameter.dtype)
                if (id(before), dtype) not in equal and before != now:
                    both = ({**self._of_dtype(x, dtype), "schedule": {"name": "external"}} for x in (before, now))
                    try:
                        check_change(*both)
                    except ConfigError as reason:
                        raise error(Status.BAD_CONFIG, f"group {group.number}: {reason}") from None
                equal.add((id(before), dtype))
        return result

    def _can_keep(self, plan: Plan, entries: list[Entry]) -> bool:
        options_of = itemgetter(*[x for x in self.defaults if x not in self._rate_options or x in self._policy_options])
        rates_of = itemgetter(*self._rate_options)
        return plan.keep(entries, self.param_groups, self.state, options_of, rates_of)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class, or of torch's optimizer with the same name.

        All tensors are copied.
        """
        # The last hook, so that it sees the changes of the other hooks.
        hook = self.register_load_state_dict_pre_hook(self._remember_loaded)
        try:
            super().load_state_dict(state_dict)
        finally:
            hook.remove()
            self.__dict__.pop("_loading", None)

    @staticmethod
    def _remember_loaded(optimizer: Any, state_dict: dict[str, Any]) -> None:
        optimizer._loading = state_dict

    def _restore_loaded(self, loaded: Mapping[str, Any]) -> None:
        """Copies every tensor of the state as it was saved.

        torch casts the state to the parameter's dtype and the step to float32. It shares tensors that need no cast.
        """
        for group, saved in zip(self.param_groups, loaded["param_groups"]):
            for parameter, key in zip(group["params"], saved["params"]):
                entries = loaded["state"].get(key)
                if isinstance(entries, Mapping):
                    self.state[parameter] = {name: _copied(x, parameter.device) for name, x in entries.items()}
        for key, value in loaded["state"].items():
            if key in self.state:
                self.state[key] = _copied(value, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "threads": self.threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self._later_options.items():
                group.setdefault(name, default)
        loading = self.__dict__.pop("_loading", None)
        if loading is not None:
            self._restore_loaded(loading)
        self._plan = None
        self._known_policies = {}
        try:
            self._known_policies = self._checked_policies([self._group(index) for index in range(len(self.param_groups))])
        except (AttributeError, Error, KeyError, TypeError, ValueError):  # the next step raises it
            pass

    def __copy__(self) -> Any:
        """Returns an optimizer of the same parameters with its own state."""
        now = self.__getstate__()
        made = type(self).__new__(type(self))
        made.__setstate__(
            {
                **now,
                "defaults": dict(self.defaults),
                "state": defaultdict(dict, {key: _copied(x, None) for key, x in self.state.items()}),
                "param_groups": [{**group, "params": list(group["params"])} for group in self.param_groups],
            }
        )
        return made


def _squares(parameter: torch.Tensor, adaptive: bool, eta: float) -> list[float]:
    """The sums of the squares of blocks of a gradient, or of ASAM's products. Each sum is the work of one thread."""
    gradient = parameter.grad
    assert gradient is not None
    if adaptive:
        gradient = (parameter.abs() + eta) * gradient
    if gradient.is_complex():
        gradient = torch.view_as_real(gradient)
    flat = gradient.double().reshape(-1)
    rest = -flat.numel() % 4096
    if rest:
        flat = torch.nn.functional.pad(flat, (0, rest))
    sums: list[float] = flat.reshape(-1, 4096).square().sum(dim=1).tolist()
    return sums


def _copied(value: Any, device: torch.device | None) -> Any:
    """Makes a deep copy, with the tensors on a device."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return value.clone() if device is None or value.device == device else value.to(device)
    if isinstance(value, Mapping):
        return {name: _copied(x, device) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(x, device) for x in value)
    return value
