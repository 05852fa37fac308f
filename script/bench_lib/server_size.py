"""How much memory a Server gets that is measured, and whether it can be shared memory. All in GB."""

import dataclasses
import fcntl
import math
import os
import pathlib

SHM = "/dev/shm"
# Of the machine's memory, at most: the rest is for the other process and the system.
MACHINE_SHARE = 0.7
# Of what /dev/shm has room for, at most: the Server does not start where it has too little.
SHM_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class Room:
    machine: float  # Or what its control groups allow, where that is less; 0 where the system does not tell.
    shm_free: float
    shm_used: float


def room():
    try:
        free, used = space(SHM)
    except OSError:
        free, used = 0, 0
    most = min(machine_gigabytes() or math.inf, allowed_gigabytes())
    return Room(0 if math.isinf(most) else most, free, used)


def space(folder):
    """What is free there, and what is not. In SHM, what killed memory nodes have left goes first."""
    if folder == SHM:
        remove_stale_files(SHM)
    found = os.statvfs(folder)
    return tuple(count * found.f_frsize / 2**30 for count in (found.f_bavail, found.f_blocks - found.f_bfree))


def remove_stale_files(folder):
    """As the next Server would: who lives has a lock on its file (util/fabric/mapped/shm_file.h)."""
    for path in pathlib.Path(folder).glob("dlsm-*"):
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_uid != os.geteuid():
                continue
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        except OSError:  # Its owner lives, or somebody else was faster.
            continue


def machine_gigabytes():
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            return int(file.readline().split()[1]) / 2**20
    except OSError:
        return 0


def allowed_gigabytes(root="/"):
    """What the control groups (a container's) allow, beyond which no Server starts (util/memory/memory_pages.h)."""
    try:
        with open(root + "proc/self/cgroup", encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return math.inf
    limits = [math.inf]
    for _, controllers, folder in groups:
        if not controllers:
            top, names = "sys/fs/cgroup", ("memory.max", "memory.high")
        elif "memory" in controllers.split(","):
            top, names = "sys/fs/cgroup/memory", ("memory.limit_in_bytes",)
        else:
            continue
        group = pathlib.PurePosixPath(folder)
        limits += [limit_in(f"{root}{top}{at}/{name}") for at in (group, *group.parents) for name in names]
    return min(limits) / 2**30


def limit_in(path):
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):  # There is no such file, or it says "max".
        return math.inf


@dataclasses.dataclass(frozen=True)
class Size:
    """What a Server gets where `wanted` would be right, and less than `least` too little."""
    wanted: float
    least: float
    fabric: str
    room: Room

    def _of_machine(self):
        return MACHINE_SHARE * self.room.machine if self.room.machine else math.inf

    def _of_shm(self):
        return SHM_SHARE * self.room.shm_free if self.fabric == "shm" else math.inf

    @property
    def gigabytes(self):
        return min(self.wanted, self._of_machine(), self._of_shm())

    @property
    def is_enough(self):
        return self.gigabytes >= self.least

    @property
    def is_short_of_shm(self):
        """Whether more room in /dev/shm would help."""
        return not self.is_enough and self._of_shm() < self._of_machine()

    def shortage(self):
        """(cause, remedy), where there is not enough."""
        wants = f"a Server of {self.wanted:.1f} GB is wanted"
        if not self.is_short_of_shm:
            has = f"the machine or container has {self.room.machine:.1f} GB of memory"
            return f"{has}, {wants}", "give fewer keys"
        more = math.ceil(self.room.shm_used + min(self.wanted, self._of_machine()) / SHM_SHARE)
        return f"{SHM} has room for {self.room.shm_free:.1f} GB, {wants}", f"{grow_shm(more)}, or fewer keys"


def grow_shm(gigabytes):
    """How that is done."""
    return (f"give it more (a container: docker run --shm-size={gigabytes}g; else as root: mount -o "
            f"remount,size={gigabytes}G {SHM})")


def for_data(num, size, fabric, there=None):
    """Of `num` keys of (key bytes, value bytes): old versions, output of running merges and the memory
    node's reserve take their share. Half of that is often enough still."""
    wanted = max(2, 4 * num * (sum(size) + 16) / 2**30)
    return Size(wanted, wanted / 2, fabric, there or room())


def text(gigabytes):
    """For the command line of a Server; never more."""
    return f"{math.floor(gigabytes * 100) / 100:.2f}"
