"""What a step costs through ctypes. benchmarks/callers/callers.py says what it reads and writes."""
import sys
import time
from typing import Callable

import numpy

import gradstep

ADAM = {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}
ADAGRAD = {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 16}}
TENSORS, ELEMENTS, FEW, ROWS, WIDTH = 1000, 1000, 16, 65_536, 16


def nanoseconds(calls: int, call: Callable[[], object]) -> float:
    for _ in range(5):
        call()
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - begin) / calls


def main() -> None:
    gradient = (numpy.arange(ELEMENTS) % 7).astype(numpy.float32) - 3
    small = gradstep.Parameter(ADAM, numpy.zeros(FEW, numpy.float32))
    single = [gradstep.Parameter(ADAM, numpy.zeros(ELEMENTS, numpy.float32)) for _ in range(TENSORS)]
    model = gradstep.Model({str(k): p for k, p in enumerate(single)})
    gradients = {str(k): gradient for k in range(TENSORS)}
    features = gradstep.KeyedTable(ADAGRAD)
    keys = (numpy.arange(ROWS, dtype=numpy.uint64) + 1) * numpy.uint64(0x9E3779B97F4A7C15)
    of_keys = numpy.full((ROWS, WIDTH), 0.5, numpy.float32)
    few, one_key, of_one = gradient[:FEW], keys[:1], of_keys[:1]

    def a_thousand() -> None:
        for p in single:
            p.update(gradient)

    for _ in sys.stdin:
        print(f"{nanoseconds(2000, lambda: small.update(few)):.1f} {nanoseconds(5, lambda: model.update(gradients)):.1f} "
              f"{nanoseconds(5, a_thousand):.1f} {nanoseconds(5, lambda: features.update(keys, of_keys)):.1f} "
              f"{nanoseconds(2000, lambda: features.update(one_key, of_one)):.1f}", flush=True)


main()
