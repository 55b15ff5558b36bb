"""The tables of the appendix are those of the result files."""

from __future__ import annotations

from benchmarks.report_appendix import GPU, GRAMMARS, SCHEMAS, gpu_page, grammars_page, number, schemas_page


def test_the_pages_have_the_tables_of_the_results() -> None:
    for path, written in ((GRAMMARS, grammars_page), (SCHEMAS, schemas_page), (GPU, gpu_page)):
        page = path.read_text("utf-8")
        assert written(page) == page, "run `python -m benchmarks.report_appendix`"


def test_a_number_has_two_digits_or_more() -> None:
    assert [number(value) for value in (0.04, 9.94, 10.4, 1234.5, None)] == ["0.0", "9.9", "10", "1,234", "-"]
