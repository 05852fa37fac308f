"""Starts the Servers, asks how they are, and stops them.

A node's folder holds the id of its cluster, its secret, its Server's log and the Server's process id. A
process is the node's only if its command line names that folder: an id may have been given to another since.
The folder is a cluster's only if it has its id: one of the same name may have been started from elsewhere, or
before what was known of it here was lost.
"""

import concurrent.futures
import re
import shlex
import socket

from cluster_lib.failure import Failure
from cluster_lib.hosts import COMMAND_SECONDS_MAX, run_script

LOG_LINES = 8
GRACE_TENTHS = 100  # Ten seconds from TERM to KILL.

# alive FOLDER PIDFILE: whether that process is there, and is of this folder; sets $pid.
ALIVE = r"""
alive() {
  pid=$(cat "$1/$2" 2>/dev/null) && [ -n "$pid" ] &&
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -e "$1/" -e "$1 "
}
"""

# is_of FOLDER CLUSTER: whether that cluster's node lives there. must_be_of ends the script if it does not.
IS_OF = r"""
is_of() { [ "$(cat "$1/cluster" 2>/dev/null)" = "$2" ]; }
must_be_of() {
  is_of "$1" "$2" || {
    echo "$1 is not this cluster's any more (deleted, or taken by another start of a cluster of this" \
      "name): script/cluster stop, then start with another --name" >&2; exit 1; }
}
"""

# FOLDER CLUSTER; the secret comes in.
PREPARE = ALIVE + r"""
umask 077
mkdir -p -- "$1" || exit 1
for folder in "$1" "$(dirname "$1")" "$(dirname "$(dirname "$1")")"; do
  [ -O "$folder" ] || { echo "$folder belongs to somebody else: delete it, or set TMPDIR" >&2; exit 1; }
done
for file in pid bench-pid; do
  alive "$1" $file && {
    echo "process $pid runs in $1, of a cluster of this name that was started elsewhere or is forgotten" \
      "here: kill $pid there, or choose another --name" >&2; exit 1; }
done
echo "$2" >"$1/cluster" && rm -f -- "$1/pid" "$1/bench-pid" "$1/log" && cat >"$1/secret"
"""

# FOLDER CLUSTER SERVER ARGUMENT...
START = IS_OF + r"""
must_be_of "$1" "$2"
folder=$1
shift 2
setsid "$@" </dev/null >"$folder/log" 2>&1 &
echo $! >"$folder/pid"
"""

# FOLDER TENTHS: 0 ready, 3 ended, 4 not within the time; 3 and 4 with the log's end.
WAIT = ALIVE + r"""
i=0
while [ $i -lt "$2" ]; do
  grep -q ' ready on ' "$1/log" && exit 0
  alive "$1" pid || break
  sleep 0.1; i=$((i+1))
done
tail -n LINES "$1/log"
alive "$1" pid && exit 4
exit 3
""".replace("LINES", str(LOG_LINES))

# FOLDER CLUSTER: the process id, or 3 and the log's end.
LOOK = ALIVE + IS_OF + r"""
must_be_of "$1" "$2"
alive "$1" pid && { echo "$pid"; exit 0; }
tail -n LINES "$1/log" 2>/dev/null
exit 3
""".replace("LINES", str(LOG_LINES))

# FOLDER CLUSTER TENTHS: ends what runs in the folder and deletes it, unless it is another cluster's; 5 if
# that took force.
STOP = ALIVE + IS_OF + r"""
force=0
if is_of "$1" "$2"; then
  for file in bench-pid pid; do
    alive "$1" $file && kill -TERM "$pid"
    i=0
    while alive "$1" $file && [ $i -lt "$3" ]; do sleep 0.1; i=$((i+1)); done
    alive "$1" $file && { kill -KILL "$pid"; force=5; }
  done
  rm -rf -- "$1" || exit 1
fi
rmdir -- "$1" "$(dirname "$1")" "$(dirname "$(dirname "$1")")" 2>/dev/null
exit $force
"""

# PROGRAM...
FIND = r"""
for program in "$@"; do
  [ -x "$program" ] || {
    echo "there is no program $program: build it, or name its folder with --build or --remote_build"
    exit 1
  }
done
"""

# PROGRAM FOLDER ARGUMENT...: dlsm_tool with the folder's secret.
TOOL = r"""
program=$1 folder=$2; shift 2
[ -x "$program" ] || { echo "there is no program $program: build it" >&2; exit 1; }
exec "$program" --secret_file="$folder/secret" "$@"
"""


def on_all(work, nodes):
    """work(node) for all of them at once; their results in order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        return list(pool.map(work, nodes))


def must(node, done):
    if done.returncode:
        cause = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise Failure(f"{node.name} ({node.host.describe()}): {cause}")
    return done.stdout


def bind_address(address):
    """A numeric one: the node's own where connection.conf gives it, else all of the host's, of the kind that
    its name stands for."""
    number = address.numeric()
    if number is not None:
        return str(number)
    if address.is_here():
        return "127.0.0.1"
    try:
        kinds = {found[0] for found in socket.getaddrinfo(address.host, None, type=socket.SOCK_STREAM)}
    except OSError:
        kinds = set()  # A name of ~/.ssh/config, say.
    return "::" if kinds == {socket.AF_INET6} else "0.0.0.0"


def prepare(cluster, node):
    must(node, run_script(node.host, PREPARE, node.folder, cluster.id, text=cluster.secret()))


def launch(cluster, node):
    """Starts its Server, and does not wait."""
    prepare(cluster, node)
    shape = cluster.shape
    # In namespaces of one machine shared memory would be a way around their network.
    fabric = ["--fabric=tcp"] if shape.namespaces else []
    must(node, run_script(
        node.host, START, node.folder, cluster.id, cluster.program(node, "Server"), node.address.port,
        shape.memory_gb, node.index, f"--bind={bind_address(node.address)}",
        f"--secret_file={node.folder}/secret", *fabric, *cluster.tls_flags(),
        *shlex.split(shape.server_flags)))


def wait_until_ready(node, seconds_max):
    done = run_script(node.host.of_processes(), WAIT, node.folder, int(10 * seconds_max),
                      seconds_max=seconds_max + COMMAND_SECONDS_MAX)
    if done.returncode == 0:
        return
    what = (f"was not ready within {seconds_max:g} s; --start_timeout gives it more"
            if done.returncode == 4 else "ended at once")
    raise Failure(f"{node.name}: the Server on {node.host.describe()}, {node.address}, {what}. Its last "
                  f"lines:\n{_indented(done.stdout + done.stderr)}")


def _indented(text):
    return "\n".join("    " + line for line in text.strip().splitlines()) or "    (none)"


def stop(cluster, node):
    """Ends what runs for the node on its host, and deletes its folder there, unless it is another cluster's.
    Returns what went wrong, or None; and whether nothing is left."""
    try:
        done = run_script(node.host.of_processes(), STOP, node.folder, cluster.id, GRACE_TENTHS)
    except Failure as failure:
        return f"{node.name} cannot be stopped: {failure}", False
    if done.returncode == 5:
        return f"{node.name} had to be killed: it did not end within {GRACE_TENTHS // 10} s", True
    if done.returncode:
        return f"{node.name} ({node.host.describe()}): {done.stderr.strip()}", False
    return None, True


def parse_use(line):
    """A line of `dlsm_tool nodes`: host:port and its figures; no figures if it did not answer."""
    where, _, rest = line.partition(" ")
    if not re.fullmatch(r"(?:[a-z-]+ \d+ ?)+", rest):
        return where.removesuffix(":"), None
    words = rest.split()
    return where, {name: int(value) for name, value in zip(words[::2], words[1::2])}


def use_of_all(cluster):
    """What each memory node holds and has spent, as the first compute node is told."""
    node = cluster.compute_nodes[0]
    nodes = ",".join(str(memory_node.address) for memory_node in cluster.memory_nodes)
    done = run_script(node.host, TOOL, cluster.program(node, "dlsm_tool"), node.folder,
                      *cluster.tls_flags(), f"--memory_nodes={nodes}", "nodes")
    uses = dict(parse_use(line) for line in done.stdout.splitlines())
    missing = [m for m in cluster.memory_nodes if uses.get(str(m.address)) is None]
    if missing or done.returncode:
        raise Failure(f"{node.name} gets no answer from {', '.join(m.name for m in missing) or 'dlsm_tool'}: "
                      f"{(done.stdout + done.stderr).strip()}; see script/cluster status")
    return [uses[str(m.address)] for m in cluster.memory_nodes]


def look(cluster, node):
    """(whether it is up, what to say of it)."""
    try:
        done = run_script(node.host.of_processes(), LOOK, node.folder, cluster.id)
        if done.returncode == 3:
            return False, ("its Server is not running; script/cluster stop, then start. The last lines of "
                           f"its log:\n{_indented(done.stdout + done.stderr)}")
        pid = must(node, done).strip()
        asked = run_script(node.host, TOOL, cluster.program(node, "dlsm_tool"), node.folder,
                           *cluster.tls_flags(), f"--memory_nodes={node.address}", "nodes")
        use = parse_use(asked.stdout.strip())[1]
        if use is None:
            return False, (f"process {pid} runs, but does not answer: "
                           f"{(asked.stdout + asked.stderr).strip()}")
        return True, (f"process {pid}, {use['used'] / 2**20:.1f} of {use['capacity'] / 2**20:.1f} MB used, "
                      f"{use['databases']} databases, {use['sessions']} open")
    except Failure as failure:
        return False, str(failure)


def look_at_all(cluster):
    return on_all(lambda node: look(cluster, node), cluster.memory_nodes)


def _complaint(host, script, *arguments):
    """What went wrong with a script there, or None."""
    try:
        done = run_script(host, script, *arguments)
    except Failure as failure:
        return str(failure)
    text = (done.stdout + done.stderr).strip()
    return None if done.returncode == 0 else (text or f"exit code {done.returncode}")


def reach(node):
    """Why nothing can run on the node's host, or None."""
    return _complaint(node.host, "exit 0")


def find_programs(cluster, node):
    """Why the node's host cannot start its Server, or cannot ask how memory nodes are; None if it can. That
    there is no db_bench is said when something is measured."""
    names = []
    if node in cluster.memory_nodes:
        names = ["Server", "dlsm_tool"]
    elif node is cluster.compute_nodes[0]:
        names = ["dlsm_tool"]
    return _complaint(node.host.of_processes(), FIND, *(cluster.program(node, name) for name in names))
