"""The workflows: valid YAML in GitHub's form, and commands that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import told_commands

yaml = pytest.importorskip("yaml", reason="PyYAML, which tox installs, is not there")

FOLDER = Path(__file__).parent.parent / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
Job = dict[str, Any]  # Any: parsed YAML
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


def read(path: Path) -> dict[str, Any]:  # Any: parsed YAML
    # YAML 1.1 reads the key `on` as true.
    parsed: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in parsed.items()}


JOBS = [
    pytest.param(job, id=f"{path.stem}-{name}")
    for path in FILES
    for name, job in read(path)["jobs"].items()
]


def steps_of(job: Job) -> Iterator[dict[str, Any]]:  # Any: parsed YAML
    yield from job["steps"]


def scripts(job: Job) -> Iterator[str]:
    """Yield the script of each step, once for each value of a matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for step in steps_of(job):
        script = step.get("run", "")
        for name, values in matrix.items():
            if f"matrix.{name}" in script:
                for value in values:
                    yield script.replace(f"${{{{ matrix.{name} }}}}", value)
                break
        else:
            yield script


def test_the_workflows_that_the_docs_promise_are_there() -> None:
    names = {path.stem for path in FILES}
    assert names == {"nightly", "pull-request", "release"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_workflow_asks_for_no_more_than_reading(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["on"]
    writers = [job for job in workflow["jobs"].values() if "permissions" in job]
    for job in writers:  # whoever may write runs nothing of the project
        assert not [*told_commands.commands([*scripts(job)])]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_ends_and_each_step_does_one_thing(job: Job) -> None:
    assert job["timeout-minutes"] <= 180
    for step in steps_of(job):
        assert ("run" in step) is not ("uses" in step)
        if "uses" in step:  # GitHub's own actions alone, by version
            assert re.fullmatch(r"actions/[a-z/-]+@v\d+", step["uses"])


@pytest.mark.parametrize("job", JOBS)
def test_every_command_of_a_job_is_one_that_is_taken(job: Job) -> None:
    for script in scripts(job):
        for words in told_commands.commands(script.splitlines()):
            told_commands.check(words)


@pytest.mark.parametrize("job", JOBS)
def test_no_script_takes_text_that_a_stranger_can_write(job: Job) -> None:
    # A title or a branch name inside a script would be run; numbers and names are not.
    allowed = {
        "github.event.number || github.run_number",
        "github.run_id",
        "matrix.triton",
    }
    for step in steps_of(job):
        assert set(EXPRESSION.findall(step.get("run", ""))) <= allowed


def test_some_command_of_the_workflows_is_checked() -> None:  # sanity check
    jobs = [job for path in FILES for job in read(path)["jobs"].values()]
    told = [
        " ".join(words[:2])
        for job in jobs
        for script in scripts(job)
        for words in told_commands.commands(script.splitlines())
    ]
    assert {"kvzero fuzz", "kvzero verify", "kvzero replay", "tox -e"} <= set(told)


def test_the_nightly_matrix_has_every_triton_of_tox() -> None:
    (matrix,) = (
        job["strategy"]["matrix"]["triton"]
        for job in read(FOLDER / "nightly.yml")["jobs"].values()
        if "strategy" in job
    )
    known = {name for name in told_commands.tox_environments() if "triton" in name}
    assert {f"triton{version}" for version in matrix} == known


def test_the_nightly_campaign_saves_the_corpus_that_it_restores() -> None:
    steps = read(FOLDER / "nightly.yml")["jobs"]["campaign"]["steps"]
    caches = [step["with"] for step in steps if "actions/cache" in step.get("uses", "")]
    assert {cache["path"] for cache in caches} == {".kvzero-corpus"}
    (run,) = (step["run"] for step in steps if "--corpus" in step.get("run", ""))
    assert "--corpus .kvzero-corpus" in run
