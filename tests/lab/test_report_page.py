"""The lab's report in a real browser, from quick runs of every experiment."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearcast.lab.papers import PAPERS
from tests.browser import chromium

_DRAWN = "images => images.filter(image => image.complete && image.naturalWidth > 300).length"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_within_twenty_minutes_a_page_has_a_plot_for_every_figure_of_the_claims(tmp_path: Path) -> None:
    """With NEARCAST_LAB_RESULTS, the page of the quick runs that lie there."""
    known = os.environ.get("NEARCAST_LAB_RESULTS")
    results = Path(known) if known else tmp_path
    argv = [sys.executable, "-m", "nearcast", "lab", "report", "--json", "--results", str(results)]
    argv += ["--out", str(tmp_path / "report.html"), *([] if known else ["--quick"])]
    begun_s = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    took_s = time.monotonic() - begun_s
    assert done.returncode in {0, 1}, done.stderr  # 1: a claim does not hold, and the page says which
    told = json.loads(done.stdout)
    assert told["failed"] == {}
    assert took_s < 1200, "it is to be made within twenty minutes"

    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{told['page']}")
        claims = [claim for paper in PAPERS for claim in paper.claims]
        named = [claim for claim in claims if "Figure" in claim.figure]
        bare = [
            claim.id
            for claim in named
            if not page.locator(f"article[id='{claim.experiment}'] img").evaluate_all(_DRAWN)
        ]
        rows = page.locator("tr[id]").count()
    assert bare == []
    assert len(named) > 25
    assert rows == len(claims)
    assert all(url.startswith(("file:", "data:")) for url in asked), "it needs no other file"
