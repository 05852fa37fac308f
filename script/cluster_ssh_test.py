#!/usr/bin/env python3
"""Tests script/cluster with a cluster behind a stand-in for ssh.

    cluster_ssh_test.py BUILD
"""

import os
import signal
import socket
import sys
import tempfile

sys.dont_write_bytecode = True

from bench_lib.checks import check, run_test  # noqa: E402
from cluster_lib import hosts  # noqa: E402
from cluster_lib.checks import (  # noqa: E402
    SMALL, check_interrupted_bench, processes_of, run, server_of, table_of)

# Takes what ssh takes, and runs the command on this machine, in a shell that outlives it, as sshd does.
STAND_IN = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ "$2" != nowhere ] || { echo "ssh: Could not resolve hostname nowhere" >&2; exit 255; }
cd / && exec setsid -f -w sh -c "$3"
"""


def free_ports(count):
    sockets = [socket.create_server(("0.0.0.0", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def check_missing_tool(build, config, folder):
    """Fails if a cluster is started that cannot be asked how it is: it would be up, and called down."""
    with tempfile.TemporaryDirectory() as without:
        for program in ("Server", "db_bench"):
            os.symlink(os.path.join(build, program), os.path.join(without, program))
        with open(config, "w", encoding="utf-8") as file:
            file.write("127.0.0.1\n127.0.0.1:1\n")
        run("start", f"--config={config}", f"--build={without}", expected=1,
            says=[f"{without}/dlsm_tool", "--build"])
    check(not os.path.exists(folder), "something was begun")


def check_tls(start, compute, memory):
    """Fails if one of Server, dlsm_tool and db_bench is told of TLS and another is not."""
    start(compute, memory, "--tls", says=["is up", "TLS"])
    run("status", says=["m0 0.0.0.0", "m1 127.0.0.1", " up: ", "TLS"])
    run("bench", *SMALL, says=["m0", "m1", "total"])
    start(compute, memory, expected=1, says=["another one"])
    run("stop", says=["is stopped"])


def check_broken_matrix(build, config, stand_in):
    """Fails if what was measured is not told because something after it fails."""
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"127.0.0.1\n127.0.0.1:{free_ports(1)[0]} nowhere\n")
    run("matrix", f"--config={config}", f"--build={build}", f"--ssh={stand_in} -q", "--memory_gb=0.25",
        "--memory_nodes=1,2", "--compute_nodes=1", *SMALL, expected=1,
        says=["nowhere", "\nreadrandom\n", "\n1 x 1 "])


def check_lost_state(start, compute, memory, folder):
    """Fails if a start takes the place of a Server that runs but is not known here any more, or if its
    failing ends that Server or makes it unknown there as well."""
    start(compute, memory, says=["is up"])
    servers = [server_of(folder, node) for node in ("m0", "m1")]
    for name in ("cluster.json", "secret"):
        os.remove(os.path.join(folder, name))
    output = start(compute, memory, expected=1, says=["--name"])
    check(any(f"kill {server} there" in output for server in servers), output)
    check([server_of(folder, node) for node in ("m0", "m1")] == servers, f"other Servers than {servers}")
    for server in servers:
        with open(f"/proc/{server}/cmdline", encoding="utf-8") as file:
            check("/Server" in file.read(), f"{server} has ended")
        os.kill(server, signal.SIGKILL)
    start(compute, memory, says=["is up"])
    run("status")
    run("stop", says=["is stopped"])
    check(not os.path.exists(folder), f"left: {folder}")


def check_forget(start, compute, memory, stand_in, folder):
    """A host that cannot be reached any more keeps `stop` from forgetting it, until that is asked for."""
    start(compute, memory, says=["is up"])
    unreachable = server_of(folder, "m0")
    os.rename(stand_in, stand_in + ".away")
    with open(stand_in, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 255\n")
    os.chmod(stand_in, 0o700)
    down = run("status", expected=1, says=["m0 0.0.0.0", "DOWN: ssh does not get to 0.0.0.0"])
    check(" up: " in down, f"the other memory node is up: {down}")
    run("stop", expected=1, says=["m0 cannot be stopped", "--forget"])
    run("stop", "--forget", expected=1, says=["m0 cannot be stopped"])
    check(not os.path.exists(folder), f"{folder} is left")
    os.kill(unreachable, signal.SIGKILL)
    os.rename(stand_in + ".away", stand_in)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    check(hosts.SshHost("ssh -p 7", "a").command(["sh", "-c", "echo $1", "x", "a b'"])
          == ["ssh", "-p", "7", "--", "a", "sh -c 'echo $1' x 'a b'\"'\"''"], "quoting")
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["TMPDIR"] = temporary
        folder = os.path.join(temporary, f"dlsm-cluster-{os.getuid()}", "default")
        stand_in, config = os.path.join(temporary, "ssh"), os.path.join(temporary, "connection.conf")
        with open(stand_in, "w", encoding="utf-8") as file:
            file.write(STAND_IN)
        os.chmod(stand_in, 0o700)

        def start(compute, memory, *more, **kinds):
            with open(config, "w", encoding="utf-8") as file:
                file.write(f"{' '.join(compute)}\n{' '.join(memory)}\n")
            return run("start", f"--config={config}", f"--build={build}", f"--ssh={stand_in} -q",
                       "--memory_gb=0.25", *more, **kinds)

        first, second = free_ports(2)
        # 0.0.0.0 is this machine too, but does not say so: it is "behind ssh".
        compute, memory = ["0.0.0.0", "127.0.0.1"], [f"0.0.0.0:{first}", f"127.0.0.1:{second}"]
        try:
            start(compute, memory, says=["is up"])
            up = run("status")
            check(up.count(" up: ") == 2 and up.count("reachable") == 2, up)
            output = run("bench", *SMALL, says=["m0", "m1", "total"])
            check(set(table_of(output, "readrandom")[0]) == {"c0", "c1", "total"}, output)
            check_interrupted_bench("default", folder)
            # Servers of another cluster have the ports.
            run("start", "--name=other", f"--config={config}", f"--build={build}", f"--ssh={stand_in}",
                "--memory_gb=0.25", expected=1, says=["in use"])
            run("stop", says=["is stopped"])
            check_missing_tool(build, config, folder)
            check_tls(start, compute, memory)
            check_broken_matrix(build, config, stand_in)
            check_lost_state(start, compute, memory, folder)
            check_forget(start, compute, memory, stand_in, folder)
            start(compute, ["nowhere", memory[1]], expected=1, says=["nowhere", "~/.ssh/config"])
            start(compute, memory, "--remote_build=/nonexistent", expected=1, says=["/nonexistent/Server"])
        finally:
            run("stop")
        check(not processes_of(folder), f"left: {processes_of(folder)}")
        check(sorted(os.listdir(temporary)) == ["connection.conf", "ssh"], f"left: {os.listdir(temporary)}")
    print("a cluster behind ssh starts, measures, fails and ends as it should")


if __name__ == "__main__":
    run_test(main)
