"""Runs a short job and reads what it prints: test_job.py GO PYTHON. PYTHON has numpy and gradstep, or is empty."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
GO, PYTHON = sys.argv[1:3]
STEPS = 450


def run(*arguments: str) -> str:
    """What a command of go prints."""
    return subprocess.run([GO, *arguments], cwd=FOLDER, check=True, text=True, stdout=subprocess.PIPE, timeout=300).stdout


class Job(unittest.TestCase):
    def test_a_worker_and_a_server_are_killed(self):
        run("vet", ".")
        out = run("run", ".", "-steps", str(STEPS), "-kept", "100", "-python", PYTHON)
        print(out)
        for text in ("kill -9 worker 2", "worker 2 goes on at its step", "kill -9 server 1", "gradstep_pushes", "gradstep_staleness_steps",
                     'gradstep_rows{table="deep"}', "gradstep_received_bytes", "gradstep_message_seconds_sum", "gradstep_step_seconds_sum",
                     f"every push was applied once: {STEPS} to each table and to the dense weights, with {100 * STEPS} impressions"):
            self.assertIn(text, out)
        for rank in (3, 4):  # in Go, and in Python
            shown = re.search(rf"/metrics of worker {rank}:\n((?:    .*\n)*)", out)
            numbers = dict(line.split() for line in shown[1].splitlines())
            for name in ("gradstep_pushes", "gradstep_pushes_applied", "gradstep_pushes_saved"):
                self.assertIn(name, numbers)
            self.assertGreater(float(numbers["gradstep_sent_bytes"]), 0)
        self.assertNotIn("worker 4 is in Go, too", out)
        self.assertRegex(out, r"server 0: wide has \d+ rows; [1-9]\d* were evicted, and [1-9]\d* gradients turned away")
        rows = [[float(x) for x in row] for row in re.findall(r"^ *(\d+) +[\d.]+ s +([\d.]+) +[\d.]+ s +([\d.]+) +([\d.]+)$", out, re.M)]
        self.assertEqual(len(rows), 6, out)
        for step, alone, job, truth in rows:
            self.assertLess(abs(job - alone), 0.03, step)
            self.assertLess(truth, job, step)
        self.assertLess(rows[-1][2] - rows[-1][3], 0.05)
        # The generator of examples/tutorials/click_through has these losses.
        self.assertEqual([row[3] for row in rows], [0.35, 0.3481, 0.3551, 0.3638, 0.3628, 0.3697])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
