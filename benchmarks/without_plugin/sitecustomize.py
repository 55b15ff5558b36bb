"""With this folder on PYTHONPATH, vLLM does not find the installed plugin of logitkit, in any of its processes."""

import importlib.metadata
from typing import Any

original: Any = importlib.metadata.entry_points


def entry_points(**chosen: Any) -> Any:
    found = original(**chosen)
    ours = chosen.get("group") in ("vllm.logits_processors", "vllm.general_plugins")
    return importlib.metadata.EntryPoints(one for one in found if one.name != "logitkit") if ours else found


importlib.metadata.entry_points = entry_points
