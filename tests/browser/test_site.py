"""The site in a browser: every page, on a telephone and on a desktop, in light and dark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag

import pytest

from logitkit_adapters.cli import main
from tests.browser.chromium import Chromium, chromium
from tests.docs.built_site import build

TELEPHONE, DESKTOP = 390, 1280

# The path of the site on its server, as in `site_url`.
FOLDER = "/logitkit"

# A script that measures the open page.
LOOK = (Path(__file__).parent / "look.js").read_text("utf-8")


class Visit(NamedTuple):
    """A page as the browser saw it."""

    complaints: list[str]
    requested: set[str]
    telephone: dict[str, Any]
    desktop: dict[str, Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def translate_path(self, path: str) -> str:
            return super().translate_path(path.removeprefix(FOLDER))

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{FOLDER}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def visits(site: Path, address: str, browser: Chromium) -> dict[str, Visit]:
    found = {}
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site).as_posix().removesuffix("index.html")
        browser.resize(TELEPHONE)
        browser.open(address + page)
        on_a_telephone = browser.evaluate(LOOK)
        browser.resize(DESKTOP)
        found[page] = Visit(browser.complaints(), browser.requested(), on_a_telephone, browser.evaluate(LOOK))
    assert len(found) > 50
    return found


def test_no_page_complains(visits: dict[str, Visit]) -> None:
    assert {page: visit.complaints for page, visit in visits.items() if visit.complaints} == {}


def test_a_page_asks_no_other_server(visits: dict[str, Visit], address: str) -> None:
    asked = {url for visit in visits.values() for url in visit.requested}
    assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()


@pytest.mark.parametrize("width", ["telephone", "desktop"])
def test_nothing_is_cut_off(visits: dict[str, Visit], width: str) -> None:
    seen = {page: getattr(visit, width) for page, visit in visits.items()}
    assert {page: look["overflow"] for page, look in seen.items() if look["overflow"] > 0} == {}
    assert {page: look["clipped"] for page, look in seen.items() if look["clipped"]} == {}


def test_no_markdown_is_left(visits: dict[str, Visit]) -> None:
    assert {page: visit.desktop["raw"] for page, visit in visits.items() if visit.desktop["raw"]} == {}


def test_pictures_are_there_and_described(visits: dict[str, Visit]) -> None:
    shown = [picture for visit in visits.values() for picture in visit.desktop["pictures"]]
    assert len(shown) > 5
    assert [picture for picture in shown if not picture["width"] or not picture["alt"]] == []
    # Of 1,000 units, ordinary letters have 14 and the smallest 12.
    on_a_telephone = [picture for visit in visits.values() for picture in visit.telephone["pictures"]]
    assert [picture for picture in on_a_telephone if picture["shown"] < 700] == []


def test_code_is_coloured_and_can_be_copied(visits: dict[str, Visit]) -> None:
    blocks = {page: visit.desktop["code"] for page, visit in visits.items()}
    assert sum(code["python"] for code in blocks.values()) > 200
    assert {page: code for page, code in blocks.items() if code["coloured"] < code["python"]} == {}
    assert {page: code for page, code in blocks.items() if code["copied"] < code["blocks"]} == {}


def test_code_of_pages_fits_beside_the_navigation(visits: dict[str, Visit]) -> None:
    # The reference shows code of docstrings, with the longer lines of the sources.
    written = [page for page in visits if not page.startswith("reference/")]
    assert {page: visits[page].desktop["code"]["cut"] for page in written if visits[page].desktop["code"]["cut"]} == {}


def test_the_reference_quotes_nothing(visits: dict[str, Visit]) -> None:
    pages = [page for page in visits if page.startswith("reference/")]
    assert len(pages) > 10
    assert [page for page in pages if visits[page].desktop["quotations"]] == []


def test_links_lead_somewhere(visits: dict[str, Visit], site: Path, address: str) -> None:
    anchors = {page: set(visit.desktop["ids"]) for page, visit in visits.items()}
    broken = []
    for page, visit in visits.items():
        for link in visit.desktop["links"]:
            url, fragment = urldefrag(link)
            target = unquote(url.removeprefix(address))
            if not url.startswith(address):
                continue
            file = site / target / "index.html" if target.endswith("/") or not target else site / target
            if not file.is_file() or (fragment and unquote(fragment) not in anchors.get(target, set())):
                broken.append(f"{page}: {link}")
    assert broken == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(browser: Chromium, address: str, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(f"{address}notebooks/explain-and-trace/")
    browser.evaluate("localStorage.clear()")  # where the theme keeps the scheme of an earlier visit
    browser.open(f"{address}notebooks/explain-and-trace/")
    assert browser.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
    # WCAG asks for a contrast of 4.5; the theme's headings have less, and are large.
    assert browser.evaluate(f"({CONTRAST})('.md-content p')") > 7
    assert browser.evaluate(f"({CONTRAST})('.md-content a.md-button')") > 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_the_demo_is_readable(
    browser: Chromium, site: Path, address: str, scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = ["demo", "--regex", "(red|blue)", "--prompt", "A colour: ", "--html", str(site / "demo.html")]
    assert main(demo) == 0
    capsys.readouterr()
    browser.prefer(scheme)
    browser.resize(TELEPHONE)
    browser.open(f"{address}demo.html")
    assert browser.complaints() == []
    assert browser.evaluate(LOOK)["overflow"] <= 0
    for selector in ("h1", "h2", "main > p", "main > p code", ".verdict", ".logitkit-explanation p"):
        assert browser.evaluate(f"({CONTRAST})('{selector}')") > 4.5, selector


CONTRAST = """selector => {
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [a, b] = [getComputedStyle(document.querySelector(selector)).color, getComputedStyle(document.body).backgroundColor]
    .map(text => text === 'rgba(0, 0, 0, 0)' ? 'rgb(255, 255, 255)' : text)  // the ground of a page that sets none
    .map(light).sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


# Queries that people type, and pages of which one must be among the first three.
QUERIES: dict[str, list[str]] = {
    "json mode": ["json-schema"],
    "guided_json": ["json-schema"],
    "response_format": ["json-schema", "vllm"],
    "guided decoding": ["generate-typed", "json-schema", "patterns"],
    "constrained decoding": ["generate-typed", "quick-start"],
    "structured output": ["generate-typed", "quick-start"],
    "structured outputs": ["generate-typed", "quick-start"],
    "pydantic": ["generate-typed", "output-types"],
    "function calling": ["tool-calling"],
    "tool call": ["tool-calling"],
    "regex": ["patterns"],
    "guided_regex": ["patterns"],
    "choice": ["patterns"],
    "BNF": ["grammars"],
    "GBNF": ["grammars"],
    "EBNF": ["grammars"],
    "stop sequences": ["stopping-and-streaming"],
    "stop strings": ["stopping-and-streaming"],
    "streaming": ["stopping-and-streaming"],
    "classification": ["classification"],
    "token healing": ["token-healing"],
    "ollama": ["llama-cpp"],
    "BERT": ["transformers"],
    "repetition penalty": ["processors"],
    "top_p": ["processors"],
    "ban words": ["processors"],
    "reasoning": ["reasoning-budgets"],
    "beam search": ["sessions"],
    "kv cache": ["sessions"],
    "batch": ["different-constraints", "generate-typed"],
    "vllm server": ["vllm"],
    "outlines": ["migration"],
    "custom logits processor": ["own-processors"],
    "gpu": ["performance"],
}


@pytest.mark.parametrize("query", QUERIES)
def test_search_finds_the_page_of_what_people_type(browser: Chromium, address: str, query: str) -> None:
    browser.resize(DESKTOP)
    browser.open(address)
    found = browser.evaluate(f"({SEARCH})({json.dumps(query)})")
    first = list(dict.fromkeys(path.removeprefix(f"{FOLDER}/").strip("/") for path in found))[:3]
    assert {*first} & {*QUERIES[query]}, first
    assert browser.complaints() == []


SEARCH = """query => new Promise((done, fail) => {
  const field = document.querySelector('input[name=query]');
  field.focus();
  field.value = query;
  field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
  const began = Date.now();
  const look = () => {
    const links = [...document.querySelectorAll('.md-search-result__item > .md-search-result__link')];
    if (links.length) done(links.map(link => link.pathname));
    else if (Date.now() - began > 15000) fail(new Error('nothing found'));
    else setTimeout(look, 100);
  };
  look();
})"""
