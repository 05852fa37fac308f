"""A folder of packages that apt can install from, and the same packages with a higher version."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

from bench_lib.checks import check

FOLDER = "repository"  # In the root.


def publish(root, packages):
    """Has the root's apt find these packages, and no earlier ones."""
    folder = root.inside(FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for package in packages:
        shutil.copy(package, folder)
    with open(os.path.join(folder, "Packages"), "w", encoding="utf-8") as index:
        subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=folder, stdout=index,
                       stderr=subprocess.DEVNULL, check=True)
    with open(root.inside("etc/apt/sources.list.d/dlsm-test.list"), "w", encoding="utf-8") as sources:
        sources.write(f"deb [trusted=yes] file:/{FOLDER} ./\n")


def raised(packages, folder):
    """The packages again in `folder`, with a higher version and a changed comment in what it has as configuration,
    as a later version may have it."""
    made = []
    for package in packages:
        with tempfile.TemporaryDirectory(dir=folder) as unpacked:
            subprocess.run(["dpkg-deb", "-R", package, f"{unpacked}/p"], check=True)
            control = f"{unpacked}/p/DEBIAN/control"
            with open(control, encoding="utf-8") as file:
                text = file.read()
            version = re.search(r"^Version: (.*)$", text, re.MULTILINE).group(1)
            text = text.replace(version, version + "+later1")
            with open(control, "w", encoding="utf-8") as file:
                file.write(text)
            for flags in glob.glob(f"{unpacked}/p/etc/dlsm/*.flags"):
                with open(flags, "a", encoding="utf-8") as file:
                    file.write("\n# A later version.\n")
            name = os.path.basename(package).replace(version, version + "+later1")
            made.append(os.path.join(folder, name))
            subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", f"{unpacked}/p", made[-1]],
                           stdout=subprocess.DEVNULL, check=True)
    return made


def name_of(package):
    return os.path.basename(package).split("_")[0]


def packages_in(folder):
    """{name: file} of a folder that script/package has filled."""
    found = {name_of(file): file for file in glob.glob(f"{folder}/*.deb")}
    for name in ("dlsm-server", "dlsm-serve", "dlsm-tools", "libdlsm-dev"):
        check(name in found, f"{folder} has no {name}: script/package {folder} makes it")
    return found
