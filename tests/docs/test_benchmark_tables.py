"""The tables of the appendix are those of the result files."""

from __future__ import annotations

import re

from benchmarks.report_appendix import GPU, GRAMMARS, SCHEMAS, gpu_page, grammars_page, number, schemas_page


def test_the_pages_have_the_tables_of_the_results() -> None:
    for path, written in ((GRAMMARS, grammars_page), (SCHEMAS, schemas_page), (GPU, gpu_page)):
        page = path.read_text("utf-8")
        assert written(page) == page, "run `python -m benchmarks.report_appendix`"


def test_a_number_has_two_digits_or_more() -> None:
    assert [number(value) for value in (0.04, 9.94, 10.4, 1234.5, None)] == ["0.0", "9.9", "10", "1,234", "-"]


def test_the_comparison_has_the_numbers_of_the_tables() -> None:
    """The page is written by hand. It had numbers of older tables, and recommended another library for them."""
    page = re.sub(r"\s+", " ", (SCHEMAS.parent / "peers.md").read_text("utf-8"))
    own, others = re.split(r"^604 schemas of snapshot", SCHEMAS.read_text("utf-8"), maxsplit=1, flags=re.MULTILINE)

    def cells(tables: str, library: str, number: int) -> list[str]:
        """Return the cells of a library in one of the tables."""
        found = re.findall(rf"^\| {library} \| (.*) \|$", tables, re.MULTILINE)[number]
        return [cell.strip() for cell in found.split("|")]

    def wrong(library: str) -> tuple[int, str]:
        """Return the number of wrong verdicts of a library on our schemas, and that of the documents."""
        *_, accepts, rejects, documents = cells(own, library, 0)
        return int(accepts.split()[0]) + int(rejects.split()[0]), f"{int(documents):,}"

    count, documents = wrong("logitkit")
    assert f"logitkit has {('no', 'one')[count]} wrong verdict on {documents}" in page
    for library in ("LLGuidance", "XGrammar", "outlines-core"):
        count, documents = wrong(library)
        assert f"{library} {count} on {documents}" in page
    ours, theirs = (cells(others, library, 1)[1] for library in ("logitkit", "LLGuidance"))
    assert f"the first mask takes {theirs} ms in the median of 604 real schemas, and {ours} ms with logitkit" in page
    ours, theirs = (cells(others, library, 0)[0].split()[0] for library in ("logitkit", "LLGuidance"))
    assert f"logitkit compiles {ours} of them, and LLGuidance {theirs}" in page
    ratio = cells(own, "XGrammar", 3)[5].removesuffix("x")
    assert f"{ratio} times as long with schemas" in page
