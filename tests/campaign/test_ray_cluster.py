"""A campaign on a Ray cluster: a node is killed in the middle, and nothing is lost.

What needs Ray is skipped where it is not installed; `tox -e ray` installs it.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from kvzero.campaign import ray_cluster as module
from kvzero.campaign.ray_cluster import RayCluster, ray_cluster
from kvzero.errors import EnvironmentMissingError, InternalError, SubjectError

WAIT_SECONDS = 120.0
CAMPAIGN_SECONDS = 4 * WAIT_SECONDS
"""Ray's workers take minutes to start on a machine that others use."""
NODE = {"NodeID": "a", "Alive": True}
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not installed: pip install 'kvzero[ray]'"
)


def a_cluster(**resources: float) -> RayCluster:
    """Return a cluster whose Ray is a few functions."""
    fake = SimpleNamespace(
        remote=lambda **_options: lambda function: function,
        nodes=lambda: [NODE, {"NodeID": "b", "Alive": True}],
        cluster_resources=lambda: resources,
    )
    return RayCluster(fake, "here:1", "device" if "GPU" in resources else "footprint")


def test_ray_that_is_missing_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with (
        pytest.raises(EnvironmentMissingError, match=r"pip install 'kvzero\[ray\]'"),
        ray_cluster("local", None),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nowhere", "but must be auto, local or the HOST:PORT"),
        ("ray://head:10001", "but must be auto, local or the HOST:PORT"),
        ("127.0.0.1:1", "ray=127.0.0.1:1, but must answer: "),
        ("127.0.0.1:99999", "ray=127.0.0.1:99999, but must answer: "),
    ],
)
def test_an_address_that_does_not_answer_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str, says: str
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    with (
        pytest.raises(EnvironmentMissingError, match=says),
        ray_cluster(address, None),
    ):
        pass


def test_what_hangs_is_left_behind() -> None:
    never = Event()
    with pytest.raises(EnvironmentMissingError, match="must answer within 0 s"):
        module._within(0.0, "here:1", never.wait)
    never.set()


def test_what_ray_complains_about_is_one_line() -> None:
    def complain() -> None:
        raise RuntimeError("Version mismatch: 1 and 2\nand much more")

    with pytest.raises(EnvironmentMissingError, match=r"Version mismatch: 1 and 2$"):
        module._within(5.0, "here:1", complain)


def test_a_cluster_has_a_place_for_each_cpu_or_gpu() -> None:
    assert a_cluster(CPU=3.0).slots == 3
    assert a_cluster(CPU=30.0, GPU=2.0).slots == 2
    with pytest.raises(EnvironmentMissingError, match="must have a CPU for executor="):
        _ = a_cluster().slots


def test_errors_of_a_node_are_told_as_what_they_are() -> None:
    cluster = a_cluster(CPU=1.0)
    gone = SubjectError("gone")
    assert cluster.told(gone) is gone
    missing = cluster.told(ModuleNotFoundError("No module named 'kvzero'"))
    assert isinstance(missing, EnvironmentMissingError)
    assert "must import kvzero 0." in str(missing)
    assert isinstance(cluster.told(ZeroDivisionError()), InternalError)


def test_lost_nodes_are_told() -> None:
    cluster = a_cluster(CPU=2.0)
    assert cluster.note() == "ran on 2 nodes of Ray at here:1"
    cluster.ray.nodes = lambda: [NODE]
    assert cluster.note().endswith(
        "of which 1 were lost: their slices ran again elsewhere"
    )


# ---- With Ray ------------------------------------------------------------------------


class Nodes:
    """Two Ray nodes of one CPU each, in processes of this machine."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{_free_port()}"
        self.environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token",  # as for any explicit address of a safe cluster
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "HOME": str(folder),
        }
        port = self.address.rpartition(":")[2]
        begin = "--head", f"--port={port}", "--include-dashboard=false"
        self.head = self._start(folder / "head", *begin)
        self._await_head()
        self.other = self._start(folder / "other", f"--address={self.address}")

    def _start(self, log: Path, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        command += ["--num-cpus=1", "--node-ip-address=127.0.0.1", *arguments]
        with log.open("wb") as file:
            return subprocess.Popen(
                command,
                stdout=file,
                stderr=file,
                env=self.environment,
                start_new_session=True,
            )

    def _await_head(self) -> None:
        host, _, port = self.address.rpartition(":")
        until = monotonic() + WAIT_SECONDS
        while monotonic() < until:
            with suppress(OSError):
                socket.create_connection((host, int(port)), 1.0).close()
                return
            Event().wait(0.1)
        raise AssertionError("the head did not start")

    def kill(self, node: "subprocess.Popen[bytes]") -> None:
        """Kill all processes of a node at once, as a machine that is switched off."""
        for pid in [*_descendants(node.pid), node.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.wait(WAIT_SECONDS)

    def close(self) -> None:
        """Kill both."""
        for node in (self.other, self.head):
            self.kill(node)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _descendants(pid: int) -> list[int]:
    """Return the processes below one, the deepest first."""
    below = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                below += [*_descendants(int(child)), int(child)]
    return below


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Return two nodes, which end with the test."""
    (tmp_path / "ray").mkdir()
    made = Nodes(tmp_path / "ray")
    yield made
    made.close()


def fuzz(folder: Path, *arguments: str) -> list[str]:
    """Return the command of a campaign with two workers, in a new folder."""
    folder.mkdir()
    return [
        *(sys.executable, "-m", "kvzero", "fuzz", "--executor", "footprint"),
        *("--seed", "3", "-n", "2", "--shrink-time", "2s", "--json", *arguments),
    ]


def counted(document: Any) -> dict[str, Any]:
    """Return what of a result does not depend on time or place."""
    names = ("verdict", "exit_code", "cases", "launches", "judged", "not_judged")
    seen = sorted((v["property"], v["what"], v["n"]) for v in document["violations"])
    features = document["features"]
    return {name: document[name] for name in names} | {
        "seen": seen,
        "features": (features["met"], features["pairs"]),
    }


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize(
    ("subject", "cases"), [("page-as-stride", 8000), ("kvzero", 4000)]
)
def test_a_node_that_is_killed_loses_nothing(
    nodes: Nodes, tmp_path: Path, subject: str, cases: int
) -> None:
    chosen = "--subject", subject, "--max-examples", str(cases)
    here, there = tmp_path / "here", tmp_path / "there"
    command = fuzz(there, *chosen, "--corpus", "c", "--ray", nodes.address)
    process = subprocess.Popen(
        command,
        cwd=there,
        env=nodes.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert _await_cases(process, there, 20), process.communicate()
    nodes.kill(nodes.other)
    out, err = process.communicate(timeout=CAMPAIGN_SECONDS)
    far = json.loads(out)
    assert process.returncode == (1 if subject == "page-as-stride" else 0), err
    assert "of which 1 were lost: their slices ran again elsewhere" in far["notes"][-1]
    assert far["cases"] == cases
    failures = [each for each in far["violations"] if each["kind"] != "cost"]
    assert all((there / each["file"]).exists() for each in failures)
    assert list((there / "c" / "cases").iterdir())
    # The same campaign on this machine alone, with nothing lost, counts the same.
    near = subprocess.run(
        fuzz(here, *chosen), cwd=here, capture_output=True, check=False
    )
    assert counted(far) == counted(json.loads(near.stdout))


def _await_cases(process: "subprocess.Popen[bytes]", folder: Path, cases: int) -> bool:
    """Return whether a campaign has judged so many cases on two nodes."""
    until = monotonic() + CAMPAIGN_SECONDS
    while monotonic() < until and process.poll() is None:
        with suppress(OSError, ValueError, KeyError):
            state = json.loads((folder / "c" / "campaign.json").read_text())
            if len(state["workers"]) == 2 and state["counts"]["cases"] >= cases:
                return True
        Event().wait(0.2)
    return False
