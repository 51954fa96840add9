"""The Python code of pages of docs/, run as a reader would: block after block, in one module and in an empty folder.

A page that needs a module which is not installed, such as torch or keras, is skipped. A block under a comment is left out, such as
`<!-- FILE [part] -->`, a part of a program that another test runs.
"""

import importlib.util
import os
import re
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

import numpy

import gradstep
import gradstep.dialects

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
    "how_to/python_tables.md": """
import gradstep, numpy
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
    "how_to/growing_parameters.md": """
import torch
means, colors = torch.nn.Parameter(torch.zeros(3, 3)), torch.nn.Parameter(torch.zeros(3, 4))
new_means, new_colors = torch.ones(2, 3), torch.ones(2, 4)
mask, order, rows = [True, False, True, True, True], [3, 2, 1, 0], [0]
""",
}


def blocks(page: Path) -> list[str]:
    return [code for mark, code in BLOCK.findall(page.read_text()) if not mark]


def needs(code: str) -> list[str]:
    """Modules that the code imports and that are not installed."""
    modules = re.findall(r"^(?:import|from) ([a-z_]+)", code, flags=re.MULTILINE) + re.findall(r"gradstep\.(torch)\b(?!\.)", code)
    return sorted({x for x in modules if importlib.util.find_spec(x) is None})


def differences(framework: str) -> list[str]:
    """The rows of the table of defaults: functions, key, the framework's default, the default of gradstep's own rule.

    A number of the framework that is gradstep's, rounded to float32, is no difference.
    """

    def text(x: object) -> str:
        return f"`{x}`" if isinstance(x, str) else f"{numpy.float32(x):g}".replace("e-0", "e-")

    functions = getattr(gradstep.dialects, framework)
    found: dict[tuple[str, str, str], list[str]] = {}
    for name in functions.__all__:
        rule = gradstep.canonical(getattr(functions, name)(lr=1.0))["rule"]
        own = gradstep.canonical(getattr(gradstep.rules, rule["name"])(lr=1.0))["rule"]
        for key, x in rule.items():
            if text(x) != text(own[key]):
                found.setdefault((key, text(x), text(own[key])), []).append(name)
    return [f"| {', '.join(f'`{x}`' for x in names)} | `{key}` | {theirs} | {ours} |"
            for (key, theirs, ours), names in sorted(found.items())]


class Pages(unittest.TestCase):
    def run_page(self, page: Path) -> dict:
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
        return names

    def check_migration(self, framework: str) -> None:
        """The page's tables are complete, its JSON says what its Python says, and the numbers are equal (if the framework is there)."""
        page = DOCS / f"how_to/migrate_from_{framework}.md"
        functions = getattr(gradstep.dialects, framework)
        # The table of names: the functions that its second column mentions, and no function that it does not.
        table = re.search(r"## Names\n(.*?)\n## ", page.read_text(), flags=re.DOTALL)[1]
        rows = [x for x in (line.split("|") for line in table.splitlines()) if len(x) == 4]
        mentioned = {x for row in rows for x in re.findall("`(\\w+)`", row[1].lower() if "the same names" in row[2] else row[2])}
        self.assertEqual(sorted(set(functions.__all__) - mentioned), [])
        for name in mentioned & set(functions.__all__):
            gradstep.Parameter(getattr(functions, name)(lr=0.01), numpy.zeros(3, "float32"))
        table = re.search(r"## What differs by default\n.*?\n\|---.*?\n(.*?)\n\n", page.read_text(), flags=re.DOTALL)[1]
        self.assertEqual(table.splitlines(), differences(framework))
        ours = next(x for x in blocks(page) if "ours = " in x)
        names: dict = {}
        exec(ours, names)
        of_json = re.search(r"```json\n(.*?)```", page.read_text(), flags=re.DOTALL)[1]
        self.assertEqual(gradstep.canonical(of_json), gradstep.canonical(names["ours"]))
        names = self.run_page(page)
        self.assertLess(names["difference"], 2e-5)
        names["weights"].update(names["gradient"])  # as the page's step 501
        self.assertLess(numpy.abs(names["values"] - names["weights"].values()).max(), 2e-5)


def add(name: str, check: Callable[[Pages], object]) -> None:
    def test(self: Pages) -> None:
        check(self)

    setattr(Pages, "test_" + name, test)


for of_page in ("python", "pytorch", "growing_parameters", "online_learning"):
    add(of_page, lambda self, page=of_page: self.run_page(DOCS / f"how_to/{page}.md"))
for of_framework in ("torch", "keras", "optax", "tensorflow", "paddle"):
    add(f"migrate_from_{of_framework}", lambda self, framework=of_framework: self.check_migration(framework))


if __name__ == "__main__":
    unittest.main()
