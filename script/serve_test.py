#!/usr/bin/env python3
"""dlsm_serve as its users have it: its messages, TLS, files that are read again, redis-benchmark, and kill -9 under load.

  script/serve_test.py DLSM_SERVE
"""

import csv
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = sys.argv[1]
SECONDS_TO_START = 30


def start(*flags):
    """(process, port) of a server that is ready."""
    process = subprocess.Popen([PROGRAM, "--port=0", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    ready = re.match(r"dlsm_serve ready on .*:(\d+)$", line)
    assert ready, f"{line}{process.stderr.read()}"
    return process, int(ready.group(1))


def stop(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS_TO_START) == 0, process.stderr.read()


def refused(code, wanted, *flags):
    done = subprocess.run([PROGRAM, "--port=0", *flags], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and wanted in done.stderr, f"{flags}: {done.returncode} {done.stderr}"


class Connection:
    def __init__(self, port, context=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        if context is not None:
            self.socket = context.wrap_socket(self.socket)
        self.replies = self.socket.makefile("rb")

    def call(self, *words):
        self.send(*words)
        return self.reply()

    def send(self, *words):
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in encoded))

    def reply(self):
        line = self.replies.readline()
        if not line:
            raise ConnectionError("closed")
        if line[:1] == b"$":
            count = int(line[1:])
            return None if count < 0 else self.replies.read(count + 2)[:-2]
        if line[:1] == b":":
            return int(line[1:])
        return line.strip()


def test_messages(folder):
    refused(2, "--port: 0 to 65535", "--port=70000")
    refused(2, "--appendfsync: always or everysec", "--appendfsync=never")
    refused(2, "no flag --prot", "--prot=1")
    refused(2, "--insecure", "--bind=0.0.0.0")
    refused(1, "no numeric address", "--bind=localhost", "--insecure")
    refused(1, "make the directory that it is to be in", f"--data_dir={folder}/a/b")
    refused(1, "tls_certificate_file", f"--tls_key_file={folder}/none")
    refused(1, "127.0.0.1:1", "--memory_nodes=127.0.0.1:1")
    taken, port = start(f"--data_dir={folder}/one")
    refused(1, "another --port", f"--port={port}")
    refused(1, "process", f"--data_dir={folder}/one")
    stop(taken)


def test_tls(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-out", f"{folder}/crt",
                    "-keyout", f"{folder}/key"], check=True, capture_output=True)
    os.chmod(f"{folder}/key", 0o600)
    files = [f"--tls_certificate_file={folder}/crt", f"--tls_key_file={folder}/key"]
    server, port = start(*files)
    context = ssl.create_default_context(cafile=f"{folder}/crt")
    context.check_hostname = False
    redis = Connection(port, context)
    large = random.randbytes(3 << 20)
    assert redis.call("SET", "large", large) == b"+OK"
    for _ in range(20):
        redis.send("GET", "large")
    for _ in range(20):
        assert redis.reply() == large
    plain = Connection(port)
    plain.socket.sendall(b"PING\r\n")
    try:
        answer = plain.replies.read()
    except ConnectionError:
        answer = b""
    assert b"PONG" not in answer, answer
    assert redis.call("PING") == b"+PONG"
    stop(server)
    # Clients without a certificate are refused where one is wanted.
    server, port = start(*files, f"--tls_ca_file={folder}/crt")
    try:
        Connection(port, context).call("PING")
        raise AssertionError("a client without a certificate was served")
    except (ssl.SSLError, ConnectionError):
        pass
    context.load_cert_chain(f"{folder}/crt", f"{folder}/key")
    assert Connection(port, context).call("PING") == b"+PONG"
    stop(server)


def write_private(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o600)


def test_files_are_read_again(folder):
    """SIGHUP brings other passwords and users; a file that is wrong changes nothing."""
    password_file, users = f"{folder}/password", f"{folder}/users"
    write_private(password_file, "the first password\n")
    write_private(users, "user alice on >secret ~* +@read +@connection\n")
    refused(1, "ACL file", f"--aclfile={users}.none")
    refused(1, "needs no password", "--bind=0.0.0.0", f"--aclfile={users}")
    server, port = start(f"--password_file={password_file}", f"--aclfile={users}")

    def login(*words):
        return Connection(port).call("AUTH", *words)

    def read_again(wanted):
        """The log's lines up to one with `wanted`."""
        server.send_signal(signal.SIGHUP)
        lines = []
        while not lines or wanted not in lines[-1]:
            lines.append(server.stderr.readline())
            assert lines[-1], lines
        return "".join(lines)

    alice = Connection(port)
    assert alice.call("GET", "a") == b"-NOAUTH Authentication required."
    assert alice.call("AUTH", "alice", "secret") == b"+OK"
    assert alice.call("SET", "a", 1).startswith(b"-NOPERM")
    assert login("the first password") == b"+OK"

    write_private(password_file, "short\n")
    write_private(users, "user alice on >secret ~* +@read +@connection\nuser bob on +@none\n")
    log = read_again("users stay")
    assert "password stays" in log and f"{users}:2: user 'bob': Unknown command or category" in log, log
    assert login("the first password") == b"+OK" and login("alice", "secret") == b"+OK"
    assert alice.call("GET", "a") is None

    write_private(password_file, "the second password\n")
    write_private(users, "user bob on >secret ~* +@all\n")
    read_again("ACL file")
    assert login("the first password").startswith(b"-WRONGPASS") and login("the second password") == b"+OK"
    assert login("alice", "secret").startswith(b"-WRONGPASS") and login("bob", "secret") == b"+OK"
    assert alice.replies.read() == b"", "alice is still connected"
    bob = Connection(port)
    bob.call("AUTH", "bob", "secret")
    assert bob.call("ACL", "SETUSER", "carol", "on", "nopass") == b"+OK"
    assert bob.call("ACL", "SAVE") == b"+OK"
    stop(server)
    assert os.stat(users).st_mode & 0o777 == 0o600
    with open(users, encoding="utf-8") as file:
        assert [line.split()[1] for line in file] == ["bob", "carol", "default"]


BENCHMARK_TESTS = [
    "PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "LPUSH", "RPUSH", "LPOP", "RPOP", "SADD", "HSET", "SPOP", "ZADD",
    "ZPOPMIN", "LPUSH (needed to benchmark LRANGE)", "LRANGE_100 (first 100 elements)", "LRANGE_300 (first 300 elements)",
    "LRANGE_500 (first 500 elements)", "LRANGE_600 (first 600 elements)", "MSET (10 keys)"]


def test_benchmark(folder):
    """redis-benchmark's tests, all of them, without an error. It ends at the first one by itself."""
    if not shutil.which("redis-benchmark"):
        print("redis-benchmark is not installed, so it was not run")
        return
    server, port = start(f"--data_dir={folder}/benchmark", "--threads=2")
    for pipeline, protocol in ((1, []), (16, ["-3"])):
        done = subprocess.run(["redis-benchmark", "-p", str(port), "-n", "2000", "-r", "1000", "-P", str(pipeline), "--csv",
                               *protocol], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 and not done.stderr, f"{done.returncode} {done.stdout} {done.stderr}"
        rows = list(csv.DictReader(done.stdout.splitlines()))
        assert [row["test"] for row in rows] == BENCHMARK_TESTS, done.stdout
        for row in rows:
            assert float(row["rps"]) > 0 and float(row["p99_latency_ms"]) > 0, row
    assert b"total_error_replies:0\r\n" in Connection(port).call("INFO", "stats")
    stop(server)


def write_until_killed(port, number, acknowledged):
    """Adds one after the other, in pipelines of several; acknowledged[number]: what was answered."""
    try:
        redis = Connection(port)
        while True:
            for _ in range(10):
                redis.send("INCR", f"counter{number}")
                redis.send("RPUSH", f"list{number}", "x" * 50)
            for _ in range(10):
                count = redis.reply()
                assert redis.reply() == count, "a list that does not go with its counter"
                acknowledged[number] = count
    except (OSError, ValueError):
        pass


def test_kill(folder, *flags):
    """What was answered is there when the server is started again, whenever it was killed."""
    threads = 4
    acknowledged = [0] * threads
    for life in range(6):
        server, port = start(f"--data_dir={folder}/killed", "--threads=2", *flags)
        redis = Connection(port)
        for number in range(threads):
            count = int(redis.call("GET", f"counter{number}") or 0)
            assert count >= acknowledged[number], f"life {life}: {count} of {acknowledged[number]} are left"
            length = redis.call("LLEN", f"list{number}")
            assert count - 1 <= length <= count, f"life {life}: {length} elements and {count}"
            if length < count:
                assert redis.call("RPUSH", f"list{number}", "again") == count
            acknowledged[number] = count
        writers = [threading.Thread(target=write_until_killed, args=(port, n, acknowledged)) for n in range(threads)]
        for writer in writers:
            writer.start()
        time.sleep(0.2 + random.random() / 2)
        server.kill()
        server.wait()
        for writer in writers:
            writer.join()
    assert min(acknowledged) > 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_messages(folder)
        test_tls(folder)
        test_files_are_read_again(folder)
        test_benchmark(folder)
        test_kill(folder)
        test_kill(folder, "--appendfsync=always")


if __name__ == "__main__":
    main()
