"""The tables, as Markdown."""

import contextlib
import dataclasses
import hashlib
import os
import platform
import statistics
import subprocess
import time

from bench_lib import server_size
from compare_lib import figures, remote, remote_rows, rows, running


@dataclasses.dataclass(frozen=True)
class About:
    """What measures, and on what."""
    machine: str
    scripts: str  # The revision of this checkout, which need not be what the programs were built from.
    programs: dict  # Of each: {"sha256": ..., "modified": ...}.

    def to_json(self):
        return {"machine": self.machine, "revision_of_scripts": self.scripts, "programs": self.programs}

    def text(self):
        programs = "".join(f"; {name} {of['sha256'][:12]} (SHA-256) of {of['modified']}"
                           for name, of in self.programs.items())
        return f"{self.machine}. Scripts of revision {self.scripts}{programs}."


def about(build):
    described = subprocess.run(["git", "-C", running.ROOT, "describe", "--always", "--dirty", "--exclude=*"],
                               check=False, capture_output=True, text=True)
    return About(machine(), described.stdout.strip() or "unknown", programs_in(build))


def programs_in(build):
    found = {}
    for name in ("db_bench", "Server"):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(build, name), "rb") as file:
            modified = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(os.fstat(file.fileno()).st_mtime))
            found[name] = {"sha256": hashlib.sha256(file.read()).hexdigest(), "modified": modified}
    return found


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        model = names[0] if names else model
    except OSError:
        pass
    return (f"{os.cpu_count()} x {model}, {server_size.machine_gigabytes():.0f} GB, "
            f"Linux {platform.release()}")


def table(heading, lines, left=1):
    """The first `left` columns are text, the others figures."""
    cells = ["---"] * left + ["---:"] * (len(heading) - left)
    text = ["| " + " | ".join(heading) + " |", "|" + "|".join(cells) + "|"]
    return "\n".join(text + ["| " + " | ".join(line) + " |" for line in lines]) + "\n"


def number(value, form):
    return "-" if value is None else form.format(value)


def kops(value):
    if value is None:
        return "-"
    return f"{value / 1000:,.0f}k" if value >= 100_000 else f"{value / 1000:,.1f}k"


def with_spread(values):
    """values: {run: operations a second}."""
    if not values:
        return "-"
    spread = figures.half_spread(list(values.values()))
    return kops(statistics.median(values.values())) + ("" if spread is None else f" ±{spread:.0%}")


def ratio_cells(comparison):
    """Ratio, target and verdict."""
    ratio = number(comparison.ratio, "**{:.2f}x**")
    if comparison.lowest is not None and comparison.lowest != comparison.highest:
        ratio += f" ({comparison.lowest:.2f} to {comparison.highest:.2f})"
    return [ratio, number(comparison.target, "{:g}x"), figures.verdict(comparison.met)]


def size_text(size):
    return f"{size[0]} B/{size[1]} B"


def threads_text(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


# --- All engines ------------------------------------------------------------------------------------

def peers_of(arguments):
    return [setup for setup in arguments.setups if setup in rows.PEERS]


def speed_table(results, arguments, size, threads):
    lines = []
    for row in rows.ROWS:
        comparison = figures.compare_row(results, row, size, threads, rows.OURS, peers_of(arguments))
        cells = [with_spread(results.by_run(size, threads, setup, row.benchmark, row.figure))
                 for setup in arguments.setups]
        lines.append([row.label, *cells, comparison.best_peer or "-", *ratio_cells(comparison)])
    return (f"\n## {size_text(size)}, {threads_text(threads)}: operations a second\n\n" +
            table(["benchmark", *arguments.setups, "best peer", "dLSM / best (runs)", "target", "met"],
                  lines))


def limits_met(results, arguments):
    """(limit, threads, {setup: median}, whether ours is within it) of each that was measured."""
    for limit in rows.LIMITS:
        for threads in limit.threads:
            if limit.size not in arguments.sizes or threads not in arguments.threads:
                continue
            medians = {setup: results.median(limit.size, threads, setup, limit.benchmark,
                                             limit.figure) for setup in arguments.setups}
            ours = medians.get(rows.OURS)
            yield limit, threads, medians, None if ours is None else ours <= limit.most


def limit_table(results, arguments):
    lines = [[limit.label, size_text(limit.size), str(threads),
              *(number(medians[setup], "{:.2f}") for setup in arguments.setups),
              f"≤ {limit.most:g}", figures.verdict(met)]
             for limit, threads, medians, met in limits_met(results, arguments)]
    if not lines:
        return ""
    return "\n## Costs of a put in fillrandom\n\n" + table(
        ["", "size", "threads", *arguments.setups, "limit", "met"], lines)


def latency_table(results, arguments, size, threads):
    def cell(setup, benchmark):
        medians = [results.median(size, threads, setup, benchmark, lambda r, f=field: r[f])
                   for field in ("p50_us", "p99_us", "p999_us")]
        return "-" if medians[0] is None else " / ".join(f"{m:.2f}" for m in medians)

    measured = [benchmark for benchmark in rows.BENCHMARKS if benchmark not in rows.PREPARATIONS]
    return (f"\n## {size_text(size)}, {threads_text(threads)}: latency, µs, P50 / P99 / P99.9; "
            "of readseq, 16 entries\n\n" +
            table(["benchmark", *arguments.setups],
                  [[benchmark, *(cell(setup, benchmark) for setup in arguments.setups)]
                   for benchmark in measured]))


def per_hit(result, field, per_miss):
    """What a hit costs, when a miss costs `per_miss`."""
    hits = result["found"]
    return (result[field] * result["ops"] - per_miss * result["misses"]) / hits if hits else None


def cost_table(results, arguments, size):
    lines = []
    for setup in arguments.setups:
        for threads in arguments.threads:
            def median(benchmark, figure, setup=setup, threads=threads):
                return results.median(size, threads, setup, benchmark, figure)

            def hit(field, median=median):
                miss = median("readmissing", lambda r: r[field]) or 0
                return median("readrandom", lambda r: per_hit(r, field, miss))

            wired = setup.startswith("dlsm")
            lines.append([
                f"{setup}, {threads}",
                number(hit("round_trips_per_op") if wired else None, "{:.3f}"),
                number(median("readmissing", lambda r: r["round_trips_per_op"]) if wired else None,
                       "{:.4f}"),
                number(hit("wire_read_bytes_per_op") if wired else None, "{:.0f}"),
                number(median("fillrandom", lambda r: r["wire_write_bytes_per_op"]) if wired else None,
                       "{:.0f}"),
                number(median("fillrandom", lambda r: r["write_amplification"]), "{:.2f}"),
                number(median("readrandom", lambda r: r["index_bytes_per_key"]), "{:.2f}"),
                number(median("fillrandom", rows.cpu_micros_per_op), "{:.2f}"),
                number(median("readrandom", rows.cpu_micros_per_op), "{:.2f}"),
                number(median("fillrandom", lambda r: r["peak_rss_bytes"] / 2**20), "{:.0f}"),
            ])
    return f"\n## {size_text(size)}: costs\n\n" + table(
        ["set-up, threads", "round trips per hit", "per miss", "wire B read per hit",
         "wire B written per put", "write amplification", "index+filter B per key",
         "CPU µs a put (fillrandom)", "CPU µs a get (readrandom)",
         "peak RSS MB, shared memory included"], lines)


def engine_text(results, arguments):
    text = (f"\n{arguments.num:,} keys and as many puts of fillrandom, then {arguments.operations:,} "
            "operations of each workload, shared by the threads, but a "
            f"{rows.SEEK_SHARE}th of that for seekrandom. Medians of the runs, ± half their range; "
            "\"best peer\" is the one with the highest median in this row, \"runs\" the range of the "
            "ratios to it within a run. Peers on tmpfs, no compression; LevelDB with its log, which "
            "cannot be turned off.\n")
    for size in arguments.sizes:
        for threads in arguments.threads:
            text += speed_table(results, arguments, size, threads)
    text += limit_table(results, arguments)
    for size in arguments.sizes:
        for threads in arguments.threads:
            text += latency_table(results, arguments, size, threads)
        text += cost_table(results, arguments, size)
    return text


# --- Redis ------------------------------------------------------------------------------------------

def remote_text(medians, arguments):
    speeds, costs = [], []
    for row in remote_rows.ROWS:
        for way in row.ways:
            comparison = remote.compare(medians, row, way)
            to_quiet = remote.compare(medians, row, way, "ops_per_sec_to_quiet")
            speeds.append([
                row.label, way.label,
                with_spread(medians.by_run("row", row.label, "ops_per_sec")),
                with_spread(medians.by_run("way", way.label, "ops_per_sec")),
                *ratio_cells(comparison),
                number(to_quiet.ratio, "{:.2f}x") if row.command == "SET" else "-"])
            cells = [row.label, way.label]
            for field, form in (("p50_us", "{:.1f}"), ("p99_us", "{:.1f}"),
                                ("wire_bytes_per_op", "{:.0f}"), ("client_cpu_us_per_op", "{:.2f}"),
                                ("server_cpu_us_per_op", "{:.2f}")):
                cells += [number(medians.median("row", row.label, field), form),
                          number(medians.median("way", way.label, field), form)]
            costs.append(cells)
    return (
        "\n## What a user would pick instead: Redis, both over loopback TCP\n\n"
        f"{arguments.redis_keys:,} keys, {size_text(remote_rows.SIZE)}, every get finds its key. "
        "`redis-server` without persistence and `redis-benchmark`, one thread each; `Server` and "
        "`db_bench`, both with `--fabric=tcp`. A SET that has been answered is in the other process; a Put "
        "that has returned may still be in a memtable of this one, so \"until quiet\" gives the ratio "
        "until all that was due has been written out and merged.\n\n" +
        table(["Redis", "dLSM", "Redis ops/s", "dLSM ops/s", "dLSM / Redis (runs)", "target", "met",
               "until quiet"], speeds, left=2) +
        "\nLatencies are those of a call: of a batch, where there is one (Redis: of its slowest "
        "answer). Wire bytes include the frames of both protocols, not the headers of TCP.\n\n" +
        table(["Redis", "dLSM", "P50 µs: Redis", "dLSM", "P99 µs: Redis", "dLSM", "wire B/op: Redis",
               "dLSM", "client CPU µs/op: Redis", "dLSM", "server CPU µs/op: Redis", "dLSM"], costs,
              left=2))


# --- All --------------------------------------------------------------------------------------------

def verdicts(results, medians, arguments):
    """(what came out beside its target, whether that is met) for each target that was measured."""
    for size in arguments.sizes if results.results else ():
        for threads in arguments.threads:
            for row in rows.ROWS:
                found = figures.compare_row(results, row, size, threads, rows.OURS,
                                            peers_of(arguments))
                if found.met is not None:
                    yield (f"{row.label}, {size_text(size)}, {threads_text(threads)}: "
                           f"{found.ratio:.2f}x {found.best_peer}, target {found.target:g}x"), found.met
    for limit, threads, setups, met in limits_met(results, arguments):
        if met is not None:
            yield (f"{limit.label}, {size_text(limit.size)}, {threads_text(threads)}: "
                   f"{setups[rows.OURS]:.2f}, at most {limit.most:g}"), met
    for row in remote_rows.ROWS:
        for way in row.ways:
            found = remote.compare(medians, row, way)
            if found.met is not None:
                yield (f"{row.label}, {way.label}: {found.ratio:.2f}x Redis, target "
                       f"{found.target:g}x"), found.met


def markdown(results, medians, arguments, notes, made):
    """results: of all engines; medians: of Redis and dLSM over tcp. Either may be empty. made: an About."""
    runs = len({r["run"] for r in [*results.results, *medians.results]})
    measured = list(verdicts(results, medians, arguments))
    missed = [line for line, met in measured if not met]
    text = f"# Comparison\n\n{made.text()} Runs: {runs}, interleaved.\n"
    if arguments.flags:
        text += f"Flags: `{' '.join(arguments.flags)}`.\n"
    text += "".join(f"\n{note}\n" for note in notes)
    text += f"\nTargets met: {len(measured) - len(missed)} of {len(measured)}."
    text += (" Not met:\n\n" + "".join(f"* {line}\n" for line in missed)) if missed else "\n"
    if results.results:
        text += engine_text(results, arguments)
    if medians.results:
        text += remote_text(medians, arguments)
    return text
