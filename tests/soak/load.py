"""Run jobs in threads until the time is over, and judge texts and memory."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tests.soak.memory import GROWTH, GROWTH_MB, Growth, Watch

# Does something once, raises if a text is wrong, and returns what it did, to be counted.
Job = Callable[[random.Random], str]


def soak(
    jobs: Sequence[Job],
    threads: int,
    minutes: float,
    seed: int,
    every: float = 5.0,
    own: Mapping[str, float] | None = None,
) -> int:
    """Return 0 if no text was wrong and no process grew, else 1; print what was done.

    Args:
        jobs: Each thread takes them in a random order of its own.
        threads: How many.
        minutes: How long.
        seed: The seed of the random numbers; the order of threads is up to the machine.
        every: Seconds between two looks at the memory.
        own: MB by which a process of that name grows in 1,000 jobs without logitkit.
    """
    done, wrong, over = Counter[str](), list[str](), threading.Event()

    def work(number: int) -> None:
        chance, mine = random.Random(f"{seed}/{number}"), Counter[str]()
        while not over.is_set():
            try:
                mine[chance.choice(jobs)(chance)] += 1
            except Exception:  # noqa: BLE001 - whatever is raised is a finding
                wrong.append(traceback.format_exc())
                over.set()
        done.update(mine)

    watch = Watch(minutes)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    while not over.wait(every):
        watch.sample()
        if watch.is_over:
            over.set()
    for worker in workers:
        worker.join()
    return report(watch.growth(done.total(), own), done, wrong, seed, time.monotonic() - watch.begin)


def report(growth: Sequence[Growth], done: Counter[str], wrong: Sequence[str], seed: int, seconds: float) -> int:
    """Print what was done, and return the exit status."""
    print(f"{seconds / 60:.1f} minutes, seed {seed}")
    for what, count in sorted(done.items()):
        print(f"  {count:>10,} {what}")
    for one in growth:
        verdict = "bounded" if one.is_bounded else "GROWS"
        alone = f", of which {one.own:.0f} MB are its own" if one.own else ""
        print(f"  {one.name}: {one.early:.0f} MB after the warm-up, {one.late:.0f} MB at the end{alone}: {verdict}")
    print(f"  tolerated: {GROWTH:.0%}, or {GROWTH_MB:.0f} MB if that is more")
    for text in wrong:
        print(f"\n  WRONG:\n{text}")
    if not growth and not wrong:
        print("  too short to say anything about memory")
    return int(bool(wrong) or not all(one.is_bounded for one in growth))
