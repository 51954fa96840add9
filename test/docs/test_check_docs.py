#!/usr/bin/env python3
"""Which numbers of a page check_docs.py takes for measured ones."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_docs import numbers_outside_blocks

MEASURED = (
    "A call takes 12 ns.", "A call takes 1.5\nmicroseconds.", "It builds in nine minutes.", "It takes about an hour.", "In half an hour.",
    "It takes about a second.", "It takes three minutes.", "It reads 49 GB/s.", "A server applies 7.5 M rows/s.", "It does 1000 steps a second.", "It is 3.8 times faster.",
    "It takes 3 times as long.", "1.2x", "It takes 0.43 of the time.", "It is twice as fast.", "It takes half of the time.",
    "5 % slower", "It needs 17 % fewer instructions.", "Faster by 1.3", "| lookup, ns | 12.5 |", "| step | time, AVX2 |\n|---|---|\n| a | 1.1 |",
)
NOT_MEASURED = (
    "Adam moves 28 bytes an element, and 10^-3 of them.", "1000 x 1000 floats, 1M x 64, 3 x 4", "beta2 = 0.999", "a second copy of the weights", "in a second way", "You need a second optimizer.", "It takes some minutes.",
    "called 3 times", "It takes 2.5 times the bytes.", "once an hour", "AMD Zen 4 gets slower.", "It takes less time on larger tensors.",
    "`timeout = 60 s`", "```text\n12 ns\n```", "[link](x.md#12-ms)", "<!-- 12 ns -->", "The timeout is 60 seconds. <!-- not measured -->",
    "| 60 s <!-- not measured --> | `timeout` |", "<!-- report: rules -->\n| 12 ns |\n<!-- end of report -->",
    "<!-- not measured: simulated -->\n12 ns\n\n3.8 times\n<!-- end of not measured -->",
)


class Numbers(unittest.TestCase):
    def test_measured(self):
        for text in MEASURED:
            self.assertEqual(len(numbers_outside_blocks(f"A line.\n\n{text}\n")), 1, text)

    def test_not_measured(self):
        for text in NOT_MEASURED:
            self.assertEqual(numbers_outside_blocks(f"A line.\n\n{text}\n"), [], text)

    def test_the_line_is_told(self):
        self.assertEqual(numbers_outside_blocks("a\n\n`12 ns`\nb 3 ms and 4 ms\n"), [(4, "3 ms")])


if __name__ == "__main__":
    unittest.main()
