"""plyvel, LevelDB's binding for Python. Its source archive has its tests."""
import os
import pathlib
import shutil
import tarfile

from leveldb_suites.suite import HERE, Suite
from leveldb_suites.library import Missing

FILE = "test/test_plyvel.py"


class Plyvel(Suite):
    name, version = "plyvel", "1.5.1"

    @property
    def python(self):
        return self.home / "fetched/venv/bin/python"

    def fetch(self, folder):
        interpreter = os.environ.get("PYTHON", "/usr/bin/python3")
        self.run_tool([interpreter, "-c", "import os, sysconfig as s; "
                       "os.stat(os.path.join(s.get_path('include'), 'Python.h'))"],
                      f"there is no Python.h for {interpreter}; script/install-deps installs python3-dev")
        self.run_tool([interpreter, "-m", "venv", folder / "venv"],
                      f"{interpreter} makes no virtual environment; script/install-deps installs python3-venv")
        pip = [self.python, "-m", "pip", "--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
        self.run_tool([*pip, "install", "pytest<9", "setuptools<81"], "pytest cannot be had from PyPI")
        self.run_tool([*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", folder,
                       f"{self.name}=={self.version}"], "plyvel's sources cannot be had from PyPI")
        with tarfile.open(folder / f"plyvel-{self.version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")

    def sources(self, folder):
        return folder / f"plyvel-{self.version}"

    def bind(self, folder, library):
        shutil.rmtree(folder / "venv")  # The one of `fetched` serves: it cannot be moved.
        self.run_tool([self.python, "setup.py", "build_ext", "--inplace"], cwd=self.sources(folder),
                      env={**os.environ, "CFLAGS": " ".join(["-O2", *library.compile_flags()]),
                           "LDFLAGS": " ".join(library.link_flags())})

    def artifact(self, folder):
        found = list((self.sources(folder) / "plyvel").glob("_plyvel.*.so"))
        if len(found) != 1:
            raise Missing(f"plyvel's extension was not built in {folder}")
        return found[0]

    def pytest(self, folder, *arguments):
        return [self.python, "-m", "pytest", "-p", "plyvel_outcomes", "-p", "no:cacheprovider", "--tb=short",
                f"--rootdir={self.sources(folder)}", self.sources(folder) / FILE, *arguments]

    def tests(self, folder, environment):
        listing = pathlib.Path(folder) / "tests"
        self.run_tool(self.pytest(folder, "--collect-only"),
                      env={**environment, "PYTHONPATH": str(HERE), "DLSM_SUITE_OUTCOMES": str(listing)})
        return listing.read_text(encoding="utf-8").splitlines()

    def command(self, folder, left_out, outcomes):
        deselected = [f"--deselect={FILE}::{test}" for test in sorted(left_out)]
        return self.pytest(folder, *deselected), {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1",
                                                  "PYTHONFAULTHANDLER": "1", "DLSM_SUITE_OUTCOMES": str(outcomes)}
