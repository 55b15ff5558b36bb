"""The chats of each engine: its model, its tokenizer, and the engine's own ways to use a cache."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from benchmarks.chats import LIMIT, POSITIONS, Chats, Mark, Way, until
from logitkit_adapters.demo import gguf_path, model_dir
from logitkit_adapters.transformers.cache_argument import cache_argument

# Libraries are imported where they are used: run as a program, a benchmark is read before pytest, which must see plugins first.
FLOAT32 = 0


def transformers_chats() -> Chats:
    import torch
    import transformers
    from transformers.utils import logging

    logging.disable_progress_bar()
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(model_dir(), local_files_only=True)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model_dir(), local_files_only=True)

    ends = {tokenizer.eos_token_id}

    def answer(caches: dict[int, Any] | None, chat: int, ids: list[int], mark: Mark) -> list[int]:
        options = {}
        if caches is not None:
            options[cache_argument(model)] = caches.setdefault(chat, transformers.DynamicCache(config=model.config))
        row = torch.tensor([ids])
        options |= {"attention_mask": torch.ones_like(row), "max_new_tokens": LIMIT, "do_sample": False}
        written = model.generate(row, logits_processor=[mark], **options)[0, len(ids) :].tolist()
        return until(written, ends)

    return Chats(
        model,
        tokenizer,
        lambda text: list(tokenizer(text, add_special_tokens=False)["input_ids"]),
        ends,
        {
            "nothing kept": Way(model, answer, nullcontext),
            "a DynamicCache per chat, kept by hand": Way(model, answer, lambda: nullcontext({})),
        },
    )


def mlx_lm_chats() -> Chats:
    import mlx.core as mx
    import mlx_lm
    from mlx_lm.generate import generate_step
    from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache

    model: Any
    model, tokenizer = mlx_lm.load(str(model_dir()))[:2]

    def answer(caches: dict[int, Any] | None, chat: int, ids: list[int], mark: Mark) -> list[int]:
        def there(tokens: Any, logits: Any) -> Any:
            # mlx computes the logits only when they are needed.
            mx.eval(logits)
            return mark(tokens, logits)

        cache: Any = None
        cached = 0
        if caches is not None:
            cache, cached = caches.setdefault(chat, (make_prompt_cache(model), 0))
        steps = generate_step(
            mx.array(ids[cached:]), model, max_tokens=LIMIT, logits_processors=[there], prompt_cache=cache
        )
        written = until((int(token) for token, _ in steps), tokenizer.eos_token_ids)
        if caches is not None:
            # mlx-lm has computed further than the answer.
            known = min(len(ids) + len(written), cache[0].offset)
            trim_prompt_cache(cache, cache[0].offset - known)
            caches[chat] = cache, known
        return written

    return Chats(
        model,
        tokenizer,
        lambda text: list(tokenizer.encode(text, add_special_tokens=False)),
        tokenizer.eos_token_ids,
        {
            "nothing kept": Way(model, answer, nullcontext),
            "a prompt cache per chat, trimmed by hand": Way(model, answer, lambda: nullcontext({})),
        },
    )


def llama_cpp_chats() -> Chats:
    import llama_cpp

    options: dict[str, Any] = {"n_threads": 1, "n_threads_batch": 1, "type_k": FLOAT32, "type_v": FLOAT32}
    llama: Any = llama_cpp.Llama(str(gguf_path()), n_ctx=POSITIONS, verbose=False, **options)
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    ends = {i for i in range(llama.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocab, i)}

    def answer(kept: Any, chat: int, ids: list[int], mark: Mark) -> list[int]:
        if kept is not None and ids in kept:
            # As in `create_completion`, which returns text, not tokens.
            state = kept[ids]
            found, there = (
                llama.longest_token_prefix(row.tolist(), ids) for row in (state.input_ids, llama._input_ids)
            )
            if found > there:
                llama.load_state(state)
        steps = llama.generate(ids, temp=0, logits_processor=llama_cpp.LogitsProcessorList([mark]))
        written = until(itertools.islice(steps, LIMIT), ends)
        steps.close()
        if kept is not None:
            kept[ids + written] = llama.save_state()
        return written

    def forgetful(kept: None, chat: int, ids: list[int], mark: Mark) -> list[int]:
        llama.reset()
        return answer(kept, chat, ids, mark)

    def opened(kept: Any = None) -> AbstractContextManager[Any]:
        llama.reset()
        return nullcontext(kept)

    return Chats(
        llama,
        None,
        lambda text: list(llama.tokenize(text.encode(), add_bos=False, special=False)),
        ends,
        {
            "nothing kept": Way(llama, forgetful, opened),
            "its own match of the prefix": Way(llama, answer, opened),
            "LlamaRAMCache": Way(llama, answer, lambda: opened(llama_cpp.LlamaRAMCache())),  # type: ignore[attr-defined]
        },
    )


def vllm_chats() -> Chats:
    import os

    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import vllm

    from logitkit_adapters.vllm.session import Session

    waiting: list[Mark] = []

    def engine(caches: bool) -> Any:
        # On a CPU, vLLM has no smaller blocks and no graphs.
        llm: Any = vllm.LLM(
            str(model_dir()), max_model_len=POSITIONS, max_num_seqs=1, enforce_eager=True, dtype="float32",
            enable_prefix_caching=caches, block_size=32, seed=0,
        )  # fmt: skip
        whole = llm.llm_engine.output_processor.process_outputs

        def noted(outputs: Any, *more: Any, **options: Any) -> Any:
            if waiting and any(output.new_token_ids for output in outputs):
                waiting.pop()(None, None)
            return whole(outputs, *more, **options)

        llm.llm_engine.output_processor.process_outputs = noted
        return llm

    without, caching = engine(False), engine(True)
    tokenizer = without.get_tokenizer()
    ends = {tokenizer.eos_token_id}
    greedy = vllm.SamplingParams(temperature=0.0, max_tokens=LIMIT)

    def answer(llm: Any, chat: int, ids: list[int], mark: Mark) -> list[int]:
        waiting.append(mark)
        (output,) = llm.generate([{"prompt_token_ids": ids}], greedy, use_tqdm=False)
        return until(output.outputs[0].token_ids, ends)

    def in_session(session: Any, chat: int, ids: list[int], mark: Mark) -> list[int]:
        waiting.append(mark)
        return until(session.generate(ids, max_new_tokens=LIMIT).token_ids[0], ends)

    def emptied(opened: Callable[[], AbstractContextManager[Any]]) -> Callable[[], AbstractContextManager[Any]]:
        def scope() -> AbstractContextManager[Any]:
            assert caching.reset_prefix_cache()
            return opened()

        return scope

    return Chats(
        caching,
        None,
        lambda text: list(tokenizer(text, add_special_tokens=False)["input_ids"]),
        ends,
        {
            "nothing kept": Way(without, answer, lambda: nullcontext(without)),
            "its own prefix caching": Way(caching, answer, emptied(lambda: nullcontext(caching))),
        },
        Way(caching, in_session, emptied(lambda: Session(caching, max_length=POSITIONS))),
    )


ENGINES: dict[str, Callable[[], Chats]] = {
    "transformers": transformers_chats,
    "mlx-lm": mlx_lm_chats,
    "llama.cpp": llama_cpp_chats,
    "vLLM": vllm_chats,
}
