"""What the tests of script/cluster check with, where they start clusters."""

import os
import re
import signal
import subprocess
import time

from bench_lib.checks import SCRIPTS, Wrong, check, take_signals

CLUSTER = os.path.join(SCRIPTS, "cluster")
SMALL = ["--num=5000", "--write_buffer_size=262144", "--target_file_size_base=262144"]


def run(*words, expected=0, says=()):
    """Runs script/cluster; its output."""
    done = subprocess.run([CLUSTER, *words], capture_output=True, text=True, timeout=120, check=False)
    output = done.stdout + done.stderr
    check(done.returncode == expected, f"{words}: exit code {done.returncode}, not {expected}:\n{output}")
    for text in says:
        check(text in output, f"{words}: does not say {text!r}:\n{output}")
    return output


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
