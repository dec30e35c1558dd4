"""The verbs that run cases, verify, fuzz and replay, and the list of all verbs.

Exit codes: 0 no fault, 1 a fault (or a refusal inside the contract, or a cost under
``--strict-cost``), 2 usage or a case that cannot be read, 3 harness or environment
failed, 5 nothing judged, 130 interrupted before a fault was found.
"""

import secrets
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, NoReturn

import typer

from kvzero.campaign.confirming import Confirmed, confirm
from kvzero.campaign.fuzz import (
    CASE_SECONDS,
    MAX_PROGRAMS,
    Budget,
    Fuzzer,
    cases_for,
)
from kvzero.campaign.judging import Judge
from kvzero.campaign.known import Known, read_known_file
from kvzero.campaign.outcome import RunResult, save_found
from kvzero.campaign.tally import (
    EXIT_FAULT,
    EXIT_HARNESS,
    EXIT_INTERRUPTED,
    EXIT_NOTHING_JUDGED,
    EXIT_OK,
    EXIT_USAGE,
    Tally,
)
from kvzero.campaign.verify import (
    REPLAYED_PROGRAMS,
    Given,
    case_files,
    given,
    on_target,
    preset_cases,
)
from kvzero.campaign.verify import verify as verify_cases
from kvzero.cli.bench import bench
from kvzero.cli.campaign import (
    DEFAULT_SECONDS,
    CampaignOptions,
    CampaignRun,
    ContinueOption,
    CorpusOption,
    GpusOption,
    LogOption,
    MaxFailuresOption,
    RayOption,
    ResumeOption,
    ShrinkTimeOption,
    WorkersOption,
)
from kvzero.cli.capture import capture
from kvzero.cli.configured import default_map
from kvzero.cli.corpus import corpus
from kvzero.cli.doctor import doctor
from kvzero.cli.durations import parse_seconds, seconds_or_none
from kvzero.cli.export import export
from kvzero.cli.faults import faults
from kvzero.cli.lifecycle import lifecycle
from kvzero.cli.options import (
    CaseDeadlineOption,
    CaseMemoryOption,
    ExecutorOption,
    IsolateOption,
    JsonOption,
    KnownOption,
    StrictCostOption,
    TargetOption,
    isolation_for,
)
from kvzero.cli.output import Progress, print_results
from kvzero.cli.reporting import (
    DEFAULT_FOLDER,
    ReportDirOption,
    Reporting,
    ReportOption,
)
from kvzero.cli.sanitize import sanitize
from kvzero.cli.show import show
from kvzero.errors import (
    CaseError,
    ConfigurationError,
    EnvironmentMissingError,
    KvzeroError,
    LayoutError,
    SubjectError,
)
from kvzero.executors import default_executor_name, executor_named
from kvzero.executors.isolated import (
    DEADLINE_SECONDS,
    Isolation,
    subject_for,
)
from kvzero.subjects.protocol import HasNotes

KEPT = "what was found until then is here, not all shrunk"

app = typer.Typer(
    name="kvzero",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Put zeroers of paged KV caches under test.",
)


SubjectsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--subject",
        help="A known name or module:attribute; several give one table.",
    ),
]
RegressionsOption = Annotated[
    Path,
    typer.Option("--regressions", help="Where shrunk failing cases are saved."),
]


@app.command(
    epilog="Example: kvzero verify --preset all --subject kvzero --subject masked-3d"
)
def verify(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Case files, or folders of them.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="A preset's name, or all.")] = None,
    subject: SubjectsOption = None,
    executor: ExecutorOption = None,
    isolate: IsolateOption = None,
    case_deadline: CaseDeadlineOption = None,
    case_memory: CaseMemoryOption = None,
    known: KnownOption = None,
    target: TargetOption = None,
    strict_cost: StrictCostOption = False,  # noqa: FBT002 - typer reads the signature
    report: ReportOption = None,
    report_dir: ReportDirOption = DEFAULT_FOLDER,
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Run given cases, at any size, and judge every property."""
    reporting = Reporting.asked("verify", report, report_dir)
    chosen = [given(file) for file in case_files(files or [])]
    if preset is not None:
        chosen += preset_cases(preset)
    if not chosen:
        raise typer.BadParameter("nothing to verify: name a FILE or --preset NAME")
    if target is not None:
        chosen = [on_target(each, target) for each in chosen]
    isolation = partial(
        isolation_for,
        isolate=isolate,
        case_deadline=case_deadline,
        case_memory=case_memory,
    )
    findings = read_known_file(known) if known else ()
    results: list[RunResult] = []
    for name in subject or ["kvzero"]:
        limits = isolation(name)
        judge = _judge(
            name, executor, None, limits, strict_cost=strict_cost, target=target
        )
        results.append(_verified(judge, chosen, findings))
        if results[-1].interrupted:
            break
    _finish(results, reporting, as_json=json)


@app.command(
    epilog="Example: kvzero fuzz --max-time 10m --subject mypackage.zero:ZEROER"
)
def fuzz(
    max_time: Annotated[
        str | None, typer.Option(help="How long to look, such as 60s, 10m or 1h.")
    ] = None,
    max_examples: Annotated[
        int | None, typer.Option(min=1, help="How many cases to draw.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Every random choice follows from it.")
    ] = None,
    subject: Annotated[
        str, typer.Option(help="A known name or module:attribute.")
    ] = "kvzero",
    executor: ExecutorOption = None,
    isolate: IsolateOption = None,
    case_deadline: CaseDeadlineOption = None,
    case_memory: CaseMemoryOption = None,
    regressions: RegressionsOption = Path("regressions"),
    known: KnownOption = None,
    target: TargetOption = None,
    seek: Annotated[
        str | None,
        typer.Option(
            "--seek",
            metavar="WHAT",
            help="Stop at this kind of violation only, such as cuda-y or stored-again.",
        ),
    ] = None,
    strict_cost: StrictCostOption = False,  # noqa: FBT002 - typer reads the signature
    shrink_time: ShrinkTimeOption = None,
    workers: WorkersOption = None,
    gpus: GpusOption = None,
    ray: RayOption = None,
    corpus: CorpusOption = None,
    resume: ResumeOption = False,  # noqa: FBT002 - typer reads the signature
    log: LogOption = None,
    max_failures: MaxFailuresOption = None,
    continue_on_failure: ContinueOption = False,  # noqa: FBT002 - typer reads it
    report: ReportOption = None,
    report_dir: ReportDirOption = DEFAULT_FOLDER,
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Draw random cases until a fault is found or the budget is up (default: 60s)."""
    reporting = Reporting.asked("fuzz", report, report_dir)
    seconds = seconds_or_none("--max-time", max_time)
    options = CampaignOptions(
        workers, gpus, corpus, resume, log, max_failures, continue_on_failure, ray
    )
    if options.is_campaign:
        options.checked(seek=seek, isolate=isolate)
        asked = {
            "subject": subject,
            "executor": executor,
            "seed": seed,
            "seconds": seconds,
            "cases": max_examples,
            "max_failures": max_failures,
            "strict_cost": strict_cost or None,
            "target": target,
            "case_seconds": seconds_or_none("--case-deadline", case_deadline),
            "case_bytes": case_memory * 2**20 if case_memory else None,
            "shrink_seconds": seconds_or_none("--shrink-time", shrink_time),
        }
        campaign = CampaignRun(options, asked, regressions, known)
        result = campaign.run()
        _finish([result], reporting, as_json=json, before=campaign.raise_error)
    if seconds is None and max_examples is None:
        seconds = DEFAULT_SECONDS
    isolation = isolation_for(
        subject,
        isolate=isolate,
        case_deadline=case_deadline,
        case_memory=case_memory,
        usual_seconds=DEADLINE_SECONDS if executor == "host" else CASE_SECONDS,
    )
    judge = _judge(
        subject,
        executor,
        MAX_PROGRAMS,
        isolation,
        strict_cost=strict_cost,
        target=target,
    )
    judge.seek = seek
    confirmed = confirm(judge, read_known_file(known) if known else ())
    seed = secrets.randbits(32) if seed is None else seed
    progress = Progress(f"fuzz {subject} on {judge.executor.name}, seed {seed}")
    budget = Budget(seconds, max_examples)
    fuzzer = Fuzzer(judge, cases_for(judge, target), seed, budget, progress)
    if shrink_time is not None:
        fuzzer.shrink_seconds = parse_seconds("--shrink-time", shrink_time)
    result = _fuzzed(fuzzer, progress, regressions, confirmed)
    _finish([result], reporting, as_json=json)


def _fuzzed(
    fuzzer: Fuzzer,
    progress: Progress,
    regressions: Path,
    confirmed: tuple[Confirmed, ...],
) -> RunResult:
    """Draw cases, and save what is found."""
    judge = fuzzer.judge
    tally = fuzzer.run()
    progress.close()
    for found in tally.found.values():
        if judge.counts(found.violation):
            save_found(found, regressions)
    result = _result(
        judge,
        tally,
        fuzzer.budget.elapsed(),
        seed=fuzzer.seed,
        interrupted=KEPT if fuzzer.interrupted else "",
        known=confirmed,
    )
    return replace(result, pace=fuzzer.pace, samples=progress.sampler.samples)


@app.command(epilog="Example: kvzero replay regressions/")
def replay(
    files: Annotated[
        list[Path], typer.Argument(help="Case files, or folders of them.")
    ],
    subject: Annotated[
        str | None, typer.Option(help="Instead of the subject that each file names.")
    ] = None,
    executor: ExecutorOption = None,
    isolate: IsolateOption = None,
    case_deadline: CaseDeadlineOption = None,
    case_memory: CaseMemoryOption = None,
    known: KnownOption = None,
    strict_cost: StrictCostOption = False,  # noqa: FBT002 - typer reads the signature
    report: ReportOption = None,
    report_dir: ReportDirOption = DEFAULT_FOLDER,
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Run saved cases again, each on the subject that failed on it.

    Without a GPU, bytes are judged in cases of up to 20,000,000 programs, and launches
    of any size; verify has no such cap.
    """
    reporting = Reporting.asked("replay", report, report_dir)
    by_subject: dict[str, list[Given]] = {}
    for file in case_files(files):
        owner = subject or (file.found.subject if file.found else "kvzero")
        by_subject.setdefault(owner, []).append(given(file))
    isolation = partial(
        isolation_for,
        isolate=isolate,
        case_deadline=case_deadline,
        case_memory=case_memory,
    )
    findings = read_known_file(known) if known else ()
    results: list[RunResult] = []
    for owner, chosen in sorted(by_subject.items()):
        limits = isolation(owner)
        try:
            judge = _judge(
                owner, executor, REPLAYED_PROGRAMS, limits, strict_cost=strict_cost
            )
        except EnvironmentMissingError as error:
            if len(by_subject) == 1:
                raise
            results.append(_not_run(owner, executor, error))
        else:
            results.append(_verified(judge, chosen, findings))
            if results[-1].interrupted:
                break
    _finish(results, reporting, as_json=json)


app.command(epilog="Example: kvzero show --preset trtllm_llama3_8b_pool")(show)
app.command(epilog="Example: kvzero export regressions/FILE.json -o report.py")(export)
app.command(epilog="Example: kvzero doctor --json")(doctor)
app.add_typer(corpus, name="corpus")
app.command(epilog="Example: kvzero faults --json")(faults)
app.command(epilog="Example: kvzero lifecycle --subject kvzero")(lifecycle)
app.command(epilog="Example: kvzero capture table.json -o engine.json")(capture)
app.command(epilog="Example: kvzero sanitize regressions/")(sanitize)
app.command(epilog="Example: kvzero bench --quick --json > bench.json")(bench)


def _judge(
    subject: str,
    executor: str | None,
    cap: int | None,
    isolation: Isolation | None,
    *,
    strict_cost: bool,
    target: str | None = None,
) -> Judge:
    chosen = executor_named(executor, max_programs=cap, isolation=isolation)
    if target is not None and chosen.name != "footprint":
        raise typer.BadParameter(
            f"target={target!r}, but executor={chosen.name!r} compiles for what runs "
            f"here: add --executor footprint"
        )
    fallback = None
    if chosen.name == "device":
        fallback = executor_named("footprint", max_programs=cap, isolation=isolation)
    with redirect_stdout(sys.stderr):  # an imported module may print
        found = subject_for(subject, chosen)
    return Judge(found, chosen, fallback, strict_cost)


def _verified(
    judge: Judge, chosen: Sequence[Given], findings: tuple[Known, ...]
) -> RunResult:
    """Run one subject on given cases; an interrupt keeps what was judged until then."""
    progress = Progress(f"verify {judge.subject.name} on {judge.executor.name}")
    confirmed = confirm(judge, findings)
    tally, cut = Tally(), ""
    try:
        verify_cases(judge, chosen, progress, tally)
    except KeyboardInterrupt:
        cut = f"{tally.cases} of {len(chosen)} cases were run, and nothing after them"
    progress.close()
    seconds = monotonic() - progress.started
    result = _result(judge, tally, seconds, interrupted=cut, known=confirmed)
    return replace(result, samples=progress.sampler.samples)


def _not_run(subject: str, executor: str | None, error: KvzeroError) -> RunResult:
    """Return the run of a subject that is not here, which takes no other along."""
    name = executor or default_executor_name()
    return RunResult(subject, name, Tally(), 0.0, notes=(f"not run: {error}",))


def _result(
    judge: Judge,
    tally: Tally,
    seconds: float,
    *,
    seed: int | None = None,
    interrupted: str = "",
    known: tuple[Confirmed, ...] = (),
) -> RunResult:
    notes = list(judge.subject.notes) if isinstance(judge.subject, HasNotes) else []
    if judge.fell_back:
        notes.append(
            f"{judge.fell_back} cases do not fit the device's memory and were judged "
            f"by the footprint"
        )
    if interrupted:
        notes.append(f"interrupted: {interrupted}")
    return RunResult(
        judge.subject.name,
        judge.executor.name,
        tally,
        seconds,
        strict_cost=judge.strict_cost,
        seed=seed,
        notes=tuple(notes),
        interrupted=bool(interrupted),
        known=known,
    )


def _finish(
    results: list[RunResult],
    reporting: Reporting,
    *,
    as_json: bool,
    before: Callable[[RunResult], object] = lambda _result: None,
) -> None:
    """Print and report the results, and exit with the gravest code.

    Args:
        results: One a subject.
        reporting: What to write of them.
        as_json: Print JSON.
        before: Called with each result before the exit; it may raise.
    """
    print_results(results, as_json=as_json)
    codes = {result.exit_code for result in results}
    gravest = (EXIT_FAULT, EXIT_INTERRUPTED, EXIT_NOTHING_JUDGED, EXIT_OK)
    code = next(code for code in gravest if code in codes)
    reporting.of_results(results, code, as_json=as_json)
    for result in results:
        before(result)
    raise typer.Exit(code)


def run() -> None:
    """Run the command line; turn every error into one line and an exit code."""
    # A subject `module:attribute` may lie in the current folder, as with ``python -m``.
    sys.path.insert(0, str(Path.cwd()))
    try:
        app(default_map=default_map(app))
    except (CaseError, ConfigurationError, LayoutError, SubjectError) as error:
        _complain(error, EXIT_USAGE)
    except KvzeroError as error:
        _complain(error, EXIT_HARNESS)
    except Exception as error:  # our own bug: say so, with its place
        traceback.print_exc()
        _complain(error, EXIT_HARNESS)


def _complain(error: Exception, code: int) -> NoReturn:
    notes = getattr(error, "__notes__", ())
    text = "\n".join([f"kvzero: {type(error).__name__}: {error}", *notes])
    sys.stderr.write(f"{text}\n")
    raise SystemExit(code)
