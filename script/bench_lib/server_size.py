"""How much memory a Server gets that is measured, and whether it can be shared memory. All in GB."""

import dataclasses
import math
import os

SHM = "/dev/shm"
# Of the machine's memory, at most: the rest is for the other process and the system.
MACHINE_SHARE = 0.7
# Of what /dev/shm has room for, at most: the Server does not start where it has too little.
SHM_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class Room:
    machine: float  # 0 where the system does not tell.
    shm_free: float
    shm_used: float


def room():
    try:
        space = os.statvfs(SHM)
        blocks = (space.f_bavail, space.f_blocks - space.f_bfree)
        free, used = (count * space.f_frsize / 2**30 for count in blocks)
    except OSError:
        free, used = 0, 0
    return Room(machine_gigabytes(), free, used)


def machine_gigabytes():
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            return int(file.readline().split()[1]) / 2**20
    except OSError:
        return 0


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
            return f"the machine has {self.room.machine:.1f} GB of memory, {wants}", "give fewer keys"
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
