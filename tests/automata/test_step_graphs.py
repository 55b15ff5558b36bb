"""The graphs of steps: which calls share one, which are captured, and how CUDA is asked for it."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.runtime import step_graphs
from logitkit.runtime.step_graphs import CudaCapture, StepGraphs
from tests.replayed import Again, captured_after


def test_only_equal_shapes_share_a_graph() -> None:
    again = Again()
    run = StepGraphs(again).run
    with captured_after(1):
        for _ in range(3):
            for shape in ((2,), (3,), (2, 1)):
                for dtype in (torch.int64, torch.int32):
                    given = torch.ones(shape, dtype=dtype)
                    found = run(_added, 5, given)
                    assert found.equal(given + 5)
                    assert found.dtype == dtype
    assert again.captured == 6
    assert again.replayed == 12


def _added(tables: int, given: Tensor) -> Tensor:
    return given + tables


def _taken(tables: int, given: Tensor) -> Tensor:
    return given - tables


def _sum(tables: int, one: Tensor, other: Tensor) -> Tensor:
    return one + other + tables


def test_the_graphs_used_last_are_kept() -> None:
    again = Again()
    made = StepGraphs(again)
    with captured_after(0), mock.patch.object(step_graphs, "MOST", 3):
        for size in (1, 2, 3, 1, 4, 1, 2):  # 2 was dropped for 4
            made.run(_added, 0, torch.zeros(size))
    assert again.captured == 5


def test_shapes_that_come_once_drop_no_graph() -> None:
    again = Again()
    made = StepGraphs(again)
    with captured_after(1), mock.patch.object(step_graphs, "MOST", 2):
        for size in (1, 1, *range(2, 30), 1):
            made.run(_added, 0, torch.zeros(size))
    assert (again.captured, again.replayed) == (1, 2)


def test_functions_and_streams_have_their_own_graphs() -> None:
    again = Again()
    made, given = StepGraphs(again), torch.ones(2)
    with captured_after(0):
        for again.now in (7, 8):
            assert made.run(_added, 1, given).tolist() == [2, 2]
            assert made.run(_taken, 1, given).tolist() == [0, 0]
    assert again.functions == [_added, _taken] * 2
    assert again.streams == [7, 7, 8, 8]


def test_the_calls_of_threads_take_turns() -> None:
    class Slow(Again):
        def capture(self, function: Any, stream: object) -> tuple[Callable[[], None], Any]:
            replay, results = super().capture(function, stream)

            def slowly() -> None:
                time.sleep(0.002)
                replay()

            return slowly, results

    made = StepGraphs(Slow())
    with captured_after(0), ThreadPoolExecutor(4) as threads:
        found = [*threads.map(lambda number: int(made.run(_added, 0, torch.tensor([number]))), range(40))]
    assert found == [*range(40)]


def test_a_call_that_fails_is_not_counted() -> None:
    again = Again()
    made = StepGraphs(again)
    with captured_after(1), warnings.catch_warnings(action="error"):
        for _ in range(3):
            with pytest.raises(RuntimeError, match="must match"):
                made.run(_sum, 0, torch.zeros(2), torch.zeros(3))
    assert again.captured == 0


def test_a_batch_without_rows_is_not_captured() -> None:
    again = Again()
    with captured_after(0):
        assert StepGraphs(again).run(_added, 1, torch.zeros(0, 3)).shape == (0, 3)
    assert again.captured == 0


def test_a_compiled_graph_has_the_operations_themselves() -> None:
    torch.compiler.reset()
    again = Again()
    made, given = StepGraphs(again), torch.ones(2)
    with captured_after(0):
        compiled = torch.compile(lambda given: made.run(_added, 1, given), fullgraph=True, backend="aot_eager")
        assert compiled(given).tolist() == [2, 2]
    assert again.captured == 0


class Graph:
    """A CUDA graph that notes what happens to it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        self.calls.append(("begin", pool, capture_error_mode))

    def capture_end(self) -> None:
        self.calls.append("end")

    def pool(self) -> object:
        return self

    def replay(self) -> None:
        self.calls.append("replay")


@contextmanager
def cuda() -> Iterator[tuple[list[Graph], mock.Mock, mock.Mock]]:
    """Pretend that there is a CUDA device; yield its graphs, what makes its streams, and its generator of random numbers."""
    made: list[Graph] = []
    streams, generator = mock.Mock(), mock.Mock()

    def graph() -> Graph:
        made.append(Graph())
        return made[-1]

    stands_in: dict[str, Any] = {
        "CUDAGraph": graph,
        "Stream": streams,
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
        "current_device": lambda: 0,
        "default_generators": (generator,),
    }
    with mock.patch.multiple(torch.cuda, **stands_in), mock.patch.dict(CudaCapture._aside, clear=True):
        yield made, streams, generator


def test_the_graphs_of_a_stream_use_the_memory_of_its_first_one() -> None:
    with cuda() as (made, streams, _):
        capture = step_graphs.capture_on(torch.device("cuda", 0))
        assert isinstance(capture, CudaCapture)
        replays = [capture.capture(partial(int, number), stream) for number, stream in enumerate((1, 1, 2))]
        streams.assert_called_once_with(priority=-1)
        assert [results for _, results in replays] == [0, 1, 2]
        assert [graph.calls for graph in made] == [
            [("begin", pool, "thread_local"), "end"] for pool in (None, made[0], None)
        ]
        replays[0][0]()
        assert made[0].calls[-1] == "replay"
    assert step_graphs.capture_on(torch.device("cpu")) is None


def test_a_capture_that_fails_ends_and_shows_the_first_error() -> None:
    def fails() -> None:
        assert not gc.isenabled()
        raise RuntimeError("first")

    with (
        cuda() as (_, _, generator),
        mock.patch.object(Graph, "capture_end", side_effect=RuntimeError("second")) as end,
    ):
        with pytest.raises(RuntimeError, match="first"):
            CudaCapture(torch.device("cuda", 0)).capture(fails, 0)
        end.assert_called_once()
        generator.graphsafe_set_state.assert_called_once_with(generator.clone_state())
    assert gc.isenabled()


def test_a_step_that_cannot_be_captured_runs_operation_by_operation() -> None:
    class Fails(Again):
        def capture(self, function: Callable[[], Any], stream: object) -> tuple[Callable[[], None], Any]:
            raise RuntimeError("operation not permitted")

    made, given = StepGraphs(Fails()), torch.ones(2)
    with captured_after(0):
        with pytest.warns(RuntimeWarning, match="operation not permitted"):
            assert made.run(_added, 1, given).tolist() == [2, 2]
        assert made.run(_added, 2, given).tolist() == [3, 3]  # and does not warn again


def test_nothing_is_captured_where_a_graph_is_captured_already_or_graphs_are_off() -> None:
    class Capturing(Again):
        def stream(self) -> None:
            return None

    given = torch.ones(2)
    with captured_after(0):
        for again, enabled in ((Capturing(), True), (Again(), False)):
            with mock.patch.object(StepGraphs, "enabled", enabled):
                assert StepGraphs(again).run(_added, 1, given).tolist() == [2, 2]
            assert again.captured == 0


def test_a_graph_serves_calls_in_and_out_of_inference_mode() -> None:
    made = StepGraphs(Again())
    with captured_after(0):
        with torch.inference_mode():
            assert made.run(_added, 1, torch.ones(2)).tolist() == [2, 2]
        assert made.run(_added, 1, torch.zeros(2)).tolist() == [1, 1]
        with torch.inference_mode():
            assert made.run(_added, 1, torch.ones(2)).tolist() == [2, 2]


def test_a_capture_that_other_threads_break_leaves_sampling_as_it_was() -> None:
    broken = mock.patch.object(Graph, "capture_end", side_effect=RuntimeError("invalidated"))
    with cuda() as (_, _, generator), broken, pytest.raises(RuntimeError, match="invalidated"):
        CudaCapture(torch.device("cuda", 0)).capture(int, 0)
    generator.graphsafe_set_state.assert_called_once_with(generator.clone_state())


def test_steps_are_captured_while_no_other_thread_runs() -> None:
    again, given, end = Again(), torch.ones(2), threading.Event()
    made = StepGraphs(again)
    others = [threading.Thread(target=end.wait, name=name, daemon=True) for name in ("tqdm_monitor", "of the user")]
    with captured_after(0), mock.patch.object(StepGraphs, "enabled", None):
        with mock.patch.object(threading, "enumerate", return_value=[threading.current_thread(), *others]):
            assert made.run(_added, 1, given).tolist() == [2, 2]
        assert again.captured == 0
        with mock.patch.object(threading, "enumerate", return_value=[threading.current_thread(), others[0]]):
            assert made.run(_added, 2, given).tolist() == [3, 3]
        assert again.captured == 1
        # Replaying disturbs no thread.
        with mock.patch.object(threading, "enumerate", return_value=[threading.current_thread(), *others]):
            assert made.run(_added, 1, given).tolist() == [3, 3]
    assert again.replayed == 2


@pytest.mark.parametrize(("text", "enabled"), [("auto", None), ("on", True), ("off", False)])
def test_the_environment_says_whether_to_capture(text: str, enabled: bool | None) -> None:
    assert step_graphs.chosen(text) is enabled


def test_another_word_in_the_environment_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="LOGITKIT_CUDA_GRAPHS is 'yes'; allowed are 'auto', 'on' and 'off'"):
        step_graphs.chosen("yes")
