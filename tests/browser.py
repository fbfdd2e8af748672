"""A real browser for tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Without a sandbox: tests may run as root, and only see pages of our own.
        browser = playwright.chromium.launch(executable_path=_program(), args=["--no-sandbox"])
        yield browser
        browser.close()


def _program() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise AssertionError("there is no Chromium on the PATH; install it: apt-get install chromium")
