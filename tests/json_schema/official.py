"""The official JSON-Schema-Test-Suite, as far as its cases ask for what is decided here."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SUITE = Path(__file__).parent / "suite" / "suite.json.xz"
DRAFTS = ("draft2020-12", "draft7", "draft4")
DIALECTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}
# The cases of formats are those of a later commit, and of all drafts.
FORMATS = SUITE.with_name("formats.json.xz")
FORMAT_DRAFTS = tuple(DIALECTS)

# Files whose cases contradict what is documented: `format` is asserted here, and 1.0 is written 1.
LEFT_OUT = {
    "format": "takes `format` for an annotation",
    "optional/format-assertion": "switches the assertion of `format` by a vocabulary from elsewhere",
    "optional/content": "asserts what stands inside a string, an annotation since 2019-09",
    **dict.fromkeys(
        ("optional/format/ecmascript-regex", "optional/format/idn-hostname", "optional/format/regex"),
        "asserts a format that is an annotation here, as an automaton cannot decide it",
    ),
    "optional/zeroTerminatedFloats": "tells 1.0 from 1, which are one text here",
}


@dataclass(frozen=True)
class Group:
    """A schema of the suite.

    Args:
        file: `<draft>/<file>`.
        description: The suite's description.
        schema: With `$schema` added where it matters.
        tests: Pairs of an instance and whether it is valid.
    """

    file: str
    description: str
    schema: Any
    tests: tuple[tuple[Any, bool], ...]

    @property
    def keyword(self) -> str:
        """The subject of the file."""
        return self.file.split("/", 1)[1]

    def __str__(self) -> str:
        return f"{self.file}: {self.description}"


@cache
def groups() -> list[Group]:
    """Return all cases, each once."""
    content = json.loads(lzma.decompress(SUITE.read_bytes()))
    found: dict[str, Group] = {}
    for file, cases in sorted(content.items(), key=lambda item: DRAFTS.index(item[0].split("/")[0])):
        draft, _, keyword = file.partition("/")
        if keyword in LEFT_OUT:
            continue
        for case in cases:
            schema = case["schema"]
            # A case that an older draft repeats word for word is used once.
            words = json.dumps([schema, case["tests"]])
            if words in found:
                continue
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": DIALECTS[draft], **schema}
            tests = tuple((test["data"], test["valid"]) for test in case["tests"])
            found[words] = Group(file, case["description"], schema, tests)
    return list(found.values())


@cache
def format_cases() -> dict[tuple[str, str], list[tuple[str, bool]]]:
    """Return the cases of formats that are strings, by draft and file: each text, and whether it is valid."""
    found: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for file, cases in json.loads(lzma.decompress(FORMATS.read_bytes())).items():
        draft, _, keyword = file.partition("/")
        tests = [test for case in cases for test in case["tests"] if isinstance(test["data"], str)]
        found[draft, keyword.rpartition("/")[2]] = [(test["data"], test["valid"]) for test in tests]
    return found


def has_a_label(text: str) -> bool:
    """Whether some label of a host name begins with `xn--`: since draft 7, none of these is written."""
    return any(label.lower().startswith("xn--") for label in text.split("."))
