#!/usr/bin/env python3
"""Writes the pages of docs/reference that list what a program can call, from the sources alone.

    python3 docs/site/write_reference.py            writes the pages
    python3 docs/site/write_reference.py --check    fails if a page is not what this program writes

c_api.md is from gradstep.h, python_api.md from the package, go_api.md and rust_api.md from the bindings, options.md from the structs of
options, and the tables of cpp/*.md from the headers that each page names in `<!--{api} ... -->`. Of the package, the functions that make
configurations are from bindings/python/write_constructors.py.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import textwrap
from pathlib import Path

from reference import Listing, listings, matching_headers

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
PAGES = ROOT / "docs/reference"
HEAD = "<!-- `./dev generate` writes this page from {}. -->\n"
BEGIN, END = "<!-- what the headers declare -->\n", "<!-- end of what the headers declare -->\n"


def sentence(text: str) -> str:
    """The first sentence of a docstring, without the formula that may follow it."""
    text = re.split(r"\n\s*\n|\n {4,}|\n\s*```", text.strip("\n"))[0]
    text = re.sub(r"\s+", " ", text).strip()
    first = re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!al\.)(?<! vs\.)\s+(?=[A-Z`\"(\[])", text)[0]
    return re.sub(r":$", ".", first)


def whole(text: str) -> str:
    """A docstring without its code, for a cell of a table."""
    out = ""
    for part in re.split(r"\n\s*\n", re.sub(r"^ *```.*?```", "", text.strip("\n"), flags=re.DOTALL | re.MULTILINE)):
        if part.startswith("    ") or not part.strip():
            continue
        if re.match(r"\w+(, \w+)*: \S", part):  # arguments
            items = re.sub(r"\n {2,}", " ", part).splitlines()
            out += "".join("<br>" + re.sub(r"^(\w+(?:, \w+)*): ", r"`\1`: ", x) for x in items)
        else:
            out += ("<br>" if out else "") + re.sub(r":$", ".", re.sub(r"\s+", " ", part).strip())
    return out


def linked(text: str) -> str:
    """The text of a docstring in which "docs/how_to/x.md" is a link with the title of that page."""
    def link(match: re.Match) -> str:
        page = ROOT / match[1]
        title = re.search(r"^# (.+)", page.read_text(), flags=re.MULTILINE)[1]
        return f"[{title}]({os.path.relpath(page, PAGES)}{match[2] or ''})"

    return re.sub(r"^(?!#).*", lambda line: re.sub(r"`?\b(docs/[\w/]+\.md)(#[\w-]+)?`?", link, line[0]), text, flags=re.MULTILINE)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<!--", "").strip()


def code(text: str) -> str:
    """Code for a cell of a table."""
    return "`" + cell(re.sub(r"\s+", " ", text)) + "`"


# --- C++ -------------------------------------------------------------------------------------------------------------


def names_in(header: Path) -> list[str]:
    """The documented names that a header declares outside of classes and of namespaces detail, with their namespaces below gradstep."""
    text = re.sub(r"^ */// @cond\n.*?^ */// @endcond\n", "", header.read_text(), flags=re.MULTILINE | re.DOTALL)
    out, scopes, lines = [], [], text.splitlines()
    for i, line in enumerate(lines):
        if opened := re.match(r"namespace (\w[\w: ]+) \{$", line):
            scopes.append(re.sub(r"::inline \w+", "", opened[1]))
        elif line.startswith("} // namespace") and scopes:
            scopes.pop()
        elif i > 0 and lines[i - 1].startswith("///") and re.match(r"[\w\[]", line) and "detail" not in "::".join(scopes):
            text, before = re.sub(r"\[\[.*?\]\]|GRADSTEP_VISIBLE |\brequires\b.*?(?=\b(?:class|struct|auto|void)\b)", "", " ".join(lines[i:i + 8])), ""
            while text != before:  # the arguments of templates
                text, before = re.sub(r"<[^<>]*>", "", text), text
            found = re.search(r"\b(?:class|struct|concept|enum class|enum|using) (\w+)|(\w+)\(|(\w+)(?: =|\{|;)", text)
            scope = "::".join(scopes).removeprefix("gradstep").removeprefix("::")
            out.append("::".join(filter(None, [scope, *found.groups()])))
    return list(dict.fromkeys(out))


def row_of_header(header: str, listing: Listing) -> str:
    names = sorted((name for name in names_in(INCLUDE / header) if name.split("::")[-1] not in listing.hidden),
                   key=lambda name: listing.place(name.split("::")[-1]))
    return f"| [{header}](../../../include/{header}) | {', '.join(map(code, names))} |\n" if names else ""


def cpp_page(page: Path) -> str:
    """The page with a table of headers under each `<!--{api} ... -->`. The site shows what they declare there."""
    text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), "", page.read_text(), flags=re.DOTALL)

    def with_table(match: re.Match) -> str:
        rows = "".join(row_of_header(header, listing) for listing in listings(match.group(1)) for header in matching_headers(listing.pattern))
        return match.group(0) + (BEGIN + "\n| header | declares |\n|---|---|\n" + rows + END if rows else "")

    return re.sub(r"^<!--\{api\}\n(.*?)^-->\n", with_table, text, flags=re.MULTILINE | re.DOTALL)


# --- options ---------------------------------------------------------------------------------------------------------

OPTIONS = (
    ("step/step_options.hpp", ("step_options", "tensor_options")),
    ("policy/parameter_options.hpp", ("parameter_options",)),
    ("model/model_options.hpp", ("model_options",)),
    ("rows/table_options.hpp", ("table_options",)),
    ("keyed/options.hpp", ("keyed_options",)),
    ("saved/load_options.hpp", ("load_options",)),
    ("runtime/optimizer_configuration.hpp", ("optimizer_options",)),
    ("distributed/server_options.hpp", ("server_options", "served_options")),
    ("distributed/worker.hpp", ("worker_options",)),
    ("distributed/mpi.hpp", ("mpi_options",)),
)
USED_BY = {
    "step_options": "a step: `update`, `next_step`, and the steps of tables and models",
    "tensor_options": "a parameter of a model (`model::add`), and a slice of a step",
    "parameter_options": "a [parameter](cpp/parameter.md)",
    "model_options": "a [model](../how_to/model.md)",
    "table_options": "a [table](../how_to/embedding_tables.md)",
    "keyed_options": "a [keyed table](../how_to/keyed_tables.md)",
    "load_options": "`load` of [checkpoints](../how_to/checkpoints.md)",
    "optimizer_options": "[configurations](configuration_keys.md#optimizers) and the C library",
    "server_options": "a [parameter server](../how_to/parameter_servers.md)",
    "served_options": "a parameter on a server (`server::add`)",
    "worker_options": "a worker of [parameter servers](../how_to/parameter_servers.md)",
    "mpi_options": "a communicator over [MPI](../how_to/transports.md)",
}
ENUMS = ("policy/parameter_options.hpp", "rows/table_options.hpp", "rows/batch.hpp", "saved/load_options.hpp",
         "distributed/server_options.hpp", "runtime/optimizer_configuration.hpp", "number/element.hpp")


def ranges() -> dict[str, str]:
    text = (INCLUDE / "gradstep/policy/hyperparameters.hpp").read_text()
    found = dict(re.findall(r'inline constexpr range (\w+)\{[^"]*"([^"]+)"\}', text))
    return {name: words.removeprefix("in ") for name, words in found.items()}


def members_of(header: str, struct: str) -> list[tuple[str, str, str, str, str]]:
    """Name, type, default, range and meaning of each member."""
    text = (INCLUDE / "gradstep" / header).read_text()
    body = re.search(rf"^struct {struct} \{{\n(.*?)^\}};", text, flags=re.MULTILINE | re.DOTALL).group(1)
    named = {name: words for name, words in re.findall(r'hyperparameter\{"(\w+)",[^,]+, ranges::(\w+)\}', body)}
    all_ranges, out, doc = ranges(), [], []
    for line in body.splitlines():
        if match := re.match(r"    /// ?(.*)", line):
            doc = doc if doc and isinstance(doc, list) and doc[-1:] != [None] else []
            doc.append(match.group(1))
        elif re.match(r"    static constexpr|    GRADSTEP_INLINE|    friend", line):
            break
        elif match := re.match(r"    ([\w:<>,() ]+?) (\w+ = .*|\w+);(?: +///< (.*))?$", line):
            for one in re.split(r", (?=\w+ = )", match.group(2)):
                name, _, default = one.partition(" = ")
                meaning, words = match.group(3) or paragraph(doc), all_ranges.get(named.get(name, ""), "")
                if found := re.search(r"(?:^| )(Any finite number|Finite(?: and >= 0)?|>=? \d+)\.$", meaning):
                    meaning = meaning[:found.start()].strip()
                    words = words or found.group(1).lower()
                if doc[-1:] == [None] and not match.group(3):
                    meaning = f"See `{out[-1][0]}`." if not out[-1][4].startswith("See") else out[-1][4]
                words = words or ("`true`, `false`" if match.group(1) == "bool" else "")
                out.append((name, match.group(1), default or "-", words, meaning))
                doc = [*doc, None] if doc else []
    return out


def type_of_option(kind: str, enums: dict[str, str]) -> str:
    name = kind.removeprefix("gradstep::")
    return f"[`{name}`](#{name})" if name in enums else code(kind)


def paragraph(lines: list) -> str:
    """The text of a docstring, without its code."""
    kept = [x for x in lines if x is not None and not x.startswith("    ")]
    return re.sub(r"\s+", " ", " ".join(kept)).strip()


def enum_tables() -> dict[str, str]:
    """A section for each enumeration."""
    sections = {}
    for header in dict.fromkeys(ENUMS):
        text = (INCLUDE / "gradstep" / header).read_text()
        for doc, name, body in re.findall(r"((?:^///[^\n]*\n)+)^enum class (\w+) \{(.*?)\};", text, flags=re.MULTILINE | re.DOTALL):
            lines = [x.removeprefix("/// ").removeprefix("///") for x in doc.splitlines()]
            formula = [x[4:] for x in lines if x.startswith("    ")]
            about = paragraph(lines)
            out = f"\n### {name}\n" + textwrap.fill(about, 128, break_long_words=False, break_on_hyphens=False) + "\n"
            if formula:
                out += "\n```text\n" + "\n".join(formula) + "\n```\n"
            values = re.findall(r"(\w+),? *///< (.*)", body)
            if values:
                out += "\n| value | meaning |\n|---|---|\n" + "".join(f"| `{x}` | {cell(y)} |\n" for x, y in values)
            else:
                names = re.findall(r"^\s*(\w+)", re.sub(r"//.*", "", body).replace(",", "\n"), flags=re.MULTILINE)
                out += "\nValues: " + ", ".join(f"`{x}`" for x in names) + ".\n"
            sections[name] = out
    return sections


def options_page() -> str:
    out = ("# All options\n\n" + HEAD.format("the structs in include/gradstep") +
           "These structs have the options of gradstep in C++ and in C. All members have a default, so you set only what you need:\n"
           "`weights.update(gradient, {.rate_scale = 0.5})`. C++ requires designated initializers in the order below. A value outside its\n"
           "range is a [`bad_value`](errors.md#bad_value) error, which is reported before anything is written.\n\n"
           "Python, Go and Rust use the same names for the options of a step and of a load: [Python](python_api.md), [Go](go_api.md),\n"
           "[Rust](rust_api.md). The hyperparameters of rules, schedules and regularizers are on\n"
           "[their own page](configuration_keys.md).\n\n| options | used by |\n|---|---|\n")
    for _, structs in OPTIONS:
        out += "".join(f"| [`{x}`](#{x}) | {USED_BY[x]} |\n" for x in structs)
    out += "| [`gradstep_step_options`](#gradstep_step_options) | a step in C |\n"
    out += "| [`gradstep_load_options`](#gradstep_load_options) | `gradstep_parameters_load_file_with` in C |\n"
    enums = enum_tables()
    for header, structs in OPTIONS:
        for struct in structs:
            place = "gs::distributed::" if header.startswith("distributed") else "gs::"
            out += f"\n## {struct}\n`{place}{struct}`, for {USED_BY[struct]}.\n\n"
            out += "| option | type | default | range | meaning |\n|---|---|---|---|---|\n"
            for name, kind, default, words, meaning in members_of(header, struct):
                meaning = meaning or sentence(re.sub(r"\n### \w+\n", "", enums.get(kind, "")))
                out += f"| `{name}` | {type_of_option(kind, enums)} | {code(default)} | {cell(words)} | {cell(meaning)} |\n"
    header = (INCLUDE / "gradstep/c/gradstep.h").read_text()
    for struct in ("gradstep_step_options", "gradstep_load_options"):
        body = re.search(rf"typedef struct {struct} \{{(.*?)\}} {struct};", header, flags=re.DOTALL).group(1)
        initial = re.search(rf"#define {struct.upper()}_INIT\s*\\\s*\{{ sizeof\({struct}\), (.*?) \}}", header).group(1).split(", ")
        fields = re.findall(r"^ *([\w ]+?[\w*](?: const\*)*) (\w+); *(?:/\* (.*?) \*/)?", body, flags=re.MULTILINE | re.DOTALL)
        out += f"\n## {struct}\nIn C. Initialise it with `{struct.upper()}_INIT`.\n\n| option | type | default | meaning |\n|---|---|---|---|\n"
        for (kind, name, about), default in zip(fields[1:], initial):
            out += f"| `{name}` | {code(kind)} | {code(default)} | {cell(re.sub(chr(10), ' ', about))} |\n"
    return out + "\n## Enumerations\n" + "".join(enums.values())


# --- C ---------------------------------------------------------------------------------------------------------------


def c_comment(text: str) -> str:
    """A comment of C as Markdown: indented lines are code."""
    lines = [re.sub(r"^ ?\* ?", "", x) for x in text.strip().splitlines()]
    out, block = [], []
    for line in [*lines, ""]:
        if line.startswith("    "):
            block.append(line[4:])
            continue
        if block and not line.strip():
            language = "c" if any(x.endswith(";") for x in block) else "json" if block[0].startswith("{") else "text"
            out += ["", f"```{language}", *block, "```"]
            block = []
        out.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def c_page() -> str:
    text = (INCLUDE / "gradstep/c/gradstep.h").read_text()
    about = re.match(r"/\*(.*?)\*/", text, flags=re.DOTALL).group(1)
    out = "# C API\n\n" + HEAD.format("include/gradstep/c/gradstep.h")
    out += ("Everything that gradstep.h declares, with its comments. The guide with a complete program is [C](../how_to/c.md); error codes are\n"
            "in the [index of errors](errors.md).\n\n")
    about = re.sub(r"^gradstep for C.*?\n(?= ?\*?\s*A function that can fail)", "", about.strip(), flags=re.DOTALL)
    out += "## Conventions\n" + c_comment(re.sub(r"^.*?(?=A function that can fail)", "", about, flags=re.DOTALL)) + "\n"
    body = text[text.index('extern "C" {'):text.rindex("#ifdef __cplusplus")]
    body = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", body, flags=re.DOTALL)[len('extern "C" {'):].replace("#endif\n", "", 1)
    pattern = re.compile(
        r"/\* ---- (?P<section>.*?) ----(?P<intro>.*?)\*/"
        r"|/\*(?P<comment>.*?)\*/"
        r"|GRADSTEP_API (?P<function>[^;]+;)"
        r"|(?P<type>(?:typedef struct \w+ \{.*?\} \w+;|enum \w+ \{.*?\};(?: /\*.*?\*/)?|typedef [^;{]+;))"
        r"|(?P<macro>#define (?:[^\n]*\\\n)*[^\n]*)", re.DOTALL)
    out += "\n## Types\n"
    comment, shared = "", []
    for match in pattern.finditer(body):
        if match["section"]:
            out += f"\n## {match['section']}\n"
            intro = c_comment(match["intro"])
            out += intro + "\n" if intro else ""
            comment = ""
        elif match["comment"] is not None:
            comment = c_comment(match["comment"])
        else:
            declaration = (match["function"] or match["type"] or match["macro"]).strip()
            declaration = re.sub(r" *\\\n *", " ", declaration)
            if match["function"]:
                declaration = re.sub(r"\n +", "\n    ", declaration)
                name = re.search(r"(\w+)\(", declaration).group(1)
            elif match["macro"]:
                name = re.match(r"#define (\w+)", declaration).group(1)
            else:
                name = re.search(r"(\w+);?$", declaration).group(1) if declaration.startswith("typedef") and "(" not in declaration \
                    else (re.search(r"\(\*(\w+)\)", declaration) or re.search(r"enum (\w+)", declaration)).group(1)
            title = "" if match["macro"] else f"\n### {name}\n"
            out += f"{title}```c\n{declaration}\n```\n" + (comment + "\n" if comment else "")
            comment = ""
    return out


# --- Python ----------------------------------------------------------------------------------------------------------

PACKAGE = ROOT / "bindings/python/gradstep"
sys.path.insert(0, str(PACKAGE.parent))
from write_constructors import files as constructors  # noqa: E402


def python_modules(folder: Path) -> dict[str, ast.Module]:
    """The modules of a package. `about` of an assignment is its comment that begins with "#:"."""
    modules = {}
    for path in sorted(folder.glob("*.py")):
        text = path.read_text()
        module = modules[path.stem] = ast.parse(text)
        lines = text.splitlines()
        for node in ast.walk(module):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                found = re.search(r" #: (.*)", lines[node.end_lineno - 1])
                node.about = found.group(1) if found else ""
    return modules


def python_signature(function: ast.FunctionDef, name: str) -> str:
    arguments = ast.unparse(function.args)
    arguments = re.sub(r"^(self|cls)(, )?(/, )?", "", arguments)
    arguments = re.sub(r"(: [^=]*?)=", r"\1 = ", arguments)
    returns = f" -> {ast.unparse(function.returns)}" if function.returns and name != "__init__" else ""
    return f"({arguments}){returns}"


def python_class(name: str, classes: dict[str, ast.ClassDef]) -> tuple[str, list[tuple[str, str]]]:
    """The constructor of a class, and its members and those of its private bases with their docstrings."""
    rows: list[tuple[str, str]] = []
    fields: list[tuple[str, str]] = []
    seen: set[str] = set()
    without_text: set[str] = set()  # methods whose docstring is the base's
    constructor = ""

    def visit(each: ast.ClassDef) -> None:
        nonlocal constructor
        for item in each.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if item.name == "__init__" and not constructor:
                    constructor = python_signature(item, item.name)
                if item.name == "__init__":
                    for x in ast.walk(item):
                        if isinstance(x, ast.Assign) and x.about and x.targets[0].attr not in seen:
                            seen.add(x.targets[0].attr)
                            fields.append((x.targets[0].attr, x.about))
                if item.name in without_text:
                    at = next(i for i, (row, _) in enumerate(rows) if row.startswith(item.name + "("))
                    rows[at] = rows[at][0], ast.get_docstring(item) or ""
                    without_text.discard(item.name)
                if item.name in seen:
                    continue
                seen.add(item.name)
                decorators = [ast.unparse(x) for x in item.decorator_list]
                if item.name.startswith("_") or any("setter" in x or "overload" in x for x in decorators):
                    seen.discard(item.name) if any("overload" in x for x in decorators) else None
                    continue
                about = ast.get_docstring(item) or ""
                if not about:
                    without_text.add(item.name)
                if "property" in decorators:
                    kind = f": {ast.unparse(item.returns)}" if item.returns else ""
                    rows.append((item.name + kind, about))
                else:
                    rows.append((item.name + python_signature(item, item.name), about))
            elif isinstance(item, ast.AnnAssign) and not item.target.id.startswith("_") and item.target.id not in seen:
                seen.add(item.target.id)
                default = f" = {ast.unparse(item.value)}" if item.value else ""
                fields.append((f"{item.target.id}: {ast.unparse(item.annotation)}{default}", item.about))
            elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name) and item.targets[0].id.isupper():
                fields.append((f"{item.targets[0].id} = {ast.unparse(item.value)}", item.about))
        for base in each.bases:
            base_name = ast.unparse(base).split("[")[0]
            if base_name.startswith("_") or base_name in ("Owner", "Handle", "Optimizer"):
                if base_name in classes and (base_name != "Optimizer"):
                    visit(classes[base_name])

    visit(classes[name])
    return constructor, fields + rows


def python_list(title: str, names: list[str], modules: dict[str, ast.Module]) -> str:
    classes, functions = {}, {}
    for module in modules.values():
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, node)
            elif isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, node)
    out = f"\n## {title}\n"
    for name in names:
        if name in classes:
            constructor, rows = python_class(name, classes)
            doc = ast.get_docstring(classes[name]) or ""
            bases = ", ".join(ast.unparse(x) for x in classes[name].bases if not ast.unparse(x).startswith("_"))
            out += f"\n### {name}\n```python\nclass {name}{f'({bases})' if bases else ''}\n"
            out += (f"    {name}{constructor}\n" if constructor else "") + "```\n"
            out += python_text(doc) + "\n"
            data, methods = [row for row in rows if "(" not in row[0]], [row for row in rows if "(" in row[0]]
            if data:
                out += "\n| attribute | what it is |\n|---|---|\n" + "".join(f"| {code(x)} | {cell(whole(y))} |\n" for x, y in data)
            for signature, about in methods:  # a list, since a column of a table breaks a signature into words
                out += f"\n- `{signature}`\n" + textwrap.indent("\n" + python_text(about), "  ").rstrip(" ") + "\n"
        elif name in functions:
            out += f"\n### {name}\n```python\n{name}{python_signature(functions[name], name)}\n```\n"
            out += python_text(ast.get_docstring(functions[name]) or "") + "\n"
    return out


def python_text(doc: str) -> str:
    """A docstring as Markdown: indented blocks are code, and a list of arguments is a list."""
    out = []
    for part in re.split(r"\n\s*\n", doc):
        if part.startswith("    ") or re.match(r"\w+ = \w", part):
            out.append("```python\n" + re.sub(r"^ {4}", "", part, flags=re.MULTILINE) + "\n```")
        elif re.match(r"\w+(, \w+)*: ", part):
            items = re.sub(r"\n {2,}", " ", part).splitlines()
            out.append("\n".join(re.sub(r"^(\*{0,2}\w+(?:, \w+)*): ", r"- `\1`: ", x) for x in items))
        else:
            out.append(part)
    return "\n\n".join(out)


def python_table(title: str, about: str, text: str) -> str:
    module = ast.parse(text)
    out = f"\n## {title}\n{about}\n\n| function | what it makes |\n|---|---|\n"
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = re.sub(r"\*\*options: Unpack\[Options\]", "**options", ast.unparse(node.args))
            doc = re.sub(r"\s*\(docs/[^)]*\)", "", sentence(ast.get_docstring(node) or ""))
            out += f"| {code(f'{node.name}({arguments})')} | {cell(doc)} |\n"
    return out


def names_of_all(module: ast.Module) -> list[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [x.value for x in node.value.elts]
    return []


def python_page() -> str:
    modules = python_modules(PACKAGE)
    mpi = modules.pop("mpi")  # whose Transport is not the one of the package
    out = "# Python API\n\n" + HEAD.format("the signatures and docstrings of bindings/python/gradstep")
    out += ("The package `gradstep` for Python. The guide is [Python](../how_to/python.md), and for torch [PyTorch](../how_to/pytorch.md).\n"
            "Exceptions and their ids are in the [index of errors](errors.md).\n")
    names = names_of_all(modules["__init__"])
    errors = [x for x in names if x.endswith("Error") or x == "Status"]
    main = ["Parameter", "Table", "KeyedTable", "Model", "Updater"]
    out += python_list("Parameters, tables, models and updaters", main, modules)
    functions = {node.name for module in modules.values() for node in module.body if isinstance(node, ast.FunctionDef)}
    out += python_list("Functions", [x for x in names if x in functions], modules)
    out += python_list("Types of arguments and results", [x for x in names if x not in {*main, *errors, *functions}], modules)
    out += python_list("Exceptions", errors, modules)
    written = constructors()
    out += python_table("gradstep.rules", "Also in `gradstep` itself: `gradstep.adam(lr=0.1)`. `**options` are the members of [Options](#options).",
                        written["rules.py"])
    for name, what in (("schedules", "Learning rates."), ("regularizers", "Weight decay, penalties and clipping of elements."),
                       ("averages", "Averages of the weights."), ("clips", "Gradient clipping.")):
        out += python_table(f"gradstep.{name}", what, written[f"{name}.py"])
    for name in sorted(x.removeprefix("dialects/").removesuffix(".py") for x in written if re.match("dialects/[a-z]", x)):
        out += python_table(f"gradstep.dialects.{name}", f"[Presets](presets.md#{name}) with the names and defaults of {name}.",
                            written[f"dialects/{name}.py"])
    out += python_list("gradstep.sparse", names_of_all(modules["sparse"]), modules)
    out += python_list("gradstep.mpi", names_of_all(mpi), {"mpi": mpi})
    torch = python_modules(PACKAGE / "torch")
    out += python_list("gradstep.torch", names_of_all(torch["__init__"]), torch)
    return out


# --- Go --------------------------------------------------------------------------------------------------------------


def go_text(lines: list[str]) -> str:
    """A comment of Go as Markdown: lines that begin with a tab are code."""
    out, block = [], []
    for line in [*lines, ""]:
        if line.startswith("\t"):
            block.append(line[1:].expandtabs(4))
            continue
        if block:
            out += ["", "```go", *block, "```", ""]
            block = []
        out.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def go_page() -> str:
    folder = ROOT / "bindings/go"
    out = "# Go API\n\n" + HEAD.format("the declarations and comments of bindings/go")
    out += ("Package `gradstep`. The guide is [Go](../how_to/go.md); the codes of errors are in the [index of errors](errors.md). Methods of\n"
            "`Parameter[T]` are listed under that type, also those that it inherits.\n")
    types: dict[str, list[str]] = {}
    functions: list[tuple[str, str]] = []
    methods: dict[str, list[tuple[str, str]]] = {}
    constants: list[tuple[str, str]] = []
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith("_test.go"):
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for match in re.finditer(r"((?:^//.*\n)*)^(func|type|const|var)\b(.*)$", text, flags=re.MULTILINE):
            doc = go_text([x.removeprefix("//").removeprefix(" ") for x in match.group(1).splitlines() if not x.startswith("//go:")])
            keyword, rest = match.group(2), match.group(3).strip()
            if keyword == "func":
                signature = re.sub(r"\s*\{.*$", "", rest) if not re.search(r"(interface|struct)\{", rest) else re.sub(r" \{[^{}]*$", "", rest)
                found = re.match(r"\((\w+) (\*?)(\w+)(?:\[[\w, ]+\])?\) ([A-Z]\w*.*)", signature)
                if found:
                    owner = found.group(3)[0].upper() + found.group(3)[1:]
                    methods.setdefault(owner, []).append((found.group(4), doc))
                elif re.match(r"[A-Z]", signature):
                    functions.append((signature, doc))
            elif keyword == "type" and re.match(r"[A-Z]", rest):
                name = re.match(r"\w+", rest).group()
                body = "type " + rest
                if rest.endswith("{"):
                    end = text.index("\n}", match.end())
                    body += "\n".join(x.expandtabs(4) for x in text[match.end():end].splitlines()
                                      if "interface" in rest or not re.match(r"\t[a-z*]", x)) + "\n}"
                types[name] = [body, doc]
            elif keyword == "const" and rest == "(":
                group = text[match.end():text.index("\n)", match.end())]
                for name, value, about in re.findall(r"^\t([A-Z]\w*)(.*?)(?: // (.*))?$", group, flags=re.MULTILINE):
                    constants.append((name + re.sub(r"\s+", " ", value), about or doc))
    def table(title: str, rows: list[tuple[str, str]]) -> str:
        return f"\n| {title} | what it does |\n|---|---|\n" + "".join(f"| {code(x)} | {cell(whole(y))} |\n" for x, y in sorted(rows))
    out += "\n## Functions\n" + table("function", functions) + "\n## Types\n"
    for name, (body, doc) in sorted(types.items()):
        out += f"\n### {name}\n```go\n{body}\n```\n{doc}\n"
        if name in methods:
            out += table("method", methods[name])
    return out + "\n## Constants\n" + table("constant", constants)


# --- Rust ------------------------------------------------------------------------------------------------------------


def rust_page() -> str:
    folder = ROOT / "bindings/rust/src"
    out = "# Rust API\n\n" + HEAD.format("the declarations and `///` comments of bindings/rust/src")
    out += ("Crate `gradstep`. The guide is [Rust](../how_to/rust.md); the codes of errors are in the [index of errors](errors.md).\n"
            "`gradstep::sys` has the functions of the [C library](c_api.md).\n")
    lib = (folder / "lib.rs").read_text()
    exported = {x.strip() for names in re.findall(r"^pub use \w+::\{?([^;}]+)\}?;", lib, flags=re.MULTILINE) for x in names.split(",")}
    functions, types, methods = [], {}, {}
    for path in sorted(folder.glob("*.rs")):
        if path.name in ("lib.rs", "sys.rs"):
            continue
        owner, lines, i = "", path.read_text().splitlines(), 0
        while i < len(lines):
            line = lines[i]
            if match := re.match(r"(?:unsafe )?impl(?:<.*?>)? (?:(.+) for )?(\w+)", line):
                owner = match.group(2) if not match.group(1) else ""
            elif match := re.match(r"pub trait (\w+)", line):
                owner = match.group(1)
            elif line == "}":
                owner = ""
            doc = []
            while i < len(lines) and (match := re.match(r"\s*/// ?(.*)", lines[i])):
                doc.append(match.group(1))
                i += 1
            while doc and i < len(lines) and lines[i].strip().startswith("#["):
                i += 1
            if not doc:
                i += 1
                continue
            indent = len(lines[i]) - len(lines[i].lstrip())
            declaration = ""
            begin = i
            while i < len(lines):
                declaration += " " + lines[i].strip()
                if re.search(r"[{};]$|,$", lines[i]) and declaration.count("(") == declaration.count(")"):
                    break
                i += 1
            declaration = re.sub(r"\s+", " ", declaration).strip()
            text = "\n".join(doc)
            if match := re.match(r"pub (?:struct|enum|trait|type) (\w+)", declaration):
                if match.group(1) in exported:
                    body = [re.sub(r"\s*(?<!/)//(?!/).*", "", x) for x in lines[begin:end_of(lines, begin)]]
                    if "trait" in declaration.split("{")[0]:
                        body = [re.sub(r"\s*\{.*", ";", declaration)]
                    else:
                        body = [x for x in body if not re.match(r"    (?!pub )[a-z_]+:", x)]
                    shown = re.sub(r"\{\n\}", "{ /* private */ }", "\n".join(body))
                    types[match.group(1)] = (shown, text)
                    if "trait" in declaration:
                        owner = match.group(1)
            elif match := re.match(r"(?:pub )?(?:unsafe )?(?:const )?fn (\w+)", declaration):
                signature = re.sub(r"\s*[{;]$", "", declaration)
                signature = re.sub(r"\( ", "(", re.sub(r", \)", ")", signature))
                if indent == 0 and match.group(1) in exported:
                    functions.append((signature, text))
                elif owner in exported and (declaration.startswith("pub") or owner not in types or "trait" in types[owner][0]):
                    methods.setdefault(owner, []).append((signature, text))
            i += 1
    def table(title: str, rows: list[tuple[str, str]]) -> str:
        return f"\n| {title} | what it does |\n|---|---|\n" + "".join(
            f"| {code(x.removeprefix('pub '))} | {cell(links(whole(y)))} |\n" for x, y in rows)
    out += "\n## Functions\n" + table("function", functions) + "\n## Types\n"
    for name, (body, doc) in sorted(types.items()):
        out += f"\n### {name}\n```rust\n{body}\n```\n{links(doc)}\n"
        if name in methods:
            out += table("method", methods[name])
    return out


def end_of(lines: list[str], begin: int) -> int:
    if lines[begin].rstrip().endswith((";", "}")):
        return begin + 1
    return next(i for i in range(begin, len(lines)) if re.match(r"[)}];?$", lines[i])) + 1


def links(text: str) -> str:
    """Rustdoc as Markdown: links as code, and examples without their hidden lines."""
    text = re.sub(r"^# .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^```(?:no_run|compile_fail\S*)\n", "```rust\n", text, flags=re.MULTILINE)
    text = re.sub(r"^```\n(?=.)", "```rust\n", text, flags=re.MULTILINE) if text.count("```") == 2 else text
    return re.sub(r"\[(`[^`]+`)\](?:\(crate::\w+\)|(?!\())", r"\1", text)


def pages() -> dict[Path, str]:
    out = {PAGES / "c_api.md": linked(c_page()), PAGES / "python_api.md": linked(python_page()), PAGES / "go_api.md": linked(go_page()),
           PAGES / "rust_api.md": linked(rust_page()), PAGES / "options.md": options_page()}
    for page in sorted((PAGES / "cpp").glob("*.md")):
        out[page] = cpp_page(page)
    return out


def main() -> int:
    wrong = {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}
    if "--check" not in sys.argv:
        for path, text in wrong.items():
            path.write_text(text)
        return 0
    for path in wrong:
        print(f"{path.relative_to(ROOT)} is not what docs/site/write_reference.py writes; run ./dev generate")
    if not wrong:
        print("the pages of the API reference follow the sources")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
