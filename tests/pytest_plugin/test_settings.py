"""The plugin's settings: who wins, what the header says, and what is an error."""

from pathlib import Path

import pytest

from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.configuration import OPTIONS
from kvzero.layout import Allocation, Layout, Run

pytest_plugins = ["pytester"]

CASE = Case(Layout(1, (Allocation(8),), (Run(8, 8),)), (Call((IdRun(0),)),))


def header(pytester: pytest.Pytester, *arguments: str) -> str:
    """Return the plugin's line of the header, if there is one."""
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)
    lines = [line for line in result.outlines if line.startswith("kvzero: ")]
    return lines[0] if lines else ""


def configure(pytester: pytest.Pytester, text: str) -> None:
    pytester.makepyprojecttoml(f"[tool.kvzero]\n{text}\n[tool.pytest.ini_options]\n")


def test_who_is_nearest_to_the_run_wins(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(pytester, 'subject = "a"')
    assert "subject=a (pyproject.toml), " in header(pytester)
    file = pytester.path / "pyproject.toml"
    file.write_text(f'{file.read_text()}\nkvzero_subject = "b"\n')
    assert "subject=b (kvzero_subject), " in header(pytester)
    monkeypatch.setenv("KVZERO_SUBJECT", "c")
    assert "subject=c (KVZERO_SUBJECT), " in header(pytester)
    line = header(pytester, "--kvzero-subject", "d")
    assert "subject=d (--kvzero-subject), " in line


def test_the_header_tells_every_option(pytester: pytest.Pytester) -> None:
    line = header(pytester, "--kvzero-strict-cost")
    assert [text.split("=")[0] for text in line[len("kvzero: ") :].split(", ")] == [
        option.name for option in OPTIONS
    ]
    assert "strict-cost=true (--kvzero-strict-cost), " in line


def test_a_run_that_has_nothing_to_do_with_kvzero_has_no_line(
    pytester: pytest.Pytester,
) -> None:
    assert header(pytester) == ""
    assert header(pytester, "-v") != ""
    pytester.mkdir("regressions")
    assert header(pytester) != ""


@pytest.mark.parametrize(
    ("text", "arguments", "error"),
    [
        ('subjet = "a"', (), "*pyproject.toml: tool.kvzero.subjet, but *mean subject?"),
        ("", ("--kvzero-executor=gpu",), "*--kvzero-executor='gpu', but must be one *"),
        ("", ("--kvzero-case-memory=x",), "*'x', but must be a whole number from 1"),
    ],
)
def test_a_wrong_setting_is_a_usage_error_in_one_line(
    text: str, arguments: tuple[str, ...], error: str, pytester: pytest.Pytester
) -> None:
    configure(pytester, text)
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {error}"])
    assert len([line for line in result.errlines if line]) == 1


def test_cases_are_collected_where_they_are_saved(
    pytester: pytest.Pytester,
) -> None:
    configure(pytester, 'regressions = "kept/cases"')
    write_case_file(pytester.path / "kept" / "cases" / "deep" / "a.json", CASE)
    write_case_file(pytester.path / "kept" / "b.json", CASE)
    result = pytester.runpytest_inprocess("--collect-only", "-q")
    result.stdout.fnmatch_lines(["kept/cases/deep/a.json::case", "1 test collected *"])


def test_json_outside_the_root_folder_is_left_alone(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside: Path = tmp_path_factory.mktemp("outside") / "a.json"
    outside.write_text("{", encoding="utf-8")
    pytester.makeini("[pytest]\n")
    arguments = ("--rootdir", str(pytester.path), str(outside))
    result = pytester.runpytest_inprocess(*arguments)
    result.assert_outcomes()
    assert result.ret != pytest.ExitCode.INTERNAL_ERROR


def test_limits_of_worker_processes_reach_the_check(
    pytester: pytest.Pytester,
) -> None:
    configure(pytester, 'case-deadline = "2m"\ncase-memory = 3\nstrict-cost = true')
    pytester.makepyfile(
        """
        from kvzero.pytest_plugin.asking import check_of

        def test_it(pytestconfig):
            check = check_of(pytestconfig, {})
            assert check.strict_cost
            assert check.limits.deadline_seconds == 120
            assert check.limits.memory_bytes == 3 * 2**20
            assert check.regressions == pytestconfig.rootpath / "regressions"
            assert not check_of(pytestconfig, {"strict_cost": False}).strict_cost
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
