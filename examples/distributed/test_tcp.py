"""Runs a server and two workers over TCP as three processes: test_tcp.py PROGRAM."""
import socket
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


class Tcp(unittest.TestCase):
    def setUp(self):
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        self.addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
        for one in sockets:
            one.close()

    def start(self, rank, addresses):
        one = subprocess.Popen([PROGRAM, str(rank), *addresses], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        return one

    def test_trains(self):
        ranks = [self.start(rank, self.addresses) for rank in (2, 0, 1)]
        for one in ranks:
            out, errors = one.communicate()
            self.assertEqual((one.returncode, errors), (0, ""))
            self.assertRegex(out, r"^(worker [12]: w\[0\] = (1\.0|0\.9)\d+\n)?$")

    def test_refuses_what_is_no_address(self):
        out, errors = self.start(0, ["localhost", *self.addresses]).communicate()
        self.assertEqual((out, errors.startswith("distributed_tcp: tcp_messenger: localhost")), ("", True), errors)


if __name__ == "__main__":
    unittest.main()
