"""Sets of numbers against exact arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.json_schema import NumberSet
from logitkit.limits import DEFAULT_LIMITS, Limits

LIMITS = DEFAULT_LIMITS
FEW_DIGITS = st.decimals(-1200, 1200, allow_nan=False, places=2) | st.integers(-12, 12).map(Decimal)
ANY = FEW_DIGITS | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**25), max_value=10**25)
PLAIN = st.from_regex(r"\A-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?\Z")


def _near(bound: Decimal) -> list[str]:
    """Return plain texts of values at a bound and just beside it, with and without zeros at their ends."""
    texts = []
    for step in ("0", "1", "-1", "0.1", "-0.1", "0.001", "-0.001", "1e-30", "-1e-30", "10", "-10"):
        exact = Fraction(bound) + Fraction(step)
        scaled = exact * 10**40
        assert scaled.denominator == 1 or bound.as_tuple().exponent < -40  # type: ignore[operator]
        text = f"{abs(int(scaled)):041d}"
        text = "-" * (exact < 0) + (text[:-40].lstrip("0") or "0") + "." + text[-40:]
        texts += [text, text + "0", text.rstrip("0") if text.rstrip("0")[-1] != "." else text.rstrip("0")[:-1]]
    return texts


@given(ANY, st.lists(PLAIN, max_size=8))
def test_bounds_are_exact(bound: Decimal, others: list[str]) -> None:
    exact = Fraction(bound)
    kinds: list[tuple[NumberSet, Callable[[Fraction], bool]]] = [
        (NumberSet.at_least(bound, LIMITS), lambda value: value >= exact),
        (NumberSet.at_least(bound, LIMITS, exclusive=True), lambda value: value > exact),
        (NumberSet.at_most(bound, LIMITS), lambda value: value <= exact),
        (NumberSet.at_most(bound, LIMITS, exclusive=True), lambda value: value < exact),
        (NumberSet.of_values([bound], LIMITS), lambda value: value == exact),
    ]
    exponent = bound.as_tuple().exponent
    near = _near(bound) if isinstance(exponent, int) and exponent >= -40 else []
    for numbers, wanted in kinds:
        for text in [*near, *others]:
            assert numbers.language.contains(text) == wanted(Fraction(text)), (bound, text)
        assert numbers.contains(bound) == wanted(exact)


WHOLE = [*range(1, 13), 15, 16, 20, 25, 30, 60, 64, 99, 100, 101, 125, 250, 360, 1000, 1024, 3600, 7000]
BROKEN = [0.5, 0.25, 0.1, 0.01, 0.001, 0.05, 0.3, 1.5, 2.5, 12.5, 0.125, 0.75, 0.007, 33.3, 1e-8, 1e3]
DIVISORS = st.sampled_from([*WHOLE, *BROKEN]).map(str)


@given(DIVISORS, st.integers(-2000, 2000), st.lists(PLAIN, max_size=12))
def test_multiples_are_exact(divisor: str, factor: int, others: list[str]) -> None:
    numbers, by = NumberSet.multiples_of(Decimal(divisor), LIMITS), Fraction(divisor)
    assert numbers.contains(Decimal(divisor) * factor)
    assert numbers.contains(Decimal(divisor) * factor + Decimal("0.0001")) == (
        (Fraction("0.0001") / by).denominator == 1
    )
    for text in others:
        assert numbers.language.contains(text) == ((Fraction(text) / by).denominator == 1), (divisor, text)


@given(FEW_DIGITS, FEW_DIGITS, st.lists(PLAIN, min_size=1, max_size=12), st.sampled_from(["1", "3", "0.5", "0.25"]))
def test_the_algebra_is_about_values(low: Decimal, high: Decimal, texts: list[str], divisor: str) -> None:
    at_least, at_most = NumberSet.at_least(low, LIMITS), NumberSet.at_most(high, LIMITS)
    multiples, by = NumberSet.multiples_of(Decimal(divisor), LIMITS), Fraction(divisor)
    for text in texts:
        value = Fraction(text)
        a, b, c = value >= Fraction(low), value <= Fraction(high), (value / by).denominator == 1
        assert (at_least & at_most & multiples).language.contains(text) == (a and b and c)
        assert (at_least | multiples).language.contains(text) == (a or c)
        assert (at_least - multiples).language.contains(text) == (a and not c)
        assert (~(at_most & multiples)).language.contains(text) == (not (b and c))
    assert (at_least & at_most).is_empty == (low > high)
    assert (at_least | at_most).is_everything == (low <= high)


def _accepts(numbers: NumberSet) -> Callable[[str], bool]:
    dfa = byte_dfa_of(numbers.tree(), LIMITS)
    return lambda text: dfa.accepts(text.encode())


@given(st.integers(-3000, 3000), st.integers(0, 400), st.sampled_from([1, 2, 3, 7, 12]))
def test_integers_have_one_text_each(low: int, more: int, divisor: int) -> None:
    high = low + more
    numbers = NumberSet.integers(LIMITS) & NumberSet.at_least(low, LIMITS) & NumberSet.at_most(high + 0.5, LIMITS)
    numbers &= NumberSet.multiples_of(divisor, LIMITS)
    wanted = [value for value in range(low, high + 1) if value % divisor == 0]
    assert numbers.values() == list(map(Decimal, wanted))
    if wanted:
        accepts = _accepts(numbers)
        for value in range(low - 15, high + 15):
            assert accepts(str(value)) == (value in wanted)
        assert not any(map(accepts, ["-0", f"{wanted[0]}.0", f"{wanted[0]}e0", f"0{wanted[-1]}", "+1", ""]))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_all_numbers_are_written_as_json_has_them(number: float) -> None:
    assert _accepts(NumberSet.everything(LIMITS))(json.dumps(number))


@pytest.mark.parametrize(
    ("numbers", "written", "not_written"),
    [
        (
            NumberSet.everything(LIMITS),
            ["-0", "1.50", "1e5", "-2E-07", "0.0"],
            ["01", "1.", ".5", "+1", "1e", "-", "NaN"],
        ),
        (NumberSet.integers(LIMITS), ["0", "-7", "123"], ["-0", "1.0", "1e2", "00"]),
        (NumberSet.multiples_of(1, LIMITS), ["3"], ["3.0"]),
        (NumberSet.at_least(0, LIMITS), ["0.50", "-0.0", "12"], ["-0.1", "1e2"]),
        (~NumberSet.integers(LIMITS), ["0.5", "-1.50"], ["1", "1.0", "1e-1"]),
        (~NumberSet.at_least(5, LIMITS), ["4.99", "-1"], ["5", "5.00"]),
        (
            NumberSet.of_values([1, 2.5, -0.0, 1e-7, 1e22], LIMITS),
            ["1", "2.5", "0", "0.0000001", "1" + 22 * "0"],
            ["2.50", "1.0"],
        ),
        (NumberSet.multiples_of(0.01, LIMITS), ["0.07", "0.070", "5"], ["0.071", "1e1"]),
        (NumberSet.integers(LIMITS) | NumberSet.at_least(10, LIMITS), ["3", "10.5"], ["3.5"]),
    ],
)
def test_how_numbers_are_written(numbers: NumberSet, written: list[str], not_written: list[str]) -> None:
    accepts = _accepts(numbers)
    assert [text for text in (*written, *not_written) if accepts(text)] == written


def test_huge_bounds() -> None:
    huge = NumberSet.integers(LIMITS) & NumberSet.at_least(10**300 - 1, LIMITS) & NumberSet.at_most(1e300, LIMITS)
    assert huge.values() == [Decimal(10**300 - 1), Decimal(10**300)]
    assert NumberSet.at_most(Decimal("1e400"), LIMITS).contains(Decimal("1e400"))
    assert not NumberSet.at_most(Decimal("1e400"), LIMITS, exclusive=True).contains(Decimal("1e400"))
    with pytest.raises(PatternTooLarge):
        NumberSet.at_most(Decimal("1e100000"), LIMITS)


@pytest.mark.parametrize("divisor", [10**15 + 37, 123457, 2**40, 2**80])
def test_large_moduli_are_refused(divisor: int) -> None:
    with pytest.raises(PatternTooLarge, match="remainders"):
        NumberSet.multiples_of(divisor, LIMITS)


def test_what_is_no_number_is_refused() -> None:
    for given_ in (True, float("nan"), float("inf"), Decimal("sNaN"), "1", None):
        with pytest.raises(ConfigurationError, match="not a finite number"):
            NumberSet.at_least(given_, LIMITS)  # type: ignore[arg-type]
    for divisor in (0, -1, -0.5):
        with pytest.raises(ConfigurationError, match="greater than 0"):
            NumberSet.multiples_of(divisor, LIMITS)
    with pytest.raises(PatternTooLarge):
        NumberSet.multiples_of(97, Limits(states=20))
    assert NumberSet.of_values([], LIMITS).is_empty


def test_zero_has_two_signs() -> None:
    for zero in (NumberSet.of_values([0], LIMITS), NumberSet.of_values([-0.0], LIMITS)):
        assert [text for text in ("0", "-0", "-0.00") if not zero.language.contains(text)] == []
        assert (NumberSet.at_least(0, LIMITS) & NumberSet.at_most(0, LIMITS) & ~zero).is_empty
