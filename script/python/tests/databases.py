"""Databases of tests."""
import contextlib
import itertools
import os
import socket
import subprocess

import dlsm

_numbers = itertools.count()


def in_memory(**options):
    """A new database. The memory node in this process keeps those that were closed."""
    return dlsm.open(None, f"test{next(_numbers)}", **options)


@contextlib.contextmanager
def server():
    """The "host:port" of a Server that runs in the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([os.environ["DLSM_SERVER"], str(port), "1", "1"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
