"""Take pictures of reports in headless Chromium: two widths, both colour schemes.

    pip install playwright; apt install chromium
    python docs/screenshots.py kvzero-report/report.html -o pictures

It also fails if a page is wider than its window, asks for anything, or logs an error.
"""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

WIDTHS = (390, 1400)
SCHEMES = ("light", "dark")


def picture(
    browser: Browser, page_file: Path, width: int, scheme: str, to: Path
) -> list[str]:
    """Take one picture of a whole page; return what is wrong with the page."""
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        device_scale_factor=1,
    )
    wrong: list[str] = []
    page.on("console", lambda told: wrong.append(f"console: {told.text}"))
    address = page_file.resolve().as_uri()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.screenshot(path=to, full_page=True)
    wrong += [f"request: {url}" for url in asked if url != address]
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        wrong.append(f"{wide} px wide in a window of {width} px")
    page.close()
    return wrong


def main() -> int:
    """Take all pictures; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("pictures"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    with sync_playwright() as tools:
        browser = tools.chromium.launch(
            executable_path=options.chromium, args=["--no-sandbox"]
        )
        for page in options.pages:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    name = f"{page.parent.name}-{page.stem}-{width}-{scheme}.png"
                    to = options.out / name
                    wrong = picture(browser, page, width, scheme, to)
                    failed += bool(wrong)
                    sys.stdout.write("\n  ".join([f"{to}", *wrong]) + "\n")
        browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
