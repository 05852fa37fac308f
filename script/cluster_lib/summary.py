"""What several db_benches measured, as one table for each workload. Computes; runs nothing."""

import dataclasses

from cluster_lib.failure import Failure

# One operation each, which is all of it: no table.
WHOLE = ("compact", "flush", "waitforbackground", "stats", "levelstats")
COLUMNS = ("kops/s", "P50 us", "P99 us", "wire B/op", "trips/op", "compute CPU us/op", "memory CPU us/op")


@dataclasses.dataclass
class Moment:
    """The memory nodes' statistics when all compute nodes waited to begin `workload`."""
    workload: str
    uses: list


def per(total, ops):
    return total / ops if ops else 0.0


def wire_bytes(result):
    return sum(p["read_bytes"] + p["write_bytes"] for p in result["wire"].values())


def round_trips(result):
    return sum(p["round_trips"] for p in result["wire"].values())


def row_of(result):
    """A compute node's figures. What the memory nodes spent cannot be told apart by compute node."""
    ops = result["ops"]
    return {"kops/s": result["ops_per_sec"] / 1e3, "P50 us": result["p50_us"], "P99 us": result["p99_us"],
            "wire B/op": per(wire_bytes(result), ops), "trips/op": per(round_trips(result), ops),
            "compute CPU us/op": per(result["own_cpu_seconds"] * 1e6, ops), "memory CPU us/op": None}


def total_of(results, memory_cpu_seconds):
    """All began together: the rate is that until the last one was done. Percentiles cannot be added
    up: the worst compute node's."""
    ops = sum(r["ops"] for r in results)
    return {"kops/s": per(ops, max(r["seconds"] for r in results)) / 1e3,
            "P50 us": max(r["p50_us"] for r in results), "P99 us": max(r["p99_us"] for r in results),
            "wire B/op": per(sum(map(wire_bytes, results)), ops),
            "trips/op": per(sum(map(round_trips, results)), ops),
            "compute CPU us/op": per(sum(r["own_cpu_seconds"] for r in results) * 1e6, ops),
            "memory CPU us/op": per(memory_cpu_seconds * 1e6, ops)}


def balance(used):
    """The fullest memory node's bytes beside the mean; 1 is even."""
    return max(used) * len(used) / sum(used) if sum(used) else 1.0


@dataclasses.dataclass
class WorkloadSummary:
    name: str
    rows: dict  # Compute node -> column -> figure.
    total: dict
    used: dict  # Memory node -> bytes in use when it was over.
    balance: float


class Summary:
    def __init__(self, compute_names, memory_names, results, moments):
        self.workloads = []
        if any(len(result) + 1 != len(moments) for result in results):
            raise Failure("a compute node's JSON file does not have a result for each workload")
        for i, (before, after) in enumerate(zip(moments, moments[1:])):
            of_nodes = [result[i] for result in results]
            if any(r["name"] != before.workload for r in of_nodes):
                raise Failure(f"a compute node's JSON file does not have {before.workload} at place {i}")
            spent = sum(a["cpu-micros"] - b["cpu-micros"] for a, b in zip(after.uses, before.uses)) * 1e-6
            used = [use["used"] for use in after.uses]
            self.workloads.append(WorkloadSummary(
                before.workload, dict(zip(compute_names, map(row_of, of_nodes))),
                total_of(of_nodes, spent), dict(zip(memory_names, used)), balance(used)))

    def measured(self):
        return [workload for workload in self.workloads if workload.name not in WHOLE]

    def to_json(self):
        return [dataclasses.asdict(workload) for workload in self.workloads]

    def text(self):
        return "\n".join(_workload_text(workload) for workload in self.measured())


def number(value):
    if value is None:
        return "-"
    if value == 0:
        return "0"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 10_000 else f"{value:.0f}"


def columns_text(heading, rows):
    """Aligned: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    return "".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                             for i, (cell, width) in enumerate(zip(row, widths))).rstrip() + "\n"
                   for row in [heading, *rows])


def _workload_text(workload):
    rows = [[name, *(number(row[column]) for column in COLUMNS)]
            for name, row in [*workload.rows.items(), ("total", workload.total)]]
    used = ", ".join(f"{name} {used / 2**20:.1f}" for name, used in workload.used.items())
    return (f"{workload.name}\n" + columns_text(["node", *COLUMNS], rows)
            + f"MB in use: {used}; max/mean {workload.balance:.3f}\n")
