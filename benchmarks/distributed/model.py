"""A discrete-event model of the ways in which workers train together: what a mode does to time, bytes and staleness.

A machine has one link to a switch that never blocks. The link carries one message at a time each way; a message leaves when those
before it have left, its first byte is at the receiver's link after the latency, and it is in when that link, too, has carried
it: bytes / bandwidth + latency where nothing is in its way. A server handles one message at a time, in the order in which
they are in. Times are in seconds, sizes in bytes.

The modes over collectives are recursions over all ranks at once (numpy); the parameter servers are processes of simpy.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import simpy

Array = np.ndarray[Any, np.dtype[np.float64]]
Process = Generator[simpy.Event, Any, None]

LENGTH_BYTES = 8  # which ranks send before messages of different lengths


@dataclass(frozen=True)
class Noise:
    """What a typical time is multiplied by: a distribution of mean 1 and of the standard deviation cv.

    constant     1
    lognormal    many small causes
    exponential  1 - cv for certain, and an exponential tail of the mean cv (<= 1; at 1 all of it)
    """

    kind: str = "constant"
    cv: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("constant", "lognormal", "exponential"):
            raise ValueError(f"noise: {self.kind!r} must be constant, lognormal or exponential")
        if not 0 <= self.cv <= (1 if self.kind == "exponential" else math.inf):
            raise ValueError(f"noise: the cv {self.cv} of {self.kind} must be >= 0, and of exponential <= 1")

    def draw(self, rng: np.random.Generator, count: int | None = None) -> Any:
        """One factor, or an array of them."""
        if self.kind == "constant" or self.cv == 0:
            return 1.0 if count is None else np.ones(count)
        if self.kind == "lognormal":
            variance = math.log1p(self.cv**2)
            return rng.lognormal(-variance / 2, math.sqrt(variance), count)
        return 1 - self.cv + rng.exponential(self.cv, count)


@dataclass(frozen=True)
class Scenario:
    """The machines and the work. Every worker has `batch` samples in a step, however many workers there are."""

    parameters: int
    compute_s: float  # forward and backward of one batch
    bandwidth: float  # bytes a second, each way
    latency_s: float  # of one message
    message_s: float = 0.0  # for which a message takes each of its links beside its bytes: what the ends do for every message
    update_s: float = 0.0  # of the rule, for one element
    add_s: float = 0.0  # of adding an element that came, to a sum or to a weight
    wire_s: float = 0.0  # of packing an element into a message to or from a server, and of checking it at the other end
    compress_s: float = 0.0  # of finding the largest entries, for one element
    entry_s: float = 0.0  # of applying one entry of a compressed message
    name: str = ""
    batch: int = 64
    element_bytes: int = 4
    servers: int = 1  # on machines of their own; each has an equal share of the parameters
    collectives: str = "direct"  # every rank sends each other rank its shard, as gradstep does; or on a "ring"
    sparsity: float = 0.999  # of a compressed message
    local_steps: int = 16  # Geo-SGD: steps between two exchanges
    background: bool = False  # Geo-SGD: the next steps do not wait for the exchange
    overlap: float = 0.0  # the last share of the computation beside which gradients already leave, where they are not compressed
    compute_noise: Noise = Noise()  # of every step
    machine_noise: Noise = Noise()  # of a worker, for the whole run: slow machines
    link_noise: Noise = Noise()  # of the time of every message on its links
    latency_noise: Noise = Noise()
    update_noise: Noise = Noise()  # of every message that a server handles
    seed: int = 1

    def __post_init__(self) -> None:
        at_least = {"parameters": 1, "servers": 1, "batch": 1, "element_bytes": 1, "local_steps": 1}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Noise | str):
                if field.name == "collectives" and value not in ("direct", "ring"):
                    raise ValueError(f"scenario: collectives = {value!r}: must be direct or ring")
                continue
            low, high = at_least.get(field.name, 0), 1 if field.name in ("sparsity", "overlap") else math.inf
            if not low <= value <= high or field.name == "bandwidth" and value == 0:
                allowed = "> 0" if field.name == "bandwidth" else f">= {low}" + (" and <= 1" if high == 1 else "")
                raise ValueError(f"scenario: {field.name} = {value}: must be {allowed}")

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> "Scenario":
        """Of an object with these fields; a noise is [kind, cv]."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"scenario: there is no field {unknown[0]!r}; there are {', '.join(sorted(known))}")
        missing = sorted({"parameters", "compute_s", "bandwidth", "latency_s"} - set(values))
        if missing:
            raise ValueError(f"scenario: {missing[0]} is missing")
        return cls(**{name: Noise(*x) if name.endswith("_noise") else x for name, x in values.items()})

    def machines(self, workers: int) -> Array:
        """By what each worker is slower than a typical one; the first are the same ones however many there are."""
        return self.machine_noise.draw(np.random.default_rng(self.seed), workers)

    @property
    def dense_bytes(self) -> int:
        return self.parameters * self.element_bytes

    @property
    def entries(self) -> int:
        """Of a compressed message, as gs::dgc_momentum counts them."""
        return max(1, round(self.parameters * (1 - self.sparsity)))

    @property
    def message_bytes(self) -> int:
        """Of a compressed message: header, indices of 32 bits (64 from 2^31 elements on) up to a multiple of 8, values."""
        indices = self.entries * (4 if self.parameters < 2**31 else 8)
        return 40 + (indices + 7) // 8 * 8 + self.entries * self.element_bytes


@dataclass(frozen=True)
class Result:
    """Of one mode with so many workers, without the warm-up."""

    mode: str
    workers: int
    servers: int  # 0: the mode has none
    steps_per_s: float  # of one worker, on average
    samples_per_s: float  # of all
    sent_per_step: float  # bytes that a worker sends in a step, on average; it receives as many
    busiest_s: float  # time for a step's bytes on the busiest link, which the step cannot undercut for long
    staleness: float  # steps of others that a weight had taken in between the pull and the update of a gradient: mean,
    staleness_p99: float  # and the value that 1 % of the gradients exceed
    sent: int  # bytes in the whole run, by all,
    received: int  # and those that came in


class Ranks:
    """Workers that take each step together, and exchange by collectives."""

    def __init__(self, scenario: Scenario, workers: int) -> None:
        self.scenario, self.workers = scenario, workers
        self.rng = np.random.default_rng([scenario.seed, workers])
        self.machine = scenario.machines(workers)
        self.out_free, self.in_free = np.zeros(workers), np.zeros(workers)  # when the links are
        self.sent = np.zeros(workers)
        self.received = np.zeros(workers)

    def exchange(self, at: Array, size: float, work_s: float = 0) -> Array:
        """When each rank has a shard of all others, and has worked on each."""
        if self.scenario.collectives == "ring":
            return self.ring(at, size, work_s)
        return self.direct(at, size) + (self.workers - 1) * work_s

    def ring(self, at: Array, size: float, work_s: float) -> Array:
        """In every round each rank sends to the next one what it had before."""
        s = self.scenario
        for _ in range(self.workers - 1):
            self.out_free = np.maximum(at, self.out_free) + self.on_link(size, self.workers)
            comes = np.roll(self.out_free + s.latency_s * s.latency_noise.draw(self.rng, self.workers), 1)
            at = np.maximum(at, comes) + work_s
            self.sent += size
            self.received += np.roll(np.full(self.workers, size), 1)
        return at

    def direct(self, at: Array, size: float) -> Array:
        """Each rank sends its shard to every other one, first to the next."""
        s, others = self.scenario, self.workers - 1
        if others == 0:
            return at
        shape = (self.workers, others)
        seconds = self.on_link(size, self.workers * others).reshape(shape)
        left = np.maximum(at, self.out_free)[:, None] + np.cumsum(seconds, axis=1)
        first_byte = left - seconds + s.latency_s * s.latency_noise.draw(self.rng, self.workers * others).reshape(shape)
        self.out_free = left[:, -1]
        # What comes to a rank, in the order in which it does: each when the link has carried those before it.
        senders = (np.arange(self.workers)[:, None] - np.arange(1, self.workers)) % self.workers
        comes, lasts = (x[senders, np.arange(others)] for x in (first_byte, seconds))
        order = np.argsort(comes, axis=1)
        comes = np.maximum(np.take_along_axis(comes, order, axis=1), self.in_free[:, None])
        lasts = np.take_along_axis(lasts, order, axis=1)
        self.in_free = (comes + np.cumsum(lasts[:, ::-1], axis=1)[:, ::-1]).max(axis=1)
        self.sent += size * others
        self.received += size * lasts.shape[1]
        return np.maximum(at, self.in_free)

    def on_link(self, size: float, count: int) -> Array:
        """Seconds for which each of so many messages takes its links."""
        s = self.scenario
        return (size / s.bandwidth + s.message_s) * s.link_noise.draw(self.rng, count)

    def works(self, at: Array, seconds: float) -> Array:
        return at + seconds * self.machine * self.scenario.update_noise.draw(self.rng, self.workers)

    def synchronous(self, at: Array) -> Array:
        """All-reduce of the gradients (reduce-scatter, all-gather), then every rank updates everything."""
        s, p = self.scenario, self.workers
        at = self.exchange(at, s.dense_bytes / p, s.parameters / p * s.add_s)
        at = self.exchange(at, s.dense_bytes / p)
        return self.works(at, s.parameters * s.update_s)

    def sharded(self, at: Array) -> Array:
        """Reduce-scatter of the gradients, every rank updates its share, all-gather of the weights."""
        s, p = self.scenario, self.workers
        at = self.exchange(at, s.dense_bytes / p, s.parameters / p * s.add_s)
        at = self.works(at, s.parameters / p * s.update_s)
        return self.exchange(at, s.dense_bytes / p)

    def compressed(self, at: Array) -> Array:
        """All-gather of compressed messages, of their lengths first, then every rank applies all of them."""
        s, p = self.scenario, self.workers
        at = self.works(at, s.parameters * s.compress_s)
        at = self.exchange(at, LENGTH_BYTES)
        at = self.exchange(at, s.message_bytes)
        return self.works(at, p * s.entries * s.entry_s)

    def run(self, mode: str, steps: int, warm_up: int) -> Result:
        s, step_of = self.scenario, getattr(self, mode)
        before = 1 - (0 if mode == "compressed" else s.overlap)
        at, begin = np.zeros(self.workers), 0.0
        for step in range(warm_up + steps):
            if step == warm_up:
                begin = at.max()
            compute = s.compute_s * self.machine * s.compute_noise.draw(self.rng, self.workers)
            at = np.maximum(at + compute, step_of(at + before * compute))
        rate = float(steps / (at.max() - begin))
        sent = self.sent / (warm_up + steps)
        return Result(mode, self.workers, 0, rate, rate * s.batch * self.workers, float(sent.mean()),
                      float(sent.max()) / s.bandwidth, 0, 0, round(self.sent.sum()), round(self.received.sum()))


class Machine:
    """What a machine has sent and received, and when its link and its processor are free."""

    def __init__(self, slowness: float = 1.0) -> None:
        self.slowness = slowness
        self.free = self.out_free = self.in_free = 0.0
        self.sent = self.received = 0.0


class Server(Machine):
    """A share of the parameters."""

    def __init__(self, environment: simpy.Environment) -> None:
        super().__init__()
        self.version = 0  # updates that its weights have taken
        self.gathered = 0  # pushes that wait for pushes of the other workers
        self.updated = environment.event()


class Worker(Machine):
    def __init__(self, slowness: float, servers: int) -> None:
        super().__init__(slowness)
        self.pulled = [0] * servers  # the version of each server's weights here


class Servers:
    """Workers that push to servers, each at its own pace, and pull the weights: a push is answered with them."""

    def __init__(self, scenario: Scenario, workers: int) -> None:
        self.scenario, self.workers = scenario, workers
        self.rng = np.random.default_rng([scenario.seed, workers])
        self.environment = simpy.Environment()
        self.machines = [Worker(slowness, scenario.servers) for slowness in scenario.machines(workers)]
        self.servers = [Server(self.environment) for _ in range(scenario.servers)]
        self.share = scenario.parameters / scenario.servers
        self.finished: list[float] = []  # when each step ended
        self.staleness: list[int] = []
        self.total = 0  # steps of all workers

    def until(self, when: float) -> simpy.Event:
        return self.environment.timeout(max(0.0, when - self.environment.now))

    def send(self, source: Machine, target: Machine) -> Process:
        """A share of the parameters, or of their gradient."""
        s, size = self.scenario, self.share * self.scenario.element_bytes
        seconds = (size / s.bandwidth + s.message_s) * s.link_noise.draw(self.rng)
        begins = max(self.environment.now, source.out_free)
        source.out_free = begins + seconds
        source.sent += size
        yield self.until(begins + s.latency_s * s.latency_noise.draw(self.rng))
        target.in_free = max(self.environment.now, target.in_free) + seconds
        yield self.until(target.in_free)
        target.received += size

    def work(self, machine: Machine, seconds_an_element: float) -> simpy.Event:
        """The end of a machine's work on a share of the parameters, after what it has to do before."""
        seconds = self.share * seconds_an_element * machine.slowness * self.scenario.update_noise.draw(self.rng)
        machine.free = max(self.environment.now, machine.free) + seconds
        return self.until(machine.free)

    def exchange(self, worker: Worker, which: int, apply: Callable[[Server], Process]) -> Process:
        """A push to one server, and its answer."""
        server, base = self.servers[which], worker.pulled[which]
        yield self.work(worker, self.scenario.wire_s)
        yield from self.send(worker, server)
        yield from apply(server)
        version = server.version
        self.staleness.append(version - 1 - base)
        yield from self.send(server, worker)
        yield self.work(worker, self.scenario.wire_s)
        worker.pulled[which] = version

    def exchanges(self, index: int, apply: Callable[[Server], Process]) -> simpy.Event:
        """With all servers, in their order."""
        worker, servers = self.machines[index], range(len(self.servers))
        return self.environment.all_of([self.environment.process(self.exchange(worker, k, apply)) for k in servers])

    def update(self, server: Server) -> Process:
        """Asynchronous: the gradient is applied as it comes, and answered."""
        yield self.work(server, self.scenario.update_s + 2 * self.scenario.wire_s)
        server.version += 1

    def add(self, server: Server) -> Process:
        """Geo-SGD: the delta is added as it comes, and answered."""
        yield self.work(server, self.scenario.add_s + 2 * self.scenario.wire_s)
        server.version += 1

    def merge(self, server: Server) -> Process:
        """Synchronous: the gradient is added to those of the step, and when the last one has come all are applied and answered."""
        yield self.work(server, self.scenario.wire_s + self.scenario.add_s)
        server.gathered += 1
        if server.gathered < self.workers:
            yield server.updated
        else:
            yield self.work(server, self.scenario.update_s)
            server.version += 1
            server.gathered = 0
            done, server.updated = server.updated, self.environment.event()
            done.succeed()
        yield self.work(server, self.scenario.wire_s)

    def computes(self, worker: Worker) -> float:
        return self.scenario.compute_s * worker.slowness * self.scenario.compute_noise.draw(self.rng)

    def step_by_step(self, index: int, apply: Callable[[Server], Process]) -> Process:
        overlap, taken = self.scenario.overlap, 0
        while taken < self.total // self.workers if apply == self.merge else len(self.finished) < self.total:
            taken += 1
            compute = self.computes(self.machines[index])
            yield self.environment.timeout((1 - overlap) * compute)
            answers = self.exchanges(index, apply)
            yield self.environment.timeout(overlap * compute)
            yield answers
            self.finished.append(self.environment.now)

    def in_rounds(self, index: int, apply: Callable[[Server], Process]) -> Process:
        s, worker = self.scenario, self.machines[index]
        answers = self.environment.timeout(0)
        while len(self.finished) < self.total:
            for _ in range(s.local_steps):
                update = s.parameters * s.update_s * worker.slowness * s.update_noise.draw(self.rng)
                yield self.environment.timeout(self.computes(worker) + update)
                self.finished.append(self.environment.now)
            yield answers  # of the round before: one exchange is under way at a time
            answers = self.exchanges(index, apply)
            if not s.background:
                yield answers

    def run(self, mode: str, steps: int, warm_up: int) -> Result:
        s = self.scenario
        apply = {"server_synchronous": self.merge, "asynchronous": self.update, "geo": self.add}[mode]
        self.total = (warm_up + steps) * self.workers
        for index in range(self.workers):
            self.environment.process((self.in_rounds if mode == "geo" else self.step_by_step)(index, apply))
        self.environment.run()
        first, last = warm_up * self.workers, self.total
        seconds = self.finished[last - 1] - (self.finished[first - 1] if first else 0)
        rate = (last - first) / seconds / self.workers
        taken = len(self.finished)
        links = [*self.machines, *self.servers]
        sent = sum(worker.sent for worker in self.machines) / taken
        busiest = max(max(link.sent, link.received) for link in links) / (taken / self.workers) / s.bandwidth
        steps_of_push = s.local_steps if mode == "geo" else 1
        stale = steps_of_push * np.array(self.staleness[first * s.servers // steps_of_push:])
        return Result(mode, self.workers, s.servers, rate, rate * s.batch * self.workers, sent, busiest,
                      float(stale.mean()), float(np.percentile(stale, 99)),
                      round(sum(link.sent for link in links)), round(sum(link.received for link in links)))


MODES: dict[str, type[Ranks] | type[Servers]] = {
    "synchronous": Ranks, "sharded": Ranks, "compressed": Ranks,
    "server_synchronous": Servers, "asynchronous": Servers, "geo": Servers,
}


def simulate(mode: str, workers: int, scenario: Scenario, steps: int, warm_up: int = 0) -> Result:
    """So many steps of each worker, after some that are not counted; of Geo-SGD, as many rounds of local steps.

    Where workers do not wait for each other, the steps are counted together, and end when there are so many on average.
    """
    if mode not in MODES:
        raise ValueError(f"mode = {mode!r}: must be one of {', '.join(MODES)}")
    if workers < 1 or steps < 1 or warm_up < 0:
        raise ValueError(f"workers = {workers}, steps = {steps}, warm_up = {warm_up}: must be >= 1, 1 and 0")
    if mode == "geo":
        steps, warm_up = steps * scenario.local_steps, warm_up * scenario.local_steps
    return MODES[mode](scenario, workers).run(mode, steps, warm_up)


def rate_alone(scenario: Scenario) -> float:
    """Steps a second of a typical worker that exchanges nothing."""
    return 1 / (scenario.compute_s + scenario.parameters * scenario.update_s)
