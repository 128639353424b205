"""The page "Parity" in a real browser, with Airflow's own authentication in front of it.

Skipped where there is no Chromium with its driver, unless BROWSER_REQUIRED says that there is one.
"""

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from lockstep.airflow_names import PARITY_URL
from lockstep.airflow_ui import parity_page
from lockstep.parity_pages.report import report
from lockstep.settings import Settings
from pizzeria.names import MANIFEST
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.ledger.compared_hours import compared_hours

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_SECONDS_MAX = PAGE_SECONDS_MAX = 60
WIDE, PHONE = (1280, 900), (500, 900)
CONTRAST_MIN = 4.5
"""Of text and its background, by the accessibility guidelines (WCAG 2.2, AA)."""
ROOM_IN_THE_PAGE = "return document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        without = "no Chromium with its driver (Debian: apt-get install chromium-driver)"
        (pytest.fail if os.environ.get("BROWSER_REQUIRED") else pytest.skip)(without)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (
        "--headless=new",
        "--no-sandbox",  # as root there is none; it sees our own page only
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(flag)
    opened = webdriver.Chrome(options=options, service=Service(driver))
    opened.set_page_load_timeout(PAGE_SECONDS_MAX)
    try:
        yield opened
    finally:
        opened.quit()


@pytest.fixture
def browser(chromium: WebDriver) -> WebDriver:
    """Wide, light, and with nothing left from another test."""
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    chromium.get_log("browser")
    look(chromium, WIDE, "light")
    return chromium


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return compared_hours(tmp_path)


@pytest.fixture
def address(settings: Settings, token_of) -> Iterator[str]:
    """Where the page is served, as Airflow mounts it."""
    airflow = FastAPI()
    airflow.mount(PARITY_URL, parity_page.create_app(settings))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(airflow, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}{PARITY_URL}/of/{MANIFEST}/"
        finally:
            server.should_exit = True
            thread.join(START_SECONDS_MAX)


@pytest.fixture
def signed_in(browser: WebDriver, address: str, token_of) -> WebDriver:
    """The browser with a viewer's cookie, at the overview."""
    browser.get(address)
    browser.add_cookie({"name": "_token", "value": token_of("viewer"), "path": "/"})
    browser.get_log("browser")
    browser.get(address)
    return browser


def look(browser: WebDriver, size: tuple[int, int], scheme: str) -> None:
    """The window's size, and what the reader prefers: light or dark."""
    width, height = size
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def text_of(browser: WebDriver) -> str:
    return browser.find_element(By.TAG_NAME, "body").text


def open_failed_hour(browser: WebDriver) -> None:
    browser.find_element(By.CSS_SELECTOR, ".hours a.fail").click()
    WebDriverWait(browser, PAGE_SECONDS_MAX).until(lambda b: "Rows that differ" in text_of(b))


def luminance(colour: str) -> float:
    """Relative luminance of rgb(…) or rgba(…), as WCAG defines it."""
    channels = [int(part) / 255 for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(browser: WebDriver, selector: str) -> float:
    """Of an element's text on the page's background."""
    text = browser.find_element(By.CSS_SELECTOR, selector).value_of_css_property("color")
    page = browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    darker, lighter = sorted((luminance(text), luminance(page)))
    return (lighter + 0.05) / (darker + 0.05)


def test_anybody_not_signed_in_is_refused(browser: WebDriver, address: str) -> None:
    browser.get(address)
    status = "return performance.getEntriesByType('navigation')[0].responseStatus"
    assert browser.execute_script(status) == 401
    assert "outbox" not in text_of(browser)


def test_the_overview_shows_each_hour_and_the_browser_complains_of_nothing(
    signed_in: WebDriver,
) -> None:
    assert "Do stream and batch agree?" in text_of(signed_in)
    assert len(signed_in.find_elements(By.CSS_SELECTOR, ".hours a.pass")) == 2
    failed = signed_in.find_element(By.CSS_SELECTOR, ".hours a.fail")
    assert (failed.text, failed.size["height"] > 20) == ("✗", True)
    passed = signed_in.find_element(By.CSS_SELECTOR, ".hours a.pass")
    colour = "background-color"
    assert failed.value_of_css_property(colour) != passed.value_of_css_property(colour)
    assert [entry for entry in signed_in.get_log("browser") if "favicon" not in str(entry)] == []


def test_a_click_on_a_failed_hour_shows_its_orders_and_the_way_back(signed_in: WebDriver) -> None:
    open_failed_hour(signed_in)
    page = text_of(signed_in)
    assert "2024-05-01 12:00 to 13:00 UTC, outbox" in page
    assert "differs: 1 value_mismatch" in page
    assert page.index("77") < page.index("pizzas 4: price 9.50 → 9.90 by transaction 719")
    assert signed_in.find_element(By.TAG_NAME, "svg").size["height"] > 100
    signed_in.find_element(By.LINK_TEXT, "← all hours").click()
    WebDriverWait(signed_in, PAGE_SECONDS_MAX).until(lambda b: "Do stream and" in text_of(b))


def test_a_phone_shows_the_newest_hours_without_moving_the_page(signed_in: WebDriver) -> None:
    look(signed_in, PHONE, "light")
    assert signed_in.execute_script(ROOM_IN_THE_PAGE) <= 0
    failed = signed_in.find_element(By.CSS_SELECTOR, ".hours a.fail")
    right = failed.rect["x"] + failed.rect["width"]
    assert 0 < right <= PHONE[0]
    open_failed_hour(signed_in)
    assert signed_in.execute_script(ROOM_IN_THE_PAGE) <= 0
    order = signed_in.find_element(By.CSS_SELECTOR, "table.differences tbody tr")
    assert order.size["width"] <= PHONE[0]


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_it_follows_the_readers_colours_and_can_be_read(
    signed_in: WebDriver, scheme: str, is_dark: bool
) -> None:
    look(signed_in, WIDE, scheme)
    page = signed_in.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    assert (luminance(page) < 0.1) is is_dark
    readable = ("h1", "p.soft", "th", "a.verdict.fail")
    assert {s: round(c, 1) for s in readable if (c := contrast(signed_in, s)) < CONTRAST_MIN} == {}


def test_the_report_as_a_file_works_alike_without_a_server(
    browser: WebDriver, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(settings), encoding="utf-8")
    browser.get(file.as_uri())
    browser.find_element(By.CSS_SELECTOR, ".hours a.fail").click()
    assert browser.current_url.endswith("#outbox-20240501T120000-20240501T130000")
    section = browser.find_element(By.CSS_SELECTOR, "section:target")
    assert "differs: 1 value_mismatch" in section.text
    at = browser.execute_script("return arguments[0].getBoundingClientRect().top", section)
    assert 0 <= at < WIDE[1]
    look(browser, PHONE, "light")
    assert browser.execute_script(ROOM_IN_THE_PAGE) <= 0
    assert browser.get_log("browser") == []
