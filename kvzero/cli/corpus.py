"""`kvzero corpus`: what a campaign keeps, listed and made smaller."""

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kvzero.campaign.campaign import counting_judge
from kvzero.campaign.coverage import Coverage, coverage_of, total_features
from kvzero.campaign.folder import Folder
from kvzero.campaign.minimizing import brought, superfluous
from kvzero.campaign.settings import Settings
from kvzero.cli.options import JsonOption
from kvzero.errors import CaseError

corpus = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List a campaign's corpus, or make it smaller.",
)

FolderArgument = Annotated[Path, typer.Argument(help="What fuzz had as --corpus.")]

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be deleted, only.")
]


def _opened(path: Path) -> Folder:
    """Return a folder that is there.

    Raises:
        CaseError: It is not.
    """
    if not path.is_dir():
        raise CaseError(f"{path}, but must be the folder of a campaign")
    return Folder(path)


@corpus.command("list", epilog="Example: kvzero corpus list night")
def list_command(
    folder: FolderArgument,
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """List the cases, what each brings, and what was found."""
    opened = _opened(folder)
    together = Coverage()
    cases = []
    for file in opened.case_files():
        met = coverage_of(file.case, ())
        together.add(met)
        layout = file.case.layout
        cases.append(
            {
                "file": str(file.path),
                "runs": len(layout.runs),
                "blocks": layout.num_blocks,
                "calls": len(file.case.calls),
                "features": met.names,
            }
        )
    found = [
        {
            "property": entry.violation.property,
            "kind": entry.violation.kind,
            "what": entry.violation.what,
            "flaky": entry.flaky,
            "state": entry.state,
            "headline": entry.violation.headline,
        }
        for entry in opened.entries()
    ]
    _print_list(cases, found, together, as_json=json)


def _print_list(
    cases: list[dict[str, Any]],  # Any: JSON
    found: list[dict[str, Any]],  # Any: JSON
    together: Coverage,
    *,
    as_json: bool,
) -> None:
    if as_json:
        document = {
            "cases": cases,
            "findings": found,
            "features": together.features,
            "of": total_features(),
            "feature_pairs": together.num_pairs,
        }
        sys.stdout.write(json_module.dumps(document, indent=1) + "\n")
        return
    for case in cases:
        sys.stdout.write(
            f"{case['file']}: {case['runs']} runs, {case['blocks']} blocks, "
            f"{case['calls']} calls, {len(case['features'])} features\n"
        )
    for each in found:
        flaky = ", flaky" if each["flaky"] else ""
        sys.stdout.write(
            f"{each['kind']} ({each['state']}{flaky}) {each['headline']}\n"
        )
    sys.stdout.write(
        f"{len(cases)} cases, {together.features} of {total_features()} features, "
        f"{together.num_pairs:,} pairs of them; {len(found)} findings\n"
    )


@corpus.command("minimize", epilog="Example: kvzero corpus minimize night --dry-run")
def minimize_command(
    folder: FolderArgument,
    subject: Annotated[
        str, typer.Option(help="Whose launches show how near a case is to a limit.")
    ] = "kvzero",
    dry_run: DryRunOption = False,  # noqa: FBT002 - typer reads the signature
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Delete the cases that bring nothing besides the others."""
    opened = _opened(folder)
    opened.lock()
    try:
        judge = counting_judge(Settings(subject=subject))
        files = opened.case_files()
        needless = superfluous(brought(judge, file) for file in files)
        if not dry_run:
            for file in needless:
                file.path.unlink()
    finally:
        opened.unlock()
    _print_minimized(needless, len(files), dry_run=dry_run, as_json=json)


def _print_minimized(
    needless: list[Any],  # Any: `CaseFile`
    before: int,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    names = [str(file.path) for file in needless]
    if as_json:
        document = {"before": before, "deleted": names, "dry_run": dry_run}
        sys.stdout.write(json_module.dumps(document, indent=1) + "\n")
        return
    done = "would be deleted" if dry_run else "deleted"
    sys.stdout.write("".join(f"{done}: {name}\n" for name in names))
    sys.stdout.write(f"{before} cases, {len(names)} {done}\n")
