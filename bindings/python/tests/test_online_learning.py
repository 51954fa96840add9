"""The program of docs/how_to/online_learning.md, whole and in two parts, with the data of examples/python/click_through_csv.py."""

import importlib.util
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[3] / "examples/python"


def run(program: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", str(PROGRAMS / program), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class OnlineLearning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)
        cls.csv = cls.folder / "clicks.csv"
        cls.written = run("click_through_csv.py", cls.csv, "--steps", 2000)
        cls.whole = cls.folder / "whole.safetensors"
        cls.learned = run("online_learning.py", cls.csv, cls.whole)

    def test_it_learns(self):
        """The losses are close to those of the true probabilities, which are the same in the tutorial in C++."""
        truth = [float(x) for x in re.findall(r"the truth is ([\d.]+)", self.written)]
        losses = [float(x) for x in re.findall(r"lines: loss ([\d.]+)", self.learned)]
        self.assertEqual((truth, len(losses)), ([0.3666, 0.3720], 2))
        for loss, best in zip(losses, truth):
            self.assertLess(best, loss)
            self.assertLess(loss, best + 0.03)

    def test_in_two_parts_is_the_same(self):
        half, parts = self.folder / "half.csv", self.folder / "parts.safetensors"
        half.write_text("".join(self.csv.read_text().splitlines(True)[:100_001]))
        first = run("online_learning.py", half, parts)
        second = run("online_learning.py", self.csv, parts)
        self.assertEqual(second.splitlines()[0], "goes on after 100000 lines")
        self.assertEqual(first.splitlines() + second.splitlines()[1:], self.learned.splitlines())
        self.assertEqual(parts.read_bytes(), self.whole.read_bytes())

    def test_scores(self):
        new = self.folder / "new.csv"
        new.write_text("user,ad,site\n1,150,3\n,,\n")
        known, missing = map(float, run("online_learning.py", "--score", new, self.whole).split())
        self.assertTrue(0 < missing < 0.5 and 0 < known < 1, (known, missing))

    @unittest.skipIf(importlib.util.find_spec("pandas") is None, "pandas is not there")
    def test_pandas_reads_the_same(self):
        weights = self.folder / "pandas.safetensors"
        self.assertEqual(run("online_learning.py", "--pandas", self.csv, weights), self.learned)
        self.assertEqual(weights.read_bytes(), self.whole.read_bytes())


if __name__ == "__main__":
    unittest.main()
