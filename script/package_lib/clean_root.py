"""A bare Debian 12 in a folder, for tests of packages: what debootstrap installs, and nothing else.

Needs root, and namespaces of mounts, processes and networks. enter_namespaces() starts the test again in namespaces
of its own: all mounts and all processes of the test are gone when it ends, however that is.
"""

import os
import shutil
import subprocess
import sys
import tempfile

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
SECURITY = "http://deb.debian.org/debian-security"
INSIDE = "DLSM_PACKAGE_TEST_INSIDE"
CANNOT = 77  # The exit code that counts as skipped.
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}


class Cannot(Exception):
    """What this machine does not have or allow."""


class Failed(Exception):
    """A command in the root that failed; the text has its output."""


def enter_namespaces():
    if os.geteuid() != 0:
        raise Cannot("needs root, for chroot and mounts")
    for tool in ("debootstrap", "unshare", "nsenter", "dpkg-scanpackages", "systemd-analyze", "ip"):
        if shutil.which(tool) is None:
            raise Cannot(f"there is no {tool}; script/install-deps installs it")
    if INSIDE in os.environ:
        return
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        raise Cannot("this machine allows no namespaces of mounts and processes")
    done = subprocess.run([*words, sys.executable, *sys.argv], check=False, env={**os.environ, INSIDE: "1"})
    sys.exit(done.returncode if done.returncode >= 0 else 1)


def bare_debian():
    """An archive of a bare Debian, made if there is none."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dlsm")
    archive = os.path.join(cache, f"debian-{SUITE}.tar")
    if os.path.exists(archive):
        return archive
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = os.path.join(folder, "root")
        done = subprocess.run(["debootstrap", "--variant=minbase", SUITE, root, MIRROR], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise Cannot(f"debootstrap: {done.stdout[-500:]}{done.stderr[-500:]}")
        with open(os.path.join(root, "etc/apt/sources.list"), "a", encoding="utf-8") as sources:
            sources.write(f"deb {SECURITY} {SUITE}-security main\n")
        subprocess.run(["tar", "-C", root, "-cf", archive + ".part", "."], check=True)
    os.rename(archive + ".part", archive)
    return archive


class CleanRoot:
    """The folder, a process whose network has nothing but a loopback, and commands in the two."""

    def __enter__(self):
        archive = bare_debian()
        self._folder = tempfile.mkdtemp(prefix="dlsm-package-test-", dir="/var/tmp")
        self.path = os.path.join(self._folder, "root")
        self._mounts = []
        self._network = None
        os.mkdir(self.path)
        try:
            self._fill(archive)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _fill(self, archive):
        # Files of this host stay readable by others, as installed systems have them.
        os.chmod(self._folder, 0o755)
        os.chmod(self.path, 0o755)
        subprocess.run(["tar", "-C", self.path, "-xf", archive], check=True)
        self._mount(["-t", "proc", "proc"], "proc")
        self._mount(["-t", "tmpfs", "-o", "mode=755", "dev"], "dev")
        for name, (major, minor) in DEVICES.items():
            os.mknod(self.inside(f"dev/{name}"), 0o20666, os.makedev(major, minor))
            os.chmod(self.inside(f"dev/{name}"), 0o666)
        os.mkdir(self.inside("dev/shm"))
        os.chmod(self.inside("dev/shm"), 0o1777)
        shutil.copy("/etc/resolv.conf", self.inside("etc/resolv.conf"))
        # Nothing that is installed starts by itself.
        with open(self.inside("usr/sbin/policy-rc.d"), "w", encoding="utf-8") as policy:
            policy.write("#!/bin/sh\nexit 101\n")
        os.chmod(self.inside("usr/sbin/policy-rc.d"), 0o755)
        # The ports of the services may be in use on this host.
        self._network = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self._network.pid}/ns/net") == own and self._network.poll() is None:
            pass
        subprocess.run([*self._in_network(), "ip", "link", "set", "lo", "up"], check=True)

    def _mount(self, words, place):
        os.makedirs(self.inside(place), exist_ok=True)
        subprocess.run(["mount", *words, self.inside(place)], check=True)
        self._mounts.append(self.inside(place))

    def __exit__(self, *_):
        if self._network is not None:
            self._network.kill()
            self._network.wait()
        for place in reversed(self._mounts):
            subprocess.run(["umount", "--lazy", place], check=True)
        shutil.rmtree(self._folder)

    def _in_network(self):
        return ["nsenter", f"--net=/proc/{self._network.pid}/ns/net"]

    def inside(self, path):
        return os.path.join(self.path, path.lstrip("/"))

    def words(self, command, user=None, alone=False):
        """A command that runs in the root; `alone` is in the network without others."""
        as_user = [f"--userspec={user}:"] if user else []
        return [*(self._in_network() if alone else []), "chroot", *as_user, self.path, *command]

    @staticmethod
    def environment():
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root",
                "DEBIAN_FRONTEND": "noninteractive"}

    def run(self, *command, user=None, alone=False, seconds=600):
        """The command's output, without the end of the line."""
        done = subprocess.run(self.words(command, user, alone), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, env=self.environment(), timeout=seconds)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout.rstrip("\n")

    def apt(self, *arguments):
        return self.run("apt-get", "-q", "-y", "-o", "Acquire::Retries=3", "--no-install-recommends", *arguments)

    def hurry(self):
        """From now on dpkg does not wait for the disk, which nobody needs here after the test."""
        with open(self.inside("etc/dpkg/dpkg.cfg.d/hurry"), "w", encoding="utf-8") as file:
            file.write("force-unsafe-io\n")

    def exists(self, path):
        return os.path.lexists(self.inside(path))

    def find(self, name, but_not):
        """Paths with that part in their names, outside of the folders `but_not`."""
        found = []
        for folder, folders, files in os.walk(self.path):
            below = "/" + os.path.relpath(folder, self.path)
            folders[:] = [f for f in folders if os.path.join(below, f).replace("/./", "/") not in but_not]
            found += [os.path.join(below, f).replace("/./", "/") for f in folders + files if name in f]
        return sorted(found)
