"""Formats from random chat templates and response templates, against the markers of the former and the parser of transformers."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import strategies as st

from logitkit import ToolFormat
from logitkit.errors import ConfigurationError
from tests.campaigns.campaign import Campaign, drawn
from tests.tools.response_templates import compared
from tests.tools.test_derivation import check
from tests.tools.written_response_templates import drawn as response_template
from tests.tools.written_templates import drawn as template

__all__ = ["CAMPAIGN"]


def compare(seed: int, tried: Counter[str]) -> None:
    """Derive the format of one template, and compare what it writes and reads with the markers of the template."""
    written = template(random.Random(seed))
    form = check(written)
    tried["templates derived and proved"] += 1
    tried[f"with arguments as {form.arguments}"] += 1
    tried["with ids or numbers"] += "{" in "".join(written.head).replace('{"', "")
    compare_response(seed, tried)


def compare_response(seed: int, tried: Counter[str]) -> None:
    """Read the format of one response template, and compare what it writes with what transformers reads."""
    given = response_template(random.Random(seed))
    try:
        read = ToolFormat.from_response_template(given)
    except ConfigurationError:
        tried["response templates that are not read"] += 1
        return
    tried["response templates that are read"] += 1
    tried.update(compared(given, read, seed, 4))


CAMPAIGN = Campaign(
    "tools",
    "formats from random chat templates and response templates, with the markers and with transformers",
    drawn(st.integers(0, 2**32), 10, compare),
)
