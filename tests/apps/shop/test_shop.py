"""The shop by itself, in its own network namespace: its ground truth must be whole, and nothing may stay behind."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "truth"))
import check  # noqa: E402 - from truth/

REQUESTS = 400


def processes_with(marker):
    """Processes of which the environment names this run's folder."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if marker in (folder / "environ").read_bytes():
                found.append((folder.name, (folder / "cmdline").read_bytes()))
        except OSError:
            pass
    return found


class ShopTest(unittest.TestCase):
    def test_every_call_of_every_request_is_in_the_truth(self):
        if os.geteuid() != 0:
            self.skipTest("a network namespace needs root")
        with tempfile.TemporaryDirectory() as work:
            command = [
                sys.executable,
                HERE / "run.py",
                "--netns",
                "--dir",
                work,
                "--load",
                str(REQUESTS),
                "--users",
                "20",
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads(done.stdout)
            self.assertEqual((summary["requests"], summary["broken"]), (REQUESTS, 0))
            self.assertEqual(processes_with(f"{work}/truth".encode()), [])
            roots = check.read_truth(pathlib.Path(work) / "truth")
        self.assertEqual(len(roots), REQUESTS)
        kinds = collections.Counter()
        for root in roots:
            self.check_request(root, kinds)
        self.assertEqual(set(kinds), {"/home", "/product", "/legacy", "/static", "/cart", "/checkout"})

    def check_request(self, root, kinds):
        """The calls of each page according to the shop's source, level by level."""
        method, path = root.name.split()
        kind = "/" + path.split("/")[1]
        kinds[kind] += 1
        calls = collections.Counter(f"{c.from_}→{c.to}" for c in check.walk(root))
        self.assertEqual(calls["load→gateway"], 1)
        self.assertEqual(calls["gateway→storefront"], 0 if kind == "/static" else 1, root.name)
        if kind == "/home":
            self.assertEqual(
                (calls["storefront→catalog"], calls["catalog→pricing"], calls["storefront→redis"]), (1, 3, 1)
            )
        if kind in ("/product", "/legacy"):
            item = int(path.rsplit("/", 1)[1])
            self.assertEqual(root.status, 500 if item == 13 else 404 if item >= 900 else 200)
            self.assertEqual(
                (calls["catalog→pricing"], calls["storefront→redis"]), (int(item < 900), int(root.status == 200))
            )
        if kind == "/checkout" and root.status == 201:
            self.assertEqual((calls["storefront→cart"], calls["cart→redis"], calls["storefront→redis"]), (2, 2, 2))
            self.assertEqual(calls["storefront→catalog"], calls["catalog→pricing"])
        if method == "POST" and kind == "/cart":
            self.assertEqual((calls["storefront→cart"], calls["cart→redis"]), (1, 2))


if __name__ == "__main__":
    unittest.main()
