"""levigo, LevelDB's binding for Go. Its module has its tests."""
import json
import os
import re
import shutil
import subprocess

from leveldb_suites.library import Missing
from leveldb_suites.suite import Suite

MODULE = "github.com/jmhodges/levigo"
EVENT = re.compile(r"(?:=== RUN  |--- (PASS|FAIL|SKIP):) +(\w+)(?: |$)")
VERBS = {None: "started", "PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


class Levigo(Suite):
    name, version = "levigo", "1.0.0"

    def fetch(self, folder):
        if not shutil.which("go"):
            raise Missing("there is no go on PATH; script/install-deps installs golang-go")
        asked = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@v{self.version}"], cwd=folder,
                               capture_output=True, text=True, check=False, timeout=120)
        if asked.returncode != 0:
            raise Missing(f"{MODULE} cannot be had from the module proxy:\n{asked.stdout}{asked.stderr}")
        shutil.copytree(json.loads(asked.stdout)["Dir"], folder / "levigo")
        for path in [folder / "levigo", *(folder / "levigo").rglob("*")]:  # The module cache is read-only.
            path.chmod(path.stat().st_mode | 0o200)

    def bind(self, folder, library):
        compile_flags = " ".join(["-O2", *library.compile_flags()])
        self.run_tool(["go", "test", "-c", "-o", "levigo.test", "."], cwd=folder / "levigo",
                      env={**os.environ, "CGO_ENABLED": "1", "CGO_CFLAGS": compile_flags,
                           "CGO_LDFLAGS": " ".join(library.link_flags()), "GOTOOLCHAIN": "local"})

    def artifact(self, folder):
        return folder / "levigo/levigo.test"

    def tests(self, folder, environment):
        listed = subprocess.run([self.artifact(folder), "-test.list", "."], env=environment, capture_output=True,
                                text=True, check=True)
        return [line for line in listed.stdout.splitlines() if line.startswith("Test")]

    def command(self, folder, left_out, outcomes):
        # Debian's go is older than -test.skip.
        kept = [test for test in self.tests(folder, None) if test not in left_out]
        return [self.artifact(folder), "-test.v", "-test.timeout=0", f"-test.run=^({'|'.join(kept)})$"], {}

    def event(self, line):
        match = EVENT.match(line)
        return (VERBS[match[1]], match[2]) if match else None
