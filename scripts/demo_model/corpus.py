"""Short documents of recognisable kinds, written by rule from a seed.

Every document stands alone. The training wraps it in `<s>` and `</s>`, so that the model also learns where a
record ends.
"""

import json
import random
from collections.abc import Callable, Iterator

from demo_model import values, words

_EMOJI = (0x1F400, 0x1F440)


def documents(seed: int) -> Iterator[str]:
    """Yield documents without end; equal seeds give equal documents.

    Args:
        seed: Of the random choices.

    Yields:
        The text of one document, without special tokens.

    Example:
        >>> next(documents(seed=0)) == next(documents(seed=0))
        True
    """
    rng = random.Random(seed)
    kinds = list(_WEIGHTS)
    weights = list(_WEIGHTS.values())
    while True:
        (kind,) = rng.choices(kinds, weights)
        yield kind(rng)


def _contact(rng: random.Random) -> str:
    name = values.name(rng)
    lines = [f"Name: {name}", f"Email: {values.email(rng, name)}", f"Phone: {values.phone(rng)}"]
    if rng.random() < 0.3:
        lines.append(f"City: {rng.choice(words.CITIES)[0]}")
    if rng.random() < 0.3:
        lines.append(f"Birthday: {values.date(rng)}")
    return "\n".join(lines)


def _contacts(rng: random.Random) -> str:
    return "\n\n".join(["Contacts:", *(_contact(rng) for _ in range(rng.randint(2, 4)))])


def _dated(rng: random.Random) -> str:
    date, thing, event = values.date(rng), rng.choice(words.DATED_THINGS), rng.choice(words.EVENTS)
    weekday = words.WEEKDAYS[date.weekday()]
    return rng.choice(
        (
            f"The {thing} is dated {date}.",
            f"The {thing} was signed on {date}.",
            f"The {event} is on {values.long_date(date)} at {values.time(rng)}.",
            f"The {event} takes place on {weekday}, {values.long_date(date)}.",
            f"Date: {date}",
            f"Due date: {date.month:02d}/{date.day:02d}/{date.year}",
            f"{values.name(rng)} was born on {values.long_date(date)}.",
        )
    )


def _priced(rng: random.Random) -> str:
    product = rng.choice(list(words.PRODUCTS))
    price = values.price(rng, product)
    return rng.choice(
        (
            f"The {product} costs {price}.",
            f"The price of the {product} is {price}.",
            f"Item: {product}\nQuantity: {rng.randint(1, 9)}\nPrice: {price}",
            f"{values.name(rng)} paid {price} for the {product}.",
        )
    )


def _person_fields(rng: random.Random) -> dict[str, object]:
    name = values.name(rng)
    return {
        "name": name,
        "age": rng.randint(18, 80),
        "email": values.email(rng, name),
        "city": rng.choice(words.CITIES)[0],
        "role": rng.choice(words.ROLES),
        "phone": values.phone(rng),
        "active": rng.random() < 0.5,
        "manager": values.name(rng) if rng.random() < 0.5 else None,
    }


def _product_fields(rng: random.Random) -> dict[str, object]:
    product = rng.choice(list(words.PRODUCTS))
    return {
        "id": rng.randrange(100, 1000),
        "product": product,
        "price": float(values.amount(rng, product)),
        "in_stock": rng.random() < 0.5,
        "colour": rng.choice(words.CATEGORIES["colour"]),
        "tags": rng.sample(("new", "sale", "top", "gift"), rng.randrange(3)),
    }


def _order_fields(rng: random.Random) -> dict[str, object]:
    return {
        "order": rng.randrange(1000, 10000),
        "customer": values.name(rng),
        "date": str(values.date(rng)),
        "status": rng.choice(words.STATUSES),
        "total": rng.randrange(500, 50000) / 100,
        "items": rng.sample(words.GROCERIES, rng.randint(1, 3)),
        "paid": rng.random() < 0.5,
    }


def _json(rng: random.Random) -> str:
    title, fields = rng.choice((("Person", _person_fields), ("Product", _product_fields), ("Order", _order_fields)))
    record = fields(rng)
    kept = sorted(rng.sample(range(len(record)), rng.randint(4, len(record))))
    names = list(record)
    chosen = {names[index]: record[names[index]] for index in sorted({0, *kept})}
    style = rng.choices(("spaced", "compact", "indented"), (8, 2, 1))[0]
    text = json.dumps(
        chosen,
        ensure_ascii=False,
        separators=(",", ":") if style == "compact" else None,
        indent=2 if style == "indented" else None,
    )
    return rng.choice((text, f"{title} as JSON: {text}", f"JSON: {text}"))


def _sentence(rng: random.Random) -> str:
    who = f"{rng.choice(('The', 'A'))} {rng.choice((*words.PEOPLE, *words.CATEGORIES['animal']))}"
    adjective, animal = rng.choice(words.ADJECTIVES), rng.choice(words.CATEGORIES["animal"])
    place, when = rng.choice(words.PLACES), rng.choice(words.TIMES_OF_DAY)
    return rng.choice(
        (
            f"{who} {rng.choice(words.DOES_ALONE)} {place}.",
            f"{who} {rng.choice(words.DOES_ALONE)} {place} {when}.",
            f"{who} {rng.choice(words.DOES_TO)} the {adjective} {animal}.",
            f"{who} {rng.choice(words.DOES_TO)} the {animal} {place}.",
            f"The {adjective} {animal} {rng.choice(words.DOES_ALONE)} {when}.",
        )
    )


def _sentences(rng: random.Random) -> str:
    return " ".join(_sentence(rng) for _ in range(rng.randint(1, 4)))


def _question(rng: random.Random) -> str:
    name, (city, country) = values.name(rng), rng.choice(words.CITIES)
    category = rng.choice(list(words.CATEGORIES))
    belongs = rng.random() < 0.5
    asked = category if belongs else rng.choice([other for other in words.CATEGORIES if other != category])
    inside = rng.random() < 0.5
    claimed = country if inside else rng.choice([other for other in words.COUNTRIES if other != country])
    thing, product = rng.choice(words.CATEGORIES[category]), rng.choice(list(words.PRODUCTS))
    subject = thing if category == "colour" else values.with_article(thing)
    question, answer = rng.choices(
        (
            (f"Is {city} in {claimed}?", "yes" if inside else "no"),
            (f"Is {subject} {values.with_article(asked)}?", "yes" if belongs else "no"),
            (f"Which country is {city} in?", country),
            (f"When was the {rng.choice(words.DATED_THINGS)} sent?", str(values.date(rng))),
            (f"When does the {rng.choice(words.EVENTS)} start?", f"at {values.time(rng)}"),
            (f"What is the email address of {name}?", values.email(rng, name)),
            (f"What does the {product} cost?", values.price(rng, product)),
            (f"Which colour is the {product}?", rng.choice(words.CATEGORIES["colour"])),
        ),
        (4, 4, 2, 1, 1, 1, 1, 1),
    )[0]
    return f"Question: {question}\nAnswer: {answer}"


def _list(rng: random.Random) -> str:
    category = rng.choice(list(words.CATEGORIES))
    things = rng.sample(words.CATEGORIES[category], rng.randint(3, 5))
    shopping = rng.sample(words.GROCERIES, rng.randint(3, 6))
    return rng.choice(
        (
            f"{category.capitalize()}s: {', '.join(things)}.",
            "\n".join(["Shopping list:", *(f"- {item}" for item in shopping)]),
            "\n".join(["To do:", *(f"{n}. Buy {item}" for n, item in enumerate(shopping, 1))]),
        )
    )


def _review(rng: random.Random) -> str:
    good = rng.random() < 0.5
    verdict = rng.choice(words.GOOD if good else words.BAD)
    if rng.random() < 0.2:
        # Too rare for a merge of their own: the model must write these characters byte by byte.
        verdict += f" {chr(rng.randrange(*_EMOJI))}"
    sentiment = "positive" if good else "negative"
    return f"Review: The {rng.choice(words.REVIEWED)} was {verdict}.\nSentiment: {sentiment}"


def _log(rng: random.Random) -> str:
    date, lines = values.date(rng), []
    for time in sorted(rng.sample(range(24 * 3600), rng.randint(1, 3))):
        level = rng.choice(list(words.LOG_MESSAGES))
        clock = f"{time // 3600:02d}:{time // 60 % 60:02d}:{time % 60:02d}"
        lines.append(f"{date} {clock} {level} {rng.choice(words.LOG_MESSAGES[level])}")
    return "\n".join(lines)


_WEIGHTS: dict[Callable[[random.Random], str], int] = {
    _contact: 6,
    _contacts: 1,
    _dated: 6,
    _priced: 4,
    _json: 8,
    _sentences: 4,
    _question: 10,
    _list: 4,
    _review: 2,
    _log: 2,
}
