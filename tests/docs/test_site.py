"""The site as it is built: the reference is complete, and shows code as code."""

from __future__ import annotations

import html
import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

import logitkit
from logitkit import languages, particles, tools, training, watermarks
from logitkit.configuration import KINDS
from logitkit.explaining import explanation
from tests.docs.built_site import build
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def reference(site: Path) -> dict[str, str]:
    return {path.parent.name: text_of(path) for path in sorted(site.glob("reference/*/index.html"))}


def test_every_public_name_is_documented_once(site: Path) -> None:
    pages = {name: page for name, page in reference(site).items() if name != "errors"}
    found = [name for page in pages.values() for name in re.findall(r'<h2 id="logitkit\.([\w.]+)"', page)]
    of_languages = [name.removeprefix("languages.") for name in found if name.startswith("languages.")]
    assert sorted(of_languages) == sorted(languages.__all__)
    of_tools = [name.removeprefix("tools.") for name in found if name.startswith("tools.")]
    assert sorted(of_tools) == sorted(set(tools.__all__) - set(logitkit.__all__))
    assert {"output_types.output_type_of", "output_types.OutputType"} <= set(found)
    of_training = {name for name in found if name.startswith("training.")}
    assert {name.rpartition(".")[2] for name in of_training} == {*training.__all__}
    of_explanations = {name for name in found if name.startswith("explaining.")}
    assert {name.rpartition(".")[2] for name in of_explanations} == {*explanation.__all__}
    of_watermarks = {name for name in found if name.startswith("watermarks.")}
    assert {name.rpartition(".")[2] for name in of_watermarks} == {*watermarks.__all__}
    of_particles = {name for name in found if name.startswith("particles.")}
    assert {name.rpartition(".")[2] for name in of_particles} == {*particles.__all__}
    not_at_the_top = {"constraints.healing.HealedPrompt", "sessions.sequence_parts.CacheDropped"}
    found = [n for n in found if n not in of_explanations | of_training | of_watermarks | of_particles | not_at_the_top]
    others = [n.rpartition(".")[2] for n in found if not n.startswith(("languages.", "tools.", "output_types."))]
    assert sorted(others) == sorted(logitkit.__all__)


def test_no_prompt_of_python_is_taken_for_a_quotation(site: Path) -> None:
    pages = reference(site)
    assert len(pages) > 5
    assert [name for name, page in pages.items() if "<blockquote" in page] == []


def test_examples_are_highlighted_and_can_be_copied(site: Path) -> None:
    constraints = reference(site)["constraints"]
    # The prompts of a doctest and its values are marked apart.
    assert constraints.count('<span class="gp">&gt;&gt;&gt; </span>') > 30
    assert not re.search(r"<p>[^<]*&gt;&gt;&gt;", constraints)
    assert "content.code.copy" in constraints


def test_what_is_copied_from_an_example_runs(site: Path) -> None:
    # The theme marks a block while it copies it; the style sheet hides prompts and output from the copy.
    assert any("data-md-copying" in text_of(path) for path in site.glob("assets/javascripts/bundle*.js"))
    style = text_of(site / "css" / "site.css")
    assert "[data-md-copying] .gp,\n[data-md-copying] .go {\n  display: none;\n}" in style


def test_it_begins_with_the_processor(site: Path) -> None:
    first, *_ = re.findall(r'<h2 id="([\w.]+)"', reference(site)["protocol"])
    assert first == "logitkit.Processor"
    assert "byte_dfa" not in "".join(re.findall(r'<h\d id="([\w.]+)"', reference(site)["constraints"]))


def test_names_link_to_their_source(site: Path) -> None:
    links = re.findall(
        r'href="https://github.com/[^"]*/blob/main/([^"#]+)#L(\d+)-L(\d+)"', reference(site)["constraints"]
    )
    assert len(links) > 10
    for path, first, last in links:
        lines = (ROOT / path).read_text("utf-8").splitlines()
        assert re.match(r" *(@|class |def )", lines[int(first) - 1]), (path, first)
        assert int(last) <= len(lines)


def test_both_schemes_of_colours(site: Path) -> None:
    home = text_of(site / "index.html")
    assert {'data-md-color-scheme="default"', 'data-md-color-scheme="slate"'} <= set(
        re.findall(r'data-md-color-scheme="\w+"', home)
    )


def test_the_table_of_configurations_is_shown_whole(site: Path) -> None:
    shown = html.unescape(re.sub("<[^>]*>", "", text_of(site / "configuration" / "index.html")))
    said = [form.allowed for kind in KINDS.values() for form in kind.parameters.values()]
    assert len(said) > 50
    assert [text for text in said if text not in shown] == []


def test_no_cell_shows_the_backslash_of_an_escaped_bar(site: Path) -> None:
    cells = {path: re.findall(r"<td[^>]*>(.*?)</td>", text_of(path), re.DOTALL) for path in site.rglob("*.html")}
    assert sum(map(len, cells.values())) > 1000
    assert [str(path) for path, found in cells.items() if any("\\|" in cell for cell in found)] == []


def test_the_changelog_is_a_page(site: Path) -> None:
    assert "Keep a Changelog" in text_of(site / "changelog" / "index.html")


def test_every_page_links_to_its_source_and_back_home(site: Path) -> None:
    pages = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "index.md"]
    assert len(pages) > 30
    for page in pages:
        path = page.relative_to(ROOT)
        built = text_of(site / page.relative_to(ROOT / "docs").with_suffix("") / "index.html")
        assert f"/edit/main/{path.as_posix()}" in built, path


def test_the_page_for_missing_addresses_leads_on(site: Path) -> None:
    # It is shown at any depth, so its links begin with the path of the site on its server.
    missing = text_of(site / "404.html")
    assert "<h1>Page not found</h1>" in missing
    assert '<a href="/logitkit/quick-start/">Quick start</a>' in missing
    assert not re.search(r'(href|src)="(?!/logitkit/|https://|#|data:)', missing)


def test_the_address_is_the_same_everywhere(site: Path) -> None:
    address = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Documentation"]
    assert f"site_url: {address}/\n" in (ROOT / "mkdocs.yml").read_text("utf-8")
    assert f"<loc>{address}/quick-start/</loc>" in text_of(site / "sitemap.xml")


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_pages(site: Path, path: Path) -> None:
    page = text_of(site / "notebooks" / path.stem / "index.html")
    cells = json.loads(text_of(path))["cells"]
    of_code = [cell for cell in cells if cell["cell_type"] == "code"]
    outputs = [output for cell in of_code for output in cell["outputs"]]
    shown = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(re.findall(r'<div class="[^"]*\bhighlight"', page)) == len(of_code) + len(outputs) - len(shown)
    assert '<span class="kn">import</span>' in page
    for fragment in shown:
        assert [line for line in fragment if line.strip() not in page] == []
    identifiers = re.findall(r' id="([^"]*)"', page)
    assert len(set(identifiers)) == len(identifiers)
    assert f'href="{path.name}" download' in page
    assert (path.parent / path.name).read_bytes() == (site / "notebooks" / path.stem / path.name).read_bytes()


def test_the_repository_is_the_same_everywhere() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert f"repo_url: {urls['Repository']}\n" in (ROOT / "mkdocs.yml").read_text("utf-8")
    assert f'REPOSITORY = "{urls["Repository"]}"' in (ROOT / "scripts" / "docs_extension.py").read_text("utf-8")
