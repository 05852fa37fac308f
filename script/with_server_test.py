#!/usr/bin/env python3
"""Tests script/with-server.

    with_server_test.py SERVER
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from bench_lib.checks import check, check_equal, run_test, take_signals  # noqa: E402

WITH_SERVER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "with-server")


def check_input(server):
    """Fails if the command gets another standard input than with-server has, or does not run where there
    is none."""
    words = [WITH_SERVER, server, "0.1"]
    done = subprocess.run([*words, "cat"], input="x\n", capture_output=True, text=True, timeout=60,
                          check=False)
    check(done.returncode == 0 and done.stdout.endswith("\nx\n"), f"{done}")
    done = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *words, "echo", "y"], capture_output=True,
                          text=True, timeout=60, check=False)
    check(done.returncode == 0 and done.stdout.endswith("\ny\n"), f"{done}")


def server_in_session(session):
    """The process id of the one Server that runs in it, or None."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == session and os.readlink(f"/proc/{pid}/exe").endswith("/Server"):
                return int(pid)
        except OSError:
            continue
    return None


def memory_of(server):
    """The files in /dev/shm of the Server with that process id."""
    return [name for name in os.listdir("/dev/shm") if re.match(rf"dlsm-.*-{server}-", name)]


def check_signals(server):
    """Fails if a signal leaves the Server, or its memory, behind: one that with-server alone is sent, or
    one that its terminal sends to all."""
    for number, send in ((signal.SIGHUP, os.kill), (signal.SIGHUP, os.killpg), (signal.SIGINT, os.killpg),
                         (signal.SIGTERM, os.kill)):
        process = subprocess.Popen([WITH_SERVER, server, "0.1", "sh", "-c", "echo begun; sleep 60"],
                                   stdout=subprocess.PIPE, text=True, start_new_session=True,
                                   preexec_fn=take_signals)
        try:
            while process.stdout.readline() not in ("begun\n", ""):
                pass
            server_id = server_in_session(process.pid)
            what = f"{signal.Signals(number).name} by {send.__name__}, Server {server_id}"
            check(server_id and memory_of(server_id), f"{what}: no Server, or no memory of it")
            time.sleep(0.2)  # What says "begun" may be faster than the shell that has started it.
            send(process.pid, number)
            code = process.wait(timeout=30)
            check(code == 128 + number, f"{what}: exit code {code}")
            check(not os.path.exists(f"/proc/{server_id}"), f"{what}: it runs on")
            check(not memory_of(server_id), f"{what}: left in /dev/shm: {memory_of(server_id)}")
        finally:
            end_session(process)


def check_early_signals(server):
    """Fails if a signal that comes just as the command begins leaves that behind."""
    for _ in range(10):
        process = subprocess.Popen([WITH_SERVER, server, "0.1", "sh", "-c", "echo begun $$; exec sleep 60"],
                                   stdout=subprocess.PIPE, text=True, start_new_session=True,
                                   preexec_fn=take_signals)
        try:
            command = begun(process)
            process.send_signal(signal.SIGTERM)
            check_equal(process.wait(timeout=30), 128 + signal.SIGTERM)
            check(not os.path.exists(f"/proc/{command}"), "the command runs on")
        finally:
            end_session(process)


def begun(process):
    """Waits until the command of a process has said that it has begun; its process id."""
    said = "x"
    while said and not said.startswith("begun "):
        said = process.stdout.readline()
    check(said, "the command has not begun")
    return int(said.split()[1])


# Takes a second to end.
SLOW_SERVER = """#!/bin/sh
trap 'sleep 1; echo >"$TMPDIR/ended"; exit 0' TERM
echo "x ready on y"
while :; do sleep 0.1; done
"""


def check_second_signal():
    """Fails if whoever does not wait until the Server has been stopped leaves it, and its log, behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as folder:
            server = os.path.join(folder, "Server")
            with open(server, "w", encoding="utf-8") as file:
                file.write(SLOW_SERVER)
            os.chmod(server, 0o700)
            process = subprocess.Popen([WITH_SERVER, server, "0.1", "sh", "-c", "echo begun; exec sleep 60"],
                                       stdout=subprocess.PIPE, text=True, start_new_session=True,
                                       preexec_fn=take_signals, env={**os.environ, "TMPDIR": folder})
            try:
                while process.stdout.readline() not in ("begun\n", ""):
                    pass
                for _ in range(2):
                    time.sleep(0.5)
                    process.send_signal(number)
                check_equal(process.wait(timeout=30), 128 + number)
                check_equal(sorted(os.listdir(folder)), ["Server", "ended"])
            finally:
                end_session(process)


def check_deaf_command(server):
    """Fails if a command that ignores SIGTERM keeps with-server, or its Server, alive."""
    deaf = "trap '' TERM; echo begun $$; while :; do sleep 0.1; done"
    process = subprocess.Popen([WITH_SERVER, server, "0.1", "sh", "-c", deaf], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=take_signals)
    try:
        command = begun(process)
        server_id = server_in_session(process.pid)
        process.send_signal(signal.SIGTERM)
        check_equal(process.wait(timeout=30), 128 + signal.SIGTERM)
        errors = process.stderr.read()
        check("has not ended ten seconds after SIGTERM" in errors, errors)
        for what, pid in (("command", command), ("Server", server_id)):
            check(not os.path.exists(f"/proc/{pid}"), f"the {what} runs on")
    finally:
        end_session(process)
        process.stderr.close()


def end_session(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # As it should be.
    process.wait()
    process.stdout.close()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    server = os.path.abspath(sys.argv[1])
    check_input(server)
    check_signals(server)
    check_early_signals(server)
    check_second_signal()
    check_deaf_command(server)
    print("the command has its input, and nothing stays after a signal")


if __name__ == "__main__":
    run_test(main)
