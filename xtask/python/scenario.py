"""Running the scenarios of a script: which ones, how long, and what to print of them."""

import argparse
import faulthandler
import os
import pathlib
import shutil
import sys
import time
import traceback


class Setting:
    """What a scenario is given: the binary, an empty folder, and how much to do."""

    def __init__(self, binary, folder, full):
        self.binary = binary
        self.folder = folder
        self.full = full

    def rounds(self, quick, full):
        return full if self.full else quick

    def say(self, text):
        print(f"  {text}", flush=True)


def run(scenarios, description):
    """Runs the scenarios that the command line names, by default all. The first that fails ends the script."""
    names = ", ".join(scenarios)
    parser = argparse.ArgumentParser(description=description, epilog=f"Scenarios: {names}")
    parser.add_argument("binary")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--full", action="store_true", help="as often and as large as the figures that are quoted")
    parser.add_argument("--only", default=names, help="names of scenarios, separated by commas")
    arguments = parser.parse_args()
    for name in (name.strip() for name in arguments.only.split(",")):
        if name not in scenarios:
            sys.exit(f"there is no scenario '{name}': {names}")
        folder = (arguments.folder / name).absolute()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"{name}: {scenarios[name].__doc__.splitlines()[0]}", flush=True)
        began = time.monotonic()
        # A hang shows where it is.
        faulthandler.dump_traceback_later(1200, exit=True)
        try:
            scenarios[name](Setting(arguments.binary, folder, arguments.full))
        except BaseException:  # noqa: BLE001 - told, and the end of the script
            traceback.print_exc()
            end(1)
        faulthandler.cancel_dump_traceback_later()
        print(f"{name}: held, {time.monotonic() - began:.0f} s", flush=True)
    end(0)


def end(code):
    """Ends at once: threads of clients may try for ten minutes to release what a killed server had for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def wait_until(what, holds, seconds):
    """Waits for a condition."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} within {seconds} s"
        time.sleep(0.05)


def session(remote, patient=True):
    """A new session of its own; one that is not patient gives up after seconds where others try for ten minutes."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    spark = SparkSession.builder.remote(remote).create()
    if not patient:
        spark.client.set_retry_policies([DefaultPolicy(max_retries=8, max_backoff=1000)])
    return spark


def condition(error):
    """The condition of an error of PySpark's."""
    return getattr(error, "getCondition", lambda: None)()
