"""The keys of texts and integers for keyed tables: hashes that are the same in every language."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy

from . import _arrays
from ._library import Status, check, error, library, new_error
from ._shared import check_name, integer


def hash_texts(texts: Any, prefix: str = "") -> numpy.ndarray[Any, Any]:
    """Returns the 64-bit keys of texts for a `KeyedTable`: key i is the hash of the text prefix + texts[i], in UTF-8.

        keys = gradstep.hash_texts(["news", "mail"], "site=")   # of "site=news" and "site=mail"
        keys = gradstep.hash_texts(["site=17", "ad=40"])

    texts: an array, a list, a tuple or a column of pandas. Its values are texts or integers, which have the keys of their decimal
        texts. A missing value (None, NaN) is the empty text.
    prefix: what stands before each text.

    The keys are the same on every system, in every version and in every language: `stable_hash` in C++, `HashTexts` in Go,
    `hash_texts` in Rust. `gradstep.sparse.hashed` makes batches of whole columns.
    """
    check_name(prefix, "prefix")
    if isinstance(texts, (str, bytes)):
        raise error(Status.UNSUPPORTED_TYPE, f"texts: {texts!r} is a {type(texts).__name__}; expected a list of texts, or an array")
    return keys_of(texts, "texts", prefix)


def keys_of(column: Any, name: str, prefix: str) -> numpy.ndarray[Any, Any]:
    """The keys of a column's values behind a prefix. Errors contain the name."""
    if isinstance(column, (list, tuple)):
        return _keys_of_list(column, name, prefix)
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    codes = getattr(getattr(column, "cat", column), "codes", None)
    if categories is not None and codes is not None:  # of pandas: numbers of categories, or -1 if the value is missing
        keys = numpy.concatenate([keys_of(numpy.asarray(categories), name, prefix), _keys_of_list([""], name, prefix)])
        return numpy.take(keys, numpy.asarray(codes))
    array = numpy.asarray(column)
    if array.ndim != 1:
        raise error(Status.BAD_SIZE, f"{name}: has the shape {array.shape}; expected one dimension")
    if isinstance(column, numpy.ma.MaskedArray):
        raise error(Status.UNSUPPORTED_TYPE, f"{name}: is a masked array, whose mask would be ignored; expected array.filled(value)")
    kind = array.dtype.kind
    if kind == "f" and getattr(column.dtype, "kind", kind) in "iu":  # integers of pandas, of which some are missing
        return _keys_of_list(list(column), name, prefix)
    if kind in "iu":
        found = _arrays.ids_view(array, name)
        keys, failure = numpy.empty(array.size, numpy.uint64), new_error()
        before = prefix.encode()
        check(
            library.gradstep_hash_integers(
                before, len(before), found.address, found.dtype.code, found.size, _arrays.address_of(keys), ctypes.byref(failure)
            ),
            failure,
        )
        return keys
    if kind == "S":
        size = array.dtype.itemsize
        begins = numpy.arange(array.size, dtype=numpy.uint64) * numpy.uint64(size)
        ends = begins + numpy.char.str_len(array).astype(numpy.uint64)
        return keys_of_bytes(prefix, numpy.ascontiguousarray(array).view(numpy.uint8), begins, ends)
    if kind in "OUT":
        return _keys_of_list(array.tolist(), name, prefix)
    hint = "; pandas keeps them with dtype=str" if kind == "f" else ""
    raise error(Status.UNSUPPORTED_TYPE, f"{name}: is of {array.dtype}; expected integers or texts{hint}")


def _keys_of_list(values: Sequence[Any], name: str, prefix: str) -> numpy.ndarray[Any, Any]:
    """The keys of values of Python, of which some can be missing."""
    try:
        joined = "\0".join(values)
    except TypeError:  # not all are texts
        values = [x if isinstance(x, str) else _text_of(x, name, at) for at, x in enumerate(values)]
        joined = "\0".join(values)
    try:
        texts = numpy.frombuffer(joined.encode(), numpy.uint8)
        ends = numpy.flatnonzero(texts == 0)
        if len(ends) == len(values) - 1:
            ends = numpy.append(ends, texts.size)
            begins = numpy.concatenate([[0], ends[:-1] + 1])
        else:  # there are none, or they contain NUL
            texts = numpy.frombuffer("".join(values).encode(), numpy.uint8)
            ends = numpy.cumsum([len(x.encode()) for x in values])
            begins = numpy.concatenate([[0], ends])[:-1]
    except UnicodeEncodeError as reason:
        raise error(Status.BAD_VALUE, f"{name}: {reason.object!r} cannot be encoded ({reason.reason}); expected Unicode text") from None
    return keys_of_bytes(prefix, texts, begins.astype(numpy.uint64), ends.astype(numpy.uint64))


def _text_of(value: Any, name: str, at: int) -> str:
    """The text of an integer or of a missing value."""
    number = integer(value)
    if number is not None:
        return str(number)
    # The last two are NA and NaT of pandas.
    if value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    raise error(
        Status.UNSUPPORTED_TYPE,
        f"{name}: value {at}, {value!r}, is a {type(value).__name__}; expected a text, an integer or a missing value (None, NaN)",
    )


def keys_of_bytes(prefix: str, texts: Any, begins: Any, ends: Any) -> numpy.ndarray[Any, Any]:
    """The keys of the texts between begins and ends in an array of bytes, behind a prefix."""
    keys, before, failure = numpy.empty(len(ends), numpy.uint64), prefix.encode(), new_error()
    check(
        library.gradstep_hash_texts(
            before,
            len(before),
            texts.ctypes.data,
            texts.size,
            begins.ctypes.data,
            ends.ctypes.data,
            len(ends),
            keys.ctypes.data,
            ctypes.byref(failure),
        ),
        failure,
    )
    return keys
