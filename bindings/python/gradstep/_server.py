"""Parameter servers and workers: parameters and tables on several machines."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy

from . import _arrays
from ._arrays import Array, Ids
from ._library import (
    RECEIVE,
    SEND,
    TASK,
    CMessage,
    CServerInfo,
    CTransport,
    CWorkerInfo,
    CWorkerOptions,
    Status,
    check,
    error,
    library,
    new_error,
)
from ._parameter import KeyedTable, Parameter, Table, lent_table
from ._shared import Config, Handle, LentHandle, check_name, config_bytes, integer, path_bytes, real

if TYPE_CHECKING:
    from typing_extensions import Self

_Out = TypeVar("_Out", bound=Array)


class Transport(Protocol):
    """What carries the messages of a rank to the other ranks of a job. Any object with these members will do.

    The ranks of a job are numbered from 0, servers first. An object can also have `concurrent = True`, if several threads can call
    `send` and `receive` at once, and `timeout`, the seconds to wait for another rank before `RankError` (60 by default).
    """

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def ranks(self) -> int:
        """The number of servers and workers together."""

    def send(self, to: int, message: bytes, /) -> None:
        """Queues a message to a rank, and returns without waiting for its receiver. Messages between two ranks keep their order.
        A rank can send to itself, as every worker does."""

    def receive(self, seconds: float, /) -> tuple[int, bytes | bytearray | memoryview] | None:
        """Returns the next message and the rank that has sent it, or None if none arrives in time. With 0 it does not wait."""


class Message(NamedTuple):
    """A message to send."""

    to: int  #: the rank of its receiver
    message: bytes  #: the bytes


class _Callbacks:
    """Functions that the library calls, and the exception of one of them, for the thread that has called the library."""

    def __init__(self) -> None:
        self._failed = threading.local()

    def _run(self, function: Callable[[], None], reason: Any = None) -> int:
        try:
            function()
        except BaseException as failure:  # ctypes would print it and go on
            self._failed.__dict__.setdefault("by", failure)  # what follows the first one can be its effect
            if reason is not None:  # an error of C, for the other ranks
                try:
                    text = f"{type(failure).__name__}: {failure}"
                except Exception:  # of the exception's own __str__
                    text = type(failure).__name__
                reason.contents.message = text.encode(errors="replace")[:239].decode(errors="ignore").encode()
            return -1
        return 0

    def check(self, status: int, failure: Any) -> None:
        """Like `check` of a status, but raises the exception of a callback in its place."""
        by = self._failed.__dict__.pop("by", None)
        if status and by is not None:
            raise by
        check(status, failure)


class _Host(_Callbacks):
    """A transport as the library calls it."""

    def __init__(self, transport: Transport, callbacks: _Callbacks | None = None) -> None:
        super().__init__()
        if callbacks is not None:  # of the server: the first failure counts, of a task or of the transport
            self._failed = callbacks._failed
        self._transport = transport
        for name in ("rank", "ranks", "send", "receive"):
            if not hasattr(transport, name):
                raise error(
                    Status.UNSUPPORTED_TYPE,
                    f"transport: a {type(transport).__name__} has no {name!r}; expected rank, ranks, send and receive",
                )
        milliseconds = real(getattr(transport, "timeout", 60.0), "timeout") * 1000
        if not 1 <= milliseconds < 2**53:
            raise error(Status.BAD_VALUE, f"timeout: {milliseconds / 1000} is out of range; expected seconds >= 0.001")
        self.structure = CTransport(
            ctypes.sizeof(CTransport),
            _number(transport.rank, "rank", 2**31),
            _number(transport.ranks, "ranks", 2**31),
            bool(getattr(transport, "concurrent", False)),
            int(milliseconds),
            SEND(self._send),
            RECEIVE(self._receive),
        )

    def _send(self, _: object, to: int, address: int, size: int) -> int:
        return self._run(lambda: self._transport.send(to, ctypes.string_at(address, size)))

    def _receive(self, _: object, milliseconds: int, inbox: int) -> int:
        def receive() -> None:
            got = self._transport.receive(milliseconds / 1000)
            if got is None:
                return
            address, size, _kept = _memory(got[1], "receive: message")
            memory = library.gradstep_inbox_allocate(inbox, _number(got[0], "receive: rank", 2**31), size)
            if memory is None:
                raise error(Status.OUT_OF_MEMORY, f"receive: the system does not give {size} bytes")
            ctypes.memmove(memory, address, size)

        return self._run(receive)


class _Rank:
    """The base class of servers and workers: a handle, whose calls can come from several threads."""

    _kind = ""

    def __init__(self, address: int, callbacks: _Callbacks) -> None:
        self._owned: Handle | None = Handle(address, getattr(library, f"gradstep_{self._kind}_release"))
        self._callbacks = callbacks

    def _open(self) -> Handle:
        if self._owned is None:
            raise error(Status.BAD_HANDLE, f"handle: this {type(self).__name__} has been released; expected one that is open")
        return self._owned

    def _call(self, function: str, *arguments: Any) -> None:
        owned, failure = self._open(), new_error()
        status = getattr(library, f"gradstep_{self._kind}_{function}")(owned.address, *arguments, ctypes.byref(failure))
        self._callbacks.check(status, failure)

    def __reduce_ex__(self, _: object) -> Any:
        raise TypeError(f"{type(self).__name__}: it is not copied; expected its tables and parameters, or its files")

    def release(self) -> None:
        """Releases the object now, before it is garbage-collected. All later calls raise `ReleasedError`."""
        self._owned = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Server(_Rank):
    """A parameter server: it stores parameters and tables, and updates them by the gradients that workers push.

        server = gradstep.Server({"mode": "asynchronous", "tensors": {
            "deep": {**gradstep.adagrad(lr=0.1), "parameter": {"size": 4096}},
            "wide": {**gradstep.ftrl(lr=0.1), "keyed_table": {"width": 1}}}}, transport.rank, transport.ranks)
        server.run(transport)                   # until every worker has stopped

    config: the mode ("synchronous", "asynchronous" or "geo"), the options, and the tensors by name, a dict or a str of JSON
        (docs/how_to/python_tables.md#servers-and-workers). All servers of a job get the same one, and each keeps its part.
    rank, ranks: the number of this server, and the number of all servers and workers.

    Each push is applied exactly once, also after a restart of a server or a worker. Use a server from one thread.
    """

    _kind = "server"

    def __init__(self, config: Config, rank: int, ranks: int) -> None:
        text, out, failure = config_bytes(config), ctypes.c_void_p(), new_error()
        numbers = _number(rank, "rank", 2**31), _number(ranks, "ranks", 2**31)
        check(library.gradstep_server_create(text, len(text), *numbers, ctypes.byref(out), ctypes.byref(failure)), failure)
        super().__init__(out.value or 0, _Callbacks())
        self._tasks: list[Any] = []  # functions of C, which the library calls

    def run(self, transport: Transport) -> None:
        """Serves over a transport until every worker has stopped.

        Raises `RankError` if a worker is silent for too long, and the exceptions of the transport and of tasks. The other ranks then
        get an error, too.
        """
        host, owned, failure = _Host(transport, self._callbacks), self._open(), new_error()
        host.check(library.gradstep_server_run(owned.address, ctypes.byref(host.structure), ctypes.byref(failure)), failure)

    def begin(self) -> list[Message]:
        """Returns the first messages to send, for a program with its own loop in place of `run`."""
        return self._messages("begin")

    def handle(self, rank: int, message: bytes | bytearray | memoryview) -> list[Message]:
        """Handles a message from a rank, and returns the messages to send.

        An invalid message changes nothing, and its sender gets an error. Raises the errors of checkpoints, and the exceptions of tasks.
        """
        address, size, _kept = _memory(message, "message")
        return self._messages("handle", _number(rank, "rank", 2**31), address, size)

    def _messages(self, function: str, *arguments: Any) -> list[Message]:
        count = ctypes.c_uint64()
        self._call(function, *arguments, ctypes.byref(count))
        out = []
        for number in range(count.value):
            one = CMessage(ctypes.sizeof(CMessage))
            self._call("message", number, ctypes.byref(one))
            out.append(Message(one.to, ctypes.string_at(one.bytes, one.size)))
        return out

    def after_every(self, pushes: int, task: Callable[[Server], object]) -> None:
        """Calls task(server) after every `pushes` pushes, between two messages: to evict rows, to send changes, or to log.

            server.after_every(10_000, lambda server: server.table("wide").evict_to(1_000_000))

        Rows that workers have pulled, and not pushed since, are not evicted. A task must not call `run` or `handle`. If it raises,
        `run` and `handle` raise its exception, and the job ends.
        """

        def call() -> None:
            task(self)

        def run(_host: object, _server: object, reason: Any) -> int:
            return self._callbacks._run(call, reason)

        function = TASK(run)
        self._call("after_every", _number(pushes, "pushes"), function, None)
        self._tasks.append(function)

    def table(self, name: str) -> Table | KeyedTable:
        """Returns a table of this server, to read it, to evict rows, or to send changes. It is the server's own: do not update it.

        Use it between calls of `handle`, in tasks, or after `run`. Raises `InvalidError` if the server has no table of this name.
        """
        out = ctypes.c_void_p()
        self._call("table", _name(name), ctypes.byref(out))
        return lent_table(LentHandle(out.value or 0, self._open()))

    def parameter(self, name: str) -> Parameter:
        """Returns this server's part of a dense parameter, as `table` returns a table. You can set its values before the first worker
        connects.

        Raises `InvalidError` if the server has no part of a parameter of this name.
        """
        out = ctypes.c_void_p()
        self._call("parameter", _name(name), ctypes.byref(out), None)
        handle, failure = LentHandle(out.value or 0, self._open()), new_error()
        data, count, code = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int32()
        address, size = ctypes.byref(data), ctypes.byref(count)
        check(library.gradstep_parameter_values(handle.address, address, size, ctypes.byref(failure)), failure)
        check(library.gradstep_parameter_dtype(handle.address, ctypes.byref(code), ctypes.byref(failure)), failure)
        return Parameter._lent(handle, count.value, _arrays.dtype_of_code(code.value))

    def first_element(self, name: str) -> int:
        """Returns the number of the element of the whole parameter with which `parameter(name)` begins: 0 if it has no shards."""
        out, first = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("parameter", _name(name), ctypes.byref(out), ctypes.byref(first))
        return first.value

    def checkpoint(self, path: str | os.PathLike[str], every: int) -> None:
        """Continues from the file if it exists, and then writes it after every `every` pushes, and when all workers have stopped.

        every: 0: the number of pushes does not matter.

        Each server needs its own file. Call it before the first message. Raises `FileError` and `InvalidError`.
        """
        self._call("checkpoint", path_bytes(path), _number(every, "every"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves all tensors, and the positions of the workers, to a safetensors file. Raises `FileError`."""
        self._call("save_file", path_bytes(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues from a file of `save` of the same server. Raises `FileError` and `InvalidError`."""
        self._call("load_file", path_bytes(path))

    def reopen(self) -> None:
        """Lets workers start again after all have stopped, to continue from a final checkpoint."""
        self._call("reopen")

    def _facts(self) -> CServerInfo:
        info = CServerInfo(ctypes.sizeof(CServerInfo))
        self._call("describe", ctypes.byref(info))
        return info

    @property
    def finished(self) -> bool:
        """Whether every worker has stopped."""
        return bool(self._facts().finished)

    @property
    def pushes(self) -> int:
        """The number of pushes that this server has applied since it started."""
        return int(self._facts().pushes)

    @property
    def staleness(self) -> float:
        """The average number of steps of a tensor between the pull and the push of a worker, since this server started."""
        return float(self._facts().staleness)

    def __len__(self) -> int:
        """The number of parameters and tables on this server, shards included."""
        return int(self._facts().tensors)


class Worker(_Rank):
    """A worker of a job with parameter servers: it pulls weights and pushes gradients.

        worker = gradstep.Worker(transport, num_servers=2)
        worker.pull_rows("wide", keys, weights)
        worker.push_rows("wide", keys, gradients)       # returns at once
        worker.stop()

    transport: a `Transport`; its rank is not one of a server.
    num_servers: the number of servers, as in their configuration.
    max_in_flight: the pushes that a server has not applied yet; the next one waits.
    max_kept: the pushes to a server that no checkpoint contains yet; the next one waits for a checkpoint.
    check_elements: whether checksums of messages also cover gradients.
    job: as in the configuration of the servers.

    The constructor connects to all servers and waits for them. The transport must not call its worker. Calls raise `RankError` if a server does not answer, and the exceptions
    of the transport. If a server rejects a push, later calls raise `InvalidError`. With a concurrent transport, several threads can
    call a worker.
    """

    _kind = "worker"

    def __init__(
        self,
        transport: Transport,
        *,
        num_servers: int = 1,
        max_in_flight: int = 16,
        max_kept: int = 1024,
        check_elements: bool = False,
        job: int = 0,
    ) -> None:
        host, out, failure = _Host(transport), ctypes.c_void_p(), new_error()
        options = CWorkerOptions(
            ctypes.sizeof(CWorkerOptions),
            _number(num_servers, "num_servers", 2**31),
            _number(max_in_flight, "max_in_flight"),
            _number(max_kept, "max_kept"),
            bool(check_elements),
            _number(job, "job", 2**32),
        )
        made = ctypes.byref(host.structure), ctypes.byref(options), ctypes.byref(out)
        host.check(library.gradstep_worker_create(*made, ctypes.byref(failure)), failure)
        super().__init__(out.value or 0, host)

    def pull(self, name: str, out: _Out) -> _Out:
        """Copies a dense parameter to `out`, a writable array of its dtype with as many elements, and returns it."""
        found = _writable(out)
        self._call("pull", _name(name), found.dtype.code, found.address, found.size)
        return out

    def pull_rows(self, name: str, keys: Ids, out: _Out) -> _Out:
        """Copies rows of a table to `out`, a writable array of its dtype with a row for each key, and returns it.

        keys: the keys, or the indices of the rows, as in `Table.rows` and `KeyedTable.rows`.
        """
        rows, found = _keys(keys), _writable(out)
        self._call("pull_rows", _name(name), rows.address, rows.dtype.code, rows.size, found.dtype.code, found.address, found.size)
        return out

    def push(self, name: str, gradient: Array) -> None:
        """Sends the gradient of a dense parameter, and returns without waiting for the step.

        Raises `SequenceError` if this worker has not pulled the parameter.
        """
        found = _arrays.view(gradient, "gradient")
        self._call("push", _name(name), found.dtype.code, found.address, found.size)

    def push_rows(self, name: str, keys: Ids, gradient_rows: Array) -> None:
        """Sends the gradients of rows of a table, and returns without waiting for the step. See `push`.

        keys: as in `pull_rows`. A duplicate key gets the sum of its gradients, or what "duplicates" of the table says.
        """
        rows, found = _keys(keys), _arrays.view(gradient_rows, "gradient_rows")
        self._call("push_rows", _name(name), rows.address, rows.dtype.code, rows.size, found.dtype.code, found.address, found.size)

    def size(self, name: str) -> int:
        """Returns the number of elements of a dense parameter."""
        count = ctypes.c_uint64()
        self._call("size", _name(name), ctypes.byref(count))
        return count.value

    def barrier(self) -> None:
        """Waits until every worker that has not stopped has called it equally often, and all their earlier pushes are applied."""
        self._call("barrier")

    def go_on_from(self, position: int) -> None:
        """Sets a smaller position before the first push: where the interrupted step began. Servers ignore what they have applied."""
        self._call("go_on_from", _number(position, "position"))

    def stop(self) -> None:
        """The last call: waits until all pushes are applied and saved, and all workers have called it."""
        self._call("stop")

    def _facts(self) -> CWorkerInfo:
        info = CWorkerInfo(ctypes.sizeof(CWorkerInfo))
        self._call("describe", ctypes.byref(info))
        return info

    @property
    def position(self) -> int:
        """The pushes and barriers so far; of a new worker: those that all servers have saved."""
        return int(self._facts().position)

    @property
    def applied(self) -> int:
        """The position up to which all servers have applied the pushes of this worker."""
        return int(self._facts().applied)

    @property
    def durable(self) -> int:
        """The position up to which the checkpoints of the servers contain the pushes of this worker."""
        return int(self._facts().durable)

    @property
    def stopped(self) -> bool:
        """Whether a server knows that this worker has stopped, for example from a final checkpoint. Then only call `stop`."""
        return bool(self._facts().stopped)

    @property
    def workers(self) -> int:
        """The number of workers of the job."""
        return int(self._facts().workers)


class Geo(_Rank):
    """Geo-SGD: a worker trains a parameter of its own, and exchanges changes with the servers.

        weights = gradstep.Parameter(gradstep.momentum(lr=0.01), shape=worker.size("w"))
        geo = gradstep.Geo(worker, "w", weights)        # sets the weights to the servers'
        for step, gradient in enumerate(gradients, 1):
            weights.update(gradient)
            if step % 20 == 0:
                geo.exchange()

    worker: the worker; the mode of its servers is "geo" or "asynchronous".
    name: a dense parameter of the servers whose rule is `add_delta` with a rate of 1.
    parameter: the local parameter, of the same size and dtype: a floating-point type, and no master copy.
    """

    _kind = "geo"

    def __init__(self, worker: Worker, name: str, parameter: Parameter) -> None:
        out, failure = ctypes.c_void_p(), new_error()
        kept = worker._open(), parameter._owned
        arguments = kept[0].address, _name(name), kept[1] and kept[1].address, ctypes.byref(out)
        worker._callbacks.check(library.gradstep_geo_create(*arguments, ctypes.byref(failure)), failure)
        super().__init__(out.value or 0, worker._callbacks)
        self._kept = kept, worker, parameter

    def exchange(self) -> None:
        """Sends the change since the last exchange, divided by the number of workers, and takes over the changes of the others."""
        self._call("exchange")


def _number(given: Any, what: str, behind: int = 2**64) -> int:
    number = integer(given)
    if number is None:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: {given!r} is a {type(given).__name__}; expected an integer")
    if not 0 <= number < behind:
        raise error(Status.BAD_VALUE, f"{what}: {number} is out of range; expected [0, {behind})")
    return number


def _memory(message: Any, what: str) -> tuple[int, int, Any]:
    """The address and the number of bytes of a message, and what keeps them."""
    try:
        size = memoryview(message).nbytes
    except TypeError:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: is a {type(message).__name__}; expected bytes") from None
    if size == 0:
        return 0, 0, message
    found = numpy.frombuffer(message, numpy.uint8)
    return found.ctypes.data, size, found


def _name(name: str) -> bytes:
    check_name(name)
    return name.encode()


def _keys(keys: Ids) -> _arrays.View:
    found = _arrays.ids_view(keys, "keys", _arrays.KEYS)
    if found.dtype.name != "uint32":
        return found
    return _arrays.ids_view(_arrays.ids_array(keys, "keys", _arrays.KEYS).astype(numpy.int64), "keys", _arrays.KEYS)


def _writable(out: Array) -> _arrays.View:
    found = _arrays.view(out, "out")
    return found if found.writable else _arrays.checked(out, "out", found.dtype, None, writable=True)
