"""The statement of a procedure, read without Spark: what it does, to which dataset, and the SELECT in it."""

import secrets
from collections.abc import Collection, Mapping

from nearcast.domain.channel import Parameter
from nearcast.domain.dataset import Dataset, must_be_name
from nearcast.domain.errors import ChannelError
from nearcast.domain.procedure import Procedure, Verb
from nearcast.pipeline.sql import Compiler
from nearcast.pipeline.sql_tokens import Kind, Token, place, tokens


def parsed(
    name: str,
    text: str,
    parameters: tuple[Parameter, ...],
    datasets: Collection[Dataset],
    at_s: float,
    *,
    period_s: float | None = None,
) -> Procedure:
    """A procedure of one statement, with an id of its own. Raises ChannelError with line and column."""
    must_be_name("procedure", name)
    try:
        return _checked(name, text, parameters, {each.name.lower(): each.name for each in datasets}, at_s, period_s)
    except ChannelError as error:
        raise ChannelError(f"procedure {name}: {error}") from error


def _checked(  # noqa: PLR0917  # private, and called in one place
    name: str,
    text: str,
    parameters: tuple[Parameter, ...],
    datasets: Mapping[str, str],
    at_s: float,
    period_s: float | None,
) -> Procedure:
    verb, target, query = _statement(text)
    compiler = Compiler(query, parameters, list(datasets))
    if target is not None and target.name not in datasets:
        there = ", ".join(sorted(datasets.values())) or "none"
        raise ChannelError(f"{place(text, target.start)}: no dataset {target.text!r}; datasets: {there}")
    if compiler.compiled(()).asked_new:
        raise ChannelError("is_new is for channels: a procedure has no execution before it")
    if period_s is not None and parameters:
        raise ChannelError("a procedure that runs by itself has nobody to give it parameters")
    read = tuple(datasets[each] for each in compiler.datasets)
    into = None if target is None else datasets[target.name]
    return Procedure(secrets.token_hex(6), name, text, verb, query, into, parameters, read, period_s, at_s)


def _statement(text: str) -> tuple[Verb, Token | None, str]:
    """The verb, the dataset that is changed, and a SELECT in which everything is where it was."""
    found = tokens(text)
    if found[0].is_word("INSERT"):
        at = 1 + found[1].is_word("INTO")
        at += found[at].is_word("TABLE")
        if at == 1 or found[at].kind not in (Kind.WORD, Kind.QUOTED):
            raise ChannelError(f"{place(text, found[0].start)}: expected INSERT INTO DATASET SELECT ...")
        return Verb.INSERT, found[at], _blank(text, found[at].stop)
    if found[0].is_word("DELETE"):
        if not found[1].is_word("FROM") or not any(each.is_word("WHERE") for each in found):
            raise ChannelError(f"{place(text, found[0].start)}: expected DELETE FROM DATASET WHERE ...")  # noqa: S608
        start, stop = found[0].start, found[1].stop
        return Verb.DELETE, found[2], f"{text[:start]}SELECT*FROM{' ' * (stop - start - 11)}{text[stop:]}"
    return Verb.QUERY, None, text


def _blank(text: str, stop: int) -> str:
    return "".join(each if each.isspace() else " " for each in text[:stop]) + text[stop:]
