"""`python -m tests.campaigns [CAMPAIGN]... [--minutes N] [--seed N]`: exit status 1 if a difference was found."""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import traceback
from collections.abc import Sequence

import torch

from tests.campaigns.campaign import Campaign, Result, run

NAMES = (
    "patterns",
    "javascript",
    "schemas",
    "types",
    "masks",
    "hooks",
    "sessions",
    "typed",
    "configurations",
    "chains",
    "training",
    "grammars",
    "lexers",
    "lookaheads",
    "templates",
    "captures",
    "hostile",
    "tools",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaigns that are named, or all in turn, and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Compare logitkit with independent judges.")
    parser.add_argument("campaigns", metavar="CAMPAIGN", nargs="*", help=f"one of {', '.join(NAMES)}; all if left out")
    parser.add_argument("--minutes", type=float, default=1.0, help="per campaign; at least one round runs (default: 1)")
    parser.add_argument("--seed", type=int, help="of the first round (default: random, and 0 where CI is set)")
    options = parser.parse_args(arguments)
    if unknown := set(options.campaigns) - set(NAMES):
        parser.error(f"there is not a campaign {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    first = options.seed if options.seed is not None else 0 if os.environ.get("CI") else random.randrange(2**32)
    torch.set_num_threads(1)
    # Before any campaign loads Triton, which reads it then.
    os.environ.setdefault("TRITON_INTERPRET", "1")
    results = []
    for name in options.campaigns or NAMES:
        campaign: Campaign = importlib.import_module(f"tests.campaigns.{name}").CAMPAIGN
        print(f"{campaign.name}: {campaign.compares}; seed {first}", flush=True)
        results.append(run(campaign, options.minutes, first))
        report(results[-1])
    table(results)
    return int(any(result.difference for result in results))


def report(result: Result) -> None:
    """Print what a campaign tried, and the difference if it found one."""
    for what, count in sorted(result.tried.items()):
        print(f"  {count:>12,} {what}")
    if result.difference is not None:
        print(f"\n  DIFFERENCE in the round of seed {result.failed_seed}, with the case as far as it was shrunk:")
        traceback.print_exception(result.difference, file=sys.stdout)
        print(f"\n  Again: scripts/fuzz {result.campaign.name} --minutes 0 --seed {result.failed_seed}")
    print(flush=True)


def table(results: Sequence[Result]) -> None:
    """Print one line per campaign."""
    print(f"{'campaign':<16} {'seed':>12} {'rounds':>8} {'minutes':>8}  result")
    for result in results:
        found = "no difference" if result.difference is None else f"DIFFERENCE, seed {result.failed_seed}"
        minutes = result.seconds / 60
        print(f"{result.campaign.name:<16} {result.seed:>12} {result.tried['rounds']:>8} {minutes:>8.1f}  {found}")


if __name__ == "__main__":
    sys.exit(main())
