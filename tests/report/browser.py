"""A headless Chromium, spoken to over two pipes in its own protocol: what a person does and what a page did.

Chromium comes from the system's packages. Where there is none the tests are skipped, and fail if
`PRISM_FCP_NEED_BROWSER` is set, as `.ci/run` does.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
SECONDS = 30.0


def chromium() -> str | None:
    """Return where Chromium is, if it is."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One browser with one page; `errors` and `requests`: what it printed and asked for since it was opened."""

    def __init__(self, program: str, folder: Path) -> None:
        ours_read, theirs_write = os.pipe()
        theirs_read, ours_write = os.pipe()
        command = f'exec "$@" 3<&{theirs_read} 4>&{theirs_write}'  # the two descriptors that Chromium looks for
        self.process = subprocess.Popen(
            ["bash", "-c", command, "-", program, *ARGUMENTS, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs_read, theirs_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_read)
        os.close(theirs_write)
        self.reading, self.writing = ours_read, ours_write
        self.buffer, self.number, self.session = b"", 0, ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.downloads = folder / "downloads"
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.terminate()
        self.process.wait(SECONDS)
        os.close(self.reading)
        os.close(self.writing)

    def call(self, method: str, **parameters: Any) -> Any:
        """Send one command and return its result; what happens meanwhile is noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self._next(until)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.reading], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self.reading, 1 << 20)
            assert part, "the browser is gone"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        about, kind = event.get("params", {}), event.get("method")
        if kind == "Runtime.exceptionThrown":
            self.errors.append(str(about["exceptionDetails"].get("exception", about["exceptionDetails"])))
        elif kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.errors.append(str([part.get("value", part.get("description")) for part in about["args"]]))
        elif kind == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(about["entry"]["text"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])

    def open(self, path: Path, width: int = 1200, height: int = 900, dark: bool = False, script: bool = True) -> None:
        """Open a file on a screen of this size, and wait until its figures stand (or it says that they cannot)."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        media = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[{"name": name, "value": media[name]} for name in media])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url="about:blank")
        self.errors.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri())
        done = "document.documentElement?.dataset.ready || document.getElementById('trouble')?.hidden === false"
        self.wait(f"location.protocol === 'file:' && ({done if script else 'document.readyState === `complete`'})")

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + SECONDS
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < until, f"never true: {condition}; {self.errors}"
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Press keys one after the other: "Tab", "ArrowRight", "Enter", "a"."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = codes.get(key, ord(key[0].upper()))
            common = {"key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def point(self, selector: str, click: bool = False) -> None:
        """Move the pointer to the middle of an element, and click if asked to."""
        where = self.run(f"""(() => {{
          const element = document.querySelector({json.dumps(selector)});
          element.scrollIntoView({{ block: "center" }});
          const box = element.getBoundingClientRect();
          return {{ x: box.x + box.width / 2, y: box.y + box.height / 2 }};
        }})()""")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **where)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **where)

    def picture(self, path: Path) -> None:
        """Write a PNG of what the screen shows."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
