"""Two tiny vision-language models of mlx-vlm, built from the shipped language model and a random vision tower, and images.

`llava` has rotary positions as text models do, and `qwen2_vl` multimodal ones, in which an image counts as fewer positions than
it has tokens. Without an image, both write what the shipped model writes. A folder takes 3 MB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from PIL import Image
from transformers import AutoTokenizer, CLIPImageProcessorPil

from logitkit_adapters.demo import model_dir

KINDS = ("llava", "qwen2_vl")

# The special tokens that stand for images, after those of the shipped tokenizer.
ADDED = ("<image>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
FIRST = 1280
COLUMNS = FIRST + len(ADDED)

CHAT = {
    "llava": (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
        "{% if p.type == 'image' %}<image>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}\n{% endfor %}"
        "{% if add_generation_prompt %}Answer:{% endif %}"
    )
}
CHAT["qwen2_vl"] = CHAT["llava"].replace("<image>", "<|vision_start|><|image_pad|><|vision_end|>")


def _text_config() -> dict[str, Any]:
    shipped = json.loads((model_dir() / "config.json").read_text())
    kept = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    return {name: shipped[name] for name in (*kept, "rms_norm_eps", "max_position_embeddings")} | {
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "vocab_size": COLUMNS,
    }


def config(kind: str) -> dict[str, Any]:
    """The configuration of a model."""
    text, ends = _text_config(), {"eos_token_id": 2, "pad_token_id": 0, "bos_token_id": 1}
    if kind == "llava":
        vision = {"model_type": "clip_vision_model", "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48}
        vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14, "projection_dim": 32}
        images = {"image_token_index": FIRST, "vision_feature_layer": -2, "vision_feature_select_strategy": "default"}
        return {
            "model_type": kind,
            "text_config": {"model_type": "llama", **text},
            "vision_config": vision,
            **images,
            **ends,
        }
    vision = {"model_type": kind, "depth": 2, "embed_dim": 32, "hidden_size": text["hidden_size"], "num_heads": 2}
    vision |= {"patch_size": 14, "spatial_patch_size": 14, "mlp_ratio": 2}
    rope = {"type": "mrope", "mrope_section": [4, 6, 6]}
    ids = {"vision_start_token_id": FIRST + 1, "image_token_id": FIRST + 3, "video_token_id": FIRST + 4}
    return {"model_type": kind, **text, "rope_scaling": rope, "vision_config": vision, **ids, **ends}


def _shipped_weights() -> dict[str, mx.array]:
    """The weights of the shipped model, with an embedding for each added token."""
    weights: Any = mx.load(str(model_dir() / "model.safetensors"))
    table = weights["model.embed_tokens.weight"]
    more = mx.random.normal((len(ADDED), table.shape[1]), key=mx.random.key(1)) * mx.std(table)
    return {**weights, "model.embed_tokens.weight": mx.concatenate([table, more])}


def _weights(model: Any) -> dict[str, mx.array]:
    """Random weights, and those of the shipped model in the language model; biases that it lacks are 0."""
    shipped, found = _shipped_weights(), {}
    parameters: Any = tree_flatten(model.parameters())
    for place, (name, value) in enumerate(parameters):
        known = shipped.pop(name.removeprefix("language_model."), None)
        if known is not None:
            assert known.shape == value.shape
            found[name] = known
        elif name.startswith("language_model."):
            assert name.endswith("bias")
            found[name] = mx.zeros(value.shape)
        else:
            # Large for the pixels, so that the text depends on them.
            size = 3.0 if "patch_embed" in name else 0.5
            noise = mx.random.normal(value.shape, key=mx.random.key(place)) * size
            found[name] = noise + 1 if "norm" in name and name.endswith("weight") else noise
    assert not shipped
    return found


@cache
def folder(kind: str) -> Path:
    """A folder with a model and its processor, as `mlx_vlm.load` takes it."""
    from mlx_vlm.utils import get_model_and_args, update_module_configs

    path, settings, read = Path(mkdtemp(prefix=f"{kind}-")), config(kind), config(kind)
    architecture, _ = get_model_and_args(config=read)
    model = architecture.Model(
        update_module_configs(architecture.ModelConfig.from_dict(read), architecture, read, ["text", "vision"])
    )
    mx.save_safetensors(str(path / "model.safetensors"), _weights(model), {"format": "mlx"})
    (path / "config.json").write_text(json.dumps(settings))
    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    tokenizer.add_special_tokens({"additional_special_tokens": list(ADDED)})
    tokenizer.chat_template = CHAT[kind]
    tokenizer.save_pretrained(path)
    if kind == "llava":
        size = {"height": 28, "width": 28}
        CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size=size).save_pretrained(path)
        # One token is added for an image, and one is taken away.
        extra = {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
        (path / "processor_config.json").write_text(json.dumps({"patch_size": 14, "image_token": "<image>", **extra}))
    else:
        limits = {"min_pixels": 28 * 28, "max_pixels": 28 * 28 * 12, "patch_size": 14, "merge_size": 2}
        (path / "preprocessor_config.json").write_text(json.dumps({"temporal_patch_size": 2, **limits}))
    return path


class ImagesOnly(CLIPImageProcessorPil):
    """Ignores the options of the tokenizer, which the processor of LLaVA in mlx-vlm 0.7 passes to image processors too."""

    def __call__(self, images: Any, *_: Any, **__: Any) -> Any:
        return super().__call__(images)


@cache
def loaded(kind: str) -> tuple[Any, Any]:
    """A model and its processor; "shipped" is the shipped language model in mlx-vlm."""
    from mlx_vlm.utils import load

    path = model_dir() if kind == "shipped" else folder(kind)
    model, processor = load(str(path))
    if kind == "llava":
        processor.image_processor = ImagesOnly.from_pretrained(path)
    return model, processor


@cache
def image(seed: int, width: int = 70, height: int = 56) -> Image.Image:
    """A picture of a few large squares with noise."""
    random = np.random.default_rng(seed)
    squares = Image.fromarray(random.integers(0, 256, (2, 3, 3), np.uint8)).resize(
        (width, height), Image.Resampling.NEAREST
    )
    return Image.fromarray(np.asarray(squares) // 8 * 7 + random.integers(0, 32, (height, width, 3), np.uint8))


def chat(text: str, *images: Image.Image) -> list[Mapping[str, Any]]:
    """A chat of one message, with images before its text."""
    parts = [{"type": "image", "image": each} for each in images]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]
