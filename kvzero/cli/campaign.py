"""`kvzero fuzz` as a campaign: its options, and what runs when one of them is given."""

import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kvzero.campaign.attribution import afresh
from kvzero.campaign.campaign import (
    Campaign,
    counting_judge,
    default_workers,
    resumed_settings,
)
from kvzero.campaign.confirming import Confirmed, confirm
from kvzero.campaign.gpus import chosen_gpus
from kvzero.campaign.known import read_known_file
from kvzero.campaign.outcome import RunResult
from kvzero.campaign.ray_cluster import RayCluster, ray_cluster
from kvzero.campaign.remote import RemotePlaces
from kvzero.campaign.settings import MOST_WORKERS, Settings, known_to_json
from kvzero.campaign.slot import Slot
from kvzero.campaign.tally import EXIT_FAULT
from kvzero.cli.live import watcher
from kvzero.errors import InternalError
from kvzero.executors import default_executor_name
from kvzero.executors.isolated import DEADLINE_SECONDS

DEFAULT_SECONDS = 60.0
ASKS_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK", "1"
"""Has torch look for GPUs without starting CUDA in this process."""
BUDGET = ("seconds", "cases", "max_failures", "shrink_seconds")
"""What may be changed when a campaign goes on."""

WorkersOption = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--workers",
        metavar="N",
        help="Processes that look at the same time, or auto: one a GPU, else one a "
        "CPU. With this, or any option below, the run is a campaign: it goes on after "
        "a failure, and survives whatever the subject does.",
    ),
]
GpusOption = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="GPUS",
        help="GPUs for the workers in turn: all, or such as 0,1.",
    ),
]
CorpusOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the campaign: its cases run first, new ones are kept there.",
        file_okay=False,
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on with the campaign in --corpus from where it stands."
    ),
]
LogOption = Annotated[
    Path | None,
    typer.Option(help="Event log, one JSON object a line; default: in --corpus."),
]
ShrinkTimeOption = Annotated[
    str | None,
    typer.Option(
        "--shrink-time",
        help="Time for shrinking one failure, such as 10s; default: 60s.",
    ),
]
MaxFailuresOption = Annotated[
    int | None,
    typer.Option(min=1, help="Stop once so many distinct failures are found."),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Have the workers on a Ray cluster: HOST:PORT of its head, auto (this "
        "machine's cluster) or local; by default, one a GPU or CPU of it.",
    ),
]
ContinueOption = Annotated[
    bool,
    typer.Option(
        "--continue-on-failure", help="Go on after a failure, as every campaign does."
    ),
]


@dataclass(frozen=True)
class CampaignOptions:
    """The options that make a campaign of a run."""

    workers: str | None = None
    gpus: str | None = None
    corpus: Path | None = None
    resume: bool = False
    log: Path | None = None
    max_failures: int | None = None
    continue_on_failure: bool = False
    ray: str | None = None

    @property
    def is_campaign(self) -> bool:
        """Return whether any of them is given."""
        return self != CampaignOptions()

    def checked(self, **excluded: object) -> None:
        """Refuse options that a campaign cannot obey.

        Args:
            excluded: Options that only a single run has, with their values.

        Raises:
            typer.BadParameter: One of them is given, or others contradict each other.
        """
        if self.resume and self.corpus is None:
            raise typer.BadParameter("--resume, but must come with --corpus DIR")
        if self.ray is not None and self.gpus is not None:
            raise typer.BadParameter(
                "--gpus, but with --ray its cluster gives a GPU to each slice of work: "
                "leave it out"
            )
        for name, value in excluded.items():
            if value is not None:
                raise typer.BadParameter(
                    f"--{name.replace('_', '-')}, but a campaign cannot obey it: its "
                    f"workers are processes, and it looks for every kind of failure"
                )


@dataclass
class CampaignRun:
    """One campaign on the command line.

    Attributes:
        options: The options of campaigns.
        asked: Settings that the command line gives, by name; None: it does not.
        regressions: Folder of the case files of failures.
        known: File of known findings.
    """

    options: CampaignOptions
    asked: Mapping[str, Any]  # Any: values of fields
    regressions: Path
    known: Path | None = None
    _error: BaseException | None = None
    _harness_errors: int = 0

    def run(self) -> RunResult:
        """Run the campaign.

        Raises:
            KvzeroError: It could not begin.
        """
        with ExitStack() as stack:
            cluster = None
            if self.options.ray is not None:
                joined = ray_cluster(self.options.ray, self._executor())
                cluster = stack.enter_context(joined)
            result = self._run(self._settings(cluster), cluster)
            if cluster is not None:
                result = replace(result, notes=(*result.notes, cluster.note()))
            return result

    def _executor(self) -> str | None:
        """Return the executor's name, where it is known before a cluster is."""
        options = self.options
        if options.resume and options.corpus is not None:
            return resumed_settings(options.corpus, {}).executor
        asked: str | None = self.asked.get("executor")
        return asked

    def _run(self, settings: Settings, cluster: RayCluster | None) -> RunResult:
        if self.known is not None:
            findings = read_known_file(self.known)
            mine = [known for known in findings if known.subject == settings.subject]
            settings = replace(settings, known=tuple(map(known_to_json, mine)))
        confirmed: tuple[Confirmed, ...] = ()
        if settings.known:
            judge = counting_judge(settings)
            confirmed = confirm(judge, judge.known)
            afresh(judge)
        name = f"fuzz {settings.subject} on {settings.executor}, seed {settings.seed}"
        with watcher(name) as watching:
            campaign = Campaign(
                settings,
                self.options.corpus,
                self.regressions,
                resume=self.options.resume,
                log=self.options.log,
                watcher=watching,
                known=confirmed,
                place=Slot if cluster is None else RemotePlaces(cluster),
            )
            result = campaign.run()
        self._error = campaign.error
        self._harness_errors = campaign.harness_errors
        return result

    def raise_error(self, result: RunResult) -> None:
        """Raise what ended the campaign, once its results are printed.

        Raises:
            KvzeroError: A disk that is full, say.
            InternalError: The harness met errors of its own, and found nothing.
        """
        if self._error is not None:
            for found in result.found:
                if found.file is None or not Path(found.file).exists():
                    sys.stderr.write(f"not saved: {found.violation.headline}\n")
            raise self._error
        if self._harness_errors and result.exit_code != EXIT_FAULT:
            raise InternalError(
                f"errors of the harness={self._harness_errors}, but must be 0: the "
                f"event log has their cases"
            )

    def _settings(self, cluster: RayCluster | None) -> Settings:
        options = self.options
        if options.resume and options.corpus is not None:
            return self._resumed(options.corpus)
        settings = self._fresh(cluster)
        if cluster is not None:
            slots = cluster.slots
            asked = options.workers or "auto"
            workers = slots if asked == "auto" else _workers(asked, "", ())
            return replace(settings, workers=min(workers, MOST_WORKERS))
        gpus: tuple[str, ...] = ()
        if settings.executor == "device":
            gpus = chosen_gpus(options.gpus or "all")
        elif options.gpus is not None:
            raise typer.BadParameter(
                f"--gpus, but executor={settings.executor!r} needs none: leave it "
                f"out, or add --executor device"
            )
        workers = _workers(options.workers, settings.executor, gpus)
        return replace(settings, workers=workers, gpus=gpus)

    @property
    def _given(self) -> dict[str, Any]:  # Any: values of fields
        return {name: each for name, each in self.asked.items() if each is not None}

    def _fresh(self, cluster: RayCluster | None) -> Settings:
        """Return the settings of a new campaign."""
        given = self._given
        os.environ.setdefault(*ASKS_NVML)
        if cluster is not None:
            given["executor"] = cluster.executor
        given.setdefault("executor", default_executor_name())
        given.setdefault("seed", secrets.randbits(32))
        if given["executor"] == "host":
            given.setdefault("case_seconds", DEADLINE_SECONDS)
        if "cases" not in given:
            given.setdefault("seconds", DEFAULT_SECONDS)
        return Settings(**given)

    def _resumed(self, corpus: Path) -> Settings:
        """Return the settings of the campaign to go on with, with the budget asked."""
        given = self._given
        if given["subject"] == Settings.subject:
            del given["subject"]
        budget = {name: given.pop(name) for name in BUDGET if name in given}
        settings = resumed_settings(corpus, budget)
        if self.options.workers is not None:
            given["workers"] = _workers(self.options.workers, settings.executor, ())
        for name, asked in given.items():
            before = getattr(settings, name)
            if asked != before:
                raise typer.BadParameter(
                    f"{name}={asked!r}, but must be {before!r} as in the campaign that "
                    f"--resume goes on with: leave it out"
                )
        return settings


def _workers(asked: str | None, executor: str, gpus: tuple[str, ...]) -> int:
    """Return the number of workers.

    Raises:
        typer.BadParameter: It is none.
    """
    if asked is None:
        return max(len(gpus), 1)
    if asked == "auto":
        return default_workers(executor, gpus)
    if not asked.isdecimal() or not 1 <= int(asked) <= MOST_WORKERS:
        raise typer.BadParameter(
            f"workers={asked!r}, but must be auto or 1 to {MOST_WORKERS}"
        )
    return int(asked)
