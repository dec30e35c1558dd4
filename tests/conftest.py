"""What holds for all tests."""

import os

from hypothesis import settings

from kvzero.executors.admission import devices_of_worker, devices_present

# A busy machine is no failure: time is measured in benchmarks, never asserted in tests.
settings.register_profile("kvzero-tests", settings.default, deadline=None)
settings.load_profile("kvzero-tests")


def pytest_configure() -> None:
    """Let each of several workers begin with a GPU of its own, before CUDA starts."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if worker.isdecimal():
        devices = devices_of_worker(int(worker), os.environ, devices_present())
        if devices is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = devices
