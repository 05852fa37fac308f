"""How any suite is fetched, built and run. A file for each suite says the rest.

A suite lies in build/leveldb-suites/NAME-VERSION: `fetched` is as the registry has it, `bound-LIBRARY` a copy of that
with the binding built against the library's headers. Both are made once; the second again when a header changes.
"""
import fcntl
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from leveldb_suites.library import Missing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent

# A run in which nothing is begun or ended for this long hangs.
STALL_SECONDS = 60
# Every test that crashes or hangs costs a further run without it.
CRASHES_MAX = 10
SERVER_GIGABYTES = 4


class Suite:
    name = version = None

    def __init__(self, build):
        self.build = build
        self.home = ROOT / "build/leveldb-suites" / f"{self.name}-{self.version}"
        self.log = self.home / "log"
        self.bound = self.lock = None

    # What each suite has of its own.

    def fetch(self, folder):
        """Takes the sources and tests of the pinned version into `folder`."""
        raise NotImplementedError

    def bind(self, folder, library):
        """Builds the binding in `folder`, a copy of what was fetched, against `library`."""
        raise NotImplementedError

    def artifact(self, folder):
        """What was linked with libleveldb."""
        raise NotImplementedError

    def tests(self, folder, environment):
        """The names of all tests."""
        raise NotImplementedError

    def command(self, folder, left_out, outcomes):
        """(command, environment) that run all tests in `folder` but those left out.

        It writes what happens to the file `outcomes`, or prints it: see event()."""
        raise NotImplementedError

    def event(self, line):
        """(what, test) if `line` says that a test was started, has passed, failed or skipped itself; else None."""
        verb, _, test = line.rstrip("\n").partition(" ")
        return (verb, test) if verb in ("started", "passed", "failed", "skipped") and test else None

    # What all suites share.

    def run_tool(self, command, missing=None, **options):
        """Runs a tool of the preparation; if it fails, raises Missing with the text `missing`, if there is one."""
        with open(self.log, "ab") as log:
            try:
                done = subprocess.run(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False,
                                      **options).returncode == 0
            except FileNotFoundError as error:
                raise Missing(f"there is no {error.filename} on PATH") from error
        if not done:
            tail = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
            if missing:
                raise Missing(f"{missing}:\n{tail}")
            raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{tail}")

    def prepare(self, library):
        self.home.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.home / "lock", "wb")  # Until this process ends: another would build in the same folder.
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.log.write_bytes(b"")
        fetched = self.home / "fetched"
        self.make_once(fetched, self.version, self.fetch)

        def bind(folder):
            shutil.copytree(fetched, folder, symlinks=True, dirs_exist_ok=True)
            self.bind(folder, library)

        self.bound = self.home / f"bound-{library.name}"
        self.make_once(self.bound, f"{library.headers} {library.headers_key()}", bind)

    @staticmethod
    def make_once(folder, key, make):
        complete = folder / "complete"
        if complete.exists() and complete.read_text(encoding="utf-8") == key:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        make(folder)
        complete.write_text(key, encoding="utf-8")

    def run(self, library, fabric, left_out, only):
        """Runs the tests on `library`. Returns ({test: "passed", "failed" or "skipped"}, outputs of failed runs)."""
        library.check_loaded_by(self.artifact(self.bound))
        environment = library.run_environment()
        names = self.tests(self.bound, environment)
        unknown = [test for test in [*left_out, *only] if test not in names]
        if unknown:
            raise RuntimeError(f"{self.name} has no test that is called {', '.join(unknown)}")
        if only:
            left_out = set(names) - set(only)
        wanted = [test for test in names if test not in left_out]
        results, crashed, outputs = {}, [], []
        while len(crashed) < CRASHES_MAX:
            events, output, how = self.run_once({*left_out, *crashed}, environment, fabric)
            results = {test: what for what, test in events if what != "started"}
            running = [test for what, test in events if what == "started" and test not in results]
            if how or "failed" in results.values():
                outputs.append(output)
            if not running:
                break
            outputs[-1:] = [f"{output}\n{self.name}: {running[0]}: {how or 'the run ended within it'}\n"]
            crashed.append(running[0])
        return {test: "failed" if test in crashed else results.get(test, "failed") for test in wanted}, outputs

    def run_once(self, left_out, environment, fabric):
        """One process. Returns (its events, its output, how it ended if that was not by itself)."""
        with tempfile.TemporaryDirectory(prefix="leveldb-suites-", ignore_cleanup_errors=True) as work:
            work = pathlib.Path(work)
            outcomes, output = work / "outcomes", work / "output"
            outcomes.touch()
            databases = work / "databases"
            databases.mkdir()
            command, extra = self.command(self.bound, left_out, outcomes)
            environment = {**environment, **extra, "TMPDIR": str(databases)}
            if fabric != "embedded":
                command = self.on_server(command, fabric)
            with open(output, "wb") as file:
                process = subprocess.Popen(command, cwd=self.bound, env=environment, stdin=subprocess.DEVNULL,
                                           stdout=file, stderr=subprocess.STDOUT)
            try:
                how = self.wait(process, outcomes, output)
            finally:
                if process.poll() is None:
                    process.kill()
            text = output.read_text(encoding="utf-8", errors="replace")
            lines = (outcomes.read_text(encoding="utf-8") or text).splitlines()
            return [event for event in map(self.event, lines) if event], text, how

    def on_server(self, command, fabric):
        """`command` while a Server runs, which keeps its data. To open a directory instead would be an error, for the
        size of directories is none."""
        return [ROOT / "script/with-server", self.build / "Server", str(SERVER_GIGABYTES), "env",
                "DLSM_MEMORY_NODES=@NODE@", f"DLSM_FABRIC={fabric}", "DLSM_DIRECTORY_BYTES=none", *command]

    @staticmethod
    def wait(process, *watched):
        """Waits for the end of a process. Returns how it ended if that was not with exit code 0 or 1."""
        sizes, since = None, time.monotonic()
        while process.poll() is None:
            time.sleep(0.05)
            now = [file.stat().st_size for file in watched]
            if now != sizes:
                sizes, since = now, time.monotonic()
            elif time.monotonic() - since > STALL_SECONDS:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return f"nothing has happened for {STALL_SECONDS} seconds"
        return None if process.returncode in (0, 1) else f"exit code {process.returncode}"
