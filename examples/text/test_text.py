"""Runs one of the demos of sparse tables on small texts: what it writes, how it takes damaged texts, how it stops.

    python3 test_text.py PROGRAM
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
IS_FTRL = PROGRAM.name.startswith("ftrl")
OLD = "the king of israel went up to the city with the sword".split()
NEW = "and jesus said unto his disciples believe in the gospel".split()


def text(count=400):
    """Verses of both testaments, a third of them new, each with a vocabulary of its own."""
    rng = random.Random(1)
    lines = []
    for i in range(count):
        is_new = i % 3 == 0
        words = rng.choices(NEW if is_new else OLD, k=12)
        lines.append(f"{'1Cor' if is_new else 'Ge'}{1 + i // 30}:{1 + i % 30} {' '.join(words).capitalize()}.")
    return lines


class Demo(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.picture = self.folder / "it's a picture.png"
        self.verses = self.folder / "verses.txt"
        self.write(text())

    def write(self, lines):
        self.verses.write_text("".join(line + "\n" for line in lines))

    def command(self, *more):
        return [PROGRAM, "--text", self.verses, "--output", self.picture, *more]

    def demo(self, *more):
        return subprocess.run(self.command("--passes", "2", *more), capture_output=True, text=True)

    def assert_refused(self, *reasons, ran=None):
        ran = ran or self.demo()
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        for reason in reasons:
            self.assertIn(reason, ran.stderr)
        self.assertFalse(self.picture.exists())

    def test_learns_and_draws(self):
        ran = self.demo()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(self.picture.read_bytes().startswith(b"\x89PNG") and self.picture.stat().st_size > 10_000)
        self.assertIn(str(self.picture), ran.stdout)
        self.assertEqual([p.name for p in self.folder.glob("*.part*")], [])
        self.assertRegex(ran.stderr, r"(?m)^pass 2 +")
        if IS_FTRL:
            self.assertIn("360 verses to learn from, 40 held out; 33.5 %", ran.stdout)
            for name in ("ftrl", "adagrad"):
                self.assertRegex(ran.stdout, rf"(?m)^{name} .* 100\.00 % .* %")
            told = dict(re.findall(r"(?m)^  (Old|New) Testament:(.*)$", ran.stdout))
            self.assertIn("king", told["Old"].split()[:10])
            self.assertIn("jesus", told["New"].split()[:10])
        else:
            self.assertIn("400 verses, 4800 words in them, 19 different ones", ran.stdout)
            self.assertRegex(ran.stdout, r"(?m)^king .*0\.\d\d")
            self.assertRegex(ran.stdout, r"(?m)^bread +occurs too rarely$")

    def test_same_seed_same_result(self):
        found = []
        for seed in "778":
            ran = self.demo("--seed", seed)
            found.append(re.findall(r"loss \d\.\d+", ran.stderr))
        self.assertEqual(len(found[0]), 4 if IS_FTRL else 2)
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0], found[2])

    def test_fewer_verses(self):
        ran = self.demo("--verses", "100")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("90 verses to learn from, 10 held out" if IS_FTRL else "100 verses, 1200 words", ran.stdout)

    def test_options(self):
        for more in (["--bits", "10", "--batch", "1"], ["--batch", "1000"]) if IS_FTRL else (
            ["--rule", "rowwise_adagrad", "--words", "jesus,sword"],
            ["--threads", "1", "--window", "1", "--batch", "1"],
        ):
            ran = self.demo(*more)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertTrue(self.picture.exists())

    @unittest.skipIf(IS_FTRL, "runs on one thread")
    def test_same_loss_on_any_number_of_threads(self):
        runs = [self.demo("--threads", threads) for threads in "13"]
        losses = [re.findall(r"(?m)^Loss in the last pass: .*$", ran.stdout) for ran in runs]
        self.assertEqual(len(losses[0]), 1)
        self.assertEqual(losses[0], losses[1])

    def test_help(self):
        ran = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0)
        for option in ("--text", "--output", "--passes", "--batch", "--verses", "--seed"):
            self.assertIn(option, ran.stdout)

    def test_bad_arguments(self):
        for arguments in (
            ["--passes", "0"],
            ["--batch", "x"],
            ["--none-such"],
            ["--bits", "40"] if IS_FTRL else ["--rule", "sgd"],
            ["--verses", "x"] if IS_FTRL else ["--rate", "0"],
        ):
            ran = self.demo(*arguments)
            self.assertNotIn(ran.returncode, (0, 1, 2, 130), arguments)
            self.assertIn(arguments[0], ran.stderr)
        ran = subprocess.run([PROGRAM, "--output", self.folder / "none" / "x.png"], capture_output=True, text=True)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("its folder does not exist", ran.stderr)

    def test_missing_file(self):
        self.verses.unlink()
        self.assert_refused(str(self.verses), "does not exist")
        self.verses.mkdir()
        self.assert_refused(str(self.verses), "is a folder")

    def test_empty_file(self):
        self.write([])
        self.assert_refused(str(self.verses), "is empty")

    def test_line_that_is_no_verse(self):
        for line in ("", "no reference", "Ge1 no verse", "Ge:1 no chapter", "1:1 no book", "Ge1:1", "Ge1:1 ...",
                     "Abc1:1 an unknown book"):
            self.write([*text(6), line, *text(6)])
            self.assert_refused(str(self.verses), "line 7 is no verse")
        self.verses.write_bytes(bytes(range(256)) * 50)
        self.assert_refused("line 1 is no verse")

    def test_nothing_to_learn(self):
        if IS_FTRL:
            self.write([line for line in text() if line.startswith("Ge")])
            self.assert_refused("all are of one testament")
        else:
            self.write(["Ge1:1 all these words occur once"])
            self.assert_refused("have too few words: less than 2 occur 10 times")
            self.write(["Ge1:1 one", "Ge1:2 two"] * 10)
            ran = self.demo()
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertIn("have no pairs of words that occur 10 times", ran.stderr.splitlines()[-1])

    def run_with_bible(self, script):
        """Without --text, with a program of this script as bible (or none)."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        for name in ("cat", "sh"):
            if not (programs / name).exists():
                (programs / name).symlink_to(f"/bin/{name}")
        (programs / "bible").unlink(missing_ok=True)
        if script:
            (programs / "bible").write_text(f"#!/bin/sh\n{script}\n")
            (programs / "bible").chmod(0o755)
        return subprocess.run([PROGRAM, "--output", self.picture], capture_output=True, text=True,
                              env={**os.environ, "PATH": str(programs)})

    def test_program_bible(self):
        install = "install it (Debian: bible-kjv bible-kjv-text)"
        self.assert_refused("bible is missing or failed", install, ran=self.run_with_bible(""))
        self.assert_refused("bible is missing or failed", ran=self.run_with_bible("cat verses.txt; exit 3"))
        self.assert_refused("printed 400 verses instead of 31102", ran=self.run_with_bible(f"cat '{self.verses}'"))
        self.assert_refused("The output of bible: line 1 is", ran=self.run_with_bible("echo Usage: bible"))

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.picture.write_text("an older picture")
            with subprocess.Popen(self.command("--passes", "100000"), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as running:
                running.stderr.readline()  # the first pass is done
                running.send_signal(number)
                last = running.stderr.readlines()[-1]
            self.assertEqual(running.returncode, 130)
            self.assertIn("Interrupted: no picture was written", last)
            self.assertEqual(self.picture.read_text(), "an older picture")


if __name__ == "__main__":
    unittest.main()
