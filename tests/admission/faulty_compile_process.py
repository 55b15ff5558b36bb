"""A process that compiles as those of servers do, and does what a configuration says that it should not."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from logitkit_adapters.admission import compile_process
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.admission.verdicts import Verdict

_judge = Configurations.judge


def _faulty(self: Configurations, what: Asked) -> Verdict:
    assert what.text is not None
    pattern = json.loads(what.text)["regex"] if what.text.startswith("{") else ""
    word, _, marker = pattern.partition(" ")
    if word == "dies":
        os._exit(1)
    if word == "dies-once" and not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    if word == "waits-for":
        Path(marker).with_suffix(".begun").write_text("\n")
        while not Path(marker).exists():
            time.sleep(0.01)
    if word == "burns-until":
        with Path(marker).with_suffix(".begun").open("a") as file:
            file.write(f"{os.getpid()} {os.getpriority(os.PRIO_PROCESS, 0)}\n")
        while not Path(marker).exists():
            pass
    if word == "fails":
        raise RuntimeError(marker)
    return _judge(self, what)


def main() -> None:
    Configurations.judge = _faulty  # type: ignore[method-assign]
    compile_process.main()
