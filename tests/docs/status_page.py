"""The status page in a real browser, while its job runs: status_page.py URL FOLDER. Pictures go to the folder."""

import sys
import tempfile
from pathlib import Path

from browser import Browser
from shots import shoot

CHANGED = """new Promise((done, fail) => {
  setTimeout(() => fail(new Error("nothing new in 30 s")), 30000);
  const main = document.querySelector("main");
  const before = main.innerText;
  const look = () => { if (main.innerText !== before) done(main.innerText); };
  new MutationObserver(look).observe(main, { childList: true, subtree: true, characterData: true });
})"""


def check_live(browser: Browser, url: str) -> None:
    """New figures come without a new document, and what a reader has closed stays closed."""
    browser.open(url, 1280, 900)
    browser.run("window.mark = 1; document.querySelector('details').open = false; 0")
    for _ in range(2):
        assert "as of" in browser.run(CHANGED)
    assert browser.run("window.mark") == 1, "the page was loaded again"
    assert browser.run("document.querySelector('details').open") is False
    assert browser.run("document.querySelector('#stale').hidden") is True


def check_policy(browser: Browser) -> None:
    """No script runs but the page's own."""
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.foreign = 1' })); 0"
    )
    assert browser.run("typeof window.foreign") == "undefined"


def check_without_script(browser: Browser, url: str) -> None:
    browser.turn_scripts("off")
    browser.open(url, 1280, 900)
    browser.wait_for_another_load()
    browser.turn_scripts("on")


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        browser = Browser(Path(scratch) / "profile")
        try:
            check_live(browser, url)
            check_policy(browser)
            check_without_script(browser, url)
            shoot(browser, url, folder, "status-page")
        finally:
            browser.close()


main()
