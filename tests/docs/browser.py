"""A real Chromium that reaches this host alone, spoken to over a pipe by its DevTools protocol.

Messages are JSON, each ended by a zero byte.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any


class Browser:
    """One process, one tab. `requests`: every address that it asked for."""

    def __init__(self, folder: Path):
        self._folder = folder
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        # Without a sandbox: tests may run as root. The pages are ours.
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        words += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        words += ["--remote-debugging-pipe", f"--user-data-dir={folder}"]
        script = f'exec chromium "$@" 3<&{to_read} 4>&{to_write}'
        command = ["bash", "-c", script, "chromium", *words, "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL, start_new_session=True
        )
        [os.close(end) for end in (to_read, to_write)]
        self._number, self._buffer, self._loaded, self.requests = 0, b"", set(), []
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network"):
            self._call(f"{domain}.enable")
        self._call("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, url: str, width: int, height: int) -> None:
        """Returns once the page has loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        loader = self._call("Page.navigate", url=url)["loaderId"]
        while loader not in self._loaded:
            self._read()

    def run(self, script: str) -> Any:
        """The value of an expression, or of the promise that it is."""
        words = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self._call("Runtime.evaluate", **words)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, *, whole: bool = False) -> bytes:
        """A PNG of what is seen, or of the whole page."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"] if whole else None
        words = {"captureBeyondViewport": True, "clip": size | {"scale": 1}} if size else {}
        return base64.b64decode(self._call("Page.captureScreenshot", **words)["data"])

    def prefer(self, scheme: str) -> None:
        """Sets the colour scheme that pages are asked to have: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def turn_scripts(self, word: str) -> None:
        """Sets whether the scripts of pages opened from now on run: on or off."""
        self._call("Emulation.setScriptExecutionDisabled", value=word == "off")

    def wait_for_another_load(self) -> None:
        """Returns once the page has loaded itself again."""
        before = len(self._loaded)
        while len(self._loaded) == before:
            self._read()

    def close(self) -> None:
        """Ends it and removes its folder."""
        # All its processes: the others outlive the first and write to the folder while it is being removed.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        [os.close(end) for end in (self._in, self._out)]
        while self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser ended: tests/setup/deploy.sh installs it"
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        match message.get("method"), message.get("params"):
            case "Network.requestWillBeSent", {"request": {"url": url}}:
                self.requests.append(url)
            case "Page.lifecycleEvent", {"name": "load", "loaderId": loader}:
                self._loaded.add(loader)
        return message
