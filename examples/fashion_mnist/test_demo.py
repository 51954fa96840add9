"""Runs the demos on a tiny data set of their own: what they write, how they take damaged files, how they stop.

    python3 test_demo.py EVERY_OPTIMIZER DGC_TRAINING [MPIRUN DISTRIBUTED_TRAINING]
"""
import gzip
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

EVERY_OPTIMIZER, DGC_TRAINING, *DISTRIBUTED = sys.argv[1:]
del sys.argv[1:]
SIDE, CLASSES = 8, 3
NAMES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = NAMES


def idx(shape, values):
    return struct.pack(f">{1 + len(shape)}I", 0x0800 + len(shape), *shape) + bytes(values)


def content():
    """The four files, not yet compressed. Class k is bright in the rows 2k and 2k + 1."""
    rng, files = random.Random(1), {}
    for (images, labels), count in zip((NAMES[:2], NAMES[2:]), (300, 60)):
        classes = [i % CLASSES for i in range(count)]
        pixels = [rng.randrange(100) + 150 * (p // SIDE // 2 == k) for k in classes for p in range(SIDE * SIDE)]
        files[images] = idx((count, SIDE, SIDE), pixels)
        files[labels] = idx((count,), classes)
    return files


class Training(unittest.TestCase):
    """What the tests of a program share."""

    program = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.picture = self.folder / "it's a picture.png"
        for name, data in content().items():
            (self.folder / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))

    def command(self, *more):
        return [self.program, "--data", self.folder, "--output", self.picture, "--batch", "16", "--hidden", "8", *more]

    def demo(self, *more, epochs=3):
        return subprocess.run(self.command("--epochs", str(epochs), *more), capture_output=True, text=True)

    def change_packed(self, name, change):
        path = self.folder / f"{name}.gz"
        path.write_bytes(change(path.read_bytes()))

    def change(self, name, change):
        self.change_packed(name, lambda packed: gzip.compress(change(gzip.decompress(packed))))

    def assert_refused(self, name, reason):
        ran = self.demo()
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        self.assertIn(name, ran.stderr)
        self.assertIn(reason, ran.stderr)
        self.assertFalse(self.picture.exists())

    def assert_no_draft(self):
        self.assertEqual([p.name for p in self.folder.glob("*.part*")], [])

    def assert_drawn(self, ran):
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(self.picture.read_bytes().startswith(b"\x89PNG") and self.picture.stat().st_size > 10_000)
        self.assertIn(str(self.picture), ran.stdout)
        self.assert_no_draft()

    def assert_interrupted(self, reason):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.picture.write_text("an older picture")
            with subprocess.Popen(self.command("--epochs", "100000"), stderr=subprocess.PIPE, text=True) as running:
                running.stderr.readline()  # the first epoch is done
                running.send_signal(number)
                last = running.stderr.readlines()[-1]
            self.assertEqual(running.returncode, 130)
            self.assertIn(reason, last)
            self.assertEqual(self.picture.read_text(), "an older picture")
            self.assert_no_draft()


class Demo(Training):
    program = EVERY_OPTIMIZER

    def test_trains_and_draws(self):
        ran = self.demo()
        self.assert_drawn(ran)
        for name in ("sgd", "momentum", "nesterov", "adagrad", "adam", "adamw"):
            self.assertRegex(ran.stdout, rf"(?m)^{name} +\d+\.\d\d %")
            self.assertRegex(ran.stderr, rf"(?m)^{name} +epoch +3 +loss")
            self.assertRegex(ran.stdout, rf"(?m)^{name} +\d+\.\d\d % +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+$")  # beside a loop
        self.assertRegex(ran.stdout, "(?m)^Hash of the weights .* with 1 thread, ([0-9a-f]{16}) with [0-9]+.$")

    def test_same_seed_same_result(self):
        curves = [[line.split(" %")[0] for line in self.demo("--seed", seed).stderr.splitlines()] for seed in "778"]
        self.assertEqual(curves[0], curves[1])
        self.assertNotEqual(curves[0], curves[2])

    def test_chosen_optimizers(self):
        ran = self.demo("--optimizers", "adam,sgd")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("adagrad", ran.stdout)

    def test_unknown_optimizer(self):
        for chosen in ("none_such", "adam,none_such", "muon, adam", "Adam", ""):
            ran = self.demo("--optimizers", chosen)
            self.assertNotEqual(ran.returncode, 0, chosen)
            self.assertIn("--optimizers", ran.stderr)
            if chosen:
                for name in ("sgd", "adamw", "muon", "prodigy", "schedule_free", "cautious_adam"):
                    self.assertRegex(ran.stderr, rf"[{{,]{name}[,}}]")
            self.assertFalse(self.picture.exists())

    def test_recipes(self):
        """64-8-3: 512 weights of a hidden layer, of which muon keeps one float, and 35 other parameters."""
        ran = self.demo("--optimizers", "muon,schedule_free,schedule_free_adam,prodigy,adafactor,averaged_adam,adamw",
                        epochs=20)
        self.assert_drawn(ran)
        rows = {name: numbers for name, *numbers in re.findall(
            r"(?m)^(\w+) +([\d.]+) % +([\d.]+) +(?:[\d.]+|-) +[\d.]+ +([\d.]+)$", ran.stdout)}
        state = {"muon": (512 * 4 + 35 * 8) / 547, "schedule_free": 8, "schedule_free_adam": 8, "prodigy": 16,
                 "adafactor": (64 + 8 + 8 + 8 + 3 + 3) * 4 / 547, "averaged_adam": 12, "adamw": 8}
        self.assertEqual(rows.keys(), state.keys())
        for name, (accuracy, _, per_parameter) in rows.items():
            if name != "averaged_adam":  # the training is shorter than its average
                self.assertGreater(float(accuracy), 80, name)  # of three classes that stand apart
            self.assertEqual(per_parameter, f"{state[name]:.1f}", name)
        self.assertEqual(self.epochs(ran, "schedule_free"), self.epochs(ran, "schedule_free_adam"))

    @staticmethod
    def epochs(ran, name):
        """Loss and accuracy after each epoch."""
        return re.findall(rf"(?m)^{name} +epoch +\d+  loss ([\d.]+)  test accuracy ([\d.]+) %", ran.stderr)

    def test_average_is_judged(self):
        """It does not change what is trained, but what is judged."""
        ran = self.demo("--optimizers", "adam,averaged_adam")
        last, average = (list(zip(*self.epochs(ran, name))) for name in ("adam", "averaged_adam"))
        self.assertEqual(last[0], average[0])
        self.assertNotEqual(last[1], average[1])

    def test_seeds(self):
        def table(*more):
            return [re.findall(r"\d+\.\d\d", line) for line in self.demo("--optimizers", "adam,muon", *more).stdout.splitlines()
                    if line.startswith(("adam ", "muon "))]
        seventh, eighth, both = table("--seed", "7"), table("--seed", "8"), table("--seed", "7", "--seeds", "2")
        for a, b, (mean, lowest, highest) in zip(seventh, eighth, both):
            accuracies = sorted((float(a[0]), float(b[0])))
            self.assertEqual([float(lowest), float(highest)], accuracies)
            self.assertAlmostEqual(float(mean), sum(accuracies) / 2, delta=0.011)  # of rounded numbers
        self.assertNotEqual(seventh, eighth)
        self.assertNotEqual(self.demo("--seeds", "0").returncode, 0)

    def test_held_out(self):
        def judged():
            ran = self.demo("--optimizers", "adam", "--held-out", "100")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("200 training and 100 test images", ran.stdout)
            return self.epochs(ran, "adam")
        before = judged()
        self.change(TEST_LABELS, lambda data: data[:8] + bytes(60))
        self.assertEqual(judged(), before)  # the test set has no influence
        self.picture.unlink()
        ran = self.demo("--held-out", "300")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("300 of 300 training images", ran.stderr)
        self.assertFalse(self.picture.exists())

    def test_rate_scale(self):
        tiny = self.demo("--optimizers", "sgd", "--rate-scale", "1e-9")
        self.assertEqual(tiny.returncode, 0, tiny.stderr)
        losses = re.findall(r"loss (\d\.\d+)", tiny.stderr)
        self.assertLess(abs(float(losses[0]) - float(losses[-1])), 0.1)  # nothing is learned
        self.assertNotEqual(self.demo("--rate-scale", "0").returncode, 0)

    def test_your_rule(self):
        ran = self.demo("--optimizers", "adam,cautious_adam")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r"(?m)^cautious_adam +\d+\.\d\d %")

    def test_vector_picture(self):
        self.picture = self.folder / "picture.svg"
        self.assertEqual(self.demo("--optimizers", "adam").returncode, 0)
        picture = self.picture.read_text()
        for text in ("<svg", "cross entropy (log scale)", "accuracy (%)", "epoch", "adam"):
            self.assertIn(text, picture)
        self.assert_no_draft()

    def test_plain_files(self):
        for path in self.folder.glob("*.gz"):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
        self.assertEqual(self.demo("--optimizers", "sgd").returncode, 0)
        self.picture.unlink()
        path = self.folder / TEST_IMAGES
        path.write_bytes(path.read_bytes()[:-5])
        self.assert_refused(TEST_IMAGES, "announces 3840 values: 3835 follow")

    def test_missing_file(self):
        (self.folder / f"{TEST_LABELS}.gz").unlink()
        self.assert_refused(TEST_LABELS, "does not exist")

    def test_truncated(self):
        whole = (self.folder / f"{TRAIN_IMAGES}.gz").read_bytes()
        for length in (3, 15, len(whole) // 2, len(whole) - 4):
            self.change_packed(TRAIN_IMAGES, lambda _: whole[:length])
            self.assert_refused(TRAIN_IMAGES, "cut short")

    def test_empty(self):
        self.change_packed(TRAIN_LABELS, lambda _: b"")
        self.assert_refused(TRAIN_LABELS, "ends inside its header")

    def test_checksum(self):
        self.change_packed(TRAIN_LABELS, lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:])
        self.assert_refused(TRAIN_LABELS, "incorrect data check")

    def test_wrong_kind_of_file(self):
        self.change(TRAIN_LABELS, lambda _: content()[TRAIN_IMAGES])
        self.assert_refused(TRAIN_LABELS, "magic number is 2051 instead of 2049")

    def test_absurd_header(self):
        self.change(TRAIN_IMAGES, lambda data: data[:4] + b"\xff" * 12 + data[16:])
        self.assert_refused(TRAIN_IMAGES, "more than 4 GiB")

    def test_label_count(self):
        self.change(TRAIN_LABELS, lambda _: content()[TEST_LABELS])
        self.assert_refused(TRAIN_LABELS, "60 labels for the 300 images")

    def test_label_out_of_range(self):
        self.change(TEST_LABELS, lambda data: data[:-1] + b"\x07")
        self.assert_refused(TEST_LABELS, "label 7 at image 59")

    def test_image_sizes(self):
        self.change(TEST_IMAGES, lambda data: idx((60, 8, 4), data[-60 * 32 :]))
        self.assert_refused("", "training images of 64 pixels and test images of 32.")

    def test_interrupted(self):
        self.assert_interrupted("Interrupted during sgd: nothing was finished")


class Trainers(Training):
    """64-8-3: tensors of 512, 8, 24 and 3 floats, of which the first is compressed."""

    program = DGC_TRAINING

    def test_trains_and_draws(self):
        ran = self.demo("--dense-below", "100")
        self.assert_drawn(ran)
        self.assertIn("all 4 trainers held the same weights, bit for bit", ran.stdout)
        header, index, value = 40, 4, 4
        dense = sum(header + value * n for n in (512, 8, 24, 3))
        rest = sum(header + value * n for n in (8, 24, 3))
        last = header + 2 * index + value + rest  # one entry, its index padded to 8 bytes
        self.assertRegex(ran.stdout, rf"(?m)^dense momentum +\d+\.\d\d % +{dense} +{dense} ")
        self.assertRegex(ran.stdout, rf"(?m)^dgc_momentum +\d+\.\d\d % +{dense} +{last} ")
        at_75 = header + 128 * (index + value) + rest
        self.assertRegex(ran.stdout, rf"(?m)75\.0000 % +{at_75} ")
        for name in ("dense momentum", "dgc_momentum"):
            self.assertRegex(ran.stderr, rf"(?m)^{name} +epoch +3 +loss")

    def test_nothing_compressed_is_dense(self):
        ran = self.demo("--trainers", "3")  # all tensors are below the default
        self.assertEqual(ran.returncode, 0, ran.stderr)
        epochs = [re.sub("^.*epoch|%.*$", "", line) for line in ran.stderr.splitlines()]
        self.assertEqual(len(epochs), 6)
        self.assertEqual(epochs[:3], epochs[3:])

    def test_interrupted(self):
        self.assert_interrupted("Interrupted during dense momentum")

    def test_more_trainers_than_images(self):
        for name, count in ((TRAIN_IMAGES, 16 + 3 * SIDE * SIDE), (TRAIN_LABELS, 8 + 3)):
            self.change(name, lambda data: data[:4] + struct.pack(">I", 3) + data[8:count])
        self.assert_refused("", "3 training images for 4 trainers")


class Processes(Training):
    """Three of them, in every mode."""

    def demo(self, *more):
        mpirun, self.program = DISTRIBUTED
        return subprocess.run([mpirun, "-n", "3", *self.command("--local-steps", "2", *more)], capture_output=True, text=True)

    @unittest.skipUnless(DISTRIBUTED, "there is no MPI")
    def test_trains_and_draws(self):
        ran = self.demo("--epochs", "20")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.picture.read_bytes()[:4], b"\x89PNG")
        rows = re.findall(r"(?m)^(\S.*\S) +(\d) \+ (\d) +([\d.]+) % +(\d+) +(\d+) +([\d.]+)$", ran.stdout)
        self.assertEqual([row[0] for row in rows], ["synchronous", "sharded", "compressed", "server, synchronous",
                                                    "server, asynchronous", "server, Geo-SGD"])
        self.assertEqual([row[1:3] for row in rows], 3 * [("3", "0")] + 3 * [("2", "1")])
        for row in rows:
            self.assertGreater(float(row[3]), 80, row)  # of three classes that stand apart
        self.assertEqual(rows[0][3], rows[1][3])  # the same bits

    @unittest.skipUnless(DISTRIBUTED, "there is no MPI")
    def test_too_few_images(self):
        for name, count in ((TRAIN_IMAGES, 16 + 100 * SIDE * SIDE), (TRAIN_LABELS, 8 + 100)):
            self.change(name, lambda data: data[:4] + struct.pack(">I", 100) + data[8:count])
        ran = self.demo("--epochs", "1")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("too few for so many ranks", ran.stderr)


if __name__ == "__main__":
    unittest.main()
