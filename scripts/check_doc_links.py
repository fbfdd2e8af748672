"""Fail when a Markdown file of the repository links to a file that is not there.

Only relative links are checked: whether another site answers today says nothing about this repository.
"""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent

_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)


def broken_links(document: Path) -> list[str]:
    """Return the relative targets of `document` that do not exist."""
    text = _INLINE_CODE.sub("", _FENCED.sub("", document.read_text(encoding="utf-8")))
    broken = []
    for match in _LINK.finditer(text):
        target = match.group(1) or match.group(2)
        if _ELSEWHERE.match(target):
            continue
        path = unquote(target.split("#")[0])
        base = ROOT if path.startswith("/") else document.parent
        if not (base / path.lstrip("/")).exists():
            broken.append(target)
    return broken


def documents() -> list[Path]:
    """Return the Markdown files that git knows or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in sorted(set(listing.stdout.splitlines())) if (path := ROOT / name).exists()]


def main() -> int:
    """Print every broken link; return 1 if there is one."""
    checked = documents()
    failures = [(document, target) for document in checked for target in broken_links(document)]
    for document, target in failures:
        print(f"{document.relative_to(ROOT)}: link to {target}, which does not exist")
    if not failures:
        print(f"links of {len(checked)} Markdown files: all resolve")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
