"""classic-level, LevelDB's binding for Node.js, with the tests of abstract-level, the interface that it implements:
npm has no others of it.

Versions from 3 on need changes of LevelDB that no release of it has. This one brings a LevelDB of its own; only the
description of that build is replaced.
"""
import json
import os
import shutil
import subprocess

from leveldb_suites.library import Missing
from leveldb_suites.suite import HERE, Suite

ABSTRACT_LEVEL, TAPE, NODE_GYP = "2.0.2", "5.9.0", "11.2.0"
DRIVER = HERE / "abstract_level.js"


class ClassicLevel(Suite):
    name, version = "classic-level", "2.0.0"

    def fetch(self, folder):
        for tool in ("node", "npm"):
            if not shutil.which(tool):
                raise Missing(f"there is no {tool} on PATH; Debian has it in the package {tool.replace('node', 'nodejs')}")
        (folder / "package.json").write_text("{}", encoding="utf-8")
        self.run_tool(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock",
                       f"classic-level@{self.version}", f"abstract-level@{ABSTRACT_LEVEL}", f"tape@{TAPE}",
                       f"node-gyp@{NODE_GYP}"], "classic-level cannot be had from npm", cwd=folder)

    @staticmethod
    def package(folder):
        return folder / "node_modules/classic-level"

    def bind(self, folder, library):
        package = self.package(folder)
        shutil.rmtree(package / "prebuilds")
        description = {"targets": [{"target_name": "leveldb", "type": "none", "direct_dependent_settings": {
            "include_dirs": [str(library.headers)],
            "libraries": [*library.link_flags(), "-lleveldb"]}}]}
        (package / "deps/leveldb/leveldb.gyp").write_text(json.dumps(description), encoding="utf-8")
        headers = os.environ.get("NODE_HEADERS", "/usr")
        if not os.path.exists(f"{headers}/include/node/node_api.h"):
            raise Missing(f"{headers}/include/node has no headers of Node.js: install libnode-dev, or name the folder "
                          "above it in the environment variable NODE_HEADERS")
        self.run_tool([folder / "node_modules/.bin/node-gyp", "rebuild", f"--nodedir={headers}"], cwd=package)

    def artifact(self, folder):
        return self.package(folder) / "build/Release/classic_level.node"

    def tests(self, folder, environment):
        listed = subprocess.run(["node", DRIVER, folder], env=environment, capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            raise RuntimeError(f"abstract-level's tests cannot be listed:\n{listed.stdout}{listed.stderr}")
        return listed.stdout.splitlines()

    def command(self, folder, left_out, outcomes):
        listing = outcomes.with_name("left_out")
        listing.write_text("\n".join(left_out), encoding="utf-8")
        return ["node", DRIVER, folder, outcomes, listing], {}
