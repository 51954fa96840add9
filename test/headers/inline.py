#!/usr/bin/env python3
"""What compilers do with kernels: lambdas in functions that are always inlined are always inlined too, and nvcc sees no
[[no_unique_address]].

A function marked GRADSTEP_HD runs for each pack of elements. g++ inlines such a function, but calls a lambda in it that it finds too
large, for each pack: a step then takes up to several times as long. GRADSTEP_INLINE_LAMBDA after the parameters prevents that.
GRADSTEP_NO_UNIQUE_ADDRESS (base/compiler.hpp) says what nvcc does with the attribute.
"""
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
PARENTHESES = r"\((?:[^()]|\([^()]*\))*\)"
LAMBDA = re.compile(rf"\[[&=]?[\w, =&]*\]\s*(?:<[^{{\n]*?>)?\s*{PARENTHESES}[^{{;]{{0,60}}?\{{")


def body(text: str, start: int) -> tuple[int, int] | None:
    """Where the body begins and ends of a function that is declared at `start`; None if it is only declared."""
    first, end = text.find("{", start), text.find(";", start)
    if first < 0 or 0 <= end < first:
        return None
    depth = 0
    for bracket in re.finditer("[{}]", text[first:]):
        depth += 1 if bracket.group() == "{" else -1
        if depth == 0:
            return first, first + bracket.end()
    return None


def called_lambdas(text: str) -> set[int]:
    """The lines of lambdas in GRADSTEP_HD functions that the compiler may call."""
    text = re.sub(r"//[^\n]*", lambda comment: " " * len(comment.group()), text)
    found = set()
    for function in re.finditer(r"\bGRADSTEP_HD\b", text):
        if (place := body(text, function.end())) is None:
            continue
        for one in LAMBDA.finditer(text, *place):
            if "GRADSTEP_INLINE_LAMBDA" not in one.group():
                found.add(text.count("\n", 0, one.start()) + 1)
    return found


def main() -> int:
    example = "GRADSTEP_HD V f(V a) { return each([&](int k) {0} { return a[k]; }); }"
    assert called_lambdas(example.replace("{0}", "")) == {1}
    assert not called_lambdas(example.replace("{0}", "GRADSTEP_INLINE_LAMBDA"))
    wrong = [f"{header.relative_to(INCLUDE)}:{line}" for header in sorted(INCLUDE.rglob("*.hpp"))
             for line in sorted(called_lambdas(header.read_text(encoding="utf-8")))]
    for place in wrong:
        print(f"{place}: a lambda in a GRADSTEP_HD function; expected GRADSTEP_INLINE_LAMBDA after its parameters")
    attributes = [header.relative_to(INCLUDE) for header in sorted(INCLUDE.rglob("*.[hi]pp"))
                  if header.name != "compiler.hpp" and "[[no_unique_address]]" in header.read_text(encoding="utf-8")]
    for header in attributes:
        print(f"{header}: [[no_unique_address]]; expected GRADSTEP_NO_UNIQUE_ADDRESS")
    return 1 if wrong or attributes else 0


if __name__ == "__main__":
    sys.exit(main())
