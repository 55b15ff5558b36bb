"""Which processes of an engine compile patterns, and which find them.

Run as a script, in a process of its own; the plugin that it names brings this module into all processes of the engine.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from logitkit import Regex
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit_adapters.vllm import LogitsProcessor
from tests.adapters_vllm import engine

LOG = "LOGITKIT_TEST_LOG"


class Watched(LogitsProcessor):
    """The plugin, in processes that note what they compile and find."""


def watch(log: Path) -> None:
    """Note what this process compiles and finds."""

    def note(what: str) -> None:
        with log.open("a") as file:
            file.write(f"{os.getpid()} {what}\n")

    compile_, read = Regex._compile, AutomatonFiles.read

    def compiles(self: Regex) -> Any:
        note("compiles")
        return compile_(self)

    def reads(self: AutomatonFiles, key: Any) -> Any:
        found = read(self, key)
        if found is not None:
            note("finds")
        return found

    Regex._compile = compiles  # type: ignore[method-assign]
    AutomatonFiles.read = reads  # type: ignore[method-assign]


def main() -> None:
    """Ask an engine, whose core and worker are processes of their own, for patterns, and write who did what."""
    task, log = json.loads(sys.argv[1]), Path(f"{sys.argv[2]}.log")
    os.environ[LOG] = str(log)
    llm = engine.start(logits_processors=["tests.adapters_vllm.compiling:Watched"])
    params = {"max_tokens": 20, "temperature": 0.0}
    asked = [("a", {**params, "extra_args": {"logitkit": {"regex": pattern}}}) for pattern in task["patterns"]]
    texts = [output.text for output in engine.generate(llm, asked)]
    llm.llm_engine.engine_core.shutdown()
    done = [line.split() for line in log.read_text().splitlines()]
    own = str(os.getpid())
    result = {
        "texts": texts,
        "here": [what for process, what in done if process == own],
        "elsewhere": [what for process, what in done if process != own],
    }
    Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
elif __name__ != "__mp_main__" and LOG in os.environ:
    watch(Path(os.environ[LOG]))
