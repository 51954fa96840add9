"""Samples with few features each, as click-through data has them: matrices of scipy, and hashed columns of a CSV file.

    batch = gradstep.sparse.csr(matrix[a:b])                # or gradstep.sparse.hashed(frame[["site", "ad", "user"]])
    scores = batch.dot(table)                               # matrix[a:b] @ weights, by the rows of a table
    batch.update(table, gradient)                           # matrix[a:b].T @ gradient, and a step of these rows

The guide is docs/how_to/online_learning.md. Neither scipy nor pandas is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from . import _arrays
from ._arrays import Array
from ._hash import keys_of, keys_of_bytes
from ._hints import did_you_mean
from ._library import Status, error
from ._parameter import KeyedTable, Table
from ._shared import StepOptions, check_name, int64

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Batch", "csr", "hashed"]


class Batch:
    """Samples as the rows of a sparse matrix: the features of each sample, as row numbers of a `Table` or keys of a `KeyedTable`.

        batch = gradstep.sparse.csr(matrix)
        batch[100:200]                          # samples 100 to 199; they share the memory

    `csr` and `hashed` make batches. The features of sample i are ids[offsets[i]:offsets[i + 1]], with the weights of the same
    positions. `Table.update_bags` takes these arrays too.
    """

    ids: numpy.ndarray[Any, Any]  #: the features of all samples, sample after sample: row numbers or keys
    offsets: numpy.ndarray[Any, Any]  #: where each sample begins in `ids`
    weights: numpy.ndarray[Any, Any] | None  #: the number that multiplies each feature's row; None: all are 1

    def __init__(
        self,
        ids: numpy.ndarray[Any, Any],
        offsets: numpy.ndarray[Any, Any],
        weights: numpy.ndarray[Any, Any] | None = None,
    ) -> None:
        self.ids, self.offsets, self.weights = ids, offsets, weights

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.offsets)

    def __getitem__(self, samples: slice) -> Batch:
        """Returns the samples of a slice with step 1, without a copy of their features."""
        if not isinstance(samples, slice):
            raise error(Status.UNSUPPORTED_TYPE, f"samples: {samples!r} is a {type(samples).__name__}; expected a slice, as batch[0:100]")
        first, behind, step = samples.indices(len(self))
        if step != 1:
            raise error(Status.BAD_VALUE, f"samples: the step of the slice is {step}; expected 1")
        behind = max(first, behind)
        begin = self.offsets[first] if first < len(self) else len(self.ids)
        end = self.offsets[behind] if behind < len(self) else len(self.ids)
        weights = None if self.weights is None else self.weights[begin:end]
        return Batch(self.ids[begin:end], self.offsets[first:behind] - begin, weights)

    def dot(self, table: Table | KeyedTable) -> numpy.ndarray[Any, Any]:
        """Returns the sum of the rows of each sample's features, times their weights: the matrix product with the table.

        The shape is (number of samples,) if the table has the width 1, as in a linear model, else (number of samples, width).
        """
        out = table.bags(self.ids, self.offsets, weights=self._weights_for(table))
        return out.reshape(-1) if table.width == 1 else out

    def update(self, table: Table | KeyedTable, gradient: Array, **options: Unpack[StepOptions]) -> None:
        """Updates the rows of the features: one step of the table, as `Table.update_bags`.

        gradient: the gradient of the loss by the result of `dot`, of the same shape. The gradient of a row is the sum over the
            samples that contain its feature: weight times the sample's gradient. numpy arrays are converted to the table's dtype.

        The options are the members of `StepOptions`. Raises `InvalidError` if a feature is not a row of the table; then nothing
        changes.
        """
        if isinstance(gradient, numpy.ndarray):
            gradient = numpy.ascontiguousarray(_converted(gradient, "gradient", _arrays.DTYPES[table.dtype].numpy))
        table.update_bags(self.ids, self.offsets, gradient, weights=self._weights_for(table), **options)

    def _weights_for(self, table: Table | KeyedTable) -> numpy.ndarray[Any, Any] | None:
        dtype = numpy.float64 if table.dtype == "float64" else numpy.float32
        return None if self.weights is None else _converted(self.weights, "weights", dtype)

    def __repr__(self) -> str:
        return f"<gradstep.sparse.Batch of {len(self)} samples, {len(self.ids)} features>"


def _converted(numbers: numpy.ndarray[Any, Any], what: str, dtype: Any) -> numpy.ndarray[Any, Any]:
    """Converts real numbers to a dtype, if numpy has it."""
    if numbers.dtype.kind not in "biuf" and numbers.dtype not in _arrays._BY_NUMPY:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: is of {numbers.dtype}; expected real numbers")
    return numbers if dtype is None else numbers.astype(dtype, copy=False)


def csr(matrix: Any) -> Batch:
    """Makes a batch of a sparse matrix: its rows are samples, and its columns are features.

        batch = gradstep.sparse.csr(scipy.sparse.random(100, 1000, format="csr"))
        batch = gradstep.sparse.csr((indptr, indices, data))    # the arrays of such a matrix

    matrix: a matrix or array of scipy.sparse in the format CSR, or another object with `indptr`, `indices` and `data`; or these three
        arrays. Column j is row j of a `Table`, or key j of a `KeyedTable`. A column can appear several times in a row.

    Arrays are not copied. The batch uses all numbers that the matrix stores, also zeros.
    """
    if isinstance(matrix, (tuple, list)):
        if len(matrix) != 3:
            raise error(Status.BAD_SIZE, f"matrix: has {len(matrix)} arrays; expected 3: indptr, indices and data")
        indptr, indices, data = matrix
    else:
        form = getattr(matrix, "format", "csr")
        if form != "csr":
            raise error(Status.UNSUPPORTED_TYPE, f"matrix: has the format {form!r}; expected 'csr', as matrix.tocsr() has it")
        try:
            indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
        except AttributeError:
            raise error(
                Status.UNSUPPORTED_TYPE,
                f"matrix: is a {type(matrix).__name__}; expected a CSR matrix of scipy.sparse, or (indptr, indices, data)",
            ) from None
    indptr, indices = _arrays.ids_array(indptr, "indptr"), _arrays.ids_array(indices, "indices", _arrays.KEYS)
    data = numpy.asarray(data)
    for name, array in (("indptr", indptr), ("indices", indices), ("data", data)):
        if array.ndim != 1:
            raise error(Status.BAD_SIZE, f"{name}: has the shape {array.shape}; expected one dimension")
    if data.dtype.kind not in "biuf" and data.dtype not in _arrays._BY_NUMPY:
        raise error(Status.UNSUPPORTED_TYPE, f"data: is of {data.dtype}; expected real numbers")
    if data.size != indices.size:
        raise error(Status.BAD_SIZE, f"data: has {data.size} elements; expected {indices.size}, as indices has")
    if indptr.size == 0:
        raise error(Status.BAD_SIZE, "indptr: is empty; expected one element more than there are rows")
    if indptr[0] != 0:
        raise error(Status.BAD_VALUE, f"indptr: begins with {indptr[0]}; expected 0")
    falls = numpy.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size:
        at = int(falls[0]) + 1
        raise error(Status.BAD_VALUE, f"indptr: element {at} is {indptr[at]}; expected >= {indptr[at - 1]}, the one before")
    end = int(indptr[-1])
    if end > indices.size:
        raise error(Status.BAD_VALUE, f"indptr: ends with {end}; expected <= {indices.size}, the number of indices")
    return Batch(indices[:end], indptr[:-1], data[:end])


def hashed(
    columns: Any, *, crosses: Sequence[Sequence[str]] = (), bias: bool = False, rows: int | None = None
) -> Batch:
    """Makes a batch of columns with categories: each value becomes a 64-bit key for a `KeyedTable`.

        batch = gradstep.sparse.hashed(frame[["site", "ad"]])
        batch = gradstep.sparse.hashed({"site": ["news", "", "mail"], "ad": numpy.array([17, 3, 17])}, crosses=[("site", "ad")])

    columns: a dict of columns by name, or a DataFrame of pandas. A column is an array, a list or a tuple of texts or integers.
    crosses: for each tuple of names, one more feature: the combination of these columns.
    bias: whether each sample gets one more feature, the same for all: the intercept of a linear model.
    rows: the number of rows of a `Table`. The features are then row numbers, the keys modulo `rows` (the hashing trick). None: keys.

    A value has the key of the text "name=value", such as "site=news" or "ad=17", in UTF-8: gs::stable_hash in C++,
    `gradstep.hash_texts` without a column. Integers have the keys of their decimal texts. A missing value (None, NaN, pandas.NA) has
    the key of the empty text, as "site=". The bias has the key of "bias", and a cross the hash of its keys, 8 bytes each, lowest byte first.
    So keys are the same on every system and in every version, whether the csv module or pandas read the file. Different texts
    have the same key about as often as random numbers.

    Columns of floats raise `DtypeError`: pandas makes them of integers with missing values, unless you read the file with dtype=str.
    """
    named = getattr(columns, "columns", columns)
    if not isinstance(columns, Mapping) and named is columns:
        raise error(
            Status.UNSUPPORTED_TYPE, f"columns: is a {type(columns).__name__}; expected a dict of columns by name, or a DataFrame"
        )
    names = list(named)
    for name in names:
        check_name(name, "columns")
        if names.count(name) > 1:
            raise error(Status.BAD_VALUE, f"columns: {name!r} appears twice; expected different names")
    keys: dict[str, numpy.ndarray[Any, Any]] = {}
    for name in names:
        keys[name] = keys_of(columns[name], name, f"{name}=")
        if len(keys[name]) != len(keys[names[0]]):
            count = len(keys[names[0]])
            raise error(Status.BAD_SIZE, f"{name}: has {len(keys[name])} values; expected {count}, as {names[0]} has")
    if not names:
        raise error(Status.BAD_SIZE, "columns: is empty; expected at least one column")
    features = [*keys.values()]
    samples = len(features[0])
    for cross in crosses:
        if isinstance(cross, str) or len(cross) < 2:
            raise error(Status.BAD_VALUE, f"crosses: {cross!r} is no combination; expected the names of two or more columns")
        for name in cross:
            if name not in keys:
                raise error(
                    Status.BAD_VALUE, f"crosses: {name!r} is no column{did_you_mean(name, keys)}; expected one of {', '.join(keys)}"
                )
        together = numpy.stack([keys[name] for name in cross], axis=1).astype("<u8", copy=False)
        ends = numpy.arange(1, samples + 1, dtype=numpy.uint64) * numpy.uint64(8 * len(cross))
        features.append(keys_of_bytes("", together.view(numpy.uint8).reshape(-1), ends - numpy.uint64(8 * len(cross)), ends))
    if bias:
        of_bias = keys_of_bytes("bias", numpy.zeros(0, numpy.uint8), *numpy.zeros((2, 1), numpy.uint64))
        features.append(numpy.broadcast_to(of_bias, samples))
    ids = numpy.stack(features, axis=1).reshape(-1)
    if rows is not None:
        ids = _modulo(ids, int64(rows, "rows"))
    return Batch(ids, numpy.arange(samples, dtype=numpy.int64) * len(features))


def _modulo(keys: numpy.ndarray[Any, Any], rows: int) -> numpy.ndarray[Any, Any]:
    if rows < 1:
        raise error(Status.BAD_VALUE, f"rows: {rows} is out of range; expected >= 1")
    power = rows & (rows - 1) == 0  # a mask costs a fraction of a division
    return (keys & numpy.uint64(rows - 1) if power else keys % numpy.uint64(rows)).view(numpy.int64)
