"""A Redis of its own over loopback TCP, and redis-benchmark against it."""

import contextlib
import csv
import os
import shutil
import socket
import subprocess
import tempfile
import time

from compare_lib import remote_rows, running

# Both are in Debian's package redis-tools: the program of this name is the server, too, where it is
# called by that name. So no service has to be installed.
SERVER_PROGRAM = "redis-check-rdb"
PROGRAMS = (SERVER_PROGRAM, "redis-benchmark")
# redis-benchmark puts the twelve digits of a random number here.
PLACE, DIGITS = "__rand_int__", 12
SECONDS_TO_START = 30
PORT_ATTEMPTS = 3


def missing_program():
    """The name of one that is not installed; None if all are."""
    return next((name for name in PROGRAMS if shutil.which(name) is None), None)


def key_prefix():
    return "k" * (remote_rows.SIZE[0] - DIGITS)


def value():
    """Of a store that does not compress, any bytes cost the same."""
    return "v" * remote_rows.SIZE[1]


class Connection:
    """Speaks just enough of RESP to load keys and to ask for figures."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.replies = self.socket.makefile("rb")

    def close(self):
        self.replies.close()
        self.socket.close()

    def reply(self):
        line = self.replies.readline()
        if line[:1] in (b"+", b":"):
            return line[1:].strip()
        if line[:1] == b"$":
            return self.replies.read(int(line[1:]) + 2)[:-2]
        raise running.Failure(f"Redis answered: {line.decode(errors='replace').strip() or 'nothing'}")

    def call(self, *words):
        self.socket.sendall(encode(*words))
        return self.reply()

    def load(self, keys):
        """Sets the keys below `keys`, which redis-benchmark draws from."""
        for first in range(0, keys, 1000):
            several = range(first, min(first + 1000, keys))
            self.socket.sendall(b"".join(
                encode("SET", f"{key_prefix()}{key:0{DIGITS}}", value()) for key in several))
            for _ in several:
                self.reply()

    def info(self):
        lines = self.call("INFO", "everything").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def encode(*words):
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def wait_until_ready(process, port):
    """A connection; None if the server has ended."""
    deadline = time.monotonic() + SECONDS_TO_START
    while process.poll() is None:
        try:
            return Connection(port)
        except OSError as error:
            if time.monotonic() > deadline:
                raise running.Failure(f"redis-server did not answer on port {port} within "
                                      f"{SECONDS_TO_START} s: {error}") from error
        time.sleep(0.05)
    return None


@contextlib.contextmanager
def server(keys):
    """(port, connection) of a Redis that has room for `keys` keys and keeps nothing on disk.

    Somebody may take the port between its choice and its use: it is tried again with another."""
    bytes_max = max(1 << 30, 4 * keys * (sum(remote_rows.SIZE) + 100))
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "redis.log")
        for _ in range(PORT_ATTEMPTS):
            port = free_port()
            words = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "",
                     "--appendonly", "no", "--maxmemory", str(bytes_max), "--maxmemory-policy",
                     "noeviction", "--dir", folder, "--logfile", log, "--daemonize", "no"]
            with running.started(words, executable=shutil.which(SERVER_PROGRAM)) as process:
                connection = wait_until_ready(process, port)
                if connection is None:
                    continue
                # The answer must be that of this server, not of one that had the port before.
                if int(connection.info()["process_id"]) != process.pid:
                    connection.close()
                    continue
                with contextlib.closing(connection):
                    yield port, connection
                return
        with open(log, encoding="utf-8", errors="replace") as file:
            raise running.Failure(f"redis-server does not start: {file.read()[-2000:]}")


def benchmark(port, row, keys):
    """Runs redis-benchmark; (its figures, the processor seconds that it took itself)."""
    data = [value()] if row.command == "SET" else []
    words = ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-c", str(row.clients), "-P",
             str(row.pipelined), "-n", str(row.redis_operations(keys)), "-r", str(keys),
             "--csv", row.command, key_prefix() + PLACE, *data]
    with tempfile.TemporaryFile("w+") as output:
        with running.started(words, stdout=output, stderr=subprocess.STDOUT) as process:
            # Not process.wait(): it does not tell what the process has used.
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise running.Failure(f"redis-benchmark ended with code {process.returncode}: {text}")
    return parse_csv(text), used.ru_utime + used.ru_stime


def parse_csv(text):
    """The figures of the one test in what redis-benchmark --csv printed."""
    lines = text[max(0, text.find('"test"')):].splitlines()
    found = [r for r in csv.DictReader(lines) if r.get("rps") and r.get("p99_latency_ms")]
    if len(found) != 1:
        raise running.Failure(f"cannot read what redis-benchmark printed: {text}")
    try:
        return {"ops_per_sec": float(found[0]["rps"]),
                "p50_us": 1000 * float(found[0]["p50_latency_ms"]),
                "p99_us": 1000 * float(found[0]["p99_latency_ms"])}
    except ValueError as error:
        raise running.Failure(f"cannot read what redis-benchmark printed: {error}") from error


def cpu_seconds(info):
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def wire_bytes(info):
    return int(info["total_net_input_bytes"]) + int(info["total_net_output_bytes"])


def measure_row(port, connection, row, keys, run):
    before = connection.info()
    figures, client_seconds = benchmark(port, row, keys)
    after = connection.info()
    hits, misses = (int(after[name]) - int(before[name]) for name in
                    ("keyspace_hits", "keyspace_misses"))
    ops = row.redis_operations(keys)
    if row.command == "GET" and (misses or hits < ops):
        raise running.Failure(f"{row.label}: Redis found {hits} keys and missed {misses}")
    server_seconds = cpu_seconds(after) - cpu_seconds(before)
    return {**figures, "row": row.label, "run": run, "ops": ops,
            "wire_bytes_per_op": (wire_bytes(after) - wire_bytes(before)) / ops,
            "client_cpu_us_per_op": client_seconds * 1e6 / ops,
            "server_cpu_us_per_op": server_seconds * 1e6 / ops}


def measure(keys, run):
    """One object for each row."""
    with server(keys) as (port, connection):
        connection.load(keys)
        return [measure_row(port, connection, row, keys, run) for row in remote_rows.ROWS]
