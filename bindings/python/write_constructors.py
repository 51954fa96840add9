"""The functions that make configurations: gradstep/rules.py, schedules.py and so on, and gradstep/dialects/. build_wheel.py puts them
into the wheel and the source distribution.

Their arguments, meanings, ranges and defaults are from docs/reference/configuration.schema.json, which the library's tests compare
with the library. What a rule and a schedule are is from the tables of docs/reference/rules.md and docs/reference/schedules.md.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
HEAD = "# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.\n"


def names_of(schema: dict) -> str:
    """The policies that a value may be."""
    if "$ref" in schema:
        return "a function of `" + schema["$ref"].rsplit("/", 1)[1] + "s`"
    return "`" + schema["properties"]["name"]["const"] + "`"


def type_of(schema: dict) -> str:
    """The type of an argument."""
    if "anyOf" in schema:
        if {"$ref": "#/$defs/schedule"} in schema["anyOf"]:
            return "Number"
        return type_of(schema["anyOf"][0])  # or infinity, which is a float
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(word) for word in schema['enum'])}]"
    if "$ref" in schema or schema["type"] == "object":
        return "Policy"
    if schema["type"] == "array":
        return f"Sequence[{type_of(schema['items'])}]"
    return {"number": "float", "integer": "int", "boolean": "bool"}[schema["type"]]


def range_of(schema: dict) -> str:
    """The values of an argument in words, "" for any."""
    if "anyOf" in schema:
        infinities = [x["const"] for x in schema["anyOf"] if "const" in x]
        range_ = range_of(schema["anyOf"][0])
        return ", or ".join([range_ or "any number", *infinities]) if infinities else range_
    if "$ref" in schema or schema.get("type") == "object":
        return "made by " + names_of(schema)
    if schema.get("type") == "array":
        each = range_of(schema["items"])
        return f"each {each}" if each else ""
    low, high = (
        next((f"{sign}{schema[key]:g}" for key, sign in keys if key in schema), "")
        for keys in (
            (("minimum", ">= "), ("exclusiveMinimum", "> ")),
            (("maximum", "<= "), ("exclusiveMaximum", "< ")),
        )
    )
    if schema.get("type") == "integer":
        high = ""  # the largest that a machine counts
    return " and ".join(x for x in (low, high) if x)


def default_of(value: object) -> str:
    """A default as Python has it."""
    if value == "infinity":
        return "math.inf"
    if isinstance(value, list):
        return "(" + "".join(f"{x!r}, " for x in value).rstrip(" " if len(value) == 1 else ", ") + ")"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def variants(schemas: list) -> list:
    """Each name once; of several with one name, as `proximal`, each argument with what all of them allow."""
    found: dict = {}
    for schema in schemas:
        name = schema.get("properties", {}).get("name", {}).get("const")
        if name is None:
            continue
        members = {key: x for key, x in schema["properties"].items() if key not in ("name", "dialect")}
        dialect = schema["properties"].get("dialect", {}).get("const")
        one = found.setdefault((dialect, name), {"name": name, "dialect": dialect, "members": {}, "required": schema["required"]})
        for key, member in members.items():
            one["members"].setdefault(key, []).append(member)
    return list(found.values())


def paragraph(text: str, indent: str, first: str = "") -> str:
    return textwrap.fill(text, 110, initial_indent=first or indent, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False) + "\n"


def function(of: dict, about: str, is_rule: bool) -> str:
    """The text of one function."""
    positional, named, lines = (["lr: Rate"] if is_rule else []), [], []
    if is_rule:
        lines.append("lr: the learning rate, a number or a schedule of `gradstep.schedules`.")
    for key, schemas in of["members"].items():
        text = f"{key}: {type_of(schemas[0])}"
        if key in of["required"]:
            positional.append(text)
        else:
            named.append(f"{text} = {default_of(schemas[0]['default'])}")
        words = range_of(schemas[0])
        if len(schemas) > 1:
            words = "made by " + ", ".join(names_of(x) for x in schemas)
        meaning = schemas[0]["description"]
        lines.append(f"{key}: {meaning}{f' ({words})' if words else ''}.")
    if is_rule:
        named.append("**options: Unpack[Options]")
        lines.append("options: what else a configuration has, as `gradstep.Options` lists it.")
    marked = positional + (["*"] if any("**" not in x for x in named) else []) + named
    arguments = ", ".join(marked)
    out = f"def {of['name']}({arguments}) -> dict[str, Any]:\n"
    if len(out) > 120:
        out = f"def {of['name']}(\n" + "".join(f"    {x},\n" for x in marked) + ") -> dict[str, Any]:\n"
    out += paragraph(about + ("" if lines else '"""'), "    ", '    """')
    if lines:
        out += "\n" + "".join(paragraph(x, "        ", "    ") for x in lines) + '    """\n'
    members = [("dialect", json.dumps(of["dialect"]))] if of["dialect"] else []
    members.append(("name", json.dumps(of["name"])))
    members += [(key, key) for key in of["members"]]
    made = "{" + ", ".join(f'"{key}": {value}' for key, value in members) + "}"
    call = f"configuration({made}, lr, options)" if is_rule else f"policy({made})"
    if len(call) > 107:
        parts = "".join(f'            "{key}": {value},\n' for key, value in members)
        tail = ",\n        lr,\n        options,\n    )" if is_rule else "\n    )"
        call = f"{'configuration' if is_rule else 'policy'}(\n        {{\n{parts}        }}{tail}"
    return out + f"    return {call}\n"


def table_of(page: str, column: int) -> dict[str, str]:
    """The cells of a column of the first table of a page whose rows are named by links to its sections."""
    found = {}
    for line in (DOCS / page).read_text().splitlines():
        if re.match(r"\| \[`", line):
            cells = re.split(r" \| ", line.strip("| "))
            for name in re.findall(r"`(\w+)`", cells[0]):
                found[name] = cells[column]
    return found


def module(about: str, functions: dict[str, str], is_rule: bool) -> str:
    """The text of a module."""
    body = "\n\n".join(functions.values())
    typing = ["Any"] + (["Literal"] if "Literal[" in body else [])
    helpers = [x for x in ("Number", "Policy") if re.search(rf"\b{x}\b", body)] + ([] if is_rule else ["policy"])
    out = HEAD + '"""' + about + '"""\n\nfrom __future__ import annotations\n\n'
    if "math." in body:
        out += "import math\n"
    if "Sequence[" in body:
        out += "from collections.abc import Sequence\n"
    if is_rule:
        typing.insert(0, "TYPE_CHECKING")
        helpers = sorted({"Options", *helpers, "Rate", "configuration"})
    out += f"from typing import {', '.join(sorted(typing))}\n\n"
    dots = "." if "dialect" not in about else ".."
    out += f"from {dots}_constructors import {', '.join(helpers)}\n"
    if is_rule:
        out += "\nif TYPE_CHECKING:\n    from typing_extensions import Unpack\n"
    out += "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in functions) + "]\n"
    return out + "\n\n" + body


def files() -> dict[str, str]:
    """The text of each file."""
    definitions = json.loads((DOCS / "reference/configuration.schema.json").read_text())["$defs"]
    papers, rates = table_of("reference/rules.md", 4), table_of("reference/schedules.md", 1)
    rules = variants(definitions["rule"]["oneOf"])
    out = {}
    made = {}
    for rule in rules:
        if rule["dialect"] is None:
            paper = papers.get(rule["name"], "-")
            said = "" if re.match(r"-|as |the same", paper) else f": {paper}"
            made[rule["name"]] = function(rule, f"The rule `{rule['name']}`{said} (docs/reference/rules.md#{rule['name']}).", True)
    out["rules.py"] = module(
        "Configurations by rule: `gradstep.adam(lr=1e-3)` is `rules.adam(lr=1e-3)`.\n\nA dict, for `Parameter`, `Table` and "
        "`Updater`. A hyperparameter can be a schedule of `gradstep.schedules` instead of a number.\n",
        dict(sorted(made.items())),
        True,
    )
    for kind, page, about in (
        ("schedule", "reference/schedules.md", "Schedules of the learning rate: `gradstep.adam(lr=schedules.cosine(1e-3, steps=1000))`."),
        ("regularizer", "reference/regularizers.md", "Weight decay, penalties and clips of elements, the `regularizer` of a configuration."),
        ("average", "how_to/averaging.md", "Averages of the values, the `average` of a configuration."),
        ("clip", "how_to/configuration.md", "Gradient clipping, the `clip` of a configuration."),
    ):
        made = {}
        for one in variants(definitions[kind]["oneOf"]):
            name = one["name"]
            said = f": the rate at step t is {rates[name].replace('`', '')}" if kind == "schedule" and name in rates else ""
            anchor = {"average": "", "clip": "#clipping"}.get(kind, f"#{name}")
            if kind == "schedule" and name.startswith("by_"):
                anchor = "#by_samples-by_epochs"
            made[name] = function(one, f"The {kind} `{name}`{said} (docs/{page}{anchor}).", False)
        out[f"{kind}s.py"] = module(about, dict(sorted(made.items())), False)
    names = sorted({x["dialect"] for x in rules if x["dialect"]})
    for dialect in names:
        link = f"docs/reference/presets.md#{dialect}"
        made = {
            x["name"]: function(x, f"{x['name']} with the arguments, defaults and numbers of {dialect} ({link}).", True)
            for x in rules
            if x["dialect"] == dialect
        }
        out[f"dialects/{dialect}.py"] = module(
            f"Configurations by the names of {dialect}: its arguments, defaults and numbers, a dialect of gradstep ({link}).",
            dict(sorted(made.items())),
            True,
        )
    out["dialects/__init__.py"] = (
        HEAD
        + '"""Configurations by the names of other frameworks: `gradstep.dialects.keras.adam(lr=1e-3)`."""\n\n'
        + "from .._hints import attributes_of_module\n"
        + f"from . import {', '.join(names)}\n\n__all__ = [{', '.join(json.dumps(x) for x in names)}]\n\n"
        + f"for _module in {', '.join(names)}:\n"
        + "    setattr(_module, \"__getattr__\", attributes_of_module(_module.__name__, _module.__all__))\n"
    )
    return out
