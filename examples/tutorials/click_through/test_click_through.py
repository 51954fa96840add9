"""Runs a program of the click-through tutorial, whole and in two parts: test_click_through.py PROGRAM."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(sys.argv.pop(1)).resolve()
IS_MPI = PROGRAM.name.endswith("mpi")


class ClickThrough(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_program(self, *arguments, succeeds=True):
        command = [*(["mpirun", "-n", "4"] if IS_MPI else []), str(PROGRAM), *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(ran.returncode == 0, succeeds, ran.stderr)
        return ran.stdout

    def loss_at(self, step, output):
        """The loss of a line, which is close to that of the true probabilities."""
        loss, truth = map(float, re.search(rf"step +{step}: loss ([\d.]+) \(the truth: ([\d.]+)\)", output).groups())
        self.assertLess(truth, loss)
        self.assertLess(loss, truth + 0.03)


@unittest.skipUnless(PROGRAM.name == "click_through", "of one process")
class OneProcess(ClickThrough):
    def test_in_two_parts_is_the_same(self):
        whole = self.run_program(3000, "whole.safetensors")
        self.loss_at(3000, whole)
        self.assertRegex(whole, r"[1-9]\d* rows evicted\n$")
        self.run_program(1000, "parts.safetensors")
        parts = self.run_program(3000, "parts.safetensors")
        self.assertIn("goes on at step 1000\n", parts)
        self.assertEqual(whole.splitlines()[-1], parts.splitlines()[-1])
        self.assertEqual((self.folder / "whole.safetensors").read_bytes(), (self.folder / "parts.safetensors").read_bytes())


@unittest.skipIf(PROGRAM.name == "click_through", "of servers")
class Servers(ClickThrough):
    def test_learns(self):
        output = self.run_program(3000, ".")
        self.loss_at(1500, output)
        for server in range(2):
            self.assertRegex(output, rf"server {server}: [1-9]\d* rows, [1-9]\d* rows evicted")
            self.assertTrue((self.folder / f"server_{server}.safetensors").exists())
        self.assertNotIn("worker", self.run_program(3000, "."))  # it was done

    @unittest.skipUnless(IS_MPI, "a crash ends all threads")
    def test_goes_on_after_a_crash(self):
        self.run_program(3000, ".", 1100, succeeds=False)
        output = self.run_program(3000, ".")
        self.assertRegex(output, r"worker 0 goes on at its step [1-9]\d*")
        self.loss_at(1500, output)


if __name__ == "__main__":
    unittest.main()
