"""What a request can come to grief on, and how that is answered."""

import re

import msgspec

from nearcast.web.models import Problem

_AT = re.compile(r"^(?P<said>.*?)(?: - at `(?:key )?\$\.?(?P<field>.*?)`)?$", re.DOTALL)
_EXPECTED = re.compile(r"^Expected (?P<expected>.*?)(?:, got .*)?$")
_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")


class Refusal(Exception):
    """Answered with this status and problem."""

    def __init__(self, status: int, error: str, *, field: str = "", expected: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.problem = Problem(error, field, expected)


def not_found(what: str) -> Refusal:
    return Refusal(404, what)


def invalid(field: str, error: str, expected: str = "") -> Refusal:
    return Refusal(422, error, field=field, expected=expected)


def unreadable(error: msgspec.ValidationError, where: str, kind: type[msgspec.Struct]) -> Refusal:
    """From msgspec's words to the field and what was expected there."""
    text = str(error)
    found = _AT.match(text)
    field, said = (found["field"] or "", found["said"]) if found else ("", text)
    if named := _UNKNOWN.search(text):
        known = ", ".join(kind.__struct_fields__) or "no parameters"
        return Refusal(422, f"{where} {named['field']!r} is not known", field=named["field"], expected=known)
    if named := _MISSING.search(text):
        return Refusal(422, f"{where} {named['field']!r} is missing", field=named["field"], expected="a value")
    wanted = _EXPECTED.search(said)
    name = f"{where} {field!r}" if field else where
    return Refusal(422, f"{name}: {said}", field=field, expected=wanted["expected"] if wanted else said)
