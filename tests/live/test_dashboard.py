"""The dashboard in a real browser: what a person clicks and sees. Screenshots are kept in out/screenshots."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from nearcast.cli.demo.swarms import demo_flight
from nearcast.client import open_client
from nearcast.lab.uav import topics_of
from nearcast.transport.config import load_config
from tests.browser import chromium
from tests.live.conftest import Fleet

SHOTS = Path(os.environ.get("NEARCAST_SCREENSHOTS", "out/screenshots"))
TOPICS = ("game.lobby", "game.arena", "alerts")
PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """With some traffic."""
    fleet = Fleet(tmp_path_factory.mktemp("dashboard"), "--capacity", "200000", "--delay", "5")
    over = threading.Event()
    flowing = threading.Thread(target=lambda: asyncio.run(traffic(fleet.config, over)))
    try:
        fleet.until_well()
        flowing.start()
        yield fleet
    finally:
        over.set()
        flowing.join()
        fleet.stop()


@pytest.fixture(scope="module")
def served(busy: Fleet) -> str:
    """The link to a coordinator that does not lead, with a token."""
    return busy.run("token", "link").out.splitlines()[1]


async def traffic(config: Path, over: threading.Event) -> None:
    loaded = load_config(config)
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(open_client(loaded, name="sender", site="site1"))
        listener = await stack.enter_async_context(open_client(loaded, name="listener", site="site2"))
        for topic in TOPICS:
            await listener.subscribe(topic, lambda _message: None)
        while not over.is_set():
            for topic in TOPICS:
                await sender.publish(topic, bytes(200))
            await asyncio.sleep(0.05)


@pytest.fixture
def page(browser: Browser, served: str) -> Iterator[Page]:
    """One whose scripts must not fail, and which may ask nobody but the coordinator."""
    troubles: list[str] = []
    page = browser.new_page(viewport={"width": 1440, "height": 1000}, color_scheme="light")
    page.on("pageerror", lambda error: troubles.append(str(error)))
    home = served.partition("?")[0]
    page.on("request", lambda request: None if request.url.startswith(home) else troubles.append(request.url))
    page.goto(served)
    yield page
    page.close()
    assert troubles == []


def keep(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def act(page: Page, reason: str, name: str) -> None:
    """In a dialog: nothing can be applied before it was shown, nor without a reason."""
    dialog = page.get_by_role("dialog")
    apply = dialog.locator("[data-action=apply]")
    expect(apply).to_be_disabled()
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.locator("[data-plan]")).to_be_visible()
    expect(apply).to_be_disabled()
    dialog.get_by_label("Reason").fill(reason)
    expect(apply).to_be_enabled()
    keep(page, name)
    apply.click()
    expect(dialog).to_be_hidden()


def see_reason(page: Page, reason: str) -> None:
    page.get_by_role("link", name="Decisions", exact=True).click()
    expect(page.locator(".event", has_text=reason).first).to_be_visible()


def test_a_newcomer_sees_the_whole_and_finds_a_topic_by_keyboard(page: Page) -> None:
    expect(page.locator(".kpi", has_text="publishers + subscribers")).to_be_visible()
    expect(page.locator("svg.map .broker-name")).to_have_count(3)
    expect(page.locator("svg.map g.t")).to_have_count(len(TOPICS))
    expect(page.locator("[data-broker=b1] [role=meter]")).to_be_visible()
    keep(page, "overview-light")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    keep(page, "overview-dark")
    page.keyboard.press("/")
    expect(page.get_by_label("Search topics")).to_be_focused()
    page.keyboard.type("LOB")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody tr").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="game.lobby")).to_be_visible()
    expect(page.locator("svg.chart .measured")).to_be_visible()
    keep(page, "topic")


def test_what_is_shown_renews_itself_and_leaves_who_types_alone(page: Page) -> None:
    page.keyboard.press("2")
    expect(page.locator("tbody tr")).to_have_count(len(TOPICS))
    first = page.locator("tbody").evaluate("node => { node.dataset.old = 'yes'; return node.dataset.old }")
    assert first == "yes"
    page.get_by_label("Search topics").focus()
    expect(page.locator("tbody[data-old]")).to_have_count(0)
    expect(page.locator("tbody tr")).to_have_count(len(TOPICS))
    expect(page.get_by_label("Search topics")).to_be_focused()


def test_empty_places_say_what_to_do_next(page: Page) -> None:
    page.get_by_role("link", name="Channels").click()
    expect(page.locator(".empty")).to_contain_text("nearcast channel create")
    page.get_by_role("link", name="Topics").click()
    page.get_by_label("Search topics").fill("no such topic")
    expect(page.locator(".empty")).to_contain_text("Search for less")


def test_a_topic_is_moved_for_a_reason_after_its_plan_was_shown(page: Page) -> None:
    page.goto(f"{page.url.split('#')[0]}#/topics/game.arena")
    page.locator("[data-action=move]").click()
    at = page.get_by_role("dialog").locator("input[type=checkbox]")
    expect(at).to_have_count(3)
    now = page.get_by_role("dialog").locator("label", has_text="now").locator("input").get_attribute("value")
    goal = next(name for name in ("b1", "b2", "b3") if name != now)
    page.get_by_role("dialog").locator(f"input[value={goal}]").check()
    act(page, "closer to the players", "move")
    expect(page.locator("dl.facts")).to_contain_text(goal)
    see_reason(page, "closer to the players")
    expect(page.locator("[data-decision]", has_text="game.arena").first).to_contain_text(goal)
    keep(page, "decisions")


def test_a_topic_cannot_be_moved_before_it_is_known_where_it_is(page: Page) -> None:
    def hold(_route: Route) -> None: ...

    page.route("**/topics/game.lobby", hold)
    with page.expect_request("**/topics/game.lobby"):
        page.goto(f"{page.url.split('#')[0]}#/topics/game.lobby")
    for action in ("move", "promise"):
        expect(page.locator(f"[data-action={action}]")).to_be_disabled()
    page.unroute("**/topics/game.lobby")  # what was held goes on
    for action in ("move", "promise"):
        expect(page.locator(f"[data-action={action}]")).to_be_enabled()


def test_a_promise_is_set_for_a_reason_and_then_judged(page: Page) -> None:
    page.goto(f"{page.url.split('#')[0]}#/topics/alerts")
    page.locator("[data-action=promise]").click()
    page.get_by_role("dialog").get_by_label("Promise", exact=True).fill("soon")
    page.get_by_role("dialog").get_by_role("button", name="Dry run").click()
    expect(page.locator("dialog .error")).to_contain_text("expected one like p95:40ms")
    page.get_by_role("dialog").get_by_label("Promise", exact=True).fill("p95:900ms")
    act(page, "agreed with the customer", "promise")
    expect(page.locator(".head .pill.kept")).to_be_visible()
    see_reason(page, "agreed with the customer")


def test_a_broker_is_drained_and_kept_after_all_for_reasons(page: Page) -> None:
    page.get_by_role("link", name="Brokers", exact=True).click()
    page.locator("[data-broker=b3]").get_by_role("button", name="Drain…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("[data-plan]")).to_contain_text("leaves the ring first")
    act(page, "its disk is failing", "drain")
    expect(page.locator("[data-broker=b3] .pill.unknown")).to_contain_text("drain")
    keep(page, "brokers")
    page.locator("[data-broker=b3]").get_by_role("button", name="Keep…").click()
    act(page, "the disk was replaced", "keep")
    expect(page.locator("[data-broker=b3]").get_by_role("button", name="Drain…")).to_be_visible()
    see_reason(page, "its disk is failing")
    see_reason(page, "the disk was replaced")


def test_a_rebalance_is_planned_shown_and_applied_for_a_reason(page: Page) -> None:
    page.locator("[data-action=rebalance]").click()
    act(page, "before the weekend", "rebalance")
    see_reason(page, "before the weekend")
    expect(page.locator("[data-task]", has_text="before the weekend")).to_contain_text("apply rebalance")


def test_a_processor_shows_what_waits_and_what_fails(page: Page, busy: Fleet) -> None:
    page.get_by_role("link", name="Processors").click()
    expect(page.locator(".empty")).to_contain_text("nearcast topic set")
    assert busy.run("topic", "set", "alerts", "--sql", "SELECT speed FROM message").code == 0
    row = page.locator("[data-processor=alerts]").first
    expect(row.locator(".pill")).to_contain_text("raised")  # what is published is no JSON
    expect(row).to_contain_text("JSON")
    keep(page, "processors")


@pytest.mark.slow
def test_in_the_demo_a_swarm_crosses_a_zone_its_topic_turns_red_moves_and_turns_green(browser: Browser) -> None:
    seconds = 75.0
    first = next(each for each in demo_flight(seconds, seed=0).crossings if each.at_s > 0.0)
    topic, goal = topics_of(first.swarm)[0], f"b{first.zone + 1}"
    argv = [sys.executable, "-m", "nearcast", "demo", "--headless", "--seconds", str(seconds)]
    demo = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    try:
        address = next(line.split()[1] for line in demo.stdout if line.startswith("dashboard: "))
        begun_s = time.monotonic()
        page = browser.new_page(viewport={"width": 1440, "height": 1000}, color_scheme="dark")
        page.goto(address)
        drawn = page.locator(f"svg.map g.t[data-topic='{topic}']")
        expect(drawn).to_have_attribute("data-promise", "kept")
        keep(page, "demo-1-kept")
        calm = "() => !document.querySelector('svg.map g.t:not([data-promise=kept])')"
        broken = f"() => document.querySelector(\"svg.map g.t[data-topic='{topic}'][data-promise=broken]\")"
        page.wait_for_function(f"() => ({calm})() || ({broken})()", timeout=PATIENCE_MS)
        if page.evaluate(calm):  # nicer to look at, but not what this is about
            keep(page, "demo-1-kept")
        expect(drawn).to_have_attribute("data-promise", "broken")
        keep(page, "demo-2-broken")
        expect(drawn).to_have_attribute("data-promise", "kept")
        expect(drawn).to_have_attribute("aria-label", re.compile(f"on {goal},"))
        took_s = time.monotonic() - begun_s
        moved = page.locator("[data-decision]", has_text=topic).first
        expect(moved).to_contain_text("40.0 ms are promised")
        keep(page, "demo-3-kept-again")
        page.close()
        said = demo.stdout.read()
    finally:
        demo.terminate()
        demo.communicate(timeout=60)
    assert "lost 0 duplicated 0" in said
    assert took_s < 75, "it takes longer than a minute, and some seconds in which clients connect"
