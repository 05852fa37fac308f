"""A service of an installed package, started as its unit says: command, user, folder, mask. There is no systemd in a
chroot, so what the unit has of protection is not tried; systemd-analyze reads it instead."""

import configparser
import os
import signal
import subprocess
import time

from bench_lib.checks import check

EXPOSURE_MAX = 4.0  # By systemd-analyze security: 10 is a service without protection.


class Service:
    def __init__(self, root, name):
        self._root = root
        self.unit = f"dlsm-{name}.service"
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str
        check(parser.read(root.inside(f"usr/lib/systemd/system/{self.unit}")), f"no unit {self.unit}")
        self._settings = parser["Service"]
        self._process = None

    def __enter__(self):
        """Starts it, and waits until it says that it is ready."""
        settings = self._settings
        self._log = []
        self._process = subprocess.Popen(
            self._root.words(["sh", "-c", f"cd {settings['WorkingDirectory']} && umask {settings['UMask']} && "
                              f"exec {settings['ExecStart']}"], user=settings["User"], alone=True),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._root.environment())
        for line in self._process.stdout:
            self._log.append(line)
            if " ready on " in line:
                return self
        raise AssertionError(f"{self.unit} is not ready: {''.join(self._log)}")

    def __exit__(self, kind, *_):
        """Ends it as systemd does. It must end well, and as soon as the unit allows."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            rest, _ = self._process.communicate(timeout=float(self._settings["TimeoutStopSec"]))
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        if kind is None:
            check(self._process.returncode == 0, f"{self.unit} ended with {self._process.returncode}: {rest}")
        self.seconds_to_stop = time.monotonic() - began


def verify_unit(root, unit, folder):
    """What systemd says of the unit: nothing, and a low exposure."""
    with open(root.inside(f"usr/lib/systemd/system/{unit}"), encoding="utf-8") as file:
        text = file.read()
    # The program is in the root, and its user is unknown here.
    text = text.replace("ExecStart=/", f"ExecStart={root.path}/").replace("User=dlsm\nGroup=dlsm\n", "User=daemon\n")
    copy = os.path.join(folder, unit)
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copy],
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    check(done.returncode == 0 and unit not in said, f"systemd-analyze verify {unit}: {said}")
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", copy],
                          capture_output=True, text=True, check=False)
    exposure = [line.rsplit(":", 1)[1].split()[0] for line in done.stdout.splitlines() if "Overall exposure" in line]
    check(exposure and float(exposure[0]) <= EXPOSURE_MAX, f"{unit}: exposure {exposure}: {done.stderr}")
    return float(exposure[0])
