"""With this folder on PYTHONPATH, vLLM finds no plugin that is installed: in all of its processes, which begin anew."""

import importlib.metadata
from typing import Any

original: Any = importlib.metadata.entry_points


def entry_points(**chosen: Any) -> Any:
    none = importlib.metadata.EntryPoints(())
    return none if chosen.get("group") == "vllm.logits_processors" else original(**chosen)


importlib.metadata.entry_points = entry_points
