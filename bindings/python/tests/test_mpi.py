"""gradstep.mpi: jobs of processes of MPI, which this program starts: test_mpi.py MPIEXEC [MPI_COUNTING].

MPI_COUNTING is the program of test/distributed/mpi_counting.cpp, whose servers in C++ then have workers in Python. Under mpiexec,
`test_mpi.py job FUNCTION ARGUMENTS` is a process of a job.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy
from test_servers import run_job

import gradstep

if sys.argv[1] == "job":  # the program that calls mpiexec is not a process of MPI
    import gradstep.mpi

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/python"
SERVERS, WORKERS, STEPS = 2, 2, 100
CONFIG = {"mode": "synchronous", "num_servers": SERVERS, "tensors": {
    "dense": {**gradstep.adam(lr=0.1), "parameter": {"size": 1000, "initial": 0.5}},
    "keys": {**gradstep.adagrad(lr=0.1), "keyed_table": {"width": 4}}}}


def train(transport: gradstep.Transport, folder: Path) -> None:
    """A server or a worker. Each worker writes the weights that it has in the end."""
    if transport.rank < SERVERS:
        return gradstep.Server(CONFIG, transport.rank, transport.ranks).run(transport)
    worker, random = gradstep.Worker(transport, num_servers=SERVERS), numpy.random.default_rng(transport.rank)
    dense, rows = numpy.empty(1000, "float32"), numpy.empty((20, 4), "float32")
    for _ in range(STEPS):
        keys = random.integers(0, 50, 20, numpy.uint64) << numpy.uint64(40)
        worker.push_rows("keys", keys, worker.pull_rows("keys", keys, rows) - random.random((20, 4), numpy.float32))
        worker.push("dense", worker.pull("dense", dense) - random.random(1000, numpy.float32))
    worker.barrier()
    out = numpy.empty((50, 4), "float32")
    worker.pull_rows("keys", numpy.arange(50, dtype=numpy.uint64) << numpy.uint64(40), out)
    (folder / f"worker_{transport.rank}").write_bytes(worker.pull("dense", dense).tobytes() + out.tobytes())
    worker.stop()


def written(folder: Path) -> list[bytes]:
    return [(folder / f"worker_{rank}").read_bytes() for rank in range(SERVERS, SERVERS + WORKERS)]


class InAJob:
    """What the processes of a job run."""

    @staticmethod
    def train(folder: str) -> None:
        with gradstep.mpi.Transport() as transport:
            train(transport, Path(folder))

    @staticmethod
    def carry() -> None:
        """Messages of every length, also longer than MPI's counts, from several threads, to the other rank and to this one."""
        with gradstep.mpi.Transport(timeout=20) as transport:
            expected = f"<gradstep.mpi.Transport of rank {transport.rank} of 2>"
            assert (repr(transport), transport.ranks, transport.timeout) == (expected, 2, 20)
            assert transport.concurrent
            began = time.monotonic()
            assert transport.receive(0) is None
            assert transport.receive(0.1) is None
            assert 0.1 <= time.monotonic() - began < 5
            gradstep.mpi._MOST_BYTES = 1000
            lengths = [0, 1, 999, 1000, 1001, 2000, 5000, 3_000_000]
            threads = 3

            def send(thread: int) -> None:
                for number, length in enumerate(lengths):
                    for to in (0, 1):
                        transport.send(to, bytes([thread, number]) + bytes([number]) * length)

            all_threads = [threading.Thread(target=send, args=[thread]) for thread in range(threads)]
            for one in all_threads:
                one.start()
            seen: dict[tuple[int, int], int] = {}
            for _ in range(2 * threads * len(lengths)):
                found = transport.receive(20)
                assert found is not None
                origin, message = found
                number = seen.get((origin, message[0]), 0)  # the messages of a thread keep their order
                assert message == bytes([message[0], number]) + bytes([number]) * lengths[number], (origin, number, len(message))
                seen[origin, message[0]] = number + 1
            for one in all_threads:
                one.join()
            assert transport.receive(0) is None
        transport.close()
        try:
            transport.send(0, b"")
        except gradstep.ReleasedError as failure:
            assert str(failure) == "transport: has been closed; expected one that is open"
        else:
            raise AssertionError
        # The last messages arrive, also if nothing closes the transport.
        last = gradstep.mpi.Transport()
        for _ in range(3):
            last.send(1 - last.rank, bytes(1_000_000))
        for _ in range(3):
            assert last.receive(20) is not None

    @staticmethod
    def fall_silent() -> None:
        """A server that does nothing is an error of the worker, which then waits no longer than the timeout to close."""
        transport = gradstep.mpi.Transport(timeout=0.2)
        if transport.rank == 1:
            try:
                gradstep.Worker(transport)
            except gradstep.RankError as failure:
                print(failure, flush=True)
        gradstep.mpi.MPI.COMM_WORLD.Barrier()
        began = time.monotonic()
        transport.close()
        assert time.monotonic() - began < 5

    @staticmethod
    def raise_one() -> None:
        with gradstep.mpi.Transport() as transport:
            if transport.rank == 0:
                return gradstep.Server({"tensors": CONFIG["tensors"]}, 0, 2).run(transport)
            gradstep.Worker(transport)
            raise KeyError("a worker has an error")

    @staticmethod
    def count(steps: str) -> None:
        """A worker of mpi_counting.cpp."""
        with gradstep.mpi.Transport() as transport:
            worker = gradstep.Worker(transport, num_servers=SERVERS, max_kept=64)
            counts, ones = numpy.empty(9000, "int64"), numpy.ones(9000, "int64")
            rows, keyed = numpy.empty((3, 1), "float32"), numpy.empty((3, 1), "int64")
            for step in range(int(steps)):
                worker.pull("counts", counts)
                worker.push("counts", ones)
                keys = [step % 50, step * 7 % 50, transport.rank]
                worker.pull_rows("rows", keys, rows)
                worker.push_rows("rows", keys, numpy.ones(3, "float32"))
                hashed = [step % 5, 1000 + step // 20, 1_000_000 + step]
                worker.pull_rows("keys", hashed, keyed)
                worker.push_rows("keys", hashed, ones[:3])
            worker.stop()


def mpiexec(*parts: tuple[int, list[object]]) -> subprocess.CompletedProcess[str]:
    """Runs a job: so many processes of each command."""
    command: list[object] = []
    for count, program in parts:
        command += [":"] * bool(command) + ["-n", count, *program]
    return subprocess.run([MPIEXEC, *map(str, command)], capture_output=True, text=True, timeout=200)


def python(function: str, *arguments: object) -> list[object]:
    return [sys.executable, "-m", "mpi4py", __file__, "job", function, *arguments]


class Jobs(unittest.TestCase):
    def check(self, done: subprocess.CompletedProcess[str]) -> str:
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_it_has_the_bits_of_another_transport(self) -> None:
        """Two servers and two workers in synchronous mode, as processes of MPI and as threads over queues."""
        with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
            self.check(mpiexec((SERVERS + WORKERS, python("train", name))))
            run_job(*([lambda transport: train(transport, Path(other))] * count for count in (SERVERS, WORKERS)))
            self.assertEqual(written(Path(name)), written(Path(other)))
            self.assertEqual(len({*written(Path(name))}), 1)

    def test_messages(self) -> None:
        self.check(mpiexec((2, python("carry"))))

    def test_a_silent_rank(self) -> None:
        out = self.check(mpiexec((2, python("fall_silent"))))
        self.assertIn("rank 1: worker: rank 0 has not taken part within 400 ms", out)

    def test_an_exception_ends_the_job(self) -> None:
        done = mpiexec((2, python("raise_one")))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a worker has an error", done.stderr)

    def test_the_example(self) -> None:
        out = self.check(mpiexec((4, [sys.executable, "-m", "mpi4py", EXAMPLES / "parameter_server.py", "mpi"])))
        lines = out.splitlines()
        self.assertEqual(len(lines), 8, out)
        self.assertGreater(min(int(line.split(": ")[1].split("%")[0]) for line in lines if "step 150" in line), 85, out)

    def test_servers_in_cplusplus(self) -> None:
        if not COUNTING:
            self.skipTest("mpi_counting is not built")
        with tempfile.TemporaryDirectory() as name:
            self.check(mpiexec((SERVERS, [COUNTING, name, SERVERS, 0]), (WORKERS, python("count", STEPS))))
            of_servers = [list(map(int, (Path(name) / f"counts_{server}").read_text().split())) for server in range(SERVERS)]
            counts = [sum(each) for each in zip(*of_servers)][:3]
            self.assertEqual(counts, [9000 * STEPS * WORKERS, 3 * STEPS * WORKERS, 3 * STEPS * WORKERS])


if __name__ == "__main__":
    if sys.argv[1] == "job":
        getattr(InAJob, sys.argv[2])(*sys.argv[3:])
    else:
        MPIEXEC, COUNTING = sys.argv[1], "".join(sys.argv[2:])
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))))
        unittest.main(argv=sys.argv[:1])
