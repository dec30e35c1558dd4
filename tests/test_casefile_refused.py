"""Case files that cannot be read: each gives one error that names file and field."""

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvzero.casefile import encode_case, read_case_file
from kvzero.errors import CaseError

from .test_casefile import CASE, Json, document, refusal, written


def changed(path: str, value: Json) -> Json:
    """Return the document with one place set to a value; ``...`` deletes it."""
    whole: Json = document()
    *parents, last = [int(k) if k.isdigit() else k for k in path.split(".")]
    place = whole
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return whole


RUN = "case.layout.runs.0"
WRONG_FIELDS: list[tuple[str, Json, str]] = [
    (f"{RUN}.page_bytes", "12", "case.layout.runs[0].page_bytes='12', but must be an "),
    (f"{RUN}.page_bytes", True, "case.layout.runs[0].page_bytes=true, but must be an "),
    (f"{RUN}.page_bytes", None, "case.layout.runs[0].page_bytes=null, but must be an "),
    (f"{RUN}.page_bytes", 8.5, "case.layout.runs[0].page_bytes=8.5, but must be an in"),
    (f"{RUN}.page_bytes", 0, "case.layout.runs[0].page_bytes=0, but must be an int fr"),
    (f"{RUN}.page_bytes", 2**60, "case.layout.runs[0].page_bytes=1152921504606846976,"),
    (f"{RUN}.page_bytes", [8], "case.layout.runs[0].page_bytes=a list of 1, but must "),
    (
        f"{RUN}.page_bytes",
        {},
        "case.layout.runs[0].page_bytes=an object, but must be a",
    ),
    (f"{RUN}.page_bytes", ..., "case.layout.runs[0].page_bytes is missing, but must b"),
    (f"{RUN}.interleaved", 1, "case.layout.runs[0].interleaved=1, but must be true or"),
    (f"{RUN}.pages", 8, "case.layout.runs[0]: key 'pages', but must be one of page_by"),
    (f"{RUN}.axes", 8, "case.layout.runs[0].axes=8, but must be a list"),
    (f"{RUN}.axes", {}, "case.layout.runs[0].axes=an object, but must be a list"),
    (f"{RUN}.axes.0.count", 2**23, "case.layout.runs[0].axes[0].count=8388608, but mu"),
    (
        f"{RUN}.stride_bytes",
        4,
        "case.layout: block 0 of segment 0 and block 1 of segme",
    ),
    (
        "case.layout.runs.0",
        [],
        "case.layout.runs[0]=a list of 0, but must be an object",
    ),
    ("case.layout.num_blocks", 5, "case.layout: segment "),
    ("case.layout.num_blocks", 2**41, "case.layout.num_blocks=2199023255552, but must"),
    ("case.layout.allocations.0.count", 2**21, "case.layout.allocations[0].count=2097"),
    ("case.layout.tiles.0.count", 9, "case.layout: tiles[0]: a block begins outside "),
    ("case.layout.views", [{"shape": [4], "strides": [0]}], "case.layout.views[0].str"),
    ("case.calls", {}, "case.calls=an object, but must be a list"),
    ("case.calls.0.ids", 3, "case.calls[0].ids=3, but must be a list"),
    (
        "case.calls.0.ids.1",
        "7",
        "case.calls[0].ids[1]='7', but must be an id or an obj",
    ),
    ("case.calls.0.ids.1", True, "case.calls[0].ids[1]=true, but must be an id or an "),
    (
        "case.calls.0.ids.1",
        2**90,
        "case.calls[0].ids[1].start=123794003928538027489912",
    ),
    (
        "case.calls.0.ids.2.count",
        2**25,
        "case.calls[0].ids[2].count=33554432, but must",
    ),
    (
        "case.calls.0.arrival",
        "mail",
        "case.calls[0].arrival='mail', but must be one of",
    ),
    (
        "case.calls.0.arrival",
        [],
        "case.calls[0].arrival=a list of 0, but must be one o",
    ),
    ("case.calls.0.step_el", 2**27, "case: calls[0]: its ids need a buffer of"),
    ("case.calls.1.ids.0", 128, "case: calls[1].ids: 128, but must fit its dtype int8"),
    ("case.platform", "metal", "case.platform='metal', but must be cuda:CAPABILITY or"),
    (
        "case.platform",
        "cuda:90\n",
        "case.platform='cuda:90\\n', but must be cuda:CAPAB",
    ),
    (
        "case.seed",
        -1,
        "case.seed=-1, but must be an int from 0 to 18446744073709551615",
    ),
    ("case.placement", [], "case.placement=a list of 0, but must be an object"),
    (
        "case.placement",
        {"gap_bytes": 2**50},
        "case.placement.gap_bytes=112589990684262",
    ),
    ("case", ..., "case is missing, but must be given"),
    ("case", [], "case=a list of 0, but must be an object"),
    ("extra", 1, "document: key 'extra', but must be one of kvzero, case, found"),
    ("kvzero", ..., "kvzero is missing, but must be given"),
    ("kvzero", "1", "kvzero='1', but must be an int from 1 to 1"),
    ("kvzero", 2, "kvzero=2, but must be 1: a newer kvzero wrote the file, upgrade to"),
    ("found", 3, "found=3, but must be an object"),
    ("found.flaky", 0, "found.flaky=0, but must be true or false"),
    ("found.what", "\x1b[2J", "found.what='\\x1b[2J', but must be one printable line"),
    ("found.subject", "x" * 999, "found.subject='xxx"),
]


@pytest.mark.parametrize(
    ("place", "value", "message"), WRONG_FIELDS, ids=[m for _, _, m in WRONG_FIELDS]
)
def test_a_wrong_field_is_named_with_its_file(
    place: str, value: Json, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, json.dumps(changed(place, value)))
    assert refusal(path).startswith(f"{path}: {message}")


GOOD_TEXT = json.dumps({"kvzero": 1, "case": encode_case(CASE)})
WRONG_TEXTS: list[tuple[str | bytes, str]] = [
    ("", "line 1, column 1: Expecting value, but must be JSON"),
    (GOOD_TEXT[:-20], "line 1, column "),
    ("[]", "document=a list of 0, but must be an object"),
    ("3", "document=3, but must be an object"),
    ("null", "document=null, but must be an object"),
    ("NaN", "document=NaN, but must be an object"),
    (b"\xff\xfe", "byte 0=0xff, but must be UTF-8 text"),
    (b"\xef\xbb\xbf{}", "line 1, column 1: "),
    ("[" * 100_000, "nested too deeply, but a case is a few levels deep"),
    ('{"a":' * 100_000, "nested too deeply, but a case is a few levels deep"),
    ("[" * 500 + "]" * 500, "document=a list of 1, but must be an object"),
    (GOOD_TEXT.replace('"num_blocks": 4', '"num_blocks": NaN'), "case.layout.num_bloc"),
    (
        GOOD_TEXT.replace('"num_blocks": 4', '"num_blocks": -Infinity'),
        "case.layout.num_blocks=-Infinity, but must be an int from 0 to",
    ),
    (
        GOOD_TEXT.replace('"num_blocks": 4', '"num_blocks": 1e400'),
        "case.layout.num_blocks=1e400, but must be an int from 0 to",
    ),
    (
        GOOD_TEXT.replace('"num_blocks": 4', '"num_blocks": ' + "9" * 5000),
        "case.layout.num_blocks=a number of 5000 digits, but must be an int",
    ),
    (
        GOOD_TEXT.replace('"num_blocks": 4', '"num_blocks": 4, "num_blocks": 5'),
        "case.layout=an object that repeats the key 'num_blocks', but must be an",
    ),
    (
        GOOD_TEXT.replace('"num_blocks"', '"num\\ud800_blocks"'),
        "case.layout: key 'num\\ud800_blocks', but must be one of num_blocks,",
    ),
    (" " * (4 * 2**20 + 1), "over 4194304 B, but must be at most that"),
]


@pytest.mark.parametrize(
    ("text", "message"), WRONG_TEXTS, ids=[m for _, m in WRONG_TEXTS]
)
def test_a_broken_text_is_named_with_its_file(
    text: str | bytes, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    assert refusal(path).startswith(f"{path}: {message}")


def linked(folder: Path) -> Path:
    written(folder, GOOD_TEXT)
    (folder / "link.json").symlink_to(folder / "x.json")
    return folder / "link.json"


def piped(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.json")
    return folder / "pipe.json"


ODD_FILES: list[tuple[Callable[[Path], Path], str]] = [
    (lambda folder: folder / "none.json", "none.json cannot be read: No such file"),
    (lambda folder: folder, " cannot be read: Is a directory"),
    (linked, "link.json is a symbolic link, but must be a plain file"),
    (piped, "pipe.json is no plain file, but must be"),
    (lambda _: Path("/dev/zero"), "/dev/zero is no plain file, but must be"),
    (lambda folder: folder / ("x" * 300), "cannot be read: File name too long"),
    (lambda _: Path("a\0b"), "'a\\x00b' cannot be read: "),
    (lambda _: Path("a\nb\x1b"), "'a\\nb\\x1b' cannot be read: No such file"),
    (lambda _: Path("a\udcff"), "'a\\udcff' cannot be read: No such file"),
]


@pytest.mark.parametrize(("make", "message"), ODD_FILES, ids=[m for _, m in ODD_FILES])
def test_an_odd_file_is_refused_by_name(
    make: Callable[[Path], Path], message: str, tmp_path: Path
) -> None:
    assert message in refusal(make(tmp_path))


JUNK: tuple[Json, ...] = (None, True, -1, 2**50, 2**90, 1.5, "x", "", [], {}, [[]])
TOKENS = ("NaN", "1e400", "[", "}", ",", '"', "\\", "\0", "9" * 99, '"a":1,', "\udfff")


def places(value: Json) -> Iterator[tuple[Json, Json]]:
    """Yield every container of a document with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def with_a_wrong_value(chance: random.Random) -> str:
    whole = document()
    container, key = chance.choice(list(places(whole)))
    if chance.random() < 0.2:
        del container[key]
    elif isinstance(container, dict) and chance.random() < 0.2:
        container[f"{key}x"] = container.pop(key)
    else:
        container[key] = chance.choice(JUNK)
    return json.dumps(whole)


def with_wrong_text(chance: random.Random) -> str:
    text = json.dumps(document())
    begin = chance.randrange(len(text))
    if chance.random() < 0.3:
        return text[:begin]
    end = begin + chance.randrange(3)
    return text[:begin] + chance.choice(TOKENS) + text[end:]


@pytest.mark.slow
def test_a_thousand_malformed_files_give_one_clear_error_each(tmp_path: Path) -> None:
    chance = random.Random(0)
    refused = 0
    while refused < 1000:
        make = chance.choice([with_a_wrong_value, with_wrong_text])
        path = written(tmp_path, make(chance).encode(errors="surrogatepass"))
        try:
            read_case_file(path)
        except CaseError as error:
            first, *rest = str(error).splitlines()
            assert first.startswith(f"{path}: ")
            assert not rest
            assert len(first) < 1200
            assert first.isprintable()
            refused += 1
