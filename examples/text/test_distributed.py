"""Runs the demo of keyed tables on servers as four processes, on small texts: test_distributed.py PROGRAM."""
import subprocess
import unittest

from test_text import PROGRAM, Demo as Texts, text


class Distributed(unittest.TestCase):
    setUp = Texts.setUp
    write = Texts.write

    def run_ranks(self, *more, ranks=4):
        command = ["mpirun", "-n", str(ranks), PROGRAM, "--text", self.verses, "--output", self.picture, "--passes", "2", *more]
        return subprocess.run(command, capture_output=True, text=True)

    def test_learns_and_draws(self):
        ran = self.run_ranks()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(self.picture.read_bytes().startswith(b"\x89PNG"))
        self.assertIn("2 servers; 2 workers, who learn from 360 verses; 40 are held out", ran.stdout)
        for name in ("ftrl", "adagrad"):
            self.assertRegex(ran.stdout, rf"(?m)^{name} .* 100\.00 % .* %")
        self.assertRegex(ran.stderr, r"(?m)^pass 2 +")
        for server in range(2):
            self.assertRegex(ran.stdout, rf"(?m)^server {server}: [1-9]\d+ weights of ftrl")

    def test_one_worker(self):
        ran = self.run_ranks("--servers", "1", ranks=2)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("1 servers; 1 workers", ran.stdout)

    def test_what_is_refused_ends_all(self):
        self.write([line for line in text() if line.startswith("Ge")])
        ran = self.run_ranks()
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("all are of one testament", ran.stderr)
        ran = self.run_ranks("--servers", "4")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("num_servers: 4 is out of range; expected [1, 4)", ran.stderr)


del Texts  # its tests are of other programs

if __name__ == "__main__":
    unittest.main()
