"""Which groups of the official suite are refused: kept in a file that the tests hold to be true, and published as a table.

python -m tests.json_schema.refusals
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from logitkit.errors import UnsupportedSchema
from tests.json_schema.acceptance import acceptor
from tests.json_schema.official import Group, groups

FILE = Path(__file__).parent / "suite" / "refused.json"
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- refusals -->\n", "<!-- end of refusals -->\n"


def refused() -> dict[str, str]:
    """Return the keyword that is named of each group that is refused, by the group's name."""
    found: dict[str, str] = json.loads(FILE.read_text("utf-8"))
    return found


def refusal(group: Group) -> str | None:
    """Return the keyword for which the schema of a group is refused, or None if it is not."""
    try:
        acceptor(group.schema)
    except UnsupportedSchema as error:
        return error.keyword or "the whole"
    return None


def table() -> str:
    """Return how many groups there are of each keyword, in all drafts, and how many are refused for what."""
    known = refused()
    total: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {}
    for group in groups():
        total[group.keyword] += 1
        if str(group) in known:
            reasons.setdefault(group.keyword, Counter())[known[str(group)]] += 1
    lines = ["| keyword (file of the suite) | groups | refused | rate | for |", "|---|---|---|---|---|"]
    for keyword in sorted(reasons, key=lambda k: (-reasons[k].total(), k)):
        count = reasons[keyword].total()
        why = ", ".join(f"`{name}` {n}" for name, n in reasons[keyword].most_common())
        lines.append(f"| `{keyword}` | {total[keyword]} | {count} | {count / total[keyword]:.0%} | {why} |")
    others = [keyword for keyword in sorted(total) if keyword not in reasons]
    rest = sum(total[keyword] for keyword in others)
    lines.append(f"| the {len(others)} others | {rest} | 0 | 0% | |")
    lines.append(f"| all | {total.total()} | {len(known)} | {len(known) / total.total():.1%} | |")
    names = ", ".join(f"`{keyword}`" for keyword in others)
    return "\n".join(lines) + f"\n\nThe others, of which no schema is refused: {names}.\n"


def page() -> str:
    """Return the page with the table that is true now."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    found = {str(group): keyword for group in groups() if (keyword := refusal(group)) is not None}
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page(), "utf-8")
