"""Random values for the records: names, addresses, numbers, dates and prices, drawn from a random generator."""

import datetime as dt
import random
import unicodedata

from demo_model import words

_FIRST_DAY = dt.date(1990, 1, 1)
_DAYS = (dt.date(2029, 12, 31) - _FIRST_DAY).days + 1


def _ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("ß", "ss"))
    return plain.encode("ascii", "ignore").decode().lower()


def name(rng: random.Random) -> str:
    """Return a first and a last name."""
    return f"{rng.choice(words.FIRST_NAMES)} {rng.choice(words.LAST_NAMES)}"


def email(rng: random.Random, owner: str) -> str:
    """Return an address that repeats the owner's name in plain letters."""
    return f"{_ascii(owner).replace(' ', '.')}@{rng.choice(words.DOMAINS)}"


def phone(rng: random.Random) -> str:
    """Return a telephone number."""
    return f"+{rng.choice((1, 33, 44, 49))} 555 {rng.randrange(10000):04d}"


def date(rng: random.Random) -> dt.date:
    """Return a day between 1990 and 2029."""
    return _FIRST_DAY + dt.timedelta(days=rng.randrange(_DAYS))


def long_date(day: dt.date) -> str:
    """Write a date as "17 March 2024"."""
    return f"{day.day} {words.MONTHS[day.month - 1]} {day.year}"


def time(rng: random.Random) -> str:
    """Return a time of the day, in steps of five minutes."""
    return f"{rng.randrange(7, 22):02d}:{rng.randrange(0, 60, 5):02d}"


def amount(rng: random.Random, product: str) -> str:
    """Return the digits of a likely price of the product."""
    base = words.PRODUCTS[product]
    units = rng.randint(max(1, base - base // 4), base + base // 4)
    return f"{units}.{rng.choice(('00', '20', '50', '90', '99'))}"


def price(rng: random.Random, product: str) -> str:
    """Return a likely price of the product, with its currency."""
    number = amount(rng, product)
    return rng.choice((f"${number}", f"€{number}", f"£{number}", f"{number} €", f"{number} euros"))


def with_article(noun: str) -> str:
    """Put "a" or "an" before a noun."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
