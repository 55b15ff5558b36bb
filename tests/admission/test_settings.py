"""The limits of an operator, for all servers or for one."""

from __future__ import annotations

import os
import re

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS
from logitkit_adapters.admission import settings
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.admission.settings import check_names, server_settings
from tests.admission.faulty_compiler import VOCABULARY, asked_for

OWN = "LOGITKIT_OTHER_"


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith((settings.PREFIX, OWN)):
            monkeypatch.delenv(name)


def test_defaults() -> None:
    found = server_settings()
    assert (found.characters, found.waiting, found.seconds) == (2**20, 64, 60)
    assert 1 <= found.processes <= 4
    # Kinds with limits of their own ask whether the limits are this very object.
    assert found.limits is DEFAULT_LIMITS
    assert server_settings(OWN).limits is DEFAULT_LIMITS


def test_a_server_s_own_variable_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_WORK", "1000")
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_SECONDS", "5")
    assert server_settings(OWN).limits == server_settings().limits == lk.Limits(work=1000)
    monkeypatch.setenv(f"{OWN}MAX_SECONDS", "6")
    assert (server_settings(OWN).seconds, server_settings().seconds) == (6, 5)
    assert server_settings(OWN).limits == lk.Limits(work=1000)


@pytest.mark.parametrize("prefix", [settings.PREFIX, OWN])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_STATES", "0"),
        ("MAX_STATES", "-5"),
        ("MAX_WORK", "many"),
        ("MAX_WORK", "1e6"),
        ("MAX_CHARACTERS", "9" * 30),
        ("MAX_CHARACTERS", "1" * 20),
        ("MAX_WAITING", ""),
        ("MAX_SECONDS", "1.5"),
        ("PROCESSES", "٣"),
    ],
)
def test_a_wrong_value_names_its_variable(prefix: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(prefix + name, value)
    wanted = f"the environment variable {prefix}{name} is {value!r}; allowed are integers from 1"
    with pytest.raises(ConfigurationError, match=re.escape(wanted)):
        server_settings(OWN)


def test_a_number_that_python_does_not_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_WORK", "1" * 5000)
    with pytest.raises(ConfigurationError, match="the environment variable LOGITKIT_SERVER_MAX_WORK is '1111"):
        server_settings()


def test_an_unknown_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_WORK", "5")
    check_names()
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_WROK", "5")
    with pytest.raises(ConfigurationError, match=r"LOGITKIT_SERVER_MAX_WROK is not a setting; allowed are .*MAX_WORK"):
        check_names()
    monkeypatch.setenv(f"{OWN}SWITCH", "on")
    check_names(OWN, ["SWITCH"])
    with pytest.raises(ConfigurationError, match=f"{OWN}SWITCH is not a setting"):
        check_names(OWN)


def test_variables_of_kubernetes_stop_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # Those of services named `logitkit-server`, `logitkit-other` and `logitkit-other-chat`, as its documentation lists them.
    for service in ("LOGITKIT_SERVER", "LOGITKIT_OTHER", "LOGITKIT_OTHER_CHAT"):
        for name in (
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_HTTP",
            "PORT",
            *(
                f"PORT_8000_{protocol}{what}"
                for protocol in ("TCP", "UDP")
                for what in ("", "_PROTO", "_PORT", "_ADDR")
            ),
        ):
            monkeypatch.setenv(f"{service}_{name}", "10.0.0.11")
    check_names()
    check_names(OWN)
    for wrong in ("MAX_PORTS", "SERVICE", "PORT_8000"):
        monkeypatch.setenv(OWN + wrong, "1")
        with pytest.raises(ConfigurationError, match=f"{OWN}{wrong} is not a setting"):
            check_names(OWN)
        monkeypatch.delenv(OWN + wrong)


def test_limits_hold_and_refusals_name_their_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix in (settings.PREFIX, OWN):
        configurations = Configurations(VOCABULARY, settings=lambda prefix=prefix: server_settings(prefix))  # type: ignore[misc]
        assert configurations.judge(asked_for("(a|b){77}")).refusal is None
        monkeypatch.setenv(f"{prefix}MAX_STATES", "50")
        refusal = configurations.judge(asked_for("(a|b){78}")).refusal
        assert refusal is not None
        assert "more than 50 states" in refusal
        assert f"ask the operator for a larger {prefix}MAX_STATES" in refusal
        monkeypatch.delenv(f"{prefix}MAX_STATES")
