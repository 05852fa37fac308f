#!/usr/bin/env python3
"""Tests script/cluster.

    cluster_test.py arguments          what it refuses, and its sums; needs no build and no rights
    cluster_test.py namespaces BUILD   a cluster in network namespaces; exit code 77 where there can be none
    cluster_test.py ssh BUILD          one behind a stand-in for ssh
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from unittest import mock

sys.dont_write_bytecode = True

from bench_lib.checks import Wrong, check, ignore_hang_up, load_script, take_signals  # noqa: E402
from cluster_lib import bench, connection_conf, hosts, matrix, memory_nodes, network, summary  # noqa: E402
from cluster_lib.failure import Failure  # noqa: E402

CLUSTER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "cluster")
SKIPPED = 77
SMALL = ["--num=5000", "--write_buffer_size=262144", "--target_file_size_base=262144"]


def run(*words, expected=0, says=()):
    """Runs script/cluster; its output."""
    done = subprocess.run([CLUSTER, *words], capture_output=True, text=True, timeout=120, check=False)
    output = done.stdout + done.stderr
    check(done.returncode == expected, f"{words}: exit code {done.returncode}, not {expected}:\n{output}")
    for text in says:
        check(text in output, f"{words}: does not say {text!r}:\n{output}")
    return output


# --- Without a cluster ------------------------------------------------------------------------------

def check_wrong_arguments():
    """Each is refused before anything is made, by a text that names what is wrong."""
    for words, text in (
            ((), "COMMAND"),
            (("restart",), "restart"),
            (("start", "--nodes=3"), "--nodes=3"),
            (("start", "--memory_nodes=2"), "--memory_nodes needs --namespaces"),
            (("start", "--delay=20us"), "--delay needs --namespaces"),
            (("start", "--namespaces", "--memory_nodes=0"), "--memory_nodes"),
            (("start", "--namespaces", "--memory_nodes=100"), "--memory_nodes"),
            (("start", "--namespaces", "--memory_nodes=1,2"), "matrix"),
            (("start", "--namespaces", "--compute_nodes=x"), "--compute_nodes"),
            (("start", "--namespaces", "--delay=20"), "20us"),
            (("start", "--namespaces", "--rate=fast"), "10gbit"),
            (("start", "--namespaces", "--config=x"), "not allowed with"),
            (("start", "--namespaces", "--memory_gb=0"), "--memory_gb"),
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
            "p99_us": 9 * cpu, "cpu_seconds": cpu + memory_cpu, "memory_node_cpu_seconds": memory_cpu,
            "wire": {"read": {"read_bytes": half, "write_bytes": 0, "round_trips": ops},
                     "flush": {"read_bytes": 0, "write_bytes": wire_bytes - half, "round_trips": 0}}}


def use(cpu_micros, used):
    return {"cpu-micros": cpu_micros, "used": used}


def check_sums():
    """Fails if the slower node's time, the weight of its operations, or what the memory nodes spent before
    the workload is left out of account; or if a shared memory node's CPU counts twice."""
    results = [[result("flush", 1, 1, 0, 0, 0), result("readrandom", 1000, 0.5, 200_000, 2, 7)],
               [result("flush", 1, 1, 0, 0, 0), result("readrandom", 3000, 1.5, 200_000, 4, 7)]]
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


# --- In namespaces ----------------------------------------------------------------------------------

def namespaces_of(name):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(f"dlsm-{name}-")]


def processes_of(folder):
    """The command lines that name the cluster's folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder in line and int(pid) != os.getpid():
            found.append(f"{pid}: {line}")
    return found


def check_nothing_left(name, folder, why):
    check(not namespaces_of(name), f"{why}: left: {namespaces_of(name)}")
    check(not processes_of(folder), f"{why}: left: {processes_of(folder)}")
    check(not os.path.exists(folder), f"{why}: {folder} is left")


def why_no_namespaces(build):
    """Why the test cannot run here, or None."""
    if os.geteuid():
        return "it needs root"
    for program in ("ip", "tc"):
        if not shutil.which(program):
            return f"there is no {program}; script/install-deps installs it"
    for program in ("Server", "db_bench", "dlsm_tool"):
        if not os.path.exists(os.path.join(build, program)):
            return f"there is no {build}/{program}"
    probe = f"dlsm-probe-{os.getpid()}"
    for words in (["netns", "add", probe], ["-n", probe, "link", "add", "b0", "type", "bridge"],
                  ["-n", probe, "link", "add", "v0", "type", "veth", "peer", "name", "v1"]):
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
            return f"`ip {' '.join(words)}` is not allowed: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


def table_of(output, workload):
    """Row -> column -> text, of one workload's table in what bench printed."""
    lines = output[output.index(f"\n{workload}\n"):].strip().splitlines()
    heading = re.split(r"  +", lines[1])
    rows = {}
    for line in lines[2:]:
        if line.startswith("MB in use"):
            return rows, line
        cells = re.split(r"  +", line)
        rows[cells[0]] = dict(zip(heading[1:], cells[1:], strict=True))
    raise Wrong(f"the table of {workload} has no end:\n{output}")


def close_to(text, value):
    return abs(float(text) - value) <= 0.0006 + abs(value) * 0.006


def check_table(output, workload, files):
    """The table beside the JSON files, by other fields than those that it was made from."""
    rows, _ = table_of(output, workload)
    per_node = {name: next(r for r in results if r["name"] == workload) for name, results in files.items()}
    check(set(rows) == {*files, "total"}, f"rows: {rows}")
    for name, r in per_node.items():
        wire = r["wire_read_bytes_per_op"] + r["wire_write_bytes_per_op"]
        cpu = 1e6 * (r["cpu_seconds"] - r["memory_node_cpu_seconds"]) / r["ops"]
        for column, value in (("kops/s", r["ops_per_sec"] / 1e3), ("P50 us", r["p50_us"]),
                              ("P99 us", r["p99_us"]), ("wire B/op", wire),
                              ("trips/op", r["round_trips_per_op"]), ("compute CPU us/op", cpu)):
            check(close_to(rows[name][column], value), f"{name} {column}: {rows[name]}, not {value}")
        check(rows[name]["memory CPU us/op"] == "-", f"{rows}")
    ops = sum(r["ops"] for r in per_node.values())
    longest = max(r["seconds"] for r in per_node.values())
    wire = sum(r["ops"] * (r["wire_read_bytes_per_op"] + r["wire_write_bytes_per_op"])
               for r in per_node.values()) / ops
    check(close_to(rows["total"]["kops/s"], ops / longest / 1e3), f"{rows} {longest}")
    check(close_to(rows["total"]["wire B/op"], wire), f"{rows}: not {wire}")
    check(float(rows["total"]["compute CPU us/op"]) > 0, f"{rows}")
    check(float(rows["total"]["memory CPU us/op"]) >= 0, f"{rows}")


def check_bench(name, build, folder):
    with tempfile.TemporaryDirectory() as results:
        output = run("bench", f"--name={name}", f"--results={results}", *SMALL,
                     "--benchmarks=fillrandom,flush,readrandom")
        files = {}
        for node in ("c0", "c1"):
            with open(os.path.join(results, f"{node}.json"), encoding="utf-8") as file:
                files[node] = json.load(file)
            with open(os.path.join(results, f"{node}.log"), encoding="utf-8") as file:
                check("fabric: tcp" in file.read(), f"{node} does not use the network")
    for workload in ("fillrandom", "readrandom"):
        check_table(output, workload, files)
    check("\nflush\n" not in output, output)
    # What the memory nodes say by themselves; one database each, for the compute nodes are spread.
    used = {}
    for i in range(2):
        told = subprocess.run(
            ["ip", "netns", "exec", f"dlsm-{name}-m{i}", os.path.join(build, "dlsm_tool"), "nodes",
             f"--memory_nodes=10.77.0.{1 + i}", f"--secret_file={folder}/m{i}/secret"],
            capture_output=True, text=True, check=True).stdout
        used[f"m{i}"] = int(re.search(r" used (\d+)", told)[1]) / 2**20
        check(" databases 1 " in told, told)
    _, in_use = table_of(output, "readrandom")
    for node, megabytes in used.items():
        shown = float(re.search(rf"{node} ([\d.]+)", in_use)[1])
        check(megabytes > 0 and shown >= megabytes - 0.1, f"{in_use}: {node} says {megabytes}")
    # The bytes went through the nodes' links.
    links = json.loads(subprocess.run(
        ["ip", "-n", f"dlsm-{name}-c0", "-s", "-j", "link", "show", "eth0"],
        capture_output=True, text=True, check=True).stdout)
    carried = sum(links[0]["stats64"][way]["bytes"] for way in ("rx", "tx"))
    counted = sum(p["read_bytes"] + p["write_bytes"] for r in files["c0"] for p in r["wire"].values())
    check(carried > counted > 100_000, f"the link carried {carried} bytes, db_bench counted {counted}")


def db_benches(folder):
    """Not ssh, sh or ip, which name it in what they are to run."""
    return [p for p in processes_of(folder) if p.split()[1].endswith("/db_bench")]


def check_interrupted_bench(name, folder):
    """^C ends the db_benches, wherever they run, and leaves the cluster as it was."""
    bench = subprocess.Popen([CLUSTER, "bench", f"--name={name}", "--benchmarks=fillrandom",
                              "--duration=60"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             preexec_fn=take_signals)
    try:
        interrupt_bench(name, folder, bench)
    finally:
        bench.kill()
        bench.wait()
    check(not db_benches(folder), f"left after ^C: {db_benches(folder)}")
    run("status", f"--name={name}")


def interrupt_bench(name, folder, bench):
    deadline = time.monotonic() + 20
    while len(db_benches(folder)) < 2:
        check(time.monotonic() < deadline and bench.poll() is None, "the db_benches did not begin")
        time.sleep(0.1)
    run("bench", f"--name={name}", expected=1, says=["another script/cluster"])
    bench.send_signal(signal.SIGINT)
    output = bench.communicate(timeout=30)[0]
    check(bench.returncode == 130, f"exit code {bench.returncode}: {output}")


def server_of(folder, node):
    with open(os.path.join(folder, node, "pid"), encoding="ascii") as file:
        return int(file.read())


def check_cluster(name, build, folder):
    shape = ["--namespaces", "--memory_nodes=2", "--compute_nodes=2", "--rate=10gbit", "--memory_gb=0.25"]
    run("start", f"--name={name}", f"--build={build}", *shape, says=["is up"])
    run("start", f"--name={name}", f"--build={build}", *shape, says=["up already"])
    run("start", f"--name={name}", "--namespaces", expected=1, says=["another one"])
    up = run("status", f"--name={name}")
    check(up.count(" up: ") == 2 and up.count("reachable") == 2, up)
    check_bench(name, build, folder)
    check_interrupted_bench(name, folder)
    run("bench", f"--name={name}", "--num=0", expected=1, says=["db_bench on c", "--num=0"])
    os.kill(server_of(folder, "m1"), signal.SIGKILL)
    time.sleep(0.2)
    down = run("status", f"--name={name}", expected=1, says=["m1 10.77.0.2:19843 DOWN: its Server is not running"])
    check("m0 10.77.0.1:19843 up" in down, down)
    run("bench", f"--name={name}", expected=1, says=["m1 is down"])
    run("start", f"--name={name}", f"--build={build}", *shape, expected=1, says=["not whole"])
    run("stop", f"--name={name}", says=["is stopped"])
    check_nothing_left(name, folder, "stop")
    run("stop", f"--name={name}", says=["nothing to stop"])


def check_failed_starts(name, build, folder):
    start = ["start", f"--name={name}", f"--build={build}", "--namespaces", "--memory_nodes=2",
             "--memory_gb=0.1"]
    run(*start, "--server_flags=--merge_threads=-1", expected=1, says=["--merge_threads=-1 is not in"])
    check_nothing_left(name, folder, "a Server that does not start")
    run(*start[:2], "--build=/nonexistent", *start[3:], expected=1, says=["/nonexistent/Server", "--build"])
    check_nothing_left(name, folder, "no Server")
    taken = f"dlsm-{name}-m1"
    subprocess.run(["ip", "netns", "add", taken], check=True)
    run(*start, expected=1, says=[taken, "--name"])
    check(namespaces_of(name) == [taken], f"{namespaces_of(name)}: somebody else's must stay")
    subprocess.run(["ip", "netns", "del", taken], check=True)
    check_nothing_left(name, folder, "a name in use")
    # A kernel without netem must say so; one with it must give what was asked for.
    done = subprocess.run([CLUSTER, *start, "--delay=5ms"], capture_output=True, text=True, check=False)
    if done.returncode:
        check("no netem" in done.stderr and "--simulated_rtt_ns" in done.stderr, done.stderr)
    else:
        began = time.monotonic()
        subprocess.run(["ip", "netns", "exec", f"dlsm-{name}-c0", sys.executable, "-c",
                        "import socket; socket.create_connection(('10.77.0.1', 19843))"], check=True)
        check(time.monotonic() - began > 0.01, "no delay")
        run("stop", f"--name={name}")
    check_nothing_left(name, folder, "delay")


def check_interrupted_start(name, build, folder):
    """^C in the middle of a start leaves nothing: at whatever place it comes."""
    for seconds in (0.15, 0.25, 0.4):
        start = subprocess.Popen([CLUSTER, "start", f"--name={name}", f"--build={build}", "--namespaces",
                                  "--memory_nodes=4", "--compute_nodes=4", "--memory_gb=0.1"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 preexec_fn=take_signals)
        time.sleep(seconds)
        start.send_signal(signal.SIGINT)
        output = start.communicate(timeout=60)[0]
        if start.returncode == 0:
            run("stop", f"--name={name}")
        # So early that it was the interpreter that was interrupted.
        unborn = "init_import_site" in output
        check(start.returncode in (0, 130, -signal.SIGINT) or unborn, f"{start.returncode}: {output}")
        check_nothing_left(name, folder, f"^C after {seconds} s")


def check_matrix(name, build, folder):
    with tempfile.TemporaryDirectory() as results:
        output = run("matrix", f"--name={name}", f"--build={build}", "--namespaces", "--memory_nodes=1",
                     "--compute_nodes=1,2", "--memory_gb=0.25", f"--results={results}", *SMALL,
                     says=["fillrandom", "readrandom", "1 x 1", "1 x 2"])
        check(sorted(os.listdir(results)) == ["1x1-1", "1x2-1"], f"{os.listdir(results)}")
    check("flush" not in output, output)
    check_nothing_left(name, folder, "matrix")


def namespaces_test(build):
    reason = why_no_namespaces(build)
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    name = f"test-{os.getpid()}"
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["TMPDIR"] = temporary
        folder = os.path.join(temporary, f"dlsm-cluster-{os.getuid()}", name)
        try:
            check_cluster(name, build, folder)
            check_failed_starts(name, build, folder)
            check_interrupted_start(name, build, folder)
            check_matrix(name, build, folder)
        finally:
            subprocess.run([CLUSTER, "stop", f"--name={name}"], capture_output=True, check=False)
    print("a cluster in namespaces starts, measures, fails and ends as it should")
    return 0


# --- Behind ssh -------------------------------------------------------------------------------------

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


def ssh_test(build):
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
    return 0


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else ""
    if kind == "arguments":
        check_wrong_arguments()
        check_connection_conf()
        check_sums()
        check_default_databases()
        check_folders()
        check_bind_addresses()
        check_removed_network()
        check_default_ssh()
        check_ignored_signals()
        print("wrong arguments are refused, and sums are right")
        return 0
    if kind in ("namespaces", "ssh") and len(sys.argv) == 3:
        return {"namespaces": namespaces_test, "ssh": ssh_test}[kind](os.path.abspath(sys.argv[2]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Wrong as wrong:
        sys.exit(f"cluster_test: {wrong}")
