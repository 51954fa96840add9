"""Shared by the functions of `rules`, `schedules` and the other modules that make configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from ._hints import did_you_mean
from ._shared import plain

if TYPE_CHECKING:
    import numpy

Policy = Mapping[str, Any]
Number = Union[float, "numpy.floating[Any]", Policy]  # or a schedule, which gives the number at each step
Rate = Number


class Options(TypedDict, total=False):
    """The parts of a configuration besides its rule and its schedule.

    docs/reference/configuration_keys.md#optimizers lists the default of each.
    """

    regularizer: Policy  #: one of `regularizers`: weight decay, a penalty, or clipping of each element
    average: Policy | Sequence[Policy]  #: one of `averages`: an average of the values over the steps
    catch_up: str | Policy  #: lazy updates of inactive rows: "touch_only", "exact" or {"name": "replay", "max_steps": n}
    clip: Policy  #: one of `clips`: gradient clipping
    element: Literal["plain", "mixed", "stochastic", "block8"]  #: "mixed": a float32 master copy; "block8": 8-bit state
    on_nonfinite: Literal["propagate", "skip", "raise"]  #: what a step does with NaN or infinity in a gradient
    seed: int  #: the seed of the run, for random numbers
    id: int  #: the number of this parameter in the model, for random numbers
    threads: int  #: the number of threads of an update; 0: one per core that the process can use


def policy(members: Policy) -> dict[str, Any]:
    """Converts a part of a configuration to types that JSON can represent."""
    result: dict[str, Any] = plain(members)
    return result


# Arguments of other libraries, and what to write instead.
HINTS = {
    "weight_decay": "weight decay is a regularizer, as regularizer=gradstep.regularizers.decoupled(0.01)",
    "learning_rate": "the learning rate is lr",
    "betas": "give beta1 and beta2",
    "clip_norm": "clipping is clip=gradstep.clips.clip_norm(1)",
}


def hint_for(name: str, allowed: Sequence[str]) -> str:
    """The hint for an unknown argument, in brackets."""
    hint = HINTS.get(name.lower())
    return f" ({hint})" if hint else did_you_mean(name, allowed)


def configuration(rule: Policy, lr: Rate, options: Options) -> dict[str, Any]:
    """Makes a configuration for `Parameter`, `Table` and `Updater`."""
    for name in options:
        if name not in Options.__annotations__:
            allowed = ["lr", *(key for key in rule if key not in ("name", "dialect")), *Options.__annotations__]
            raise TypeError(
                f"{rule['name']}: {name!r} is not an argument{hint_for(name, allowed)}; expected one of {', '.join(allowed)}"
            )
    schedule = lr if isinstance(lr, Mapping) else {"name": "constant", "rate": lr}
    return policy({"rule": rule, "schedule": schedule, **options})
