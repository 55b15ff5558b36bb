"""vLLM has an environment of its own: elsewhere its adapter cannot be imported, and so has no doctests."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("vllm") else ["logitkit_adapters/vllm/*"]
