"""Parameter servers and workers as processes, on one machine or several: FTRL on hashed features, over sockets or MPI.

Without arguments it starts two servers and two workers here. On several machines, start one process for each rank:
parameter_server.py RANK HOST:PORT HOST:PORT ... with the address of each rank, the servers first. With MPI, mpiexec starts them:
mpiexec -n 4 python3 -m mpi4py parameter_server.py mpi
"""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Client, Connection, Listener

import numpy

import gradstep

NUM_SERVERS, STEPS, BATCH, FEATURES = 2, 150, 64, 5


# [transport]
class Sockets:
    """Carries messages over TCP. Each rank has a connection to every other one."""

    concurrent = True
    timeout = 60.0

    def __init__(self, rank: int, addresses: list[tuple[str, int]]) -> None:
        self.rank, self.ranks = rank, len(addresses)
        self._arrived: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self._outgoing: dict[int, queue.Queue[bytes]] = {}
        with Listener(addresses[rank], backlog=self.ranks) as listener:
            for peer in range(rank):
                connection = self._connected(addresses[peer])
                connection.send(rank)
                self._begin(peer, connection)
            for _ in range(rank + 1, self.ranks):
                connection = listener.accept()
                self._begin(connection.recv(), connection)

    def send(self, to: int, message: bytes) -> None:
        if to == self.rank:
            self._arrived.put((to, message))
        else:
            self._outgoing[to].put(message)

    def receive(self, seconds: float) -> tuple[int, bytes] | None:
        try:
            return self._arrived.get(timeout=seconds)
        except queue.Empty:
            return None

    def _connected(self, address: tuple[str, int]) -> Connection:
        until = time.monotonic() + self.timeout
        while True:
            try:
                return Client(address)
            except ConnectionRefusedError:  # the other rank has not started yet
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _begin(self, peer: int, connection: Connection) -> None:
        outgoing = self._outgoing[peer] = queue.Queue()

        def send_all() -> None:
            while True:
                connection.send_bytes(outgoing.get())

        def receive_all() -> None:
            try:
                while True:
                    self._arrived.put((peer, connection.recv_bytes()))
            except (EOFError, ConnectionResetError):
                pass  # the other rank has ended

        for run in (send_all, receive_all):
            threading.Thread(target=run, daemon=True).start()
# [transport]


# [server]
def serve(transport: gradstep.Transport) -> None:
    server = gradstep.Server({"mode": "asynchronous", "num_servers": NUM_SERVERS, "tensors": {
        "wide": {**gradstep.ftrl(lr=0.1, l1=0.001), "keyed_table": {"width": 1}},
        "bias": {**gradstep.adagrad(lr=0.1), "parameter": {"size": 1}}}}, transport.rank, transport.ranks)
    server.after_every(100, lambda server: server.table("wide").evict_to(1_000_000))
    server.run(transport)  # until every worker has stopped
    print(f"server {transport.rank}: {server.pushes} pushes, {server.staleness:.1f} steps late", flush=True)
# [server]


def read(random: numpy.random.Generator) -> tuple[numpy.ndarray, numpy.ndarray]:
    values = random.integers(0, 500, (BATCH, FEATURES), numpy.uint64)
    labels = (values % 2 == 0).sum(1) > FEATURES // 2
    return values + numpy.arange(FEATURES, dtype=numpy.uint64) * 2**32, labels.astype(numpy.float32)


# [worker]
def work(transport: gradstep.Transport) -> None:
    worker = gradstep.Worker(transport, num_servers=NUM_SERVERS)
    random = numpy.random.default_rng(transport.rank)
    weights, bias = numpy.empty((BATCH, FEATURES, 1), numpy.float32), numpy.empty(1, numpy.float32)
    for step in range(STEPS):
        keys, labels = read(random)
        worker.pull_rows("wide", keys, weights)
        worker.pull("bias", bias)
        errors = 1 / (1 + numpy.exp(-(weights.sum((1, 2)) + bias))) - labels
        worker.push_rows("wide", keys, numpy.repeat(errors, FEATURES))
        worker.push("bias", errors.sum(keepdims=True))
        if step % 50 == 49:
            print(f"worker {transport.rank}, step {step + 1}: {numpy.mean(abs(errors) < 0.5):.0%} are right", flush=True)
    worker.stop()
# [worker]


# [mpi]
def run_by_mpi() -> None:
    import gradstep.mpi

    with gradstep.mpi.Transport() as transport:
        serve(transport) if transport.rank < NUM_SERVERS else work(transport)
# [mpi]


def run_by_sockets(rank: int, addresses: list[str]) -> None:
    transport = Sockets(rank, [(host, int(port)) for host, port in (place.rsplit(":", 1) for place in addresses)])
    if rank < NUM_SERVERS:
        serve(transport)
        time.sleep(0.5)  # the last messages leave
    else:
        work(transport)


def main() -> None:
    if sys.argv[1:] == ["mpi"]:
        return run_by_mpi()
    if len(sys.argv) > 2:
        return run_by_sockets(int(sys.argv[1]), sys.argv[2:])
    reserved = [socket.create_server(("127.0.0.1", 0)) for _ in range(NUM_SERVERS + 2)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in reserved]
    for each in reserved:
        each.close()
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), *addresses]) for rank in range(len(addresses))]
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    main()
