"""The model of ./dev bench simulate against what formulas say of it: exactly where nothing is random, and else within a bound of five
standard errors, which a right model exceeds once in two million draws; the seeds are fixed.
"""

import csv
import json
import math
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks/distributed"
sys.path.insert(0, str(FOLDER))
from model import MODES, Machine, Noise, Ranks, Result, Scenario, Servers, rate_alone, simulate  # noqa: E402
from simulate import exceeds_link, halves, stops_paying  # noqa: E402

PLAIN = Scenario(parameters=3 << 20, compute_s=0.02, bandwidth=1e9, latency_s=3e-5, message_s=2e-6)
FREE = replace(PLAIN, bandwidth=math.inf, latency_s=0, message_s=0)  # a network that takes no time
WORKING = replace(PLAIN, update_s=5e-10, add_s=2e-10, wire_s=4e-10, compress_s=6e-10, entry_s=2e-9)
NOISY = replace(WORKING, servers=3, local_steps=4, compute_noise=Noise("exponential", 0.2), machine_noise=Noise("lognormal", 0.1),
                link_noise=Noise("lognormal", 0.3), latency_noise=Noise("exponential", 1), update_noise=Noise("exponential", 0.5))
STEPS, WARM_UP = 24, 6


class Model(unittest.TestCase):
    def assert_seconds(self, result: Result, seconds: float, additions: float) -> None:
        """A step takes so long, up to the rounding of the additions on the way to the end of the run.

        Each is rounded by half a unit in the last place of the time that has passed, and the difference of two times is divided.
        """
        passed = seconds * (STEPS + WARM_UP)
        error = (STEPS + WARM_UP) * additions * passed * 2**-53 / STEPS
        self.assertAlmostEqual(1 / result.steps_per_s, seconds, delta=error + 8 * seconds * 2**-53)


class Collective(Model):
    def exchange_s(self, p: int, size: float, collectives: str) -> float:
        """Of a piece with each other rank."""
        s = PLAIN
        latencies = {"ring": p - 1, "direct": min(p - 1, 1)}[collectives]
        return (p - 1) * (size / s.bandwidth + s.message_s) + latencies * s.latency_s

    def all_reduce_s(self, p: int, collectives: str) -> float:
        return 2 * self.exchange_s(p, PLAIN.dense_bytes / p, collectives)

    def test_one_worker_only_computes(self) -> None:
        for mode in ("synchronous", "sharded", "compressed"):
            self.assert_seconds(simulate(mode, 1, PLAIN, STEPS, WARM_UP), PLAIN.compute_s, 4)

    def test_a_ring_takes_what_books_say(self) -> None:
        s = replace(PLAIN, message_s=0, collectives="ring")
        for p in (1, 2, 3, 8, 100):
            seconds = s.compute_s + 2 * (p - 1) / p * s.dense_bytes / s.bandwidth + 2 * (p - 1) * s.latency_s
            self.assert_seconds(simulate("synchronous", p, s, STEPS, WARM_UP), seconds, 8 * p)

    def test_synchronous_is_compute_and_two_exchanges(self) -> None:
        for p in (1, 2, 3, 8, 100):
            for kind in ("ring", "direct"):
                plain, working = replace(PLAIN, collectives=kind), replace(WORKING, collectives=kind)
                seconds = PLAIN.compute_s + self.all_reduce_s(p, kind)
                for mode in ("synchronous", "sharded"):
                    self.assert_seconds(simulate(mode, p, plain, STEPS, WARM_UP), seconds, 8 * p)
                seconds += WORKING.parameters * (p - 1) / p * WORKING.add_s
                update = WORKING.parameters * WORKING.update_s
                for mode, own in (("synchronous", update), ("sharded", update / p)):
                    self.assert_seconds(simulate(mode, p, working, STEPS, WARM_UP), seconds + own, 8 * p)

    def test_compressed_is_an_all_gather_of_lengths_and_messages(self) -> None:
        for p in (1, 2, 3, 8, 100):
            for kind in ("ring", "direct"):
                s = replace(WORKING, collectives=kind)
                seconds = (s.compute_s + s.parameters * s.compress_s + self.exchange_s(p, 8, kind)
                           + self.exchange_s(p, s.message_bytes, kind) + p * s.entries * s.entry_s)
                self.assert_seconds(simulate("compressed", p, s, STEPS, WARM_UP), seconds, 8 * p)

    def test_messages_to_one_link_wait_for_each_other(self) -> None:
        """Three ranks, of which the last one is late: its own link is idle until the others' pieces come, at the same time."""
        ranks = Ranks(PLAIN, 3)
        piece = 4e6 / PLAIN.bandwidth + PLAIN.message_s
        late = 10 * piece
        at = ranks.direct(np.array([0, 0, late]), 4e6)
        # Rank 0 sends to 1 and then 2, rank 1 to 2 and then 0, rank 2 to 0 and then 1.
        expected = [late + piece + PLAIN.latency_s, late + 2 * piece + PLAIN.latency_s, late]
        np.testing.assert_allclose(at, expected, rtol=1e-14)
        np.testing.assert_allclose(ranks.in_free[2], 2 * piece + PLAIN.latency_s, rtol=1e-14)
        at = Ranks(PLAIN, 3).direct(np.array([piece, 0, 0]), 4e6)  # the pieces of 0 and 2 reach rank 1 together
        np.testing.assert_allclose(at[1], 3 * piece + PLAIN.latency_s, rtol=1e-14)

    def test_an_exchange_waits_for_the_links_of_the_one_before(self) -> None:
        for kind in ("ring", "direct"):
            ranks = Ranks(replace(PLAIN, collectives=kind), 2)
            piece = 4e6 / PLAIN.bandwidth + PLAIN.message_s
            for messages in (1, 2):
                at = ranks.exchange(np.zeros(2), 4e6)
                np.testing.assert_allclose(at, messages * piece + PLAIN.latency_s, rtol=1e-14)
        # Rank 0 sends late, and then again: both wait at the link of rank 1, and the second for the first.
        ranks = Ranks(PLAIN, 2)
        ranks.in_free[1] = 1.0
        np.testing.assert_allclose(ranks.direct(np.zeros(2), 4e6)[1], 1 + piece, rtol=1e-14)

    def test_messages_have_the_bytes_of_the_format(self) -> None:
        self.assertEqual(replace(PLAIN, parameters=8, sparsity=0.75).message_bytes, 56)  # the example of docs/reference/message_formats.md
        self.assertEqual(replace(PLAIN, parameters=8, sparsity=0.625).message_bytes, 40 + 16 + 12)  # 3 indices, padded
        self.assertEqual(replace(PLAIN, parameters=2**31, sparsity=1.0).message_bytes, 40 + 8 + 4)  # one entry at least

    def test_all_overlapped_takes_the_longer_of_both(self) -> None:
        for p, compute in ((4, 0.001), (4, 0.5)):
            scenario = replace(PLAIN, overlap=1.0, compute_s=compute)
            self.assert_seconds(simulate("synchronous", p, scenario, STEPS, WARM_UP), max(compute, self.all_reduce_s(p, "direct")), 8 * p)
            alone = simulate("compressed", p, replace(scenario, overlap=0.0), STEPS, WARM_UP)
            self.assertEqual(simulate("compressed", p, scenario, STEPS, WARM_UP), alone)  # whose message needs all gradients

    def test_the_slowest_of_exponential_stragglers_has_the_harmonic_number(self) -> None:
        scenario = replace(FREE, compute_noise=Noise("exponential", 1))
        for p in (1, 2, 8, 32):
            steps = 1000
            mean = sum(1 / i for i in range(1, p + 1))
            error = math.sqrt(sum(1 / i**2 for i in range(1, p + 1)) / steps)  # of the mean of so many largest ones
            seconds = 1 / simulate("synchronous", p, scenario, steps).steps_per_s
            self.assertAlmostEqual(seconds / scenario.compute_s, mean, delta=5 * error)

    def test_a_slow_machine_slows_all(self) -> None:
        scenario = replace(FREE, update_s=1e-9, machine_noise=Noise("lognormal", 0.5))
        slowest = (scenario.compute_s + scenario.parameters * scenario.update_s) * scenario.machines(16).max()
        self.assert_seconds(simulate("synchronous", 16, scenario, STEPS, WARM_UP), slowest, 80)


class ParameterServers(Model):
    def message_s(self, s: Scenario) -> float:
        return s.dense_bytes / s.bandwidth + s.message_s

    def test_messages_wait_at_both_ends(self) -> None:
        """Of two at once the second comes by its own time later, from one machine to two or from two to one."""
        message = self.message_s(PLAIN)
        for from_one in (True, False):
            servers = Servers(PLAIN, 1)
            one, others = Machine(), (Machine(), Machine())
            for other in others:
                servers.environment.process(servers.send(*((one, other) if from_one else (other, one))))
            servers.environment.run()
            self.assertAlmostEqual(servers.environment.now, 2 * message + PLAIN.latency_s, delta=1e-14)
            self.assertEqual((one.sent, one.received), (2 * PLAIN.dense_bytes, 0) if from_one else (0, 2 * PLAIN.dense_bytes))

    def test_one_worker_and_one_server(self) -> None:
        s = WORKING
        path = s.compute_s + 2 * (self.message_s(s) + s.latency_s) + 4 * s.parameters * s.wire_s
        update, add = s.parameters * s.update_s, s.parameters * s.add_s
        self.assert_seconds(simulate("asynchronous", 1, s, STEPS, WARM_UP), path + update, 16)
        self.assert_seconds(simulate("server_synchronous", 1, s, STEPS, WARM_UP), path + add + update, 16)

    def test_as_many_servers_as_workers_are_never_in_the_way(self) -> None:
        """They meet at the first server once, and are one share apart from then on: p shares out, and the last one back."""
        for p in (1, 2, 3, 8):
            s = replace(WORKING, servers=p)
            share = s.dense_bytes / p / s.bandwidth + s.message_s
            update = s.update_s + 2 * s.wire_s
            self.assertLess(s.parameters * (update + s.wire_s), p * share)  # no work waits for work
            seconds = s.compute_s + (p + 1) * share + 2 * s.latency_s + s.parameters / p * (update + 2 * s.wire_s)
            self.assert_seconds(simulate("asynchronous", p, s, STEPS, WARM_UP), seconds, 16 * p)

    def test_synchronous_waits_for_the_last_push_and_the_answers(self) -> None:
        """The answers leave one after the other, so that the next pushes come one after the other and do not wait: p messages
        until the last answer, and one more for its push."""
        s = WORKING
        for p in (2, 3, 8, 50):
            work = s.parameters * (s.add_s + s.update_s + 4 * s.wire_s)
            seconds = s.compute_s + (p + 1) * self.message_s(s) + 2 * s.latency_s + work
            self.assert_seconds(simulate("server_synchronous", p, s, STEPS, WARM_UP), seconds, 16 * p)

    def test_asynchronous_goes_as_fast_as_the_slowest_station(self) -> None:
        """Equal workers, nothing random: p pushes in each round trip, until the link or the server is never idle."""
        for s in (WORKING, replace(WORKING, update_s=2e-8)):
            update = s.parameters * (s.update_s + 2 * s.wire_s)
            trip = s.compute_s + 2 * (self.message_s(s) + s.latency_s + s.parameters * s.wire_s) + update
            for p in (1, 2, 3, 8, 50):
                seconds = max(trip, p * max(update, self.message_s(s)))  # for one step of each
                self.assert_seconds(simulate("asynchronous", p, s, STEPS, WARM_UP), seconds, 16 * p)

    def test_a_gradient_of_equal_workers_misses_one_step_of_each_other(self) -> None:
        for p in (1, 2, 3, 8, 50):
            x = simulate("asynchronous", p, WORKING, STEPS, WARM_UP)
            self.assertEqual((x.staleness, x.staleness_p99), (p - 1, p - 1))
            self.assertEqual(simulate("server_synchronous", p, NOISY, STEPS, WARM_UP).staleness_p99, 0)
            k = WORKING.local_steps
            x = simulate("geo", p, WORKING, STEPS, WARM_UP)
            self.assertEqual((x.staleness, x.staleness_p99), (k * (p - 1), k * (p - 1)))

    def test_asynchronous_equals_the_queue_of_a_machine_repairman(self) -> None:
        """Exponential computation, one exponential server, p customers, no network (M/M/1//p): a mean over independent runs."""
        p, ratio, runs = 5, 0.4, 24
        base = replace(FREE, update_s=ratio * PLAIN.compute_s / PLAIN.parameters,
                       compute_noise=Noise("exponential", 1), update_noise=Noise("exponential", 1))
        idle = 1 / sum(math.perm(p, k) * ratio**k for k in range(p + 1))
        expected = (1 - idle) / (ratio * base.compute_s) / p
        rates = [simulate("asynchronous", p, replace(base, seed=seed), 300, 30).steps_per_s for seed in range(runs)]
        self.assertAlmostEqual(float(np.mean(rates)), expected, delta=5 * float(np.std(rates, ddof=1)) / math.sqrt(runs))

    def test_machines_that_do_not_wait_each_go_their_pace(self) -> None:
        s = replace(FREE, machine_noise=Noise("lognormal", 0.5))
        paces = 1 / (s.compute_s * s.machines(16))
        x = simulate("asynchronous", 16, s, 200, 10)
        # At both ends of the time that is counted, each worker has a part of a step.
        self.assertAlmostEqual(x.steps_per_s, paces.mean(), delta=paces.mean() / 200)

    def test_geo_pays_once_a_round(self) -> None:
        s = WORKING
        k, work = s.local_steps, s.parameters * (s.add_s + 4 * s.wire_s)
        trip = 2 * (self.message_s(s) + s.latency_s) + work
        local = k * (s.compute_s + s.parameters * s.update_s)
        for background, round_s in ((True, local), (False, local + trip)):
            x = simulate("geo", 1, replace(s, background=background), STEPS, WARM_UP)
            self.assert_seconds(x, round_s / k, 4 * k)
        slow = replace(s, bandwidth=1e6, background=True)  # an exchange longer than a round is waited for
        trip = 2 * (self.message_s(slow) + slow.latency_s) + work
        x = simulate("geo", 1, slow, STEPS, WARM_UP)
        self.assert_seconds(x, trip / k, 4 * k)

    def test_no_link_carries_more_than_it_can(self) -> None:
        for mode in ("asynchronous", "server_synchronous", "geo"):
            s = replace(NOISY, link_noise=Noise(), compute_s=0.002, servers=2)
            x = simulate(mode, 40, s, STEPS, WARM_UP)
            # Each worker may have begun one of the counted exchanges before the count.
            self.assertLessEqual(x.steps_per_s * x.busiest_s, 1 + 1 / STEPS)
        self.assertGreater(simulate("asynchronous", 40, replace(PLAIN, compute_s=0.002), STEPS, WARM_UP).steps_per_s
                           * 40 * self.message_s(PLAIN), 1 - 1e-9)


class Bytes(unittest.TestCase):
    def test_what_is_sent_comes_in(self) -> None:
        s = NOISY
        for p in (1, 2, 3, 8, 20):
            a_step = {"synchronous": 2 * (p - 1) / p * s.dense_bytes, "sharded": 2 * (p - 1) / p * s.dense_bytes,
                      "compressed": (p - 1) * (s.message_bytes + 8), "server_synchronous": s.dense_bytes,
                      "asynchronous": s.dense_bytes, "geo": s.dense_bytes / s.local_steps}
            self.assertEqual(set(a_step), set(MODES))
            for mode, expected in a_step.items():
                x = simulate(mode, p, s, STEPS, WARM_UP)
                self.assertEqual(x.sent, x.received, mode)
                self.assertAlmostEqual(x.sent_per_step, expected, delta=1e-12 * expected, msg=mode)
                if mode not in ("asynchronous", "geo"):  # whose workers end with different numbers of steps
                    answered = 2 if x.servers else 1
                    self.assertAlmostEqual(x.sent, answered * p * (STEPS + WARM_UP) * expected, delta=1, msg=mode)


class Distributions(unittest.TestCase):
    def test_mean_and_deviation(self) -> None:
        count, rng = 10**6, np.random.default_rng(3)
        for noise, excess in ((Noise("exponential", 1), 6.0), (Noise("exponential", 0.3), 6.0), (Noise("lognormal", 0.5), None)):
            if excess is None:
                w = 1 + noise.cv**2
                excess = w**4 + 2 * w**3 + 3 * w**2 - 6
            x = noise.draw(rng, count)
            self.assertAlmostEqual(x.mean(), 1, delta=5 * noise.cv / math.sqrt(count))
            self.assertAlmostEqual(x.var(), noise.cv**2, delta=5 * noise.cv**2 * math.sqrt((excess + 2) / count))
        self.assertEqual(Noise().draw(rng), 1)
        self.assertEqual(list(Noise().draw(rng, 2)), [1, 1])

    def test_the_same_seed_gives_the_same_run(self) -> None:
        for mode in MODES:
            x = simulate(mode, 5, NOISY, STEPS, WARM_UP)
            self.assertEqual(x, simulate(mode, 5, NOISY, STEPS, WARM_UP))
            self.assertNotEqual(x.steps_per_s, simulate(mode, 5, replace(NOISY, seed=2), STEPS, WARM_UP).steps_per_s)

    def test_the_same_machines_are_slow_however_many_there_are(self) -> None:
        self.assertEqual(list(NOISY.machines(3)), list(NOISY.machines(9)[:3]))


class Refused(unittest.TestCase):
    def assert_refused(self, sentence: str, made: Any, *arguments: Any, **named: Any) -> None:
        with self.assertRaises(ValueError) as caught:
            made(*arguments, **named)
        self.assertIn(sentence, str(caught.exception))

    def test_what_makes_no_sense(self) -> None:
        self.assert_refused("mode = 'gossip': must be one of synchronous, sharded", simulate, "gossip", 2, PLAIN, 1)
        self.assert_refused("workers = 0", simulate, "geo", 0, PLAIN, 1)
        self.assert_refused("'normal' must be constant, lognormal or exponential", Noise, "normal", 0.1)
        self.assert_refused("the cv 1.5 of exponential must be", Noise, "exponential", 1.5)
        self.assert_refused("bandwidth = 0: must be > 0", replace, PLAIN, bandwidth=0)
        self.assert_refused("collectives = 'star': must be direct or ring", replace, PLAIN, collectives="star")
        self.assert_refused("overlap = 1.5: must be >= 0 and <= 1", replace, PLAIN, overlap=1.5)
        self.assert_refused("latency_s = -1: must be >= 0", replace, PLAIN, latency_s=-1)
        self.assert_refused("servers = 0: must be >= 1", replace, PLAIN, servers=0)
        self.assert_refused("there is no field 'speed'; there are add_s", Scenario.of_json, {"speed": 3})
        self.assert_refused("bandwidth is missing", Scenario.of_json, {"parameters": 1, "compute_s": 1, "latency_s": 0})


class Report(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_it(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, FOLDER / "simulate.py", *arguments], capture_output=True, text=True, cwd=self.folder)

    def test_where_it_stops_paying(self) -> None:
        def curve(*points: tuple[int, float, float]) -> list[Result]:
            return [Result("geo", p, 1, 0, samples, 0, busiest, 0, 0, 0, 0) for p, samples, busiest in points]

        x = curve((1, 10, 0.1), (2, 19, 0.2), (4, 31, 0.4), (8, 34, 0.8), (16, 35, 1.6))
        self.assertEqual((stops_paying(x, 10), halves(x, 10), exceeds_link(x, 0.5)), (4, 8, 8))
        self.assertEqual((stops_paying(x[:3], 10), halves(x[:3], 10), exceeds_link(x[:3], 0.5)), (None, None, None))

    def test_a_scenario_of_a_file(self) -> None:
        values = {"parameters": 1000, "compute_s": 0.01, "bandwidth": 1e9, "latency_s": 1e-5, "link_noise": ["lognormal", 0.1]}
        (self.folder / "scenario.json").write_text(json.dumps(values))
        ran = self.run_it("--scenario", "scenario.json", "--workers", "1,2,4", "--csv", "x.csv", "--svg", "x.svg")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        with open(self.folder / "x.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(x["mode"], x["workers"]) for x in rows], [(mode, p) for mode in MODES for p in "124"])
        alone = float(rows[0]["steps_per_s"])
        self.assertAlmostEqual(alone, rate_alone(Scenario.of_json(values)), delta=1e-9 * alone)
        picture = (self.folder / "x.svg").read_text()
        self.assertTrue("scenario.json" in picture and "server synchronous" in picture)

    def test_measured_beside_simulated(self) -> None:
        seconds = 0.01 + 4000 / 1e9 + 2e-5  # two workers send each other half of the bytes, twice
        measured = {"scenario": {"name": "here", "parameters": 1000, "bandwidth": 1e9, "latency_s": 1e-5},
                    "runs": [{"mode": "synchronous", "workers": 2, "compute_s": 0.01, "bytes": 4000, "steps_per_s": 0.8 / seconds}]}
        (self.folder / "measured.json").write_text(json.dumps(measured))
        ran = self.run_it("--measured", "measured.json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f"| synchronous | 2 | {0.8 / seconds:.4g} | {1 / seconds:.4g} | 1.25 | 0.004 | 0.004 |", ran.stdout)
        del measured["runs"][0]["bytes"]
        (self.folder / "measured.json").write_text(json.dumps(measured))
        ran = self.run_it("--measured", "measured.json")
        self.assertEqual((ran.returncode, ran.stderr.count("\n")), (2, 1))
        self.assertIn("a run has no 'bytes'", ran.stderr)


if __name__ == "__main__":
    unittest.main()
