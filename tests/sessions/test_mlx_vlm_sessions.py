"""Sessions and typed output in mlx-vlm: prompts with images, whose caches are reused, and never those of another image."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_vlm.generate import stream_generate
from mlx_vlm.models.cache import RotatingKVCache, make_prompt_cache
from mlx_vlm.utils import prepare_inputs

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters import mlx_lm as for_mlx_lm
from logitkit_adapters.mlx_vlm import (
    Session,
    continuous,
    generate_typed,
    logits_processor,
    probabilities,
    trace,
    vocabulary,
)
from logitkit_adapters.mlx_vlm import media as media_module
from logitkit_adapters.mlx_vlm.media import FIRST_ID, KnownMedia
from logitkit_adapters.sessions.media_prompt import MediaPrompt
from tests.adapters import demo_mlx_lm
from tests.adapters.demo_mlx_vlm import plain
from tests.adapters.vision_models import ADDED, KINDS, chat, image, loaded
from tests.examples import examples

STEPS = 20


def date(kind: str) -> lk.Processor[Any]:
    v = vocabulary(*reversed(loaded(kind)))
    return lk.chain(lk.RepetitionPenalty(1.2), lk.Regex(" [0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]", v))


def prepared(kind: str, messages: list[Any]) -> dict[str, Any]:
    """The inputs of a chat, from its own template and not from that of mlx-vlm."""
    _, processor = loaded(kind)
    text = processor.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    images = [
        part["image"] for m in messages if isinstance(m["content"], list) for part in m["content"] if "image" in part
    ]
    found: dict[str, Any] = prepare_inputs(processor, images=images or None, prompts=text, add_special_tokens=True)
    return found


def by_engine(kind: str, messages: list[Any], processor: lk.Processor[Any] | None, **options: Any) -> list[int]:
    """The tokens that mlx-vlm itself writes, from the beginning."""
    found = prepared(kind, messages)
    hooks = [] if processor is None else [logits_processor(processor, prompt=found["input_ids"])]
    return plain(found, hooks, kind, max_tokens=STEPS, **options)


@pytest.mark.parametrize("kind", KINDS)
class TestConversations:
    def test_turns_after_an_image_are_resumed(self, kind: str) -> None:
        with Session(*loaded(kind), max_length=400) as session:
            for seeds in ((1,), (2, 3) if kind == "qwen2_vl" else (2,)):
                messages = list(chat("The meeting is on", *map(image, seeds)))
                for turn, processor in enumerate((date(kind), None, date(kind))):
                    (row,) = session.generate(messages, max_new_tokens=STEPS, processor=processor).rows
                    assert row.token_ids == by_engine(kind, messages, processor)
                    ids = prepared(kind, messages)["input_ids"].tolist()[0]
                    through_images = max(place for place, i in enumerate(ids) if i >= 1280) + 1
                    assert row.cached_tokens > through_images if turn else row.cached_tokens == 0
                    assert row.positions_fed < row.prompt_tokens - row.cached_tokens + len(row.token_ids)
                    messages += [
                        {"role": "assistant", "content": row.text},
                        {"role": "user", "content": "And the next?"},
                    ]

    def test_conversations_take_turns(self, kind: str) -> None:
        """Each continues from positions of its own, which the model keeps in attributes."""
        chats: list[list[Any]] = [
            list(chat("In", image(1, 42, 42))),
            list(chat("In", image(2, 140, 84))),
            list(chat("In")),
        ]
        with Session(*loaded(kind)) as session:
            for turn in range(2):
                for messages in chats:
                    (row,) = session.generate(messages, max_new_tokens=8).rows
                    assert row.token_ids == by_engine(kind, messages, None)[:8]
                    assert turn == 0 or row.cached_tokens > 0
                    messages += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "on"}]

    def test_the_same_text_after_another_image_is_computed_again(self, kind: str) -> None:
        with Session(*loaded(kind)) as session:
            first, second, again = (
                session.generate(chat("The price of", image(seed)), max_new_tokens=6).rows[0] for seed in (1, 2, 1)
            )
            assert (
                first.reuse.todo
                == second.reuse.todo
                == prepared(kind, chat("The price of", image(1)))["input_ids"].tolist()[0]
            )
            assert (first.cached_tokens, second.cached_tokens) == (0, 0)
            assert again.cached_tokens == again.prompt_tokens - 1
            assert again.token_ids == first.token_ids

    def test_other_code_runs_the_model_meanwhile(self, kind: str) -> None:
        model, processor = loaded(kind)
        found = prepared(kind, chat("The meeting is on", image(1, 140, 84)))
        options: Any = {"max_tokens": STEPS, "temperature": 0.0}
        expected = [part.token for part in stream_generate(model, processor, "", **found, **options)]
        with Session(model, processor) as session, session.stream(chat("In", image(2)), max_new_tokens=8) as pieces:
            tokens = []
            for part in stream_generate(model, processor, "", **dict(found), **options):
                tokens.append(part.token)
                next(iter(pieces), None)
                session.generate("The price of", max_new_tokens=2)
            assert tokens == expected
            list(pieces)
            assert pieces.generated.rows[0].token_ids == by_engine(kind, list(chat("In", image(2))), None)[:8]

    def test_threads_share_a_session(self, kind: str) -> None:
        prompts = [chat("The price of", image(seed % 3)) for seed in range(9)]
        expected = {seed: by_engine(kind, list(chat("The price of", image(seed))), None)[:5] for seed in range(3)}
        with Session(*loaded(kind)) as session, ThreadPoolExecutor(3) as pool:
            rows = list(pool.map(lambda prompt: session.generate(prompt, max_new_tokens=5).rows[0], prompts))
        assert [row.token_ids for row in rows] == [expected[seed % 3] for seed in range(9)]

    def test_what_a_processor_returns_is_a_prompt_too(self, kind: str) -> None:
        messages = list(chat("The meeting is on", image(1)))
        found = prepared(kind, messages)
        as_torch = {name: torch.from_numpy(np.array(value)) for name, value in found.items()}
        with Session(*loaded(kind)) as session:
            rows = [session.generate(each, max_new_tokens=STEPS).rows[0] for each in (messages, found, as_torch)]
        assert [row.token_ids for row in rows] == [by_engine(kind, messages, None)] * 3
        assert [row.cached_tokens > 0 for row in rows] == [False, True, True]

    def test_samples_do_not_depend_on_the_cache(self, kind: str) -> None:
        processor = lk.chain(lk.Temperature(1.3), lk.TopP(0.9))
        prompt = chat("The price of", image(3))
        options: Any = {"max_new_tokens": 8, "processor": processor, "seed": 5}
        with Session(*loaded(kind)) as session, Session(*loaded(kind), max_cached_tokens=0) as fresh:
            several = session.generate(prompt, num_samples=3, **options).rows
            assert [row.token_ids for row in several] == [
                row.token_ids for row in fresh.generate(prompt, num_samples=3, **options).rows
            ]
            assert len({tuple(row.token_ids) for row in several}) > 1


@pytest.mark.parametrize("kind", ["shipped", *KINDS])
def test_text_is_continued_as_in_mlx_lm(kind: str) -> None:
    prompts = ["The price of", "The price of tea is", "Question: Is Paris in France?\nAnswer:"]
    processor = lk.chain(lk.RepetitionPenalty(1.2), lk.NoRepeatNGram(3))
    if kind != "shipped":
        # The others have more tokens.
        processor = lk.chain(
            lk.BanTokens(range(1280, 1280 + len(ADDED))), lk.RepetitionPenalty(1.2), lk.NoRepeatNGram(3)
        )
    plain_one = lk.chain(lk.RepetitionPenalty(1.2), lk.NoRepeatNGram(3))
    with Session(*loaded(kind)) as session, for_mlx_lm.Session(*demo_mlx_lm.loaded()) as expected:
        for prompt in prompts:
            one, other = (
                each.generate(prompt, max_new_tokens=STEPS, processor=p).rows[0]
                for each, p in ((session, processor), (expected, plain_one))
            )
            assert (one.token_ids, one.text, one.cached_tokens) == (other.token_ids, other.text, other.cached_tokens)
    written = continuous(*loaded(kind), processor)(prompts, 6)
    assert (
        written.token_ids.tolist()
        == for_mlx_lm.continuous(*demo_mlx_lm.loaded(), plain_one)(prompts, 6).token_ids.tolist()
    )


@pytest.mark.parametrize("kind", KINDS)
class TestTyped:
    def test_values_after_images(self, kind: str) -> None:
        model, processor = loaded(kind)
        prompts = [chat("How many?", image(1)), chat("How many?", image(2)), chat("How many?")]
        kinds: Any = {"type": "integer", "minimum": 10, "maximum": 99}
        alone = [generate_typed(model, processor, prompt, kinds, max_new_tokens=6) for prompt in prompts]
        assert all(10 <= found.value <= 99 for found in alone)
        together = generate_typed(model, processor, prompts, kinds, max_new_tokens=6)
        assert [found.token_ids for found in together] == [found.token_ids for found in alone]
        with generate_typed(model, processor, prompts[0], kinds, max_new_tokens=6, stream=True) as stream:
            assert "".join(stream).strip() == str(alone[0].value)
        with Session(model, processor) as session:
            for found in alone[:1] * 2:
                assert generate_typed(model, processor, prompts[0], kinds, max_new_tokens=6, session=session) == found
            assert session.cached_tokens

    def test_a_trace(self, kind: str) -> None:
        model, processor = loaded(kind)
        v = vocabulary(processor, model)
        prompt, digits = chat("How many?", image(1)), lk.Regex("[0-9]{3}", v)
        found = trace(model, processor, prompt, digits, max_new_tokens=5)
        with Session(model, processor) as session:
            (row,) = session.generate(prompt, max_new_tokens=5, processor=digits, log_probs=True).rows
        assert [step.token_id for step in found.steps] == row.token_ids
        # The model itself, with all tokens at once.
        given = prepared(kind, list(prompt))
        ids, pixels = given.pop("input_ids").tolist()[0], given.pop("pixel_values")
        del given["attention_mask"]
        logits = model(mx.array([ids + row.token_ids]), pixels, None, **given).logits[0, len(ids) - 1 :]
        expected = mx.softmax(logits, axis=-1)
        for place, step in enumerate(found.steps):
            assert step.probability == pytest.approx(expected[place, step.token_id].item(), rel=1e-3)

    def test_a_list_of_texts_runs_together(self, kind: str) -> None:
        model, processor = loaded(kind)
        texts = ["The price of", "In", "The meeting is on"]
        together = generate_typed(model, processor, texts, int, max_new_tokens=4)
        assert [found.token_ids for found in together] == [
            generate_typed(model, processor, text, int, max_new_tokens=4).token_ids for text in texts
        ]


class TestRefusals:
    def test_images_where_they_would_be_lost(self) -> None:
        model, processor = loaded("llava")
        prompt = chat("How many?", image(1))
        with (
            Session(model, processor) as session,
            pytest.raises(ConfigurationError, match=r"num_beams=2.* takes no images"),
        ):
            session.generate(prompt, num_beams=2, max_new_tokens=3)
        for call in (
            lambda: continuous(model, processor)(prompt, 3),
            lambda: probabilities(model, processor, prompt, ["a", "b"]),
            lambda: for_mlx_lm.Session(*demo_mlx_lm.loaded()).generate(prompt, max_new_tokens=3),
        ):
            with pytest.raises(ConfigurationError, match="part of the type 'image'"):
                call()

    def test_a_prompt_that_was_read_by_another_session(self) -> None:
        with Session(*loaded("llava")) as one, Session(*loaded("llava")) as other:
            (read,) = one.prepare(chat("x", image(1)), max_new_tokens=3).prompts
            expected = one.generate(chat("x", image(1)), max_new_tokens=3).rows[0].token_ids
            assert other.generate(read, max_new_tokens=3).rows[0].token_ids == expected
        with for_mlx_lm.Session(*demo_mlx_lm.loaded()) as session:
            for prompt in (read, [read, read]):
                with pytest.raises(ConfigurationError, match="this model takes no images"):
                    session.generate(prompt, max_new_tokens=3)

    @pytest.mark.parametrize(
        ("part", "message"),
        [
            ({"type": "image", "image": "https://example.org/a.png"}, "give a PIL.Image.Image or a pathlib.Path"),
            ({"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}, "give a PIL.Image.Image"),
            ({"type": "image"}, "the image None"),
            ({"type": "image", "image": Path("absent.png")}, "absent.png of a chat cannot be read"),
            ({"type": "audio", "audio": b""}, "mlx_vlm.utils.prepare_inputs"),
        ],
    )
    def test_parts_that_are_not_an_image(self, part: dict[str, Any], message: str) -> None:
        with Session(*loaded("llava")) as session, pytest.raises(ConfigurationError, match=message):
            session.generate([{"role": "user", "content": [part]}], max_new_tokens=3)

    def test_an_image_in_a_file(self, tmp_path: Path) -> None:
        image(1).save(tmp_path / "one.png")
        with Session(*loaded("llava")) as session:
            one, other = (
                session.generate([{"role": "user", "content": [{"type": "image", "image": each}]}], max_new_tokens=3)
                for each in (image(1), tmp_path / "one.png")
            )
        assert one.rows[0].token_ids == other.rows[0].token_ids
        assert other.rows[0].cached_tokens

    def test_models_and_processors_that_take_none(self) -> None:
        with Session(*loaded("shipped")) as session, pytest.raises(ConfigurationError, match="chat template"):
            session.generate(chat("x", image(1)), max_new_tokens=3)
        model, processor = loaded("llava")
        with (
            Session(model, processor.tokenizer) as session,
            pytest.raises(ConfigurationError, match="no image_processor"),
        ):
            session.generate(chat("x", image(1)), max_new_tokens=3)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"input_ids": [[5, 6, 7]]}, "none of the tokens that stand for them"),
            ({"input_ids": [[1280], [1280]]}, r"input_ids are list; give the tokens of one prompt"),
            ({"attention_mask": [[0, 1, 1, 1, 1, 1]]}, "has padding"),
            ({"token_type_ids": [[0, 1, 0, 0, 0, 0]]}, "several token_type_ids for text"),
            # mlx would read memory outside of its table of embeddings.
            (
                {"input_ids": [[5, 9_000_000, 1280, 1280, 1280, 1280]]},
                "the token id 9000000; allowed are ids below 1285",
            ),
            ({"input_ids": [[5, -9, 1280, 1280, 1280, 1280]]}, "the token id -9; allowed are ids below 1285"),
        ],
    )
    def test_inputs_that_say_too_little(self, change: dict[str, Any], message: str) -> None:
        found = {"input_ids": [[5, 6, 1280, 1280, 1280, 1280]], "pixel_values": mx.zeros((1, 3, 28, 28)), **change}
        with Session(*loaded("llava")) as session, pytest.raises(ConfigurationError, match=message):
            session.generate(found, max_new_tokens=3)

    def test_models_whose_prompts_attend_to_later_tokens(self) -> None:
        """The beginning of a prompt of PaliGemma has other keys if another text follows, so no cache of it may be used."""
        from mlx_vlm.models.paligemma.config import ModelConfig
        from mlx_vlm.models.paligemma.paligemma import Model

        sizes = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
        text = {"model_type": "gemma", "num_key_value_heads": 1, "vocab_size": 64, **sizes}
        vision = {
            "model_type": "siglip_vision_model",
            "image_size": 28,
            "patch_size": 14,
            "projection_dim": 32,
            **sizes,
        }
        ids = {"image_token_index": 60, "pad_token_id": 0, "eos_token_id": [1]}
        settings = ModelConfig.from_dict(
            {"model_type": "paligemma", "text_config": text, "vision_config": vision, **ids}
        )
        model: Any = Model(settings)

        def keys(prompt: list[int]) -> mx.array:
            cache: Any = make_prompt_cache(model.language_model)
            model.language_model(mx.array([prompt]), cache=cache)
            kept: mx.array = cache[1].keys[:, :, :2]
            return kept

        assert not mx.allclose(keys([5, 6, 7]), keys([5, 6, 8])).item()
        for call in (
            lambda: Session(model),
            lambda: continuous(model),
        ):
            with pytest.raises(ConfigurationError, match="attends to all of the prompt"):
                call()
        settings.text_config.use_bidirectional_attention = False
        assert mx.allclose(keys([5, 6, 7]), keys([5, 6, 8])).item()
        Session(model).generate([5, 6, 7], max_new_tokens=2)

    def test_rolling_needs_text(self) -> None:
        with pytest.raises(ConfigurationError, match="rolling=True is not possible"):
            Session(*loaded("qwen2_vl"), rolling=True)
        with Session(*loaded("llava"), rolling=True) as session:
            first = session.generate(chat("The price of tea is", image(1)), max_new_tokens=4).rows[0]
            ids = prepared("llava", chat("The price of tea is", image(1)))["input_ids"].tolist()[0]
            rolled = session.generate([*ids[6:], *first.token_ids], max_new_tokens=2).rows[0]
            assert (rolled.cached_tokens, rolled.approximate) == (0, False)


def test_a_cache_with_a_window_is_computed_again_where_it_must_be() -> None:
    model, processor = loaded("llava")

    def window() -> list[Any]:
        return [RotatingKVCache(max_size=8) for _ in model.language_model.layers]

    messages = list(chat("The meeting is on", image(1)))
    with (
        Session(model, processor, make_cache=window) as session,
        Session(model, processor, make_cache=window, max_cached_tokens=0) as fresh,
    ):
        for _ in range(2):
            one, other = (each.generate(messages, max_new_tokens=6).rows[0] for each in (session, fresh))
            assert one.token_ids == other.token_ids
            messages += [{"role": "assistant", "content": one.text}, {"role": "user", "content": "And?"}]


class TestKnownMedia:
    @given(
        prompts=st.lists(
            st.tuples(
                st.lists(st.sampled_from([5, 6, 9]), min_size=1, max_size=6), st.integers(0, 2), st.integers(0, 1)
            ),
            min_size=1,
            max_size=12,
        )
    )
    @settings(max_examples=examples(60))
    def test_prefixes_are_equal_only_if_everything_read_of_them_is(self, prompts: list[Any]) -> None:
        known, read = KnownMedia({9}), []
        for tokens, pixel, kind in prompts:
            given_inputs = {"input_ids": [tokens], "pixel_values": mx.full((2, 2), pixel), "grid": kind}
            if 9 not in tokens:
                with pytest.raises(ConfigurationError, match="none of the tokens"):
                    known.prompt(given_inputs)
                continue
            prompt = known.prompt(given_inputs)
            assert isinstance(prompt, MediaPrompt)
            assert prompt == tokens == known.tokens(prompt.cached)
            assert known.of(prompt.cached) is prompt.media
            read.append((prompt, (pixel, kind, tokens.count(9))))
        for one, inputs_of_one in read:
            for other, inputs_of_other in read:
                for length in range(min(len(one), len(other)) + 1):
                    same = one[:length] == other[:length] and (
                        9 not in one[:length] or inputs_of_one == inputs_of_other
                    )
                    assert (one.cached[:length] == other.cached[:length]) == same

    def test_old_media_are_forgotten_unless_a_prompt_needs_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(media_module, "MOST_BYTES", 100)
        known = KnownMedia({9})

        def prompt(pixel: int) -> MediaPrompt:
            return known.prompt({"input_ids": [[9, 9]], "pixel_values": mx.full((20,), pixel, mx.float32)})

        first = prompt(1)
        assert prompt(1).cached == first.cached == [FIRST_ID, FIRST_ID + 1]
        assert prompt(2).cached == [FIRST_ID + 2, FIRST_ID + 3]
        # It is not found any more, but its prompt can still be run.
        assert prompt(1).cached == [FIRST_ID + 4, FIRST_ID + 5]
        assert known.of(first.cached) is first.media

    @pytest.mark.parametrize(
        "made",
        [
            lambda pixel: [mx.full((2, 3), pixel), mx.zeros((1,))],
            lambda pixel: [[np.full((2, 3), pixel, np.float32)], (1, 2)],
            lambda pixel: (torch.full((2, 3), pixel),),
            lambda pixel: {"first": mx.full((2, 3), pixel), "sizes": [[2, 3]]},
        ],
    )
    def test_images_of_different_sizes_are_lists_of_arrays(self, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """As those of Pixtral are."""
        known = KnownMedia({9})

        def prompt(pixel: float) -> MediaPrompt:
            return known.prompt({"input_ids": [[5, 9, 9]], "pixel_values": made(pixel)})

        first = prompt(0.5)
        assert prompt(0.5).cached == first.cached != prompt(1.0).cached
        monkeypatch.setattr(media_module, "MOST_BYTES", 24)
        prompt(2.0)
        assert prompt(0.5).cached != first.cached

    def test_kinds_of_tokens_follow_the_text(self) -> None:
        known = KnownMedia({9})
        found = known.prompt({"input_ids": [[5, 9, 9]], "mm_token_type_ids": [[0, 1, 1]], "pixel_values": mx.zeros(1)})
        media: Any = found.media
        assert media.inputs_for([*found.cached, 7])["mm_token_type_ids"].tolist() == [[0, 1, 1, 0]]
