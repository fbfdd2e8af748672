"""The tasks of one process: owned, ended, and heard of when they fail."""

import asyncio
from typing import Any

import pytest

from nearcast.transport import crew as crew_module
from nearcast.transport.crew import Crew


async def test_closing_cancels_what_is_left_and_waits_for_its_clean_up() -> None:
    crew = Crew()
    cleaned_up = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.append(True)

    crew.start(work(), "work")
    await asyncio.sleep(0)
    await crew.close()
    assert cleaned_up == [True]


async def test_a_task_that_takes_a_cancellation_for_something_else_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crew_module, "_ASK_AGAIN_S", 0.01)
    crew = Crew()
    asked: list[bool] = []

    async def work() -> None:
        while len(asked) < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                asked.append(True)

    crew.start(work(), "deaf")
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await crew.close()
    assert len(asked) == 3


async def test_a_task_that_fails_is_told_to_the_loop_at_once_by_its_name() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))

    async def fail() -> None:
        raise ZeroDivisionError

    crew = Crew()
    crew.start(fail(), "the doomed one")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [context["message"] for context in told] == ["task the doomed one failed"]
    assert isinstance(told[0]["exception"], ZeroDivisionError)
    await crew.close()


async def test_what_is_started_after_closing_never_runs() -> None:
    crew = Crew()
    await crew.close()
    ran = []

    async def work() -> None:
        ran.append(True)

    crew.start(work(), "late")  # were it not closed, the garbage collector would warn of a coroutine never awaited
    await asyncio.sleep(0)
    assert ran == []


async def test_a_finished_task_is_not_kept() -> None:
    crew = Crew()

    async def work() -> None:
        pass

    crew.start(work(), "short")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not crew._tasks
    await crew.close()


async def test_closing_twice_and_closing_an_empty_crew_do_nothing() -> None:
    crew = Crew()
    await crew.close()
    await crew.close()


async def test_a_cancelled_task_is_not_a_failure() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    crew = Crew()
    crew.start(asyncio.Event().wait(), "waits")
    await asyncio.sleep(0)
    await crew.close()
    assert told == []
