#!/usr/bin/env python3
"""./dev bench report on programs and numbers that are made up."""

import contextlib
import importlib.util
import io
import json
import re
import shlex
import shutil
import stat
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "benchmarks/report"), str(ROOT / "benchmarks")]
import lines
import page
import parts
import report
import run

HOLDS = {"section": "in memory", "what": "adam | sgd, 32 Mi", "measured": 0.98, "low": 0.95, "high": 1.01, "unit": "", "at_most": 1.03,
         "verdict": "ok"}
MISSES = {"section": "in memory", "what": "ftrl's, 32 Mi", "measured": 1.2, "low": 1.1, "high": 1.4, "unit": "", "at_most": 1.03,
          "verdict": "MISS"}
PEER = {"section": "they / gradstep", "what": "torch fused, adam", "measured": 4.0, "low": 3.0, "high": 5.0, "unit": "", "at_least": 2.0,
        "verdict": "ok"}
SPEED = {"section": "speed", "what": "adam", "measured": 1234.5, "low": 40, "high": 1300, "unit": "GB/s"}


def say(line):
    """What adds a line to the file of --json, in the shell."""
    return f"echo {shlex.quote(json.dumps(line))} >> $json"


def measured(name, *found, state="measured", why=""):
    return {"name": name, "title": parts.part(name).title, "command": f"./dev bench {name}", "state": state, "why": why, "minutes": 1.5,
            "load": [0.5, 2.0], "about": {"compiler": "g++ 12.2.0"}, "lines": list(found)}


def report_of(*of, quick=False):
    return {"date": "2026-01-02 03:04 UTC", "commit": "abc", "machine": {"processor": "A Processor", "cores": "2"}, "load": 0.25,
            "command": "./dev bench report", "quick": quick, "parts": list(of)}


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def program(self, text):
        """A ./dev that does this; $json is the file of --json."""
        file = self.folder / "dev"
        file.write_text(f"#!/bin/sh\nwhile [ $# -gt 0 ]; do [ $1 = --json ] && json=$2; shift; done\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def call(self, *arguments):
        said, wrong = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            try:
                code = report.main([*arguments, "--output", str(self.folder)])
            except SystemExit as end:
                code = end.code
        return code, said.getvalue(), wrong.getvalue()


class Page(unittest.TestCase):
    def test_tables_have_what_was_measured_and_what_was_allowed(self):
        text = page.tables(measured("rules", HOLDS, MISSES, SPEED))
        self.assertEqual(text.splitlines(), [
            "| in memory | measured | quartiles | must be |  |",
            "| --- | --- | --- | --- | --- |",
            "| adam \\| sgd, 32 Mi | 0.980 | 0.950 to 1.010 | at most 1.030 | ok |",
            "| ftrl's, 32 Mi | 1.200 | 1.100 to 1.400 | at most 1.030 | **missed** |",
            "",
            "| speed | measured | quartiles | must be |  |",
            "| --- | --- | --- | --- | --- |",
            "| adam | 1234 GB/s | 40.0 to 1300 |  |  |"])

    def test_grids_have_a_column_for_each_size_or_for_each_thing_measured(self):
        def line(what, **more):
            return {**SPEED, "section": "s", "what": what, "measured": 1.0, "unit": "", **more}

        def first_lines(*found):
            return page.grids(measured("rules", *found)).splitlines()

        self.assertEqual(first_lines(line("sgd, 4 Ki: a / b"), line("adam, 4 Ki: a / b", at_most=1.1, verdict="ok"),
                                     line("sgd, 64 Ki: a / b", at_most=2, verdict="ok"),
                                     line("adam, 64 Ki: a / b", at_most=2, verdict="MISS", measured=3)), [
            "| s: a / b | 4 Ki | 64 Ki |", "| --- | --- | --- |",
            "| must be |  | at most 2.000 |",
            "| sgd | 1.000 | 1.000 |", "| adam | 1.000 (at most 1.100) | 3.000 **missed** |"])
        allowed = {"at_most": 2, "verdict": "ok"}
        self.assertEqual(first_lines(line("sgd, 4 Ki: a", **allowed), line("sgd, 8 Ki: a", **allowed), line("adam, 4 Ki: b"),
                                     line("adam, 8 Ki: b")), [
            "| s | 4 Ki | 8 Ki |", "| --- | --- | --- |",
            "| sgd: a (at most 2.000) | 1.000 | 1.000 |", "| adam: b | 1.000 | 1.000 |"])
        self.assertEqual(first_lines(line("sgd: a / b"), line("sgd: speed", unit="GB/s"), line("adam: a / b")), [
            "| s | a / b | speed |", "| --- | --- | --- |", "| sgd | 1.000 | 1.000 GB/s |", "| adam | 1.000 |  |"])
        # Two names for one place, and a grid with holes, are lines.
        for of in ([line("sgd, 4 Ki: a"), line("sgd, 4 Ki: a"), line("sgd, 8 Ki: a"), line("adam, 8 Ki: a")],
                   [line("sgd: a"), line("adam: b"), line("ftrl: c"), line("lion: a")]):
            self.assertEqual(page.grids(measured("rules", *of)), page.tables(measured("rules", *of)))

    def test_the_head_names_machine_versions_misses_and_what_failed(self):
        text = page.markdown(report_of(measured("rules", HOLDS, MISSES), measured("keyed", state="failed", why="no memory (keyed.txt)"),
                                       measured("rows", state="left out", why="not asked for")), {"rules": "rules.svg"})
        for part in ("# Benchmarks of gradstep: A Processor\n", "| commit | abc |\n", "| load before it began | 0.2 |\n",
                     "| compiler | g++ 12.2.0 |\n", "1 of 2 are missed.\n", "| rules | ftrl's, 32 Mi | 1.200 |",
                     "| keyed | failed | no memory (keyed.txt) |\n", "| rows | left out | not asked for |\n",
                     "`./dev bench rules`: 1.5 minutes, at a load of 0.5 to 2.0.\n", "![Rules beside hand-written code](rules.svg)\n"):
            self.assertIn(part, text)
        self.assertNotIn("## Rows of a table", text)
        self.assertNotIn("--quick", text)

    def test_without_a_miss_it_says_so(self):
        text = page.markdown(report_of(measured("rules", HOLDS, SPEED), quick=True), {})
        self.assertIn("All 1 bounds hold.\n", text)
        self.assertIn("Measured with --quick", text)
        self.assertNotIn("What failed", text)

    def test_versions_that_differ_name_their_parts(self):
        other = measured("keyed", HOLDS)
        other["about"] = {"compiler": "clang 16", "Boost": "1_81"}
        text = page.versions_of(report_of(measured("rules", HOLDS), other))
        self.assertIn("| compiler | g++ 12.2.0 (rules) |\n", text)
        self.assertIn("| compiler | clang 16 (keyed) |\n", text)
        self.assertIn("| Boost | 1_81 |\n", text)

    def test_pictures_show_the_part_of_the_bound_that_is_taken(self):
        shares = page.shares(measured("rules", MISSES, PEER, SPEED))
        self.assertEqual([(name, miss) for name, *_, miss in shares], [("ftrl's, 32 Mi", True), ("torch fused, adam", False)])
        for is_, should in zip(shares[0][1:4] + shares[1][1:4], (1.2 / 1.03, 1.1 / 1.03, 1.4 / 1.03, 2 / 4, 2 / 5, 2 / 3)):
            self.assertAlmostEqual(is_, should)
        self.assertIn("'ftrl''s, 32 Mi' 0", page.script(measured("rules", MISSES), "x.svg"))
        self.assertIn("'99.9 %% of 32 Mi' 0", page.script(measured("dgc", {**HOLDS, "what": "99.9 % of 32 Mi"}), "x.svg"))

    @unittest.skipUnless(importlib.util.find_spec("markdown"), "Python-Markdown is missing")
    def test_html_has_the_tables(self):
        text = page.html(page.markdown(report_of(measured("rules", HOLDS, MISSES)), {}))
        for part in ("<title>Benchmarks of gradstep: A Processor</title>", "<td>adam | sgd, 32 Mi</td>", "<strong>missed</strong>"):
            self.assertIn(part, text)


class Docs(unittest.TestCase):
    PAGE = "before\n<!-- report: rules -->\nold\n<!-- end of report -->\nbetween\n<!-- report: keyed rows -->\nkept\n<!-- end of report -->\n"

    def test_blocks_are_filled_whose_parts_were_all_measured(self):
        text = page.filled(self.PAGE, report_of(measured("rules", HOLDS), measured("keyed", HOLDS), measured("rows", state="failed")))
        self.assertNotIn("old", text)
        self.assertIn("kept", text)
        self.assertTrue(text.startswith("before\n<!-- report: rules -->\nA Processor; 2; compiler g++ 12.2.0; commit abc; 2026-01-02 03:04 UTC; "
                                        "a load average of 0.5 to 2.0. `./dev bench report`\n\n| in memory |"), text)
        self.assertEqual(page.filled(text, report_of(measured("rules", HOLDS))), text)

    def test_a_block_can_show_some_lines_of_a_part(self):
        start = "<!-- report: rules [in memory: ftrl|nothing] -->\n"
        text = page.filled(start + "<!-- end of report -->\n" + self.PAGE, report_of(measured("rules", HOLDS, MISSES, SPEED)))
        block = text[:text.index("<!-- end of report -->")]
        self.assertTrue(block.startswith(start))
        self.assertIn("| ftrl's, 32 Mi |", block)
        self.assertNotIn("sgd", block)
        self.assertNotIn("speed", block)
        self.assertIn("GB/s", text)  # the other block shows the whole part
        with self.assertRaisesRegex(ValueError, "no line of the part 'rules' matches 'lamb'"):
            page.filled("<!-- report: rules [lamb] -->\n<!-- end of report -->\n", report_of(measured("rules", HOLDS)))

    def test_a_block_of_no_part_is_refused(self):
        with self.assertRaisesRegex(ValueError, "there is no part 'ruels': there is rules, divider"):
            page.filled("<!-- report: ruels -->\n<!-- end of report -->\n", report_of())

    def test_the_pages_name_parts_that_there_are(self):
        files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        named = {name for file in files for block in page.blocks(file.read_text()) for name in block}
        self.assertEqual(named, {of.name for of in parts.PARTS})
        for file in files:
            text = file.read_text()
            self.assertEqual(len(re.findall(r"^<!-- report: ", text, re.MULTILINE)), len(page.blocks(text)), file)


class Commands(unittest.TestCase):
    def test_every_benchmark_is_a_part(self):
        sections = re.search(r"IsMember\(\{(.*?)\}\)", (ROOT / "benchmarks/bench.cpp").read_text(), re.DOTALL)[1]
        known = {of.command[0] for of in parts.PARTS}
        rare = {"dlib", "ensmallen", "libtorch", "gpu"}  # which few machines have: pages have their numbers
        self.assertEqual(known, {*re.findall(r"\w+", sections), *run.COMMANDS} - rare
                         - {"help", "report", "simulate", "rounding", "before"})

    def test_a_part_has_one_name(self):
        self.assertEqual(len({of.name for of in parts.PARTS}), len(parts.PARTS))


class Run(InFolder):
    def test_a_part_is_measured(self):
        dev = self.program(f"{say({'about': {'xsimd': '8'}})}; {say(SPEED)}")
        of = report.measure(parts.part("rules"), self.folder, True, dev)
        self.assertEqual((of["state"], of["why"], of["about"], of["lines"]), ("measured", "", {"xsimd": "8"}, [SPEED]))
        self.assertEqual(of["command"], "./dev bench rules --quick")

    def test_one_that_fails_keeps_its_lines_and_says_why(self):
        dev = self.program(f"{say(SPEED)}; printf '{{\"sec' >> $json; echo 'there is no such thing'; echo; exit 3")
        of = report.measure(parts.part("keyed"), self.folder, False, dev)
        self.assertEqual((of["state"], of["why"], of["lines"]), ("failed", "there is no such thing (keyed.txt)", [SPEED]))

    def test_one_that_has_nothing_to_measure_is_left_out(self):
        of = report.measure(parts.part("divider"), self.folder, False, self.program("true"))
        self.assertEqual((of["state"], of["why"]), ("left out", "it has nothing that could be measured here (divider.txt)"))

    def test_the_others_go_on(self):
        dev = self.program(f"case $json in *keyed*) exit 1;; *) {say(MISSES)};; esac")
        options = report.arguments(["--part", "rules", "--part", "keyed", "--part", "rows", "--part", "dgc", "--without", "rows", "--output",
                                    str(self.folder)])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            found = report.run(options, dev)
        states = {of["name"]: of["state"] for of in found["parts"]}
        self.assertEqual({name for name, state in states.items() if state == "measured"}, {"rules", "dgc"})
        self.assertEqual((states["keyed"], states["rows"], len(states)), ("failed", "left out", len(parts.PARTS)))
        kept = json.loads((self.folder / "report.json").read_text())  # before the page is written
        self.assertEqual([of["name"] for of in kept["parts"] if of["state"] == "measured"], ["rules", "dgc"])
        self.assertIn(f"3 of {len(parts.PARTS)} parts, about", said.getvalue())
        with contextlib.redirect_stdout(io.StringIO()):
            report.write(found, self.folder)
        again = (self.folder / "report.md").read_text()
        self.assertIn("2 of 2 are missed.", again)
        code, _, _ = self.call("--from", str(self.folder / "report.json"))
        self.assertEqual((code, (self.folder / "report.md").read_text()), (1, again))

    def test_minutes_are_those_of_the_report_before(self):
        before = report_of(measured("rules", HOLDS), measured("keyed", state="failed"))
        (self.folder / "report.json").write_text(json.dumps(before))
        minutes = report.expected(self.folder, False)
        self.assertEqual((minutes["rules"], minutes["keyed"]), (1.5, parts.part("keyed").minutes))
        self.assertAlmostEqual(report.expected(self.folder, True)["rules"], 0.1 * parts.part("rules").minutes)

    def test_what_cannot_be_is_refused(self):
        for arguments, sentence in ((["--without", "nothing"], "there is no part 'nothing': there is rules"),
                                    (["--from", str(self.folder / "absent.json")], "No such file or directory"),
                                    (["--docs", "x.md", "--quick"], "--docs with --quick")):
            code, _, wrong = self.call(*arguments)
            self.assertEqual(code, 2)
            self.assertIn(sentence, wrong)
        (self.folder / "wrong.md").write_text("<!-- report: ruels -->\n<!-- end of report -->\n")
        with unittest.mock.patch("report.run") as run:
            code, _, wrong = self.call("--docs", str(self.folder / "wrong.md"))
        self.assertEqual((code, run.called), (2, False))
        self.assertIn("there is no part 'ruels'", wrong)
        (self.folder / "short.json").write_text(json.dumps(report_of(measured("rules", HOLDS), quick=True)))
        (self.folder / "page.md").write_text(Docs.PAGE)
        code, _, wrong = self.call("--from", str(self.folder / "short.json"), "--docs", str(self.folder / "page.md"))
        self.assertEqual((code, (self.folder / "page.md").read_text()), (2, Docs.PAGE))
        self.assertIn("--quick does not belong", wrong)

    def test_docs_are_all_pages_or_those_given(self):
        pages = report.arguments(["--docs"]).docs
        for page in ("README.md", "docs/explanation/benchmarks.md", "docs/reference/dtypes.md"):
            self.assertIn(ROOT / page, pages)
        self.assertEqual(report.arguments(["--docs", "a.md", "b.md", "--docs", "c.md"]).docs, [Path("a.md"), Path("b.md"), Path("c.md")])
        self.assertIsNone(report.arguments([]).docs)

    def test_a_wrong_page_keeps_no_other_from_being_filled(self):
        (self.folder / "own.json").write_text(json.dumps(report_of(measured("rules", HOLDS))))
        wrong, right = self.folder / "wrong.md", self.folder / "right.md"
        wrong.write_text("<!-- report: rules [lamb] -->\n<!-- end of report -->\n")
        right.write_text("<!-- report: rules -->\n<!-- end of report -->\n")
        code, said, problem = self.call("--from", str(self.folder / "own.json"), "--docs", str(wrong), str(right))
        self.assertEqual(code, 2)
        self.assertIn(f"{wrong}: no line of the part 'rules' matches 'lamb'", problem)
        self.assertIn("| adam", right.read_text())
        self.assertIn(str(right), said)

    def test_strict_counts_misses(self):
        (self.folder / "own.json").write_text(json.dumps(report_of(measured("rules", MISSES))))
        self.assertEqual(self.call("--from", str(self.folder / "own.json"))[0], 0)
        self.assertEqual(self.call("--from", str(self.folder / "own.json"), "--strict")[0], 1)


class LinesOfPython(InFolder):
    def test_they_are_added_and_judged(self):
        file = self.folder / "x.jsonl"
        for _ in range(2):
            out = lines.Lines(str(file), {"torch": "2"})
            out.section = "they / gradstep"
            self.assertEqual(out.add("a", lines.quartiles([1, 2, 3, 4, 5]), at_least=3), "ok")
            self.assertEqual(out.add("b", lines.quartiles([7]), "ns", at_most=6.9), "MISS")
            self.assertEqual(out.add("c", lines.quartiles([7])), "")
        about, found = report.read_lines(file)
        self.assertEqual((about, len(found)), ({"torch": "2"}, 6))
        self.assertEqual(found[0], {"section": "they / gradstep", "what": "a", "measured": 3, "low": 2, "high": 4, "unit": "", "at_least": 3,
                                    "verdict": "ok"})
        self.assertEqual((found[1]["verdict"], found[1]["low"], "verdict" in found[2]), ("MISS", 7, False))


if __name__ == "__main__":
    unittest.main()
