"""The site as a reader has it: in a real browser without a network, on a screen and on a phone."""

import html
import os
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from blocks import ROOT
from browser import Browser

SITE = Path(os.environ.get("RUSTLE_SITE", ROOT / "target/docs/site"))
PHONE = 390
PAGES = [
    "index.html",
    "docs/tutorial.html",
    "docs/plans-in-pictures.html",
    "docs/operations.html",
    "reference/python/rustle.html",
    "reference/cli/plan.html",
    "reference/grpc/jobs.html",
    "python/examples/digits_jax.html",
]

# Types a word and waits for what is found.
SEARCH = """
new Promise(done => {
    document.querySelector('.md-search__input').focus();
    const input = document.querySelector('.md-search__input');
    const look = () => {
        input.value = 'handwritten digits';
        input.dispatchEvent(new Event('keyup', { bubbles: true }));
        input.dispatchEvent(new Event('input', { bubbles: true }));
        const links = [...document.querySelectorAll('.md-search-result__link')].map(link => link.href);
        links.length ? done(links) : setTimeout(look, 100);
    };
    look();
})
"""


def every_page():
    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 60
    return pages


def test_nothing_is_fetched_from_elsewhere():
    loads = re.compile(r"<(?:script|img|iframe|source|video|link)\b[^>]*?\b(?:src|href)=[\"']?([^\"' >]+)")
    for page in every_page():
        for link in loads.findall(page.read_text()):
            address = urlparse(html.unescape(link))
            assert not address.scheme and not address.netloc or address.scheme == "data", (page, link)
    for sheet in SITE.rglob("*.css"):
        elsewhere = re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", sheet.read_text())
        assert not elsewhere, (sheet, elsewhere)


def test_links_lead_somewhere():
    """Those that mkdocs does not look at among them: of the theme, to files, and anchors in what was generated."""
    ids, wrong = {}, []

    def anchors(page):
        if page not in ids:
            ids[page] = set(re.findall(r'\bid="?([^" >]+)', page.read_text()))
        return ids[page]

    for page in every_page():
        if page.name == "404.html":
            continue
        for link in re.findall(r'<a\b[^>]*?\bhref="?([^" >]+)', page.read_text()):
            address = urlparse(html.unescape(link))
            if address.scheme or address.netloc:
                continue
            there = (page.parent / unquote(address.path)).resolve() if address.path else page
            if not there.is_file():
                wrong.append((str(page.relative_to(SITE)), link))
            elif address.fragment and there.suffix == ".html":
                if unquote(address.fragment) not in anchors(there) | {"__codelineno-0-1"}:
                    wrong.append((str(page.relative_to(SITE)), link))
    assert not wrong


def test_lists_and_tables_are_seen_as_such():
    for page in every_page():
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
        for paragraph in re.findall(r"<p>(.*?)</p>", text, re.DOTALL):
            broken = re.search(r"\n(?:[*-] |1\. |\|)", paragraph)
            assert not broken, (page, paragraph[:300])


@pytest.fixture(scope="module")
def served():
    """Where the site is served on this host: browsers don't let pages from a disk search."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.mark.parametrize("width", [PHONE, 1280])
@pytest.mark.parametrize("page", PAGES)
def test_pages_are_whole_without_a_network(browser, served, page, width):
    browser.requests.clear()
    browser.open(f"{served}/{page}", width, 900)
    assert browser.run("document.title").endswith("Rustle")
    assert browser.run("document.querySelector('h1').offsetHeight") > 0
    assert browser.run("document.documentElement.scrollWidth") <= width
    broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
    assert browser.run(broken) == []
    own = (f"{served}/", "data:", "blob:", "about:")
    assert [url for url in browser.requests if not url.startswith(own)] == []
    assert len(browser.picture()) > 10_000


@pytest.mark.parametrize("width", [PHONE, 1280])
def test_code_breaks_inside_the_page(browser, served, width):
    wide = "[...document.querySelectorAll('pre > code')].filter(code => code.scrollWidth > code.clientWidth + 1).length"
    for page in ("index.html", "docs/cli.html", "reference/cli/plan.html"):
        browser.open(f"{served}/{page}", width, 900)
        assert browser.run("document.querySelectorAll('pre > code').length") > 0
        assert browser.run(wide) == 0, page


@pytest.mark.parametrize(("scheme", "name"), [("light", "default"), ("dark", "slate")])
def test_the_site_is_dark_where_the_system_is(browser, served, scheme, name):
    browser.prefer(scheme)
    browser.open(f"{served}/index.html", 1280, 900)
    assert browser.run("document.body.getAttribute('data-md-color-scheme')") == name


def test_search_finds_pages(browser, served):
    browser.open(f"{served}/index.html", 1280, 900)
    found = browser.run(SEARCH)
    assert any(link.split("?")[0].endswith("docs/tutorial.html") for link in found), found
