"""What the headers offer, read from Doxygen's XML, for the pages of the API reference and the check of docstrings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
XML = ROOT / "build/docs/doxygen/xml"
CLASSES = ("class", "struct", "union")


@dataclass
class Entity:
    """A namespace, class, concept, enum, enumerator, function, typedef or variable."""

    kind: str
    name: str  # with its namespaces
    header: str  # as it is included
    line: int
    is_documented: bool
    arguments: str = ""  # of a function
    is_static: bool = False
    is_optional: bool = False  # needs no docstring: guides, destructors, overrides, what is deleted or defaulted
    members: list["Entity"] = field(default_factory=list)  # of a class or an enum; classes among them
    code: list[str] = field(default_factory=list)  # what the docstring shows as code

    @property
    def short_name(self) -> str:
        return self.name.rpartition("::")[2]

    @property
    def is_specialization(self) -> bool:
        return self.kind != "function" and self.name.endswith(">")


def docstring(element: ElementTree.Element) -> list[ElementTree.Element]:
    parts = (element.find(part) for part in ("briefdescription", "detaileddescription"))
    return [part for part in parts if part is not None and "".join(part.itertext()).strip()]


def entity(element: ElementTree.Element, kind: str, name: str) -> Entity:
    location = element.find("location")
    parts = docstring(element)
    return Entity(kind, name, location.get("file"), int(location.get("line")), bool(parts),
                  code=["".join(code.itertext()) for part in parts for code in part.iter()
                        if code.tag in ("verbatim", "computeroutput")])


def member(element: ElementTree.Element, scope: str) -> Entity:
    name = element.findtext("name")
    out = entity(element, element.get("kind"), f"{scope}::{name}")
    out.arguments = element.findtext("argsstring") or ""
    out.is_static = element.get("static") == "yes"
    is_guide = not element.findtext("type") and "->" in out.arguments
    is_special = re.search(r"= ?(delete|default)$|\boverride$", out.arguments) is not None
    out.is_optional = is_guide or is_special or name.startswith("~")
    for value in element.findall("enumvalue"):
        enumerator = f"{out.name}::{value.findtext('name')}"
        out.members.append(Entity("enumerator", enumerator, out.header, out.line, bool(docstring(value))))
    return out


def public_members(compound: ElementTree.Element, scope: str) -> list[Entity]:
    return [member(each, scope) for each in compound.iter("memberdef")
            if each.get("prot") == "public" and each.get("kind") != "friend"]


def is_internal(name: str) -> bool:
    return name.split("::")[0] != "gradstep" or "detail" in name.split("::")


@cache
def read(xml: Path = XML) -> list[Entity]:
    """What is public in gradstep's namespaces but `detail`; classes inside classes are members of those."""
    compounds = {}
    for file in sorted(xml.glob("*.xml")):
        compound = ElementTree.parse(file).getroot().find("compounddef")
        if compound is None or compound.get("kind") not in (*CLASSES, "concept", "namespace"):
            continue
        if not is_internal(compound.findtext("compoundname")):
            compounds[compound.get("id")] = compound
    private = {inner.get("refid") for each in compounds.values() for inner in each.findall("innerclass")
               if inner.get("prot") != "public"}
    out, by_name = [], {}
    for refid, compound in compounds.items():
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if kind == "namespace":
            out += public_members(compound, name)
            if docstring(compound) and name != "gradstep":
                out.append(entity(compound, kind, name))
        elif refid not in private:
            by_name[name] = entity(compound, kind, name)
            by_name[name].members = public_members(compound, name)
    for name, each in by_name.items():
        outer = by_name.get(name.rpartition("::")[0])
        (outer.members if outer else out).append(each)
    documented = {each.name for each in out if each.is_documented}
    for each in out:  # what a function of a dialect takes is told of with the function
        if each.name.endswith("_arguments"):
            each.is_documented = each.is_documented or each.name.removesuffix("_arguments") in documented
    return sorted(out, key=lambda each: (each.header, each.line))


def names_in_code(entities: Iterable[Entity]) -> set[str]:
    """The names that the docstrings of these entities show as code: of functions, of types, of what has a value, and where
    a line begins."""
    name = re.compile(r"operator\(\)|\w+(?=(?:<[^<>]*>)?\()|\w+(?= ?[={])|(?<=struct )\w+|^ *\w+", re.MULTILINE)
    return {found.strip() for each in entities for code in each.code for found in name.findall(code)}


@dataclass
class Listing:
    """A line of an `<!--{api}` block: `PATTERN [NAME...] [-NAME...]`. Of the headers that the pattern names, the declarations with these
    names come first, in this order, and those with a minus are left out, also as members of classes."""

    pattern: str
    first: list[str]
    hidden: set[str]

    def place(self, name: str) -> int:
        return self.first.index(name) if name in self.first else len(self.first)


def listings(block: str | Iterable[str]) -> list[Listing]:
    lines = block.splitlines() if isinstance(block, str) else block
    words = [line.split() for line in lines if line.strip()]
    return [Listing(line[0], [x for x in line[1:] if x[0] != "-"], {x[1:] for x in line[1:] if x[0] == "-"}) for line in words]


def page_patterns(page: Path) -> list[str]:
    """The patterns of the `<!--{api}` blocks of a page: what headers under include/gradstep it describes."""
    blocks = re.findall(r"^<!--\{api\}\n(.*?)^-->", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [each.pattern for block in blocks for each in listings(block)]


def matching_headers(pattern: str) -> list[str]:
    """The headers that a pattern names, as they are included."""
    found = sorted(str(path.relative_to(INCLUDE)) for path in (INCLUDE / "gradstep").glob(pattern))
    if not found:
        raise SystemExit(f"docs/reference/cpp: no header is {pattern}")
    return found
