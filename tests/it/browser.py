"""browser.py - a headless Chromium that a test drives: keys, colour scheme, size, pictures.

It speaks the browser's own protocol over two pipes (--remote-debugging-pipe: JSON messages that end
with a NUL byte), so it needs no package and no port.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
KEYS = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Space": (" ", 32, " ")}


class Browser:
    def __init__(self, url, seconds=60, width=1280, height=900, dark=False):
        self.end = time.time() + seconds
        self.folder = tempfile.mkdtemp(prefix="kvroute-browser-")
        to_it, self.out = os.pipe()
        self.inp, from_it = os.pipe()

        def give():
            os.dup2(to_it, 30)      # first out of the way of 3 and 4
            os.dup2(from_it, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
             "--user-data-dir=" + self.folder, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=give, pass_fds=(3, 4))
        os.close(to_it)
        os.close(from_it)
        self.n, self.bytes, self.session = 0, b"", None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target,
                                flatten=True)["sessionId"]
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)
        self.scheme(dark)
        self.ask("Page.navigate", url=url)

    def message(self):
        while b"\0" not in self.bytes:
            left = self.end - time.time()
            if left <= 0 or not select.select([self.inp], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.inp, 1 << 16)
            if not got:
                raise EOFError("the browser has ended")
            self.bytes += got
        one, _, self.bytes = self.bytes.partition(b"\0")
        return json.loads(one)

    def ask(self, method, **params):
        self.n += 1
        m = {"id": self.n, "method": method, "params": params}
        if self.session is not None:
            m["sessionId"] = self.session
        os.write(self.out, json.dumps(m).encode() + b"\0")
        while True:
            got = self.message()
            if got.get("id") == self.n:
                if "error" in got:
                    raise RuntimeError("%s: %s" % (method, got["error"]))
                return got["result"]

    def value(self, expression):
        """Value of a JavaScript expression in the page."""
        got = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError("%s: %s" % (expression, got["exceptionDetails"]))
        return got["result"].get("value")

    def wait(self, what, expression):
        """Wait until the expression is true."""
        while not self.value(expression):
            if time.time() > self.end:
                raise TimeoutError("the page never shows " + what)
            time.sleep(0.05)

    def scheme(self, dark):
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def press(self, key):
        word, code, text = KEYS[key]
        for kind in "keyDown", "keyUp":
            self.ask("Input.dispatchKeyEvent", type=kind, key=word, code=key,
                     windowsVirtualKeyCode=code,
                     **({"text": text} if text and kind == "keyDown" else {}))

    def picture(self, path):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        got = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        with open(path, "wb") as f:
            f.write(base64.b64decode(got["data"]))

    def close(self):
        os.close(self.out)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.inp)
        shutil.rmtree(self.folder, ignore_errors=True)
