"""The pydantic model in the demo; no other module needs pydantic."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["LANGUAGE", "Contact", "is_contact"]

# A summary for display, because the schema itself would fill the screen.
LANGUAGE = "Contact: name, age from 18 to 99, active, address (email, country)"


class Address(BaseModel):
    """How a person can be reached."""

    model_config = ConfigDict(extra="forbid")

    email: str = Field(pattern=r"^[a-z]+(\.[a-z]+)*@[a-z]+(\.[a-z]+)+$", max_length=40)
    country: Literal["France", "Spain", "Peru"]


class Contact(BaseModel):
    """A person and their address."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[A-Z][a-z]+ [A-Z][a-z]+$", max_length=30)
    age: int = Field(ge=18, le=99)
    active: bool
    address: Address


def is_contact(text: str) -> bool:
    """Whether pydantic reads the text.

    Example:
        >>> is_contact('{"name": "Ada Lovelace", "age": 36}')
        False
    """
    try:
        Contact.model_validate_json(text)
    except ValidationError:
        return False
    return True
