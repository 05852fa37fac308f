"""A plugin of pytest that writes the outcomes of tests to the file $DLSM_SUITE_OUTCOMES, each as it is known; where
tests are collected only, it writes their names."""
import os


def write(line):
    with open(os.environ["DLSM_SUITE_OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(line + "\n")


def name_of(nodeid):
    return nodeid.partition("::")[2]


def pytest_collection_modifyitems(config, items):
    if config.option.collectonly:
        open(os.environ["DLSM_SUITE_OUTCOMES"], "w", encoding="utf-8").close()
        for item in items:
            write(name_of(item.nodeid))


def pytest_runtest_logstart(nodeid):
    write(f"started {name_of(nodeid)}")


FAILED = set()


def pytest_runtest_logreport(report):
    name = name_of(report.nodeid)
    if report.skipped:
        write(f"skipped {name}")
    elif report.failed:
        FAILED.add(name)
        write(f"failed {name}")
    elif report.when == "teardown" and name not in FAILED:
        write(f"passed {name}")
