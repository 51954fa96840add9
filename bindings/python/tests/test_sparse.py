"""`gradstep.sparse` beside dense matrices of numpy in double, and its keys beside gs::stable_hash, written out.

Only numpy is needed. The tests of matrices of scipy and of columns of pandas are skipped without them; `./dev test python-torch` has
them.
"""

from __future__ import annotations

import unittest

import numpy

import gradstep
from gradstep import sparse

try:
    import scipy.sparse
except ImportError:
    scipy = None
try:
    import pandas
except ImportError:
    pandas = None

BELOW = 2**64


def stable_hash(text: bytes) -> int:
    """gs::stable_hash, by its formula in include/gradstep/bytes/stable_hash.hpp."""
    h = 0xCBF29CE484222325
    for byte in text:
        h = (h ^ byte) * 0x100000001B3 % BELOW
    z = (h + 0x9E3779B97F4A7C15) % BELOW
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % BELOW
    z = (z ^ z >> 27) * 0x94D049BB133111EB % BELOW
    return z ^ z >> 31


def expected(values: list, name: str = "ad") -> list:
    return [stable_hash(f"{name}={value}".encode()) for value in values]


def keys_of(column: object, name: str = "ad") -> list:
    batch = sparse.hashed({name: column})
    assert batch.offsets.tolist() == list(range(len(batch)))
    return batch.ids.tolist()


class Csr:
    """What scipy.sparse.csr_array has."""

    format = "csr"

    def __init__(self, dense: numpy.ndarray, data: object = None) -> None:
        rows, self.indices = map(numpy.int32, dense.nonzero())
        self.indptr = numpy.searchsorted(rows, numpy.arange(len(dense) + 1)).astype(numpy.int32)
        self.data = dense[rows, self.indices] if data is None else data


def dense_matrix(samples: int, features: int) -> numpy.ndarray:
    """Few numbers, multiples of 1/8, so that sums are exact. Some rows are empty."""
    random = numpy.random.default_rng(3)
    filled = (random.random((samples, features)) < 0.15) & (numpy.arange(samples) % 9 != 4)[:, None]
    return random.integers(-8, 9, (samples, features)) / 8 * filled


def table(width: int, features: int, keyed: bool, type: str = "float32") -> gradstep.Table | gradstep.KeyedTable:
    config = {**gradstep.sgd(lr=1.0), "type": type}
    if keyed:
        return gradstep.KeyedTable({**config, "keyed_table": {"width": width}})
    return gradstep.Table({**config, "table": {"rows": features, "width": width}})


class Batches(unittest.TestCase):
    def check(self, matrix: object, dense: numpy.ndarray) -> None:
        """Steps of SGD with the rate 1, which subtract X^T g, are exact here."""
        random = numpy.random.default_rng(5)
        samples, features = dense.shape
        whole = sparse.csr(matrix)
        self.assertEqual(len(whole), samples)
        for width, keyed, type in ((1, True, "float32"), (3, True, "float32"), (1, False, "float64"), (3, False, "float32")):
            ours, weights = table(width, features, keyed, type), numpy.zeros((features, width))
            for first in range(0, samples, 7):
                batch, part = whole[first : first + 7], dense[first : first + 7]
                self.assertEqual(len(batch), len(part))
                scores = batch.dot(ours)
                self.assertEqual((scores.shape, scores.dtype), ((len(part),) if width == 1 else (len(part), width), type))
                numpy.testing.assert_array_equal(scores.reshape(len(part), width), part @ weights)
                gradient = random.integers(-2, 3, scores.shape) / 4
                batch.update(ours, gradient, gradient_scale=0.5, samples=len(batch))
                weights -= 0.5 * part.T @ gradient.reshape(len(part), width)
            numpy.testing.assert_array_equal(ours.rows(range(features)), weights)
            self.assertEqual(ours.clock.samples, samples)

    def test_they_are_dense_products(self):
        dense = dense_matrix(50, 30)
        self.assertIn(0, (dense != 0).sum(1))
        csr = Csr(dense)
        self.check(csr, dense)
        for index in (numpy.int64, numpy.uint64):
            self.check((csr.indptr.astype(index), csr.indices.astype(index), csr.data.astype("float32")), dense)
        self.check([csr.indptr.tolist(), csr.indices, csr.data.tolist()], dense)
        ones = (dense != 0) * 1.0
        for kind in (bool, numpy.int8, numpy.float16):
            self.check(Csr(dense, numpy.ones(len(csr.indices), kind)), ones)

    def test_a_column_several_times_in_a_row(self):
        batch, ours = sparse.csr(([0, 3], [2, 0, 2], [0.5, 1.0, 0.25])), table(1, 4, True)
        batch.update(ours, numpy.array([-2.0]))
        numpy.testing.assert_array_equal(ours.rows(range(3))[:, 0], [2, 0, 1.5])
        numpy.testing.assert_array_equal(batch.dot(ours), [2 + 1.5 * 0.75])

    def test_slices(self):
        batch = sparse.csr(([0, 2, 2, 5], [1, 2, 3, 4, 5, 9, 9], numpy.arange(7.0)))  # scipy can have room behind the last row
        for first, behind, ids, offsets in (
            (0, 3, [1, 2, 3, 4, 5], [0, 2, 2]),
            (1, 3, [3, 4, 5], [0, 0]),
            (1, 2, [], [0]),
            (2, 1, [], []),
            (3, 9, [], []),
            (-1, None, [3, 4, 5], [0]),
        ):
            part = batch[first:behind]
            self.assertEqual((part.ids.tolist(), part.offsets.tolist()), (ids, offsets))
            self.assertEqual(part.weights.tolist(), [float(x - 1) for x in ids])
            ours = table(1, 9, True)
            part.update(ours, numpy.ones(len(part)))
            self.assertEqual(part.dot(ours).shape, (len(part),))
        self.assertTrue(numpy.shares_memory(batch[1:].ids, batch.ids))
        self.assertEqual(repr(batch), "<gradstep.sparse.Batch of 3 samples, 5 features>")

    @unittest.skipIf(scipy is None, "scipy is not there")
    def test_matrices_of_scipy(self):
        dense = dense_matrix(40, 20)
        for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
            self.check(kind(dense), dense)
            self.check(kind(dense)[3:30], dense[3:30])
        with self.assertRaisesRegex(gradstep.DtypeError, r"^matrix: has the format 'csc'; expected 'csr', as matrix.tocsr\(\) has it$"):
            sparse.csr(scipy.sparse.csc_array(dense))

    def test_what_is_refused(self):
        for matrix, kind, message in (
            (3, gradstep.DtypeError, "matrix: is a int; expected a CSR matrix"),
            (([0], []), gradstep.InvalidError, "matrix: has 2 arrays; expected 3"),
            (([], [], []), gradstep.InvalidError, "indptr: is empty; expected one element more"),
            (([1, 2], [1, 2], [1, 2]), gradstep.InvalidError, "indptr: begins with 1; expected 0"),
            (([0, 2, 1], [1, 2], [1, 2]), gradstep.InvalidError, "indptr: element 2 is 1; expected >= 2, the one before"),
            (([0, 3], [1, 2], [1, 2]), gradstep.InvalidError, "indptr: ends with 3; expected <= 2, the number of indices"),
            (([0, 2], [1, 2], [1]), gradstep.InvalidError, "data: has 1 elements; expected 2, as indices has"),
            (([0, 2], [1, 2], [1j, 2]), gradstep.DtypeError, "data: is of complex128; expected real numbers"),
            (([0, 2], [1, 2], ["a", "b"]), gradstep.DtypeError, "data: is of <U1; expected real numbers"),
            (([0, 2], [[1, 2]], [1, 2]), gradstep.InvalidError, r"indices: has the shape \(1, 2\); expected one dimension"),
            (([0, 2], [1.5, 2], [1, 2]), gradstep.DtypeError, "indices: 1.5 is a float; expected integers"),
        ):
            with self.assertRaisesRegex(kind, "^" + message):
                sparse.csr(matrix)
        batch, ours = sparse.csr(([0, 1], [7], [1.0])), table(2, 7, False)
        for gradient, kind, message in (
            (numpy.ones((1, 2)), gradstep.InvalidError, "7 is out of range"),
            (numpy.ones((1, 3)), gradstep.InvalidError, "has 3 elements; expected 2"),
            (numpy.array([["a", "b"]]), gradstep.DtypeError, "^gradient: is of <U1; expected real numbers"),
        ):
            with self.assertRaisesRegex(kind, message):
                batch.update(ours, gradient)
        self.assertEqual(ours.clock.step, 0)
        with self.assertRaisesRegex(gradstep.InvalidError, "^samples: the step of the slice is 2; expected 1$"):
            batch[::2]
        with self.assertRaisesRegex(gradstep.DtypeError, r"^samples: 0 is a int; expected a slice, as batch\[0:100\]$"):
            batch[0]


class Hashed(unittest.TestCase):
    def test_the_keys_of_cplusplus(self):
        self.assertEqual(keys_of(["news"], "site"), [stable_hash(b"site=news")])
        self.assertEqual(keys_of(["news"], "site"), [0x89EF9937A26AE76B])  # it stays the same in every version

    def test_texts_alone(self):
        keys = gradstep.hash_texts(["site=news", "", "site=é"])
        self.assertEqual((keys.dtype, keys.tolist()), ("uint64", [stable_hash(x.encode()) for x in ("site=news", "", "site=é")]))
        self.assertEqual(gradstep.hash_texts(["news", 7, None], "site=").tolist(), [stable_hash(x) for x in (b"site=news", b"site=7", b"site=")])
        self.assertEqual(gradstep.hash_texts(numpy.arange(3), prefix="é").tolist(), [stable_hash("é%d".encode() % i) for i in range(3)])
        self.assertEqual(gradstep.hash_texts([]).size, 0)
        for texts, prefix, pattern in (("news", "", "texts: 'news' is a str; expected a list"), (["x"], 3, "prefix: 3 is a int"),
                                       ([1.5], "", "texts: value 0, 1.5, is a float"), (numpy.ones(2), "", "texts: is of float64"),
                                       (numpy.array([["x"]]), "", "texts: has the shape")):
            with self.assertRaisesRegex(gradstep.Error, pattern):
                gradstep.hash_texts(texts, prefix)

    def test_texts(self):
        for texts in (["x", "", "é", "y" * 40, "x"], ["\0", "a\0b"], [""], []):
            array = numpy.array(texts, "U40")
            array = array if "\0" not in texts else numpy.array(texts, object)  # numpy's texts end before a last NUL
            for column in (texts, tuple(texts), array, array.astype(object)):
                self.assertEqual(keys_of(column), expected(texts))
        self.assertEqual(keys_of(numpy.array([b"xyz", b"", b"\xc3\xa9"])), expected(["xyz", "", "é"]))
        self.assertEqual(keys_of(numpy.array(["x", "yy", "zzz"])[::2]), expected(["x", "zzz"]))

    def test_integers(self):
        for kind in "bhilqBHILQ":
            self.assertEqual(keys_of(numpy.array([17, 0, 99], kind)), expected(["17", "0", "99"]))
        extremes = [-(2**63), -1, 2**63 - 1]
        self.assertEqual(keys_of(numpy.array(extremes)), expected(extremes))
        self.assertEqual(keys_of(numpy.array([2**64 - 1], "uint64")), expected([2**64 - 1]))
        self.assertEqual(keys_of(numpy.array([17, 3, 18], ">i8")[::2]), expected([17, 18]))
        self.assertEqual(keys_of([17, numpy.int32(18), 2**70]), expected([17, 18, 2**70]))

    def test_missing_values_are_the_empty_text(self):
        self.assertEqual(keys_of(["x", None, float("nan"), 3, ""]), expected(["x", "", "", 3, ""]))

    def test_samples(self):
        columns = {"site": ["news", "mail"], "ad": numpy.array([17, 3]), "user": ("u1", "u2")}
        batch = sparse.hashed(columns, crosses=[("site", "ad"), ("ad", "site", "user")], bias=True)
        self.assertEqual((len(batch), batch.offsets.tolist(), batch.weights), (2, [0, 6], None))
        keys = batch.ids.reshape(2, 6)
        for column, name in enumerate(columns):
            self.assertEqual(keys[:, column].tolist(), keys_of(columns[name], name))
        for row in keys:
            site, ad, user, *crosses, bias = (int(x).to_bytes(8, "little") for x in row)
            self.assertEqual([int.from_bytes(x, "little") for x in crosses], [stable_hash(site + ad), stable_hash(ad + site + user)])
            self.assertEqual(int.from_bytes(bias, "little"), stable_hash(b"bias"))
        self.assertEqual(sparse.hashed({"ad": [], "site": []}, crosses=[("ad", "site")], bias=True).ids.size, 0)

    def test_a_linear_model_of_columns(self):
        columns = {"a": ["x", "y", "x"], "b": [1, 1, 2]}
        dense = numpy.array([[1, 0, 1, 0, 1], [0, 1, 1, 0, 1], [1, 0, 0, 1, 1]], float)  # a=x, a=y, b=1, b=2, bias
        batch, ours, weights = sparse.hashed(columns, bias=True), table(1, 0, True), numpy.zeros(5)
        for _ in range(3):
            gradient = dense @ weights - [1, 2, 3]
            numpy.testing.assert_array_equal(batch.dot(ours) - numpy.array([1, 2, 3], "float32"), gradient)
            batch.update(ours, gradient / 4)
            weights -= dense.T @ gradient / 4
        keys = [*keys_of(["x", "y"], "a"), *keys_of([1, 2], "b"), stable_hash(b"bias")]
        numpy.testing.assert_array_equal(ours.rows(keys)[:, 0], weights)

    def test_rows_of_a_table(self):
        columns, ours = {"a": ["x", "y", "x"], "b": [1, 1, 2]}, table(1, 7, False)
        keys = sparse.hashed(columns, bias=True).ids
        for rows in (1, 7, 8, 2**20, 2**62 + 1):
            self.assertEqual(sparse.hashed(columns, bias=True, rows=rows).ids.tolist(), [int(key) % rows for key in keys])
        sparse.hashed(columns, rows=7).update(ours, numpy.array([1.0, 0, 0]))
        self.assertEqual(float(ours.values().sum()), -2)

    @unittest.skipIf(pandas is None, "pandas is not there")
    def test_columns_of_pandas(self):
        texts, some = ["x", "", "é", "x"], ["x", None, "y", "x"]
        for dtype in (None, object, "string", "category"):
            self.assertEqual(keys_of(pandas.Series(texts, dtype=dtype)), expected(texts))
            self.assertEqual(keys_of(pandas.Series(some, dtype=dtype)), expected(["x", "", "y", "x"]))
        self.assertEqual(keys_of(pandas.Categorical(some)), expected(["x", "", "y", "x"]))
        self.assertEqual(keys_of(pandas.Series([3, 5, 3], dtype="category")), expected([3, 5, 3]))
        self.assertEqual(keys_of(pandas.Series([3, None], dtype="Int64")), expected([3, ""]))
        self.assertEqual(keys_of(pandas.Series([3, 2**62 + 1], dtype="Int64")), expected([3, 2**62 + 1]))
        self.assertEqual(keys_of([pandas.NA, pandas.NaT]), expected(["", ""]))
        frame = pandas.DataFrame({"site": texts, "ad": [1, 2, 3, 4]}, index=[9, 8, 7, 6])
        numpy.testing.assert_array_equal(
            sparse.hashed(frame, crosses=[("ad", "site")]).ids,
            sparse.hashed({"site": texts, "ad": [1, 2, 3, 4]}, crosses=[("ad", "site")]).ids,
        )
        with self.assertRaisesRegex(gradstep.InvalidError, "^columns: 'a' appears twice; expected different names$"):
            sparse.hashed(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
        with self.assertRaisesRegex(gradstep.DtypeError, "^a: is of float64; expected integers or texts; pandas keeps them with dtype=str$"):
            sparse.hashed(pandas.DataFrame({"a": [1, None]}))

    def test_what_is_refused(self):
        for columns, kind, message in (
            ([["x"]], gradstep.DtypeError, "columns: is a list; expected a dict of columns by name, or a DataFrame"),
            ({}, gradstep.InvalidError, "columns: is empty; expected at least one column"),
            ({3: ["x"]}, gradstep.DtypeError, "columns: 3 is a int; expected a str"),
            ({"a": ["x"], "b": [1, 2]}, gradstep.InvalidError, "b: has 2 values; expected 1, as a has"),
            ({"a": "xyz"}, gradstep.InvalidError, r"a: has the shape \(\); expected one dimension"),
            ({"a": numpy.zeros((2, 2), int)}, gradstep.InvalidError, r"a: has the shape \(2, 2\); expected one dimension"),
            ({"a": ["x", 1.5]}, gradstep.DtypeError, "a: value 1, 1.5, is a float; expected a text, an integer or a missing value"),
            ({"a": [True]}, gradstep.DtypeError, "a: value 0, True, is a bool"),
            ({"a": numpy.ones(2, bool)}, gradstep.DtypeError, "a: is of bool; expected integers or texts"),
            ({"a": numpy.ma.array([1, 2], mask=[0, 1])}, gradstep.DtypeError, "a: is a masked array, whose mask would be ignored"),
            ({"a": ["\ud800"]}, gradstep.InvalidError, r"a: '\\ud800' cannot be encoded"),
        ):
            with self.assertRaisesRegex(kind, "^" + message):
                sparse.hashed(columns)
        with self.assertRaisesRegex(gradstep.InvalidError, "^rows: 0 is out of range; expected >= 1$"):
            sparse.hashed({"a": [1]}, rows=0)
        with self.assertRaisesRegex(gradstep.DtypeError, "^rows: 1.5 is a float; expected an integer$"):
            sparse.hashed({"a": [1]}, rows=1.5)
        for crosses, message in (
            ([("a", "bb")], r"'bb' is no column \(did you mean 'b'\?\); expected one of a, b"),
            ([("a",)], r"\('a',\) is no combination; expected the names of two or more columns"),
            (["ab"], "'ab' is no combination"),
        ):
            with self.assertRaisesRegex(gradstep.InvalidError, "^crosses: " + message):
                sparse.hashed({"a": [1], "b": [2]}, crosses=crosses)
        with self.assertRaisesRegex(AttributeError, "has no attribute 'hash'; did you mean 'hashed'"):
            sparse.hash


if __name__ == "__main__":
    unittest.main()
