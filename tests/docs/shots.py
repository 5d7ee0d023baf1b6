"""Pictures of a page as a wide screen and a phone show it, light and dark."""

from pathlib import Path

from browser import Browser

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")


def shoot(browser: Browser, url: str, folder: Path, name: str) -> None:
    """Writes NAME-WIDTH-SCHEME.png for each; no page scrolls sideways."""
    folder.mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.prefer(scheme)
            browser.open(url, width, 900)
            taken = browser.run("document.documentElement.scrollWidth")
            assert taken <= width, f"{url} is {taken} pixels wide on a screen of {width}"
            (folder / f"{name}-{width}-{scheme}.png").write_bytes(browser.picture(whole=True))
