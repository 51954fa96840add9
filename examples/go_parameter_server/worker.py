"""A worker in Python, for the servers in Go: worker.py RANK STEPS HTTP_ADDRESS ADDRESS... does what worker.go does."""

import http.server
import queue
import socket
import struct
import sys
import threading
import time

import numpy
import gradstep

SERVERS, WORKERS, IMPRESSIONS, FEATURES, WIDTH, HIDDEN = 2, 3, 100, 5, 8, 16
PUSHES_A_STEP = 4
MASK = 2**64 - 1


class Metrics:
    """Numbers that /metrics shows in the text form of Prometheus."""

    def __init__(self):
        self._values = {}

    def serve(self, address):
        values = self._values

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = self.path == "/metrics"
                text = "".join(f"{name} {value}\n" for name, value in sorted(dict(values).items())).encode() if found else b""
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass  # no line for each request

        host, port = address.split(":")
        server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def set(self, name, value):
        self._values[name] = value

    def observe(self, name, value):
        """Adds a number to a summary, whose mean is _sum / _count."""
        self._values[name + "_sum"] = self._values.get(name + "_sum", 0) + value
        self._values[name + "_count"] = self._values.get(name + "_count", 0) + 1


class Tcp:
    """A transport over TCP, with the framing of transport.go."""

    concurrent = True
    timeout = 20.0

    def __init__(self, rank, addresses):
        self.rank, self.ranks = rank, len(addresses)
        self._addresses = [(host, int(port)) for host, port in (one.split(":") for one in addresses)]
        self._inbox = queue.Queue()
        self._lock = threading.Lock()
        self._sent = self._received = 0  # bytes
        self._outboxes = [queue.Queue() for _ in addresses]
        listener = socket.create_server(self._addresses[rank])
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()
        for to in range(SERVERS):
            threading.Thread(target=self._deliver, args=[to], daemon=True).start()

    def send(self, to, message):
        (self._inbox.put((to, message)) if to == self.rank else self._outboxes[to].put(message))

    def receive(self, seconds):
        try:
            return self._inbox.get(timeout=seconds) if seconds > 0 else self._inbox.get_nowait()
        except queue.Empty:
            return None

    def publish(self, to):
        """Sets the metrics of this transport."""
        to.set("gradstep_sent_bytes", self._sent)
        to.set("gradstep_received_bytes", self._received)

    def _accept(self, listener):
        while True:
            threading.Thread(target=self._collect, args=[listener.accept()[0]], daemon=True).start()

    def _collect(self, connection):
        with connection, connection.makefile("rb") as stream:
            origin = struct.unpack("<I", stream.read(4))[0]
            while len(length := stream.read(8)) == 8:
                size = struct.unpack("<Q", length)[0]
                if len(message := stream.read(size)) == size:
                    with self._lock:
                        self._received += 8 + size
                    self._inbox.put((origin, message))

    def _deliver(self, to):
        connection = None
        while True:
            message = self._outboxes[to].get()
            if connection is not None and died.is_set():
                connection.close()
                connection = None
            if connection is None:
                connection, died = self._connect(to)
            try:
                connection.sendall(struct.pack("<Q", len(message)) + message)
            except OSError:
                pass  # the server has died
            with self._lock:
                self._sent += 8 + len(message)

    def _connect(self, to):
        while True:
            try:
                connection = socket.create_connection(self._addresses[to])
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go does
                connection.sendall(struct.pack("<I", self.rank))
                break
            except OSError:
                time.sleep(0.02)
        died = threading.Event()

        def watch():
            try:
                connection.recv(1)
            except OSError:
                pass
            died.set()

        threading.Thread(target=watch, daemon=True).start()
        return connection, died


def effects_of(keys):
    """The true effects of features on the click, in [-1, 1]: numbers that the generator draws by the keys."""
    z = keys + numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    return ((z ^ z >> numpy.uint64(31)) >> numpy.uint64(11)) * 2.0**-52 - 1


def twister(seed):
    """The numbers of std::mt19937_64."""
    state = [seed]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i) & MASK)
    while True:
        for i in range(312):
            x = state[i] & 0xFFFFFFFF80000000 | state[(i + 1) % 312] & 0x7FFFFFFF
            state[i] = state[(i + 156) % 312] ^ x >> 1 ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        for x in state:
            x ^= x >> 29 & 0x5555555555555555
            x ^= x << 17 & 0x71D67FFFEDA60000
            x ^= x << 37 & 0xFFF7EEE000000000
            yield x ^ x >> 43


def impressions_of(step):
    """The keys, clicks and true probabilities of a step, as in clicks.go."""
    draw = twister(step + 1)
    texts, drawn = [], []
    for _ in range(IMPRESSIONS):
        site, ad = next(draw) % 40, step // 20 + next(draw) % 100
        user = int(1e6 * ((next(draw) >> 11) * 2.0**-53 * ((next(draw) >> 11) * 2.0**-53)))
        texts += ["bias", f"site={site}", f"ad={ad}", f"site={site},ad={ad}", f"user={user}"]
        drawn.append((next(draw) >> 11) * 2.0**-53)
    keys = gradstep.hash_texts(texts)
    _, site, ad, both, _ = effects_of(keys.reshape(IMPRESSIONS, FEATURES)).T
    truth = 1 / (1 + numpy.exp(2 - site - 1.5 * ad - both))
    return keys, numpy.array(drawn) < truth, truth


def gradients_of(wide, deep, dense, clicked):
    """The probabilities, and the gradients of the three parts, as in model.go."""
    inputs = deep.reshape(IMPRESSIONS, FEATURES * WIDTH)
    weights, biases, outputs, bias = numpy.split(dense, numpy.cumsum([HIDDEN * FEATURES * WIDTH, HIDDEN, HIDDEN]))
    weights = weights.reshape(HIDDEN, FEATURES * WIDTH)
    active = numpy.maximum(inputs @ weights.T + biases, 0)
    logits = wide.reshape(IMPRESSIONS, FEATURES).sum(1) + active @ outputs + bias
    probabilities = 1 / (1 + numpy.exp(-logits.astype(float)))
    wrong = (probabilities - clicked).astype(numpy.float32)
    back = wrong[:, None] * outputs * (active > 0)
    of_dense = numpy.concatenate([(back.T @ inputs).ravel(), back.sum(0), active.T @ wrong, [wrong.sum()]]) / IMPRESSIONS
    return probabilities, numpy.repeat(wrong, FEATURES), (back @ weights).reshape(deep.shape), of_dense.astype(numpy.float32)


def log_loss(probabilities, clicked):
    return -numpy.log(numpy.where(clicked, probabilities, 1 - probabilities)).mean()


def publish(worker, transport, to):
    """Sets the metrics of a worker."""
    to.set("gradstep_pushes", worker.position)  # also before a restart
    to.set("gradstep_pushes_applied", worker.applied)
    to.set("gradstep_pushes_saved", worker.durable)
    transport.publish(to)


# [work]
def work(rank, steps, http_address, addresses):
    transport, metrics = Tcp(rank, addresses), Metrics()
    worker = gradstep.Worker(transport, num_servers=SERVERS)
    if worker.stopped:  # the job was done before
        return worker.stop()
    done = worker.position // PUSHES_A_STEP  # steps that all servers have saved
    worker.go_on_from(done * PUSHES_A_STEP)
    if done > 0:
        print(f"worker {rank} goes on at its step {done}", flush=True)
    publish(worker, transport, metrics)
    metrics.serve(http_address)
    dense = numpy.zeros(worker.size("dense"), numpy.float32)
    for step in range(done * WORKERS + rank - SERVERS, steps, WORKERS):
        began = time.monotonic()
        keys, clicked, truth = impressions_of(step)
        wide = worker.pull_rows("wide", keys, numpy.zeros((len(keys), 1), numpy.float32))
        deep = worker.pull_rows("deep", keys, numpy.zeros((len(keys), WIDTH), numpy.float32))
        worker.pull("dense", dense)
        worker.pull("seen", numpy.zeros(1, numpy.int64))  # a tensor is pulled before it is pushed to
        probabilities, of_wide, of_deep, of_dense = gradients_of(wide, deep, dense, clicked)
        worker.push_rows("wide", keys, of_wide)
        worker.push_rows("deep", keys, of_deep)
        worker.push("dense", of_dense)
        worker.push("seen", numpy.array([IMPRESSIONS], numpy.int64))
        print(f"loss {step} {log_loss(probabilities, clicked):.6f} {log_loss(truth, clicked):.6f}", flush=True)
        metrics.observe("gradstep_step_seconds", time.monotonic() - began)
        publish(worker, transport, metrics)
    worker.stop()
    # [work]


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
