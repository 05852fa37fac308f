#!/usr/bin/env python3
"""Tests what script/cluster refuses, its sums, and its parts by themselves; needs no build and no rights."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from unittest import mock

sys.dont_write_bytecode = True

from bench_lib.checks import Wrong, check, ignore_hang_up, load_script, run_test, take_signals  # noqa: E402
from cluster_lib import bench, connection_conf, hosts, matrix, memory_nodes, network, summary  # noqa: E402
from cluster_lib.checks import CLUSTER, run  # noqa: E402
from cluster_lib.failure import Failure  # noqa: E402


def check_wrong_arguments():
    """Each is refused before anything is made, by a text that names what is wrong."""
    for words, text in (
            ((), "COMMAND"),
            (("restart",), "restart"),
            (("start", "--nodes=3"), "--nodes=3"),
            (("start", "--memory_nodes=2"), "--memory_nodes needs --namespaces"),
            (("start", "--delay=20us"), "--delay needs --namespaces"),
            (("start", "--namespaces", "--memory_nodes=0"), "--memory_nodes: '0' is no number from 1 to 99"),
            (("start", "--namespaces", "--memory_nodes=100"), "from 1 to 99"),
            (("start", "--namespaces", "--memory_nodes=1,2"), "matrix"),
            (("start", "--namespaces", "--compute_nodes=x"), "'x' is no number from 1 to 99"),
            (("start", "--namespaces", "--delay=20"), "20us"),
            (("start", "--namespaces", "--rate=fast"), "10gbit"),
            (("start", "--namespaces", "--config=x"), "not allowed with"),
            (("start", "--namespaces", "--memory_gb=0"), "--memory_gb: '0' is no number above 0"),
            (("start", "--namespaces", "--start_timeout=soon"), "'soon' is no number above 0"),
            (("start", "--ssh='"), "--ssh"),
            (("start", "--server_flags='"), "--server_flags"),
            (("start", "--server_flags=--merge_threads=1 --tls"), "--tls is not for Servers alone"),
            (("matrix", "--namespaces", "--server_flags=-tls-key-file=x"), "use --tls"),
            (("bench", "--tls"), "use start --tls of this script"),
            (("status", "--name=../x"), "--name"),
            (("stop", "--num=1"), "--num=1"),
            (("bench", "--compute_node_id=1"), "--compute_node_id=1"),
            (("bench", "--json=x"), "--json=x: this script sets that flag of db_bench itself; use --results"),
            (("bench", "--nowait_for_start"), "--nowait_for_start"),
            (("matrix", "--namespaces", "--runs=0"), "--runs"),
            (("matrix", "--namespaces", "--memory_nodes="), "--memory_nodes")):
        run(*words, expected=2, says=[text])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        config = os.path.join(folder, "connection.conf")
        run("start", "--config=/nonexistent.conf", expected=1, says=["/nonexistent.conf", "--namespaces"])
        for command in ("status", "bench"):
            run(command, expected=1, says=["no cluster default", "script/cluster start"])
        run("stop", says=["nothing to stop"])
        with open(config, "w", encoding="utf-8") as file:
            file.write("a\n")
        run("start", f"--config={config}", expected=1, says=["no memory nodes"])
        with open(config, "w", encoding="utf-8") as file:
            file.write("a\nb\n")
        run("matrix", f"--config={config}", "--memory_nodes=1,2", expected=1, says=["1 memory nodes"])
        check(os.listdir(folder) == ["connection.conf"], f"left behind: {os.listdir(folder)}")
        del os.environ["TMPDIR"]


def check_connection_conf():
    """The rules of util/cluster_config_test.cc."""
    compute, memory = connection_conf.parse(
        "# all\n\n app1 app2:5000 # two\r\n\tm1\t10.0.0.7:19900 [fe80::1%eth0] [::1]:7\n\n", "x")
    check(list(map(str, compute)) == ["app1:19843", "app2:5000"], f"{compute}")
    check(list(map(str, memory)) == ["m1:19843", "10.0.0.7:19900", "[fe80::1%eth0]:19843", "[::1]:7"],
          f"{memory}")
    check([a.is_here() for a in memory] == [False, False, False, True], f"{memory}")
    check(connection_conf.parse(connection_conf.text_of(compute, memory), "x") == [compute, memory],
          "what is written is not what was read")
    for text, message in (("", "names no compute and memory"), ("a\n", "names no memory"),
                          ("a\nb\nc\n", "x:3"), ("a a:19843\nb\n", "twice"), ("a\nb:0\n", "x:2"),
                          ("a\nb:65536\n", "port"), ("a\nb:\n", "no node"), ("a\n:5\n", "no node"),
                          ("a\n[b]\n", "no node"), ("a\n[::1\n", "no node"), ("a\nb,c\n", "no node"),
                          ("a\n-oProxyCommand=x\n", "no node"), ("a\n-l\n", "begins with '-'"),
                          ("a\nm;reboot\n", "no node")):
        try:
            connection_conf.parse(text, "x")
        except Failure as failure:
            check(message in str(failure), f"{text!r}: {failure}")
        else:
            raise Wrong(f"{text!r} is taken")


def result(name, ops, seconds, wire_bytes, cpu, memory_cpu):
    half = wire_bytes // 2
    return {"name": name, "ops": ops, "seconds": seconds, "ops_per_sec": ops / seconds, "p50_us": cpu,
            "p99_us": 9 * cpu, "own_cpu_seconds": cpu,
            "cpu_seconds": None if memory_cpu is None else cpu + memory_cpu,
            "memory_node_cpu_seconds": memory_cpu,
            "wire": {"read": {"read_bytes": half, "write_bytes": 0, "round_trips": ops},
                     "flush": {"read_bytes": 0, "write_bytes": wire_bytes - half, "round_trips": 0}}}


def use(cpu_micros, used):
    return {"cpu-micros": cpu_micros, "used": used}


def check_sums():
    """Fails if the slower node's time, the weight of its operations, or what the memory nodes spent before
    the workload is left out of account; if a shared memory node's CPU counts twice; or if what a compute
    node spent is not known where a memory node did not tell it what that one did."""
    results = [[result("flush", 1, 1, 0, 0, 0), result("readrandom", 1000, 0.5, 200_000, 2, 7)],
               [result("flush", 1, 1, 0, 0, 0), result("readrandom", 3000, 1.5, 200_000, 4, None)]]
    moments = [summary.Moment("flush", [use(0, 0), use(0, 0)]),
               summary.Moment("readrandom", [use(500_000, 10), use(100_000, 30)]),
               summary.Moment("close", [use(700_000, 100), use(300_000, 300)])]
    made = summary.Summary(["c0", "c1"], ["m0", "m1"], results, moments)
    workload, = made.measured()
    expected = {"kops/s": 4 / 1.5, "P50 us": 4, "P99 us": 36, "wire B/op": 100, "trips/op": 1,
                "compute CPU us/op": 1500, "memory CPU us/op": 100}
    for column, value in expected.items():
        check(abs(workload.total[column] - value) < 1e-9, f"{column}: {workload.total}")
    check(workload.rows["c1"]["compute CPU us/op"] == 4e6 / 3000, f"{workload.rows}")
    check(workload.balance == 1.5 and workload.used == {"m0": 100, "m1": 300}, f"{workload}")
    check(summary.balance([0, 0]) == 1, "an empty cluster is not even")
    table = matrix.text({(1, 1): [made], (2, 1): [made, made, made]})
    for text in ("1 x 1, 1 of 3 runs", "\n2 x 1 ", "+0%", "1600.0"):
        check(text in table, f"no {text!r} in\n{table}")
    for wrong in (results[:1] + [results[1][:1]], [results[0], results[1][::-1]]):
        try:
            summary.Summary(["c0", "c1"], ["m0", "m1"], wrong, moments)
        except Failure:
            continue
        raise Wrong("files of different workloads are summed up")


def check_default_databases():
    """Fails if compute nodes that share a database by ranges open one each, or others share theirs."""
    for flags, name in (([], "db_bench_@ID@"), (["--compute_boundaries=auto"], "db_bench"),
                        (["--compute_boundaries=auto", "--db=shop"], "shop")):
        given = [word for word in bench.with_defaults(flags) if word.startswith("--db=")]
        check(given == [f"--db={name}"], f"{flags}: {given}")


def check_bind_addresses():
    """Fails if a Server whose name stands for IPv6 addresses only listens where nobody looks for it."""
    known = {"four": ["10.0.0.7"], "six": ["fd00::7", "fd00::8"], "both": ["fd00::7", "10.0.0.7"]}

    def getaddrinfo(host, port, **_):
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6 if ":" in number else socket.AF_INET, None, None, "", (number, port))
                for number in known[host]]

    with mock.patch.object(socket, "getaddrinfo", getaddrinfo):
        found = {host: memory_nodes.bind_address(connection_conf.Address(host))
                 for host in (*known, "nobody", "localhost", "10.1.1.1", "fd00::9")}
    check(found == {"four": "0.0.0.0", "six": "::", "both": "0.0.0.0", "nobody": "0.0.0.0",
                    "localhost": "127.0.0.1", "10.1.1.1": "10.1.1.1", "fd00::9": "fd00::9"}, f"{found}")


def check_removed_network():
    """Fails if removing a network leaves a process in it, needs a program that may not be there, or stops at
    a process that ended by itself."""
    nobody = 2**22 + 1  # More than Linux gives.
    with subprocess.Popen(["sleep", "60"]) as process:
        answers = {("ip", "netns", "list"): "dlsm-x-m0 (id: 0)\n", ("ip", "netns", "del", "dlsm-x-m0"): "",
                   ("ip", "netns", "pids", "dlsm-x-m0"): f"{nobody}\n{process.pid}\n"}

        def answer(*words):
            check(words in answers, f"{words} is run")
            return subprocess.CompletedProcess(words, 0, answers[words], "")

        with mock.patch.object(network, "run", answer):
            network.Network("x", {"m0": network.memory_address(0)}).remove()
        check(process.wait() == -signal.SIGKILL, "a process is left in the network")


def check_default_ssh():
    """Fails if a host that has gone without a word keeps a command for ever."""
    module = load_script("cluster")
    for command in ("start", "matrix"):
        ssh = module.parse_command_line([command]).ssh
        check("ServerAliveInterval=" in ssh and "ConnectTimeout=" in ssh, ssh)


def check_ignored_signals():
    """Fails if a signal ends a command that was started to ignore it, as nohup does: it may take hours."""
    code = ("import signal\nfrom cluster_lib import failure\nfailure.raise_on_signals()\n"
            "print([signal.getsignal(number) == failure.raise_interrupted for number in failure.SIGNALS])")
    for prepare, expected in ((take_signals, [True, True, True]), (ignore_hang_up, [True, True, False])):
        done = subprocess.run([sys.executable, "-c", code], cwd=os.path.dirname(CLUSTER), check=True,
                              capture_output=True, text=True, preexec_fn=prepare)
        check(done.stdout == f"{expected}\n", f"{prepare.__name__}: {done.stdout}")


# Interrupts itself, and again while it waits for what it does on a node.
INTERRUPTED_TWICE = """
import concurrent.futures, os, signal, threading, time
from cluster_lib import failure, memory_nodes

def watch(kind, name):
    called, call = threading.Event(), getattr(kind, name)
    def watched(*arguments, **named):
        called.set()
        return call(*arguments, **named)
    setattr(kind, name, watched)
    return called

asked = watch(concurrent.futures.Future, "result")
ending = watch(concurrent.futures.ThreadPoolExecutor, "shutdown")

def work(node):
    for waits in (asked, ending):
        assert waits.wait(10)
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)  # For as long as it takes to give up the wait.
    print("done", flush=True)

failure.raise_on_signals()
try:
    memory_nodes.on_all(work, ["m0"])
except failure.Interrupted:
    print("cleaning up", flush=True)
"""


def check_interrupted_twice():
    """Fails if who presses ^C again has what was begun on a node go on beside the cleaning up."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_TWICE], cwd=os.path.dirname(CLUSTER),
                          check=False, capture_output=True, text=True, timeout=60, preexec_fn=take_signals)
    check(done.stdout == "done\ncleaning up\n", f"{done}")


def run_in_folder(script, folder, *arguments):
    done = hosts.run_script(hosts.LocalHost(), script, folder, *arguments, text="x\n")
    return done.returncode, done.stdout + done.stderr


def check_folders():
    """Fails if a node's folder is prepared, used or deleted for a cluster while another one's process runs in
    it; or if one in which nothing runs any more is not taken."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.join(temporary, "user", "name", "m0")
        prepare, start, stop = memory_nodes.PREPARE, memory_nodes.START, memory_nodes.STOP
        for cluster in ("first", "second"):
            check(run_in_folder(prepare, folder, cluster)[0] == 0, "a folder in which nothing runs")
        for script in (start, memory_nodes.LOOK, bench.CONFIGURE):
            code, output = run_in_folder(script, folder, "first", "/bin/true")
            check(code == 1 and "--name" in output, f"what is another's was used: {output}\n{script}")
        check(run_in_folder(bench.CONFIGURE, folder, "second")[0] == 0, "second's own")
        for pid_file in ("pid", "bench-pid"):
            program = "import time; time.sleep(60)"
            with subprocess.Popen([sys.executable, "-c", program, folder + "/secret"]) as process:
                check(run_in_folder(memory_nodes.LOOK, folder, "second")[0] == 3, "nothing runs yet")
                with open(os.path.join(folder, pid_file), "w", encoding="ascii") as file:
                    file.write(f"{process.pid}\n")
                running = 0 if pid_file == "pid" else 3
                check(run_in_folder(memory_nodes.LOOK, folder, "second")[0] == running, pid_file)
                code, output = run_in_folder(prepare, folder, "third")
                check(code == 1 and f"kill {process.pid} there" in output, f"{pid_file}: {code} {output}")
                for cluster in ("first", "third"):
                    check(run_in_folder(stop, folder, cluster, 100)[0] == 0, "stop of what is another's")
                check(process.poll() is None and os.path.exists(folder), f"{cluster} has stopped second's")
                # Its parent is to see that it has ended, else it would be there until then.
                threading.Thread(target=process.wait).start()
                check(run_in_folder(stop, folder, "second", 100)[0] == 0, "stop")
                check(process.wait() == -signal.SIGTERM and not os.listdir(temporary), "second is left")
            run_in_folder(prepare, folder, "second")


def main():
    check_wrong_arguments()
    check_connection_conf()
    check_sums()
    check_default_databases()
    check_folders()
    check_bind_addresses()
    check_removed_network()
    check_default_ssh()
    check_ignored_signals()
    check_interrupted_twice()
    print("wrong arguments are refused, and sums are right")


if __name__ == "__main__":
    run_test(main)
