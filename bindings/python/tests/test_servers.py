"""Servers and workers of the package, as threads over queues, and as the processes of examples/python/parameter_server.py."""

from __future__ import annotations

import copy
import queue
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

import numpy

import gradstep

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/python"
SGD = {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1.0}}
TENSORS = {
    "dense": {**SGD, "parameter": {"size": 3, "initial": 0.5}},
    "rows": {**SGD, "table": {"rows": 10, "width": 2}},
    "keys": {**SGD, "keyed_table": {"width": 2}},
}


class Queues:
    """The transport of one rank of a job whose ranks are threads."""

    concurrent = True
    timeout = 20.0

    def __init__(self, rank: int, queues: list[queue.Queue]) -> None:
        self.rank, self.ranks, self._queues = rank, len(queues), queues

    def send(self, to: int, message: bytes) -> None:
        self._queues[to].put((self.rank, message))

    def receive(self, seconds: float) -> tuple[int, bytes] | None:
        try:
            return self._queues[self.rank].get(timeout=seconds) if seconds else self._queues[self.rank].get_nowait()
        except queue.Empty:
            return None


class OneThread:
    """The transport of a worker, rank 1, whose messages are handled at once by a server, rank 0."""

    rank, ranks = 1, 2

    def __init__(self, server: gradstep.Server) -> None:
        self.server, self._arrived = server, list[tuple[int, bytes]]()
        self._take(server.begin())

    def _take(self, messages: list[gradstep.Message]) -> None:
        self._arrived += [(0, message) for to, message in messages if to == 1]

    def send(self, to: int, message: bytes) -> None:
        if to == 1:
            self._arrived.append((1, message))
        else:
            self._take(self.server.handle(1, message))

    def receive(self, seconds: float) -> tuple[int, bytes] | None:
        return self._arrived.pop(0) if self._arrived else None


def run_job(servers: list[Callable], workers: list[Callable]) -> None:
    """Runs each function with the transport of its rank, on a thread. Raises the first of their exceptions."""
    queues: list[queue.Queue] = [queue.Queue() for _ in servers + workers]
    failures = []

    def run(function: Callable, rank: int) -> None:
        try:
            function(Queues(rank, queues))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(function, rank)) for rank, function in enumerate(servers + workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Jobs(unittest.TestCase):
    def test_every_push_is_applied_once(self) -> None:
        """Two servers and two workers in each mode: the sums of ones are exact."""
        for mode in ("synchronous", "asynchronous"):
            total = 2 if mode == "asynchronous" else 1  # in synchronous mode each step has the mean of the workers
            sums, pushes = [], []

            def serve(transport: Queues) -> None:
                server = gradstep.Server({"mode": mode, "num_servers": 2, "tensors": TENSORS}, transport.rank, transport.ranks)
                server.run(transport)
                self.assertTrue(server.finished)
                pushes.append(server.pushes)

            def work(transport: Queues) -> None:
                worker = gradstep.Worker(transport, num_servers=2)
                self.assertEqual((worker.workers, worker.size("dense"), worker.stopped), (2, 3, False))
                dense, rows = numpy.empty(3, "float32"), numpy.empty((2, 2), "float32")
                for _ in range(20):
                    for name in ("rows", "keys"):
                        worker.pull_rows(name, [1, 7], rows)
                        worker.push_rows(name, numpy.array([1, 7], "uint64"), numpy.ones((2, 2), "float32"))
                    worker.pull("dense", dense)
                    worker.push("dense", numpy.ones(3, "float32"))
                worker.barrier()
                self.assertIs(worker.pull("dense", dense), dense)
                sums.append((dense.tolist(), worker.pull_rows("rows", [7, 0], rows).tolist(), worker.pull_rows("keys", [1, 7], rows).tolist()))
                self.assertEqual((worker.position, worker.applied), (61, 61))
                worker.stop()
                self.assertTrue(worker.stopped)

            run_job([serve] * 2, [work] * 2)
            n = -20.0 * total
            self.assertEqual(sums, 2 * [([n + 0.5] * 3, [[n, n], [0.0, 0.0]], [[n, n], [n, n]])], mode)
            self.assertEqual(sum(pushes), 2 * 20 * 5)  # rows are a push on both servers, the parameter on one

    def test_several_threads_of_a_worker(self) -> None:
        def serve(transport: Queues) -> None:
            gradstep.Server({"tensors": TENSORS}, transport.rank, transport.ranks).run(transport)

        def work(transport: Queues) -> None:
            worker = gradstep.Worker(transport)
            out = worker.pull("dense", numpy.empty(3, "float32"))

            def push() -> None:
                for _ in range(50):
                    worker.push("dense", numpy.ones(3, "float32"))

            threads = [threading.Thread(target=push) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(worker.pull("dense", out).tolist(), [-149.5] * 3)
            worker.stop()

        run_job([serve], [work])

    def test_geo(self) -> None:
        """With one worker the result is that of training without a server."""
        add = {"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1.0}}
        sgd = gradstep.sgd(lr=0.125)
        alone = gradstep.Parameter(sgd, numpy.full(4, 0.5, "float32"))
        gradient = numpy.arange(4, dtype="float32") / 8

        def serve(transport: Queues) -> None:
            gradstep.Server({"mode": "geo", "tensors": {"w": {**add, "parameter": {"size": 4, "initial": 0.5}}}}, 0, 2).run(transport)

        def work(transport: Queues) -> None:
            worker = gradstep.Worker(transport)
            weights = gradstep.Parameter(sgd, shape=worker.size("w"))
            geo = gradstep.Geo(worker, "w", weights)
            self.assertEqual(weights.values().tolist(), [0.5] * 4)
            for step in range(1, 7):
                for each in (weights, alone):
                    each.update(gradient)
                if step % 3 == 0:
                    geo.exchange()
            numpy.testing.assert_array_equal(worker.pull("w", numpy.empty(4, "float32")), alone.values())
            worker.stop()

        run_job([serve], [work])

    def test_a_daemon_thread_at_the_end(self) -> None:
        """The program ends while a thread is in a call."""
        code = """if True:
            import threading, gradstep, numpy
            table = gradstep.Table(gradstep.sgd(lr=0.1), shape=(4, 2))
            begun = threading.Event()
            def run():
                while True:
                    table.update([1], numpy.ones((1, 2), "float32"))
                    begun.set()
            threading.Thread(target=run, daemon=True).start()
            begun.wait()
            """
        for _ in range(3):
            self.assertEqual(subprocess.run([sys.executable, "-c", code], capture_output=True).returncode, 0)

    def test_processes(self) -> None:
        done = subprocess.run([sys.executable, EXAMPLES / "parameter_server.py"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = sorted(done.stdout.splitlines())
        self.assertEqual(len(lines), 8, done.stdout)
        right = [int(line.split(": ")[1].split("%")[0]) for line in lines if "step 150" in line]
        self.assertGreater(min(right), 85, done.stdout)


class OneByOne(unittest.TestCase):
    def test_tables_and_parameters_of_a_server(self) -> None:
        server = gradstep.Server({"tensors": TENSORS}, 0, 2)
        self.assertEqual((len(server), server.pushes, server.finished, server.staleness), (3, 0, False, 0))
        server.parameter("dense").set_values(numpy.array([1, 2, 3], "float32"))
        worker = gradstep.Worker(OneThread(server))
        self.assertEqual(worker.pull("dense", numpy.empty(3, "float32")).tolist(), [1, 2, 3])
        self.assertEqual(server.first_element("dense"), 0)
        rows, keys = server.table("rows"), server.table("keys")
        self.assertEqual((type(rows), rows.shape, rows.dtype, type(keys), len(keys)), (gradstep.Table, (10, 2), "float32", gradstep.KeyedTable, 0))
        out = numpy.empty((2, 2), "float32")
        for name in ("rows", "keys"):
            worker.pull_rows(name, range(4, 6), out)
            worker.push_rows(name, range(4, 6), numpy.ones(4, "float32"))
        worker.barrier()
        self.assertEqual((rows[4].tolist(), sorted(keys), keys.evict(lambda row: row.key == 4), sorted(keys)), ([-1, -1], [4, 5], 1, [5]))
        replica = gradstep.KeyedTable(keys.config)
        replica.apply_changes(keys.changed_since(0))
        self.assertEqual(replica.row(5).tolist(), [-1, -1])
        self.assertEqual(copy.deepcopy(keys).row(5).tolist(), [-1, -1])
        server.release()
        self.assertEqual(len(keys), 1)  # the table keeps the server's memory
        with self.assertRaises(gradstep.ReleasedError):
            server.pushes

    def test_tasks(self) -> None:
        """A task sees the server between two messages. Its exception ends the job."""
        server, seen = gradstep.Server({"tensors": TENSORS}, 0, 2), []

        def task(of: gradstep.Server) -> None:
            seen.append((of.pushes, len(of.table("keys"))))
            with self.assertRaisesRegex(gradstep.SequenceError, "handle: is called by a task of the server"):
                of.handle(1, b"")
            if len(seen) == 3:
                raise KeyError("enough")

        server.after_every(2, task)
        worker = gradstep.Worker(OneThread(server))
        out = numpy.empty((1, 2), "float32")
        for key in range(5):
            worker.pull_rows("keys", [key], out)
            worker.push_rows("keys", [key], out)
        self.assertEqual(seen, [(2, 2), (4, 4)])
        with self.assertRaises(KeyError):  # this transport calls `handle` in the thread of the worker
            worker.pull_rows("keys", [5], out)
            worker.push_rows("keys", [5], out)

        def serve(transport: Queues) -> None:
            other = gradstep.Server({"tensors": TENSORS}, 0, 2)
            other.after_every(1, task)
            with self.assertRaisesRegex(KeyError, "enough"):
                other.run(transport)

        def work(transport: Queues) -> None:
            one = gradstep.Worker(transport)
            one.pull_rows("keys", [5], out)
            one.push_rows("keys", [5], out)
            with self.assertRaisesRegex(gradstep.RankError, "server 0 has ended: task: KeyError: 'enough'"):
                one.stop()

        seen[:] = seen[:2]
        run_job([serve], [work])

        class Mute(Exception):
            def __str__(self) -> str:
                raise ZeroDivisionError

        def fail(_: gradstep.Server) -> None:
            raise Mute

        def serve_mute(transport: Queues) -> None:
            mute = gradstep.Server({"tensors": TENSORS}, 0, 2)
            mute.after_every(1, fail)
            with self.assertRaises(Mute):
                mute.run(transport)

        def work_mute(transport: Queues) -> None:
            one = gradstep.Worker(transport)
            one.pull_rows("keys", [5], out)
            one.push_rows("keys", [5], out)
            with self.assertRaisesRegex(gradstep.RankError, "server 0 has ended: task: Mute"):
                one.stop()

        run_job([serve_mute], [work_mute])

    def test_transports_that_fail(self) -> None:
        class Failing(OneThread):
            def receive(self, seconds: float) -> tuple[int, bytes] | None:
                raise InterruptedError("the network is gone")

        server = gradstep.Server({"tensors": TENSORS}, 0, 2)
        with self.assertRaisesRegex(InterruptedError, "the network is gone"):
            gradstep.Worker(Failing(server))
        failing = Failing(server)
        failing.rank = 0
        with self.assertRaisesRegex(InterruptedError, "the network is gone"):
            server.run(failing)

        class Refusing(OneThread):  # its own errors reach the caller too, and the first one of several
            failed = False

            def receive(self, seconds: float) -> tuple[int, bytes] | None:
                self.failed = True
                raise gradstep.InvalidError("no network")

            def send(self, to: int, message: bytes) -> None:
                if self.failed:
                    raise BrokenPipeError("the farewell fails, too")

        refusing = Refusing(server)
        refusing.rank, refusing.timeout = 0, 1e9
        with self.assertRaisesRegex(gradstep.InvalidError, "^no network$"):
            server.run(refusing)

        class Talking(OneThread):
            def send(self, to: int, message: bytes) -> None:
                if worker is not None:
                    worker.size("dense")
                super().send(to, message)

        worker = None
        worker = gradstep.Worker(Talking(gradstep.Server({"tensors": TENSORS}, 0, 2)))
        with self.assertRaisesRegex(gradstep.SequenceError, "worker: is called by a function of its transport"):
            worker.pull("dense", numpy.empty(3, "float32"))

        class Silent(OneThread):
            timeout = 0.02

            def send(self, to: int, message: bytes) -> None:
                pass

        with self.assertRaisesRegex(gradstep.RankError, "rank 1: worker: rank 0 has not taken part within 40 ms"):
            gradstep.Worker(Silent(server))

    def test_checkpoints(self) -> None:
        """A server and a worker that were killed go on, and no push is applied twice."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "server.safetensors"
            out, ones = numpy.empty(3, "float32"), numpy.ones(3, "float32")

            def started() -> tuple[gradstep.Server, gradstep.Worker]:
                server = gradstep.Server({"tensors": TENSORS}, 0, 2)
                server.checkpoint(file, 2)
                return server, gradstep.Worker(OneThread(server))

            server, worker = started()
            worker.pull("dense", out)
            for _ in range(3):
                worker.push("dense", ones)
            del server, worker
            server, worker = started()
            self.assertEqual((worker.position, worker.durable), (2, 2))
            worker.go_on_from(1)
            worker.pull("dense", out)
            for _ in range(3):
                worker.push("dense", ones)
            self.assertEqual(worker.pull("dense", out).tolist(), [-3.5] * 3)
            worker.stop()
            other = gradstep.Server({"tensors": TENSORS}, 0, 2)
            other.load(file)
            self.assertTrue(other.finished)
            other.reopen()
            self.assertFalse(other.finished)
            other.save(file)
            with self.assertRaises(FileNotFoundError):
                other.load(Path(folder) / "none")

    def test_what_is_refused(self) -> None:
        server = gradstep.Server({"tensors": TENSORS}, 0, 2)
        worker = gradstep.Worker(OneThread(server))
        three, pair = numpy.empty(3, "float32"), numpy.empty((1, 2), "float32")
        frozen = numpy.empty(3, "float32")
        frozen.flags.writeable = False
        for kind, pattern, call in (
            (gradstep.InvalidError, "there is no parameter nothing", lambda: worker.pull("nothing", three)),
            (gradstep.InvalidError, "float", lambda: worker.pull("dense", numpy.empty(3))),
            (gradstep.InvalidError, "has 2 elements", lambda: worker.pull("dense", numpy.empty(2, "float32"))),
            (gradstep.InvalidError, "out: is read-only", lambda: worker.pull("dense", frozen)),
            (gradstep.SequenceError, "rank 1 has not pulled dense", lambda: worker.push("dense", three)),
            (gradstep.InvalidError, "there is no row -1", lambda: worker.pull_rows("rows", [-1], pair)),
            (gradstep.DtypeError, "name: 3 is a int", lambda: worker.size(3)),
            (gradstep.InvalidError, "position: -1 is out of range", lambda: worker.go_on_from(-1)),
            (gradstep.InvalidError, "name: dense is a parameter; expected a table", lambda: server.table("dense")),
            (gradstep.InvalidError, '"x" is unknown', lambda: server.parameter("x")),
            (gradstep.InvalidError, "belongs to a server", lambda: server.parameter("dense").ascend(three)),
            (gradstep.InvalidError, "belongs to a server", lambda: server.table("rows").grow(9)),
            (gradstep.InvalidError, "after_every: pushes: 0 is out of range", lambda: server.after_every(0, print)),
            (gradstep.ConfigError, "mode", lambda: gradstep.Server({"mode": "fast", "tensors": {}}, 0, 2)),
            (gradstep.InvalidError, r"rank: -1 is out of range", lambda: gradstep.Server({"tensors": {}}, -1, 2)),
            (gradstep.DtypeError, "has no 'rank'", lambda: gradstep.Worker(object())),
            (TypeError, "it is not copied", lambda: copy.copy(server)),
        ):
            with self.assertRaisesRegex(kind, pattern):
                call()
        self.assertEqual([to for to, _ in server.handle(1, b"junk")], [1])  # its sender gets an error
        self.assertEqual([to for to, _ in server.handle(1, b"")], [1])


if __name__ == "__main__":
    unittest.main()
