"""Calls of threads to the back end, each over a connection of its own."""

import http.client
import sys
import threading

BACK = int(sys.argv[-1])
HERE = threading.local()


def call(number):
    if not hasattr(HERE, "connection"):
        HERE.connection = http.client.HTTPConnection("127.0.0.1", BACK)
    HERE.connection.request("GET", f"/u/{number}")
    return HERE.connection.getresponse().read()
