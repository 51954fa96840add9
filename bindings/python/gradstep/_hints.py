"""Hints of errors for an unknown name: the nearest known name. Upper and lower case are the same here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any


def nearest(name: object, allowed: Iterable[str]) -> str | None:
    """The allowed name that is most similar, if one is similar."""
    if not isinstance(name, str):
        return None
    by_letters = {one.lower(): one for one in allowed}
    near = difflib.get_close_matches(name.lower(), by_letters, n=1)
    return by_letters[near[0]] if near else None


def did_you_mean(name: object, allowed: Iterable[str]) -> str:
    """The nearest name for a message, in brackets; empty if none is similar."""
    near = nearest(name, allowed)
    return f" (did you mean {near!r}?)" if near else ""


def attributes_of_module(module: str, names: list[str], hints: dict[str, str] | None = None) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a module. Its errors contain a hint: of `hints`, by a name in lower case, or the nearest name."""

    def find(name: str) -> Any:
        hint = (hints or {}).get(name.lower())
        if hint is None:
            near = nearest(name, names)
            hint = f"did you mean {near!r}?" if near else None
        raise AttributeError(f"module {module!r} has no attribute {name!r}" + (f"; {hint}" if hint else ""))

    return find
