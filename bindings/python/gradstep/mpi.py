"""Servers and workers as the processes of an MPI job, by mpi4py.

    import gradstep, gradstep.mpi

    with gradstep.mpi.Transport() as transport:             # mpiexec -n 4 python -m mpi4py program.py
        if transport.rank < 2:
            gradstep.Server(config, transport.rank, transport.ranks).run(transport)
        else:
            work(gradstep.Worker(transport, num_servers=2))

The guide is docs/how_to/transports.md. It needs mpi4py 3.1 or newer (Debian: python3-mpi4py).
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

try:
    from mpi4py import MPI
except ModuleNotFoundError as reason:
    if reason.name == "mpi4py":
        raise ModuleNotFoundError("gradstep.mpi needs mpi4py 3.1 or newer; pip install mpi4py, and an MPI", name="mpi4py") from None
    raise

from ._hints import attributes_of_module
from ._library import Status, error
from ._shared import real

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Transport"]

_MOST_BYTES = 2**31 - 1  # of a message that is sent as bytes: the counts of MPI are int


class Transport:
    """Carries the messages of a `Server` or a `Worker` between the ranks of an MPI communicator. The first ranks are the servers.

        transport = gradstep.mpi.Transport()                # of all processes of the job
        transport = gradstep.mpi.Transport(comm, timeout=300)

    comm: a communicator of mpi4py; None: `MPI.COMM_WORLD`. All its ranks must make a transport. It is duplicated, so your messages
        and gradstep's do not mix. Ranks in C++ with gs::distributed::mpi_communicator can be in the same job.
    timeout: the seconds to wait for another rank before `RankError`.

    MPI moves bytes only during calls. At the end call `close`, or use a `with` block: it waits until the last messages are sent.
    Otherwise the end of the program, or of the object, does it.

    Several threads can call it if MPI provides MPI_THREAD_MULTIPLE, which mpi4py requests.
    """

    rank: int  #: the number of this process in the communicator
    ranks: int  #: the number of processes in the communicator
    timeout: float  #: the seconds to wait for another rank
    concurrent: bool  #: whether several threads can call it at once

    def __init__(self, comm: MPI.Intracomm | None = None, *, timeout: float = 60.0) -> None:
        if not MPI.Is_initialized() or MPI.Is_finalized():
            raise error(Status.BAD_SEQUENCE, "comm: MPI is not running; expected a call between MPI.Init and MPI.Finalize")
        self.timeout = real(timeout, "timeout")
        of = MPI.COMM_WORLD if comm is None else comm
        self.rank, self.ranks = of.Get_rank(), of.Get_size()
        self.concurrent = MPI.Query_thread() >= MPI.THREAD_MULTIPLE
        # Two, as in C++, where the second one carries the exchanges of data-parallel training: Dup is collective.
        self._comms: list[MPI.Comm] = [of.Dup(), of.Dup()]
        self._lock = threading.Lock()  # held for single calls of MPI that do not wait
        self._sends: list[tuple[MPI.Request, bytes]] = []  # MPI reads the bytes until the request is complete
        self._arriving: list[tuple[MPI.Request, int, bytearray]] = []  # one at most, which keeps the order
        self._close = weakref.finalize(self, _finish, self._comms, self._lock, self._sends, self._arriving, self.timeout)

    def send(self, to: int, message: bytes, /) -> None:
        """Sends a message to a rank, as `gradstep.Transport.send` says."""
        with self._lock:
            self._check_open()
            _advance(self._sends)
            count, datatype = _bytes_of_mpi(len(message))
            request = self._comms[0].Isend([message, count, datatype], to, 0)
            self._sends.append((request, message))
            _free(datatype)

    def receive(self, seconds: float, /) -> tuple[int, bytearray] | None:
        """Returns the next message and its sender, or None, as `gradstep.Transport.receive` says."""
        until, looks = time.monotonic() + seconds, 0
        while True:
            with self._lock:
                self._check_open()
                found = self._arrived()
            if found is not None or time.monotonic() >= until:
                return found
            looks += 1
            time.sleep(0 if looks < 100 else 20e-6 if looks < 300 else 200e-6)  # 0: others run

    def close(self) -> None:
        """Waits until all messages are sent, up to the timeout. Then the transport can no longer be used."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gradstep.mpi.Transport of rank {self.rank} of {self.ranks}>"

    def _check_open(self) -> None:
        if not self._close.alive:
            raise error(Status.BAD_HANDLE, "transport: has been closed; expected one that is open")

    def _arrived(self) -> tuple[int, bytearray] | None:
        _advance(self._sends)
        if not self._arriving:
            status = MPI.Status()
            matched = self._comms[0].Improbe(MPI.ANY_SOURCE, 0, status)
            if matched is None:
                return None
            size = status.Get_elements(MPI.BYTE)
            out = bytearray(size)
            count, datatype = _bytes_of_mpi(size)
            self._arriving.append((matched.Irecv([out, count, datatype]), status.Get_source(), out))
            _free(datatype)
        request, origin, out = self._arriving[0]
        if not request.Test():
            return None
        self._arriving.clear()
        return origin, out


def _advance(sends: list[tuple[MPI.Request, bytes]]) -> None:
    sends[:] = [one for one in sends if not one[0].Test()]


def _finish(
    comms: list[MPI.Comm],
    lock: threading.Lock,
    sends: list[tuple[MPI.Request, bytes]],
    arriving: list[tuple[MPI.Request, int, bytearray]],
    timeout: float,
) -> None:
    if MPI.Is_finalized():
        return
    until = time.monotonic() + timeout
    while True:
        with lock:
            _advance(sends)
        if not sends or time.monotonic() >= until:
            break
        time.sleep(200e-6)
    if sends or arriving:
        _left_to_mpi.append((sends, arriving))
        return
    for comm in comms:
        comm.Free()


_left_to_mpi: list[Any] = []  # memory that MPI can still use: it stays until the end of the program


def _bytes_of_mpi(size: int) -> tuple[int, MPI.Datatype]:
    """A number of bytes as a count and a datatype: of a longer message, one element of a datatype of its length."""
    if size <= _MOST_BYTES:
        return size, MPI.BYTE
    chunks, rest = divmod(size, _MOST_BYTES)
    chunk = MPI.BYTE.Create_contiguous(_MOST_BYTES)
    whole = chunk.Create_contiguous(chunks)
    out = MPI.Datatype.Create_struct([1, rest], [0, chunks * _MOST_BYTES], [whole, MPI.BYTE]).Commit()
    chunk.Free()
    whole.Free()
    return 1, out


def _free(datatype: MPI.Datatype) -> None:
    if datatype != MPI.BYTE:
        datatype.Free()  # MPI keeps it until the transfer is complete


if not TYPE_CHECKING:
    __getattr__ = attributes_of_module(__name__, __all__)
