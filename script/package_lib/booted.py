"""A clean root, booted: its systemd is the first process of a virtual machine, which has nothing but memory.

The kernel is Debian's, as script/softroce/prepare keeps it. The machine is emulated, so no device of the host is
needed; it takes about a minute. The root itself does not change.
"""

import os
import subprocess

from bench_lib.checks import check

SCRIPTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
SECONDS_MAX = 420
# What the machine does not need in its memory. The services' data are sparse files of many gigabytes: the machine's
# services begin without, and systemd makes their folders.
NOT_TAKEN = ("./var/lib/dlsm", "./proc", "./dev", "./sys", "./var/cache", "./var/lib/apt", "./usr/share/locale",
             "./usr/share/doc", "./usr/share/i18n", "./usr/lib/python3", "./usr/lib/gcc")

UNIT = """[Unit]
After=dlsm-server.service dlsm-serve.service
[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStart=/bin/bash -x /boot-test.sh
ExecStopPost=/bin/systemctl poweroff --force
[Install]
WantedBy=multi-user.target
"""

# With systemd the maintainer scripts start, restart and stop the services.
STEPS = """set -euo pipefail
rm -f /usr/sbin/policy-rc.d
failed() { echo "NOT AS EXPECTED, line $1"; systemctl status --no-pager 'dlsm*'; journalctl --no-pager -n 40; }
trap 'failed $LINENO' ERR
until_get() {  # A service that has just been started is not ready yet.
  for _ in $(seq 100); do
    if [[ $(redis-cli get greeting) == hello ]]; then return; fi
    sleep 0.1
  done
  return 1
}
reads() {
  until_get
  [[ $(runuser -u nobody -- dlsm_tool --memory_nodes=127.0.0.1:19843 --db=fruit --key=apple get) == red ]]
}
not() { if "$@" >/dev/null; then return 1; fi; }  # `!` would not end the script.
pids() { systemctl show -P MainPID dlsm-server dlsm-serve | xargs; }

systemctl is-active dlsm-server dlsm-serve
for _ in $(seq 100); do if redis-cli ping; then break; fi; sleep 0.1; done
[[ $(redis-cli set greeting hello) == OK ]]
runuser -u nobody -- dlsm_tool --memory_nodes=127.0.0.1:19843 --db=fruit --key=apple --value=red put
reads
[[ $(stat -c '%U %a' /var/lib/dlsm/server /var/lib/dlsm/serve | uniq) == "dlsm 700" ]]
before=$(pids)

dpkg --force-confold --force-unsafe-io -i /repository/*.deb
[[ $(dpkg-query -W -f '${Version}' dlsm-serve) == *later1 ]]
systemctl is-active dlsm-server dlsm-serve
after=$(pids)
[[ ${before% *} != "${after% *}" && ${before#* } != "${after#* }" ]]
reads

systemctl disable --now dlsm-serve
dpkg -r dlsm-server
not systemctl is-active dlsm-server
not pgrep -u dlsm
dpkg -P dlsm-server dlsm-serve
not systemctl cat dlsm-server
not getent passwd dlsm
[[ ! -e /etc/systemd/system/multi-user.target.wants/dlsm-server.service ]]
[[ -z $(systemctl --failed --no-legend) ]]
echo PASSED IN THE MACHINE
"""


def kernel():
    """Debian's kernel, or None and why there is none."""
    done = subprocess.run([os.path.join(SCRIPTS, "softroce/prepare")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1:] or ["there is no kernel"]
    return os.path.join(done.stdout.splitlines()[0], "vmlinux"), []


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def initial_memory(root, archive):
    """The root as the memory that the machine begins with."""
    places = " -o ".join(f"-path {place}/\\*" for place in NOT_TAKEN)
    subprocess.run(f"find . -xdev \\( {places} \\) -prune -o -print0 | cpio -0 -o -H newc --quiet >{archive}",
                   shell=True, cwd=root.path, check=True)


def check_booted(root, repository, folder):
    """Fails if systemd does not run the services, or an upgrade or removal treats them wrongly. `repository` is the
    folder in the root that has the packages' later versions. Returns why it could not be tried, or None."""
    linux, why = kernel()
    if linux is None:
        return why[0]
    root.apt("install", "systemd", "procps")
    write(root.inside("etc/systemd/system/boot-test.service"), UNIT)
    write(root.inside("boot-test.sh"), STEPS.replace("/repository/", f"/{repository}/chosen/"))
    wanted = root.inside("etc/systemd/system/multi-user.target.wants/boot-test.service")
    os.symlink("/etc/systemd/system/boot-test.service", wanted)
    archive = os.path.join(folder, "memory.cpio")
    try:
        initial_memory(root, archive)
    finally:
        os.unlink(wanted)
        os.unlink(root.inside("etc/systemd/system/boot-test.service"))
        os.unlink(root.inside("boot-test.sh"))
    words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc",
             "-cpu", "max", "-accel", "tcg,thread=multi,tb-size=512", "-m", "2048", "-smp", "2", "-device",
             "virtio-rng-pci", "-serial", "stdio", "-kernel", linux, "-initrd", archive, "-append",
             "console=ttyS0 panic=-1 quiet mitigations=off audit=0 rdinit=/lib/systemd/systemd"]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS_MAX, check=False)
        console = done.stdout
    except subprocess.TimeoutExpired as late:
        console = (late.stdout or b"") + f"\nnot done after {SECONDS_MAX} seconds".encode()
    finally:
        os.unlink(archive)
    text = console.decode(errors="replace")
    check("\nPASSED IN THE MACHINE" in text.replace("\r", ""), f"in the booted machine:\n{text[-6000:]}")
    return None
