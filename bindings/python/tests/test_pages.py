"""The Python code of pages of docs/, run as a reader would: block after block, in one module and in an empty folder.

A page that needs a module which is not installed, such as torch or keras, is skipped. `<!-- not run -->` above a block leaves it out.
A block under `<!-- FILE [part] -->` is a part of a program that another test runs.
"""

import importlib.util
import os
import re
import tempfile
import unittest
from pathlib import Path

import numpy

import gradstep

DOCS = Path(__file__).resolve().parents[3] / "docs"
BLOCK = re.compile(r"((?:^<!-- .* -->\n)?)^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

# What the text around the blocks of a page takes as given.
GIVEN = {
    "how_to/python.md": """
import gradstep, numpy
adam = {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.01}}
sgd = {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.01}}
weight, bias = numpy.zeros((3, 2), "float32"), numpy.zeros(2, "float32")
weight_gradient, bias_gradient = numpy.ones((3, 2), "float32"), numpy.ones(2, "float32")
ids, gradient_rows = numpy.array([3, 1]), numpy.ones((2, 64), "float32")
""",
    "how_to/pytorch.md": """
import torch
def new_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
model = new_model()
model(torch.ones(2, 4)).sum().backward()
def train_one_epoch(): optimizer.step()
""",
}


def blocks(page: Path) -> list[str]:
    return [code for mark, code in BLOCK.findall(page.read_text()) if not mark]


def needs(code: str) -> list[str]:
    """Modules that the code imports and that are not installed."""
    modules = re.findall(r"^(?:import|from) ([a-z_]+)", code, flags=re.MULTILINE) + re.findall(r"gradstep\.(torch)\b(?!\.)", code)
    return sorted({x for x in modules if importlib.util.find_spec(x) is None})


class Pages(unittest.TestCase):
    def run_page(self, page: Path) -> None:
        name = str(page.relative_to(DOCS))
        code = [GIVEN.get(name, ""), *blocks(page)]
        self.assertTrue(code[1:], f"{name} has no Python")
        if missing := needs("\n".join(code)):
            self.skipTest(f"{name} needs {', '.join(missing)}")
        names: dict = {"print": lambda *_: None}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            try:
                for block in code:
                    exec(compile(block, name, "exec"), names)
            finally:
                os.chdir(before)
        self.names = names


def add(name: str) -> None:
    def test(self: Pages) -> None:
        self.run_page(DOCS / name)

    setattr(Pages, "test_" + Path(name).stem, test)


for of_page in ["how_to/python.md", "how_to/pytorch.md", *(f"how_to/migrate_from_{x}.md" for x in ("torch", "keras", "optax", "tensorflow", "paddle"))]:
    add(of_page)


if __name__ == "__main__":
    unittest.main()
