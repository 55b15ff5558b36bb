"""Explanations as an HTML page, whatever bytes are in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logitkit.explaining.explanation import Explanation, Refusal, Source, Step
from tests.explaining.explanations import HOSTILE, MONTH, TEXTS, Parsed, refused


@given(st.lists(st.sampled_from(HOSTILE) | st.binary(max_size=6), min_size=1, max_size=8))
def test_a_page_escapes_all_text_and_closes_all_elements(tokens: list[bytes]) -> None:
    explanation = refused(*tokens, expected="<b>&\"'", sources=(Source("text", "</pre><script>"),))
    page = explanation.to_html()
    parsed = Parsed(page)
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "link",
        "body",
        "main",
        "style",
        "section",
        "p",
        "pre",
        "mark",
        "div",
        "span",
        "i",
        "code",
    }
    allowed |= {"br", "b", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _ in parsed.tags} <= allowed
    assert not any(name.startswith("on") or name == "src" for _, found in parsed.tags for name in found)
    assert "<b>&\"'" in parsed.text
    assert "</pre><script>" in parsed.text
    page.encode()
    assert all(c.isprintable() or c == "\n" for c in page)


def test_a_page_needs_nothing_else() -> None:
    page = refused(*HOSTILE).to_html()
    parsed = Parsed(page)
    assert page.startswith("<!doctype html>")
    assert not any("http" in (value or "") for _, found in parsed.tags for value in found.values())
    assert "url(" not in page
    assert "@import" not in page
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in parsed.tags
    assert "prefers-color-scheme: dark" in page


def test_each_token_of_a_page_has_its_details_by_keyboard_and_colour_by_removed_mass() -> None:
    step = Step(7, b" <\n", "", legal=12, removed=0.83, wanted=3)
    explanation = Explanation("Regex", (step, Step(2, b"", "</s>", 1)), complete=True, token_bytes=TEXTS)
    parsed = Parsed(explanation.to_html())
    tokens = [found for tag, found in parsed.tags if tag == "span" and "tabindex" in found]
    details = [found["id"] for tag, found in parsed.tags if found.get("role") == "tooltip"]
    assert [token["aria-describedby"] for token in tokens] == details
    assert len(set(details)) == 2
    assert tokens[0]["style"] == "--removed:0.830"
    assert "special" in (tokens[1]["class"] or "")
    assert "·<↵" in parsed.text
    assert "removed 83%" in parsed.text
    assert "wanted '</s>'" in parsed.text
    first, second = (Parsed(explanation._repr_html_()) for _ in range(2))
    assert not {f["id"] for _, f in first.tags if "id" in f} & {f["id"] for _, f in second.tags if "id" in f}
    assert "html" not in {tag for tag, _ in first.tags}


def details_of(explanation: Explanation) -> list[str]:
    """Return the text of the details of each token of a page."""
    parsed = Parsed(explanation.to_html())
    begins = [at for at, (_, found) in enumerate(parsed.tags) if found.get("role") == "tooltip"]
    ends = [
        next(at for at in range(b + 1, len(parsed.tags)) if parsed.tags[at][0] in ("span", "details")) for b in begins
    ]
    pairs = zip(begins, ends, strict=True)
    return ["".join(text for at, text in parsed.texts if begin <= at < end) for begin, end in pairs]


def test_the_details_of_an_illegal_token_have_the_reason() -> None:
    explanation = refused(b"at", b" 20", sources=(MONTH,), completion=(1,))
    lines = [line for line in str(explanation).split("\n\n")[2].splitlines() if line.strip("^ ")]
    first, second, illegal, late = details_of(explanation)
    assert all(line.strip() in illegal for line in lines)
    assert not any(line.strip() in other for line in lines[::2] for other in (first, second, late))
    # A later token that another processor bans has a reason of its own.
    reasons = [Refusal(name, "ban", expected=name) for name in ("One", "Two")]
    steps = tuple(Step(at, b"a", "", 3, refusal=reason) for at, reason in enumerate(reasons))
    both = Explanation("Chain", steps, complete=False)
    assert [("for One" in said, "for Two" in said) for said in details_of(both)] == [(True, False), (False, True)]
    said = [step["refusal"]["reason"] for step in both.to_dict()["steps"]]
    assert said == [
        f"Token {at}, 'a', is illegal for {n}: this processor bans the token; expected {n}."
        for at, n in enumerate(("One", "Two"))
    ]


def test_only_legal_tokens_are_coloured_by_removed_mass() -> None:
    """After an illegal token, only the end is legal, which says nothing about the constraint."""
    step = Step(1, b"b", "", 1, removed=0.99, after_refusal=True)
    page = Parsed(Explanation("Regex", (step,), complete=False).to_html())
    assert [found["class"] for _, found in page.tags if "tabindex" in found and "aria-describedby" in found] == [
        "token after"
    ]
