#!/usr/bin/env python3
"""A real Prometheus scrapes a Server, a dlsm_serve on that Server, and db_bench as an application.

Checks that every metric of the dashboard and of the alert rules is there, that rules and configuration
are valid, and that what is told keeps to Prometheus' conventions (promtool).

    metrics_test.py FOLDER_OF_PROGRAMS

Exit status: 0, 1 if a check fails, 77 where there is no Prometheus.
"""

import contextlib
import ctypes
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True

from bench_lib.checks import Wrong, check, run_test  # noqa: E402

DASHBOARDS = pathlib.Path(__file__).resolve().parent / "dashboards"
SKIPPED = 77
SECONDS_MAX = 60  # For anything that is waited for.
LOAD_SECONDS = 4  # Of db_bench, from its start.


def die_with_test():
    """For preexec_fn: the kernel ends the process when the test is killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes(contextlib.ExitStack):
    """Ends all that it has started, however the test ends."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def start(self, name, *words):
        log = self.enter_context(open(self.folder / f"{name}.log", "w", encoding="utf-8"))
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   preexec_fn=die_with_test)
        self.callback(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def await_line(self, name, process, pattern):
        """The match of the pattern in what the process has printed."""
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            match = re.search(pattern, self.log_of(name))
            if match is not None:
                return match
            check(process.poll() is None, f"{name} has ended: {self.log_of(name)}")
            time.sleep(0.02)
        raise Wrong(f"{name} is not ready: {self.log_of(name)}")


def await_true(what, question):
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.1)
    raise Wrong(f"in vain: {what}")


def text_of(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Api:
    """Prometheus' HTTP API."""

    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def ready(self):
        try:
            return text_of(f"{self.base}/-/ready") != ""
        except OSError:
            return False

    def get(self, path, **arguments):
        query = urllib.parse.urlencode(arguments)
        answer = json.loads(text_of(f"{self.base}/api/v1/{path}?{query}"))
        check(answer["status"] == "success", f"{path} {arguments}: {answer}")
        return answer["data"]

    def value(self, expression):
        """The sum of the result; None if there is none."""
        result = self.get("query", query=expression)["result"]
        return sum(float(sample["value"][1]) for sample in result) if result else None


def expressions_of_dashboard():
    dashboard = json.loads((DASHBOARDS / "dlsm.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]


def expressions_of_rules(api):
    for group in api.get("rules")["groups"]:
        for rule in group["rules"]:
            check(rule["health"] == "ok", f"rule {rule['name']}: {rule}")
            yield rule["query"]


def names_in(expressions):
    # Strings, as in label matchers, name no metric.
    found = set()
    for expression in expressions:
        found |= set(re.findall(r"\b(?:dlsm_\w+|up)\b", re.sub(r'"[^"]*"', "", expression)))
    return found


def promtool(*words, text=None):
    done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, timeout=60,
                          check=False)
    check(done.returncode == 0 and "error" not in done.stderr.lower(),
          f"promtool {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def check_conventions(name, text):
    """`text` is what `name` tells."""
    complaints = promtool("check", "metrics", text=text)
    check(complaints == "", f"{name}: {complaints}")
    counters = re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE)
    check(len(counters) > 10, f"{name} has {len(counters)} counters")
    wrong = [counter for counter in counters if not counter.endswith("_total")]
    check(not wrong, f"{name}: counters without _total: {wrong}")
    check("# TYPE dlsm_" in text, f"{name}: {text}")


def check_refusals(programs, taken):
    """Fails if what is wrong with a flag is not said."""
    wrong = [(1, f"cannot serve metrics on 127.0.0.1:{taken}", "dlsm_serve", "--port=0",
              f"--metrics_port={taken}"),
             (2, "--metrics_port: 0 to 65535", "dlsm_serve", "--port=0", "--metrics_port=70000"),
             (2, "--insecure", "dlsm_serve", "--port=0", "--bind=0.0.0.0", f"--metrics_port={taken}"),
             (1, "cannot serve metrics", "Server", "0", "0.01", "0", f"--metrics_port={taken}"),
             (1, "cannot serve metrics", "db_bench", "--num=1", "--benchmarks=fillseq",
              f"--metrics_port={taken}"),
             (1, "metrics_port", "db_bench", "--num=1", "--metrics_port=70000")]
    for code, message, program, *flags in wrong:
        done = subprocess.run([programs / program, *flags], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)
        check(done.returncode == code and message in done.stderr,
              f"{program} {flags}: {done.returncode} {done.stdout}{done.stderr}")


def send_commands(port):
    """A bit of load: hits, misses, keys that expire, and a request that is refused."""
    def words(*all_words):
        encoded = [str(word).encode() for word in all_words]
        return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in encoded)

    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        replies = client.makefile("rb")
        for i in range(200):
            client.sendall(words("SET", f"key{i}", "x" * 100))
            check(replies.readline() == b"+OK\r\n", "SET")
        client.sendall(words("SET", "short", "x", "PX", "1"))
        check(replies.readline() == b"+OK\r\n", "SET PX")
        time.sleep(0.01)
        client.sendall(words("GET", "short"))
        check(replies.readline() == b"$-1\r\n", "a key has not expired")
        client.sendall(words("DEL", "short"))
        check(replies.readline() == b":0\r\n", "DEL of an expired key")
        client.sendall(words("NO_SUCH_COMMAND"))
        check(replies.readline().startswith(b"-ERR unknown command"), "a command that there is not")


def configuration(folder, ports):
    """The sample, with the ports of this test, and in a hurry."""
    text = (DASHBOARDS / "prometheus.yml").read_text(encoding="utf-8")
    for sample, port in zip((9101, 9102, 9103), ports):
        check(f'"127.0.0.1:{sample}"' in text, f"no port {sample} in {text}")
        text = text.replace(f"127.0.0.1:{sample}", f"127.0.0.1:{port}")
    text = re.sub(r"(scrape|evaluation)_interval: \d+s", r"\1_interval: 500ms", text)
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    shutil.copy(DASHBOARDS / "dlsm_rules.yml", folder)
    promtool("check", "config", str(folder / "prometheus.yml"))


def start_programs(processes, programs, ports):
    """The port of the dlsm_serve."""
    server = processes.start("Server", programs / "Server", "0", "0.1", "1", "--fabric=tcp",
                             f"--data_dir={processes.folder}/node", f"--metrics_port={ports[0]}")
    ready = processes.await_line("Server", server, r"ready on 127\.0\.0\.1:(\d+)")
    node = f"--memory_nodes=127.0.0.1:{ready.group(1)}"
    serve = processes.start("dlsm_serve", programs / "dlsm_serve", "--port=0", node,
                            f"--metrics_port={ports[1]}")
    served = processes.await_line("dlsm_serve", serve, r"ready on 127\.0\.0\.1:(\d+)")
    processes.start("db_bench", programs / "db_bench", node, "--num=20000", "--value_size=100",
                    "--log=disk", "--write_buffer_size=1048576", "--use_existing_db=false",
                    f"--duration={LOAD_SECONDS}", "--benchmarks=fillrandom,readrandom,seekrandom",
                    f"--metrics_port={ports[2]}")
    return int(served.group(1))


def check_values(api):
    """Fails if what is told does not move with what was done."""
    at_least = {
        'dlsm_serve_command_seconds_count{command="set"}': 201,
        'dlsm_serve_command_seconds_bucket{command="set",le="+Inf"}': 201,
        "dlsm_serve_keys_expired_total": 1,
        "dlsm_serve_errors_total": 1,
        'dlsm_db_keys_written_total{job="dlsm_serve"}': 201,
        'dlsm_db_log_writes_total{job="dlsm_application"}': 1,
        'dlsm_db_call_seconds_count{job="dlsm_application",call="put"}': 1,
        "dlsm_used_bytes": 1 << 20,
        'dlsm_rpc_calls_total{method="heartbeat"}': 1,
        "dlsm_tcp_received_bytes_total": 1 << 20,
        'dlsm_connections{kind="data"}': 1,
        "dlsm_store_commits_total": 1,
    }
    for expression, least in at_least.items():
        await_true(f"{expression} >= {least}, but is {api.value(expression)}",
                   lambda e=expression, n=least: (api.value(e) or 0) >= n)


def check_metrics(programs, folder):
    with Processes(folder) as processes:
        ports = [free_port() for _ in range(4)]
        configuration(folder, ports)
        served = start_programs(processes, programs, ports[:3])
        prometheus = processes.start(
            "prometheus", "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address=127.0.0.1:{ports[3]}",
            "--log.level=warn")
        send_commands(served)
        api = Api(ports[3])
        await_true("Prometheus is ready", lambda: prometheus.poll() is not None or api.ready())
        check(prometheus.poll() is None, processes.log_of("prometheus"))
        await_true("all are up", lambda: api.value("up") == 3)
        # While db_bench runs.
        for name, port in zip(("Server", "dlsm_serve", "db_bench"), ports):
            check_conventions(name, text_of(f"http://127.0.0.1:{port}/metrics"))
        check_values(api)
        wanted = names_in([*expressions_of_dashboard(), *expressions_of_rules(api)])
        check(len(wanted) > 50, f"{sorted(wanted)}")
        missing = wanted - set(api.get("label/__name__/values"))
        check(not missing, f"the dashboard or the rules name what there is not: {sorted(missing)}")
        for expression in expressions_of_dashboard():
            api.get("query", query=expression.replace("$instance", ".*").replace("$__rate_interval", "1m"))
        check_refusals(programs, ports[0])


def end_by_signal(number, _frame):
    """Has what was begun cleaned up."""
    sys.exit(128 + number)


def main():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end_by_signal)
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("no prometheus here; script/install-deps installs it")
        sys.exit(SKIPPED)
    promtool("check", "rules", str(DASHBOARDS / "dlsm_rules.yml"))
    with tempfile.TemporaryDirectory() as folder:
        check_metrics(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))


if __name__ == "__main__":
    run_test(main)
