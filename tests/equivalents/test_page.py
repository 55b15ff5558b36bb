"""The page of equivalents knows every name of the engines, and each equivalent exists and is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import logitkit as lk
from tests.equivalents import page
from tests.equivalents.engine_names import ENGINES, Engine
from tests.equivalents.known import KNOWN, Known

TESTS = Path(__file__).parents[1]
EQUIVALENTS = [
    (engine, name, known)
    for engine, names in KNOWN.items()
    for name, known in names.items()
    if isinstance(known, Known) and known.here
]


def table_of(engine: str) -> str:
    begin, end = page.marks(engine)
    return page.PAGE.read_text("utf-8").split(begin)[1].split(end)[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_page_has_every_name_that_is_known(engine: str) -> None:
    assert {*re.findall(r"`(\w+)`", table_of(engine))} >= {*KNOWN[engine]}


@pytest.mark.parametrize("name", ENGINES)
def test_the_page_has_every_name_of_the_installed_engine(name: str) -> None:
    """After an update, write the new names into tests/equivalents/known.py, then `python -m tests.equivalents.page`."""
    engine = ENGINES[name]
    folder = engine.folder()
    if folder is None:
        # SGLang and the zoo are read from their wheels, and vLLM has an environment of its own.
        assert f"Read from version {version_on_page(name)}." in table_of(name)
        return
    names = engine.names(folder)
    assert not page.missing(name, names)
    assert table_of(name).strip() == page.section(name, engine.version(), names).strip()


def version_on_page(name: str) -> str:
    found = re.search(r"Read from version (\d+\.\d+\.\d+)\.\n", table_of(name))
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize(("engine", "name", "known"), EQUIVALENTS, ids=[f"{e} {n}" for e, n, _ in EQUIVALENTS])
def test_each_equivalent_is_in_the_test_that_is_named(engine: str, name: str, known: Known) -> None:
    text = (TESTS / known.test).read_text("utf-8")
    classes = [written for written in re.findall(r"\w+", known.here) if hasattr(lk, written)]
    if classes:
        assert any(re.search(rf"\b{written}\b", text) for written in classes), f"{known.test} does not test {classes}"
    else:
        assert "languages" in known.here


def test_a_new_name_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "engine" / "deep").mkdir(parents=True)
    source = "class LogitsProcessor: ...\nclass Old(LogitsProcessor): ...\nclass New(Old): ...\nclass Other: ...\n"
    (tmp_path / "engine" / "deep" / "processors.py").write_text(source, "utf-8")
    (tmp_path / "engine-1.2.3.dist-info").mkdir()
    reader = ENGINES["transformers"].readers[0][1]
    engine = Engine("engine", "engine", (("deep/*.py", reader),))
    folder = engine.folder(tmp_path)
    assert folder is not None
    assert engine.names(folder) == ["Old", "New"]
    assert engine.version(tmp_path) == "1.2.3"
    assert page.missing("transformers", ["TopKLogitsWarper", *engine.names(folder)]) == ["Old", "New"]
    with pytest.raises(AssertionError, match="has none of the files"):
        Engine("engine", "engine", (("elsewhere.py", reader),)).names(folder)
