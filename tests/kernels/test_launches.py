"""Where kernels run, how they are started, and what happens where they cannot run."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.composition import EngineLogits
from logitkit.errors import ConfigurationError
from logitkit.kernels import language, switch
from logitkit.kernels.kernel import OPTIONS, Kernel, kernel
from logitkit.kernels.language import tl
from tests.batches import COLUMNS, tensor_path
from tests.fake_cuda import fake_cuda
from tests.kernels.interpreter import kernels
from tests.registry import vocabulary


@kernel
def add_kernel(x, number: tl.int32, made, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """Add a number."""
    lane = tl.arange(0, BLOCK)
    tl.store(made + lane, tl.load(x + lane) + number)


def add(x: Tensor, number: int, kernel: Kernel = add_kernel) -> Tensor | None:
    made = torch.empty_like(x)
    return made if kernel.launch(x.device, (1, 1), None, (x, number, made), (8,), (x.dtype,), warps=1) else None


def test_the_interpreter_runs_a_kernel() -> None:
    with kernels() as started:
        for dtype in (torch.int32, torch.int64):
            found = add(torch.arange(8, dtype=dtype), 5)
            assert found is not None
            assert found.equal(torch.arange(5, 13, dtype=dtype))
    assert started == {"add_kernel": 2}


class Triton:
    """Triton's compiler, which notes what it compiles and what is started."""

    def __init__(self, fails: bool = False) -> None:
        self.compiled: list[Any] = []
        self.started: list[Any] = []
        self.fails = fails

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def start(*arguments: Any, num_warps: int = 0, **options: bool) -> Triton:
            if num_warps:
                assert options == OPTIONS
                if self.fails:
                    raise RuntimeError("Failed to find C compiler")
                self.compiled.append(arguments)
            self.started.append((grid, arguments))
            return self

        return start


@pytest.fixture
def on_cuda() -> Iterator[None]:
    """Pretend that the tensors of the CPU are on the current CUDA device."""
    with mock.patch.object(torch.cuda, "current_device", return_value=None):
        yield


def with_compiler(triton: Triton) -> Kernel:
    made = Kernel(add_kernel.jit.fn)
    made.jit = triton
    return made


def test_a_variant_is_compiled_once_and_started_with_addresses(on_cuda: None) -> None:
    triton = Triton()
    one = with_compiler(triton)
    x, y = torch.zeros(8), torch.zeros(8, dtype=torch.int32)
    for tensor, number in ((x, 1), (x, 16), (y, 1), (x, 2**31 - 1)):
        assert add(tensor, number, one) is not None
    assert [arguments[0].dtype for arguments in triton.compiled] == [torch.float32, torch.int32]
    grid, (address, number, made, block) = triton.started[-1]
    assert (grid, address, number, type(made), block) == ((1, 1, 1), x.data_ptr(), 2**31 - 1, int, 8)


def test_a_kernel_that_cannot_be_compiled_warns_once(on_cuda: None) -> None:
    triton = Triton(fails=True)
    one = with_compiler(triton)
    with pytest.warns(RuntimeWarning, match=r"could not run add_kernel .*C compiler.*tensor operations run instead"):
        assert add(torch.zeros(8), 1, one) is None
    triton.fails = False
    with warnings.catch_warnings(action="error"):
        assert add(torch.zeros(8), 1, one) is None
        assert add(torch.zeros(8, dtype=torch.int32), 1, one) is not None
    assert len(triton.compiled) == 1


def test_nothing_is_compiled_while_a_graph_is_captured() -> None:
    triton = Triton()
    one = with_compiler(triton)
    arguments: Any = ((1, 1), None, (None, 1, None), (8,), (torch.float32,), 1)
    cuda = torch.device("cuda", 0)
    with (
        mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True) as capturing,
        mock.patch.object(torch.cuda, "device"),
        mock.patch.object(torch.cuda, "current_device", return_value=0),
    ):
        assert not one.launch(cuda, *arguments)
        assert not triton.started
        capturing.return_value = False
        assert one.launch(cuda, *arguments)
        capturing.return_value = True
        assert one.launch(cuda, *arguments)
    assert len(triton.compiled) == 1


def test_where_a_kernel_is_refused_tensor_operations_give_the_result() -> None:
    regex = lk.Regex("[a-c]{2,9}", vocabulary())
    context = lk.Context.of([[], []], COLUMNS)
    tokens, logits = torch.tensor([[28, 29], [-1, 28]]), torch.zeros(2, COLUMNS)
    wanted = regex.advance(regex.init_state(context), tokens)
    with kernels(), mock.patch.object(Kernel, "launch", return_value=False) as launch:
        found = regex.advance(regex.init_state(context), tokens)
        masked = regex.process_logits(found, logits.clone(), context)[1]
        assert launch.call_count == 2
    assert found.at.state.equal(wanted.at.state)
    assert masked.equal(regex.process_logits(wanted, logits.clone(), context)[1])


@pytest.mark.parametrize(
    ("name", "processor"),
    [
        ("constraint_kernel", lk.Regex("[a-c]{2,9}", vocabulary())),
        ("branching_kernel", lk.Grammar('root ::= "a" root "a" | "a"', vocabulary())),
    ],
)
def test_an_engine_keeps_logits_that_may_not_be_overwritten(name: str, processor: Any) -> None:
    """A kernel masks in place, but transformers returns these logits to the caller of `generate(output_logits=True)`."""
    context = lk.Context.of([[], []], COLUMNS)
    logits = torch.zeros(2, COLUMNS)
    with kernels() as started:
        processed = EngineLogits(processor)(processor.init_state(context), logits, context, overwrite=False)
    assert started == {name: 1}
    assert not logits.any()
    assert processed.isneginf().any()


@pytest.mark.parametrize(
    ("processor", "dtype", "launches"),
    [
        (lk.LogitBias({3: 1.0}), torch.float32, (0, 1)),
        (lk.BanTokens([3]), torch.float32, (0, 1)),
        (lk.RepetitionPenalty(1.2), torch.float32, (1, 1)),
        (lk.FrequencyPenalty(0.2, window=9), torch.float32, (1, 1)),
        (lk.NoRepeatNGram(3), torch.float32, (1, 1)),
        (lk.Dry(0.8, breakers=[3]), torch.float32, (1, 1)),
        (lk.Temperature(0.5), torch.float32, (0, 2)),
        (lk.MinP(0.5), torch.float32, (0, 3)),
        (lk.TopA(0.5), torch.float32, (0, 3)),
        (lk.TopK(5), torch.float32, (0, 5)),
        (lk.TopK(5), torch.float16, (0, 4)),
        (lk.TopP(0.5), torch.float32, (0, 6)),
        (lk.TopP(0.5), torch.bfloat16, (0, 5)),
        (lk.TypicalP(0.5), torch.bfloat16, (0, 7)),
        (lk.chain(lk.Regex("[a-c]*", vocabulary()), lk.Temperature(0.5), lk.TopK(5)), torch.float32, (1, 6)),
    ],
    ids=str,
)
def test_the_launches_of_a_step_are_those_in_the_documentation(
    processor: Any, dtype: torch.dtype, launches: tuple[int, int]
) -> None:
    context = lk.Context.of([[28], [29]], COLUMNS, max_length=20)
    found = []
    with kernels() as started:
        state = processor.init_state(context)
        for call in (
            lambda: processor.advance(state, torch.tensor([28, 29])),
            lambda: processor.process_logits(state, torch.zeros(2, COLUMNS, dtype=dtype), context),
        ):
            started.clear()
            call()
            found.append(started.total())
    assert tuple(found) == launches


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget what the environment says."""
    switch._is_on.cache_clear()
    yield
    switch._is_on.cache_clear()


@pytest.mark.parametrize(
    ("chosen", "hip", "runs"),
    [(None, None, True), ("auto", "6.4", False), ("on", "6.4", True), ("off", None, False), ("on", None, True)],
)
def test_the_environment_says_where_kernels_run(
    fresh: None, monkeypatch: pytest.MonkeyPatch, chosen: str | None, hip: str | None, runs: bool
) -> None:
    monkeypatch.delenv("LOGITKIT_KERNELS", raising=False)
    if chosen:
        monkeypatch.setenv("LOGITKIT_KERNELS", chosen)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert switch._is_on() is runs


def test_another_word_in_the_environment_is_an_error(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_KERNELS", "yes")
    with pytest.raises(ConfigurationError, match="LOGITKIT_KERNELS is 'yes'; allowed are auto, on, off"):
        switch._is_on()


def test_a_gpu_without_triton_warns_once(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGITKIT_KERNELS", raising=False)
    monkeypatch.setattr(language, "is_installed", False)
    with pytest.warns(RuntimeWarning, match="Triton is not installed, so on this GPU tensor operations run instead"):
        assert not switch._is_on()
    with warnings.catch_warnings(action="error"):
        assert not switch._is_on()


def test_kernels_run_neither_on_a_cpu_nor_for_fake_tensors() -> None:
    with mock.patch.object(switch, "_is_on", return_value=True):
        assert not switch.runs_on(torch.zeros(1), torch.zeros(1))
        with fake_cuda() as device:
            fake = torch.zeros(1, device=device)
            assert fake.is_cuda
            assert not switch.runs_on(fake, fake)


class OnDevice(NamedTuple):
    """A tensor on a CUDA device that is not there."""

    device: torch.device
    is_cuda: bool


def test_kernels_run_on_one_device_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "_is_on", lambda: True)
    monkeypatch.setattr(switch, "Tensor", OnDevice)
    first, second = (OnDevice(torch.device("cuda", number), True) for number in range(2))
    host = OnDevice(torch.device("cpu"), False)
    found = [[switch.runs_on(a, b) for b in (first, second, host)] for a in (first, second, host)]  # type: ignore[arg-type]
    assert found == [[True, False, False], [False, True, False], [False, False, False]]


@pytest.mark.parametrize(
    "make",
    [
        lambda v: lk.Regex("[a-c]{2,9}", v),
        lambda v: lk.JsonSchema({"type": "array"}, v),
        lambda v: lk.Grammar('root ::= "a" root "a" | "a"', v),
        lambda v: lk.StopStrings(["ab"], v),
        lambda v: lk.ThinkingBudget(3, "ab", v),
    ],
    ids=["flat", "nesting", "branching", "stops", "thinking"],
)
def test_processors_ask_for_the_device_of_tokens_and_logits(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tensor] = []

    def runs_on(state: Tensor, given: Tensor) -> bool:
        asked.append(given)
        return False

    processor, context = make(vocabulary()), lk.Context.of([[], []], COLUMNS)
    state = processor.init_state(context)
    tokens, logits = torch.tensor([28, 29]), torch.zeros(2, COLUMNS)
    monkeypatch.setattr(switch, "runs_on", runs_on)
    with tensor_path():
        processor.advance(state, tokens)
        processor.process_logits(state, logits, context)
    assert asked[0] is tokens
    assert asked[1] is logits
    assert len(asked) == 2


def test_modules_of_kernels_can_be_imported_without_triton() -> None:
    without = {"triton": None, "triton.language": None}
    names = [name for name in sys.modules if name.startswith("logitkit.kernels")]
    with mock.patch.dict(sys.modules, without):
        for name in names:
            del sys.modules[name]
        from logitkit import kernels as package
        from logitkit.kernels.language import is_installed

        assert not is_installed
        for module in pkgutil.iter_modules(package.__path__, "logitkit.kernels."):
            importlib.import_module(module.name)
    assert language.is_installed
