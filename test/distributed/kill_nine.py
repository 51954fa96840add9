#!/usr/bin/env python3
"""Kills ranks of a job by `kill -9`, workers and servers, at random moments, and holds the job to an exact count at its end.

    kill_nine.py KILLS PROGRAM MPIEXEC...

PROGRAM is mpi_counting. mpirun ends a job of which a rank is killed; it is started again and goes on from its checkpoints, until as
many ranks were killed as asked for; then it may count to its end. Jobs that come to their end before are checked, and followed by
another one.
"""
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SERVERS, WORKERS, STEPS = 2, 2, 1000
BEGIN_S, END_S = 200, 300  # how long to wait for a job to begin, and to end
RANKS = SERVERS + WORKERS


def processes(folder):
    """The process of each rank, or nothing before all have written theirs."""
    try:
        return [int((folder / f"process_{r}").read_text()) for r in range(RANKS)]
    except (FileNotFoundError, ValueError):
        return []


def run(folder, command, wait):
    """One run of the job, of which after `wait` seconds a rank is killed (None: none). Returns the rank, or None where none was."""
    for r in range(RANKS):
        (folder / f"process_{r}").unlink(missing_ok=True)
    with open(folder / "output", "w+") as output:
        job = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            begun = time.monotonic()
            while wait is not None and job.poll() is None:
                assert time.monotonic() - begun < BEGIN_S, "the job does not begin"
                if all_ranks := processes(folder):
                    time.sleep(wait)
                    rank = random.randrange(RANKS)
                    try:
                        subprocess.run(["kill", "-9", str(all_ranks[rank])], check=True, stderr=subprocess.DEVNULL)
                    except subprocess.CalledProcessError:
                        break  # it has ended
                    job.wait(timeout=END_S)
                    return rank
                time.sleep(0.005)
            job.wait(timeout=END_S)
        finally:
            if job.poll() is None:
                job.send_signal(signal.SIGKILL)
                job.wait()
        output.seek(0)
        assert job.returncode == 0, f"the job ended with {job.returncode}:\n{output.read()}"
    return None


def check(folder):
    """The counts of all servers, which are those of all steps of all workers. Every server has given up rows."""
    of_servers = [list(map(int, (folder / f"counts_{server}").read_text().split())) for server in range(SERVERS)]
    *counts, _ = map(sum, zip(*of_servers))
    expected = [9000 * STEPS * WORKERS, 3 * STEPS * WORKERS, 3 * STEPS * WORKERS]
    assert counts == expected, f"counted {counts}; expected {expected}"
    assert all(given_up > 100 for *_, given_up in of_servers), f"few rows were given up: {of_servers}"


def main():
    kills, program, mpiexec = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    random.seed(kills)
    killed = [0] * RANKS
    jobs = 0
    begun = time.monotonic()
    print(f"waiting for {kills} kills, each up to {BEGIN_S} s for a job to begin and {END_S} s for its end", flush=True)
    while sum(killed) < kills:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            command = [*mpiexec, "-n", str(RANKS), program, name, str(SERVERS), str(STEPS)]
            while True:
                rank = run(folder, command, random.uniform(0, 0.4) if sum(killed) < kills else None)
                if rank is None:
                    break
                killed[rank] += 1
            check(folder)
            jobs += 1
    print(f"{sum(killed)} ranks were killed (servers {killed[:SERVERS]}, workers {killed[SERVERS:]}) in {jobs} jobs, and every count is "
          f"exact; {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
