#!/usr/bin/env python3
"""Checks that everything public has a docstring and a place in the API reference. Reads the XML that Doxygen makes of
the headers (./dev docs).

Public is what namespace gradstep has outside of `detail`: classes, concepts, enums with their enumerators, functions,
and the public functions, aliases and constants of classes. One docstring serves all overloads of a name; that of a class its constructors,
that of a template its specializations. What the docstring of a class, of an enum or of a member names in code, those
beside it need not say again; nor what the docstring of a concept asks for, as a rule's `apply`. Every header with
something public is described by one page of docs/reference/cpp.
"""

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))
import reference
from reference import Entity, names_in_code

NEEDS_DOCSTRING = (*reference.CLASSES, "concept", "enum", "enumerator", "function")


def without_docstring(scope: list[Entity], asked_by_concepts: set[str],
                      explained: frozenset[str] = frozenset()) -> list[Entity]:
    """Those of one scope, and inside of them, that no docstring tells of."""
    documented = {each.name for each in scope if each.is_documented}
    out = []
    for each in scope:
        if each.is_specialization:
            continue
        is_told = each.is_optional or each.name in documented or each.short_name in explained
        is_constant = explained and (each.kind == "typedef" or (each.kind == "variable" and each.is_static))
        if (each.kind in NEEDS_DOCSTRING or is_constant) and not is_told:
            out.append(each)
        inside = names_in_code([each, *each.members]) | {each.short_name}
        if each.kind != "enum":
            inside |= asked_by_concepts
        out += without_docstring(each.members, asked_by_concepts, frozenset(inside))
    return out


def missing_docstrings(entities: list[Entity]) -> list[str]:
    asked_by_concepts = names_in_code([each for each in entities if each.kind == "concept"])
    return [f"include/{each.header}: the {each.kind} {each.name} has no docstring"
            for each in without_docstring(entities, asked_by_concepts)]


def misplaced_headers(entities: list[Entity]) -> list[str]:
    problems, places = [], Counter()
    for page in sorted((ROOT / "docs/reference/cpp").glob("*.md")):
        for pattern in reference.page_patterns(page):
            headers = reference.matching_headers(pattern)
            places.update(headers)
            if not headers:
                problems.append(f"docs/reference/cpp/{page.name}: there is no header {pattern}")
    public = sorted({each.header for each in entities if not each.is_specialization})
    problems += [f"include/{header}: no page of docs/reference/cpp describes it" for header in public if not places[header]]
    return problems + [f"include/{header}: {count} places in docs/reference/cpp describe it"
                       for header, count in places.items() if count > 1]


def main() -> int:
    entities = reference.read()
    if not entities:
        print(f"{reference.XML} has no output of Doxygen; expected a run of ./dev docs")
        return 1
    problems = missing_docstrings(entities) + misplaced_headers(entities)
    for problem in problems:
        print(problem)
    if not problems:
        print("every public name has a docstring and a place in the API reference")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
