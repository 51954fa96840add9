"""What the functions of `rules`, `schedules` and the other modules of configurations have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from ._shared import plain

if TYPE_CHECKING:
    import numpy

Policy = Mapping[str, Any]
Rate = Union[float, "numpy.floating[Any]", Policy]


class Options(TypedDict, total=False):
    """What a configuration has beside its rule and its schedule (docs/reference/configuration_keys.md#optimizers)."""

    regularizer: Policy  #: one of `regularizers`, as weight decay or a clip of each element
    average: Policy | Sequence[Policy]  #: one of `averages`, which the parameter keeps of its values
    catch_up: str | Policy  #: "touch_only", "exact" or {"name": "replay", "max_steps": n}: what inactive rows of a table do
    clip: Policy  #: one of `clips`, by a norm
    element: Literal["plain", "mixed", "stochastic"]  #: "mixed": 16-bit values with a float32 master copy
    on_nonfinite: Literal["propagate", "skip", "raise"]  #: what a step does with a gradient that is NaN or infinite
    seed: int  #: of random numbers: of the run
    id: int  #: and of this parameter
    threads: int  #: of an update; 0: as many cores as the process may use


def policy(members: Policy) -> dict[str, Any]:
    """A part of a configuration, as JSON has it."""
    result: dict[str, Any] = plain(members)
    return result


def configuration(rule: Policy, lr: Rate, options: Options) -> dict[str, Any]:
    """A configuration for `Parameter`, `Table` and `Updater`."""
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(
                f"{name!r} is not an argument of {rule['name']}(); expected its hyperparameters, or one of "
                f"{', '.join(Options.__annotations__)}"
            )
    schedule = lr if isinstance(lr, Mapping) else {"name": "constant", "rate": lr}
    return policy({"rule": rule, "schedule": schedule, **options})
