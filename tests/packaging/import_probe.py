"""List the modules and settings that an import adds or changes: `python -I import_probe.py PACKAGE ROOT...`.

Imports the package and all its submodules, found below the roots, in a Python of its own. Prints as JSON
which engines were imported and which global settings are no longer what they were.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import random
import sys
import warnings

import numpy as np
import safetensors.torch  # noqa: F401  (so that what it changes is not blamed on the package)
import torch

ENGINES = ("llama_cpp", "logitkit_adapters", "mlx", "mlx_lm", "mlx_vlm", "onnxruntime_genai", "transformers", "vllm")


def global_settings() -> dict[str, object]:
    """Return the settings of the process that a library has no business with."""
    return {
        "default dtype": torch.get_default_dtype(),
        "environment": dict(os.environ),
        "gradients": torch.is_grad_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "numpy errors": np.geterr(),
        "random state": (random.getstate(), torch.get_rng_state().tolist(), str(np.random.get_state())),  # noqa: NPY002
        "recursion limit": sys.getrecursionlimit(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "warning filters": list(warnings.filters),
    }


def main(package: str, *roots: str) -> None:
    sys.path[:0] = roots
    before = global_settings()
    imported = importlib.import_module(package)
    for module in pkgutil.walk_packages(getattr(imported, "__path__", []), f"{package}."):
        importlib.import_module(module.name)
    after = global_settings()
    top_level = {name.partition(".")[0] for name in sys.modules}
    print(
        json.dumps(
            {
                "engines": [engine for engine in ENGINES if engine in top_level],
                "changed": [name for name in before if before[name] != after[name]],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
