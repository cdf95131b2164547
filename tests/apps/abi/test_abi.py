"""Tests the programs of abi/ and bystander/ without a tracer: they must do what they report."""

import collections
import json
import pathlib
import subprocess
import tempfile
import unittest

APPS = pathlib.Path(__file__).resolve().parents[1]
MESSAGE = 96


def build(scratch, name):
    made = pathlib.Path(scratch) / name
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", made, APPS / name / f"{name}.c"], check=True
    )
    return made


class AbiTest(unittest.TestCase):
    def test_every_case_moves_its_messages_and_tells(self):
        with tempfile.TemporaryDirectory() as scratch:
            abi = build(scratch, "abi")
            done = subprocess.run(
                [abi, "--mark", "TEST"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120
            )
            names = subprocess.run([abi, "--list"], stdout=subprocess.PIPE, text=True, timeout=10).stdout.split()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        moved = collections.Counter()
        abis = set()
        for line in done.stdout.splitlines():
            call = json.loads(line)
            abis.add(call["abi"])
            if call["bytes"] > 0 and not call["peek"]:
                moved[call["case"], call["side"], call["op"]] += call["bytes"]
        for name in names:
            sent, received = moved[name, "client", "send"], moved[name, "server", "recv"]
            self.assertEqual(sent, received, name)
            if name.count("/") == 2:
                self.assertEqual(
                    (sent, moved[name, "server", "send"], moved[name, "client", "recv"]), (MESSAGE,) * 3, name
                )
        ten = {"read", "readv", "recvfrom", "recvmsg", "recvmmsg", "write", "writev", "sendto", "sendmsg", "sendmmsg"}
        self.assertEqual(abis, ten | {"sendfile", "splice"})

    def test_the_bystander_exchanges(self):
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                [build(scratch, "bystander"), "MARKED", "1"], stdout=subprocess.PIPE, text=True, timeout=30
            )
        self.assertEqual(done.returncode, 0)
        ready, exchanges = done.stdout.split()
        self.assertEqual(ready, "ready")
        self.assertGreaterEqual(int(exchanges), 3)


if __name__ == "__main__":
    unittest.main()
