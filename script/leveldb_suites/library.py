"""The libleveldb that the suites are built against, and the one that they run on.

Both have LevelDB's binary interface, so they need not be the same: a binding that was built for LevelDB may run on
dLSM's library, which the loader then finds first.
"""
import dataclasses
import hashlib
import os
import pathlib
import re
import subprocess

SONAME = "libleveldb.so.1d"


class Missing(Exception):
    """A suite cannot run here, for want of a tool or of a file; says how to get it."""


@dataclasses.dataclass
class Library:
    name: str  # "leveldb" or "dlsm".
    headers: pathlib.Path  # The folder that has leveldb/db.h.
    folder: pathlib.Path | None  # Has the library; None: the system's folders have it.

    def headers_key(self):
        """Changes when a header does, so that a binding is built again."""
        text = hashlib.sha256()
        for header in sorted((self.headers / "leveldb").rglob("*.h")):
            text.update(header.name.encode() + b"\0" + header.read_bytes())
        return text.hexdigest()[:16]

    def compile_flags(self):
        return [f"-I{self.headers}", f"-DDLSM_HEADERS_KEY=0x{self.headers_key()}"]

    def link_flags(self):
        return [f"-L{self.folder}"] if self.folder else []

    def run_environment(self):
        """The environment of a program that is to be given this library."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("DLSM_") and name not in ("LD_PRELOAD", "PYTHONPATH", "PYTHONHOME")}
        if self.folder:
            environment["LD_LIBRARY_PATH"] = str(self.folder)
        return environment

    def check_loaded_by(self, artifact):
        """Fails unless the loader gives `artifact`, a program or a shared object, this library."""
        listed = subprocess.run(["ldd", artifact], env=self.run_environment(), capture_output=True, text=True,
                                check=False).stdout
        match = re.search(rf"{re.escape(SONAME)} => (/\S+)", listed)
        if not match:
            raise RuntimeError(f"{artifact} is not linked with {SONAME}:\n{listed}")
        found = pathlib.Path(match[1]).resolve()
        is_ours = self.folder is not None and found.parent == self.folder.resolve()
        if is_ours != (self.name == "dlsm"):
            raise RuntimeError(f"{artifact} would run on {found}, which is not the library to test")


def leveldb():
    """LevelDB itself, as Debian's libleveldb-dev has it."""
    headers = pathlib.Path("/usr/include")
    if not (headers / "leveldb/db.h").exists():
        raise Missing("LevelDB's headers are not installed; script/install-deps installs libleveldb-dev")
    return Library("leveldb", headers, None)


def dlsm(build):
    """dLSM's library of a build directory, with its headers."""
    headers, folder = build / "leveldb/include", build / "leveldb/lib"
    for needed in (headers / "leveldb/db.h", folder / SONAME):
        if not needed.exists():
            raise Missing(f"there is no {needed}; build the target leveldb_compat in {build}")
    return Library("dlsm", headers, folder)
