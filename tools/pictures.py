"""Makes the pictures of the documentation: the demo as an animated SVG, and three of its web pages as PNG files (`make
pictures`)."""

from __future__ import annotations

import argparse
import fcntl
import html
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright
from rich.color import ColorParseError
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"

_COLUMNS, _ROWS = 104, 30
_NODES = 40
# The recorded seconds of the demo. After this time, most nodes are active and some wait for an operator.
_RECORDED = 75.0
_FRAMES = 20
_SECONDS_PER_FRAME = 0.8
_DESKTOP: ViewportSize = {"width": 1400, "height": 900}
_TALL: ViewportSize = {"width": 1400, "height": 1700}
_CHARACTER, _LINE, _MARGIN = 8.4, 18, 14  # pixels

# The text that rich writes before it redraws: it erases its lines, beginning with the last.
_REDRAW = re.compile(r"(?:\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*)")
_CONTROL = re.compile(r"\x1b\[\?\d+[hl]")
_WORDS = re.compile(r"\S+(?: \S+)*")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


def record(directory: Path, chromium: str) -> list[Text]:
    """Run the demo on a terminal, and take the screenshots at its end. Returns the output of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    command = [sys.executable, "-m", "farrier", "demo", "--nodes", str(_NODES), "--dir", str(directory)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": ""}
    demo = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    written: list[bytes] = []
    # A thread reads the terminal, because the demo and its web pages stop while the terminal's buffer is full.
    reader = threading.Thread(target=_read, args=(ours, written))
    reader.start()
    try:
        time.sleep(_RECORDED)
        shown = b"".join(written).decode(errors="replace").replace("\r\n", "\n")
        found = _ADDRESS.search(shown)
        if found is None:
            raise SystemExit(f"the demo showed no address:\n{shown[-2000:]}")
        _screenshots(found[0], chromium)
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)
        reader.join()
        os.close(ours)
    return [Text.from_ansi(part) for part in _REDRAW.split(_CONTROL.sub("", shown)) if part.count("\n") > 2]


def _read(terminal: int, written: list[bytes]) -> None:
    try:
        while part := os.read(terminal, 65536):
            written.append(part)
    except OSError:
        return  # the demo has ended and closed its terminal


def _screenshots(address: str, chromium: str) -> None:
    """Take the pictures of pages that the documentation shows."""
    with urllib.request.urlopen(f"{address}/api/v1/nodes?limit=1000") as answer:
        nodes = json.load(answer)["nodes"]
    retried = [each for each in nodes if (each["workflow"] or {}).get("attempt", 1) > 1]
    waiting = [each for each in nodes if (each["workflow"] or {}).get("status") == "failed_manual_intervention"]
    served = [each for each in nodes if each["status"] == "active" and each["management"] == "manageable"]
    shown = (waiting or retried or served or nodes)[0]["name"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        for name, path in (("inventory", "/"), ("node", f"/nodes/{shown}"), ("history", "/history")):
            page = browser.new_page(viewport=_TALL if name == "node" else _DESKTOP, color_scheme="light")
            page.goto(address + path)
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


def animated(frames: Sequence[Text]) -> str:
    """Return an SVG that shows one frame after another. If animations are off, it shows the last frame."""
    width, height = round(_COLUMNS * _CHARACTER) + 2 * _MARGIN, _ROWS * _LINE + 2 * _MARGIN
    lasts = len(frames) * _SECONDS_PER_FRAME
    groups = []
    for number, frame in enumerate(frames):
        begin, end = number / len(frames), (number + 1) / len(frames)
        last = number == len(frames) - 1
        times = f"0;{begin:.4f}" if last else f"0;{begin:.4f};{end:.4f}"
        values = "hidden;visible" if last else "hidden;visible;hidden"
        groups.append(
            f'<g visibility="{"visible" if last else "hidden"}">'
            f'<animate attributeName="visibility" calcMode="discrete" dur="{lasts:g}s" repeatCount="indefinite" '
            f'keyTimes="{times}" values="{values}"/>'
            f"{''.join(_lines(frame))}</g>"
        )
    background = MONOKAI.background_color.hex
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="14" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{background}"/>\n' + "\n".join(groups) + "\n</svg>\n"
    )


def _lines(frame: Text) -> Iterator[str]:
    for row, line in enumerate(frame.split("\n")[:_ROWS]):
        column, top = 0, _MARGIN + (row + 1) * _LINE - 4
        for text, style in _runs(line):
            for word in _WORDS.finditer(text):  # each at its column, because SVG viewers differ in blanks
                left, length = _MARGIN + (column + word.start()) * _CHARACTER, len(word[0]) * _CHARACTER
                yield (
                    f'<text x="{left:.1f}" y="{top}" textLength="{length:.1f}" fill="{_colour(style)}">'
                    f"{html.escape(word[0])}</text>"
                )
            column += len(text)


def _runs(line: Text) -> Iterable[tuple[str, Style]]:
    """Yield the pieces of the line, each of one style."""
    styles: list[Style] = [Style.null()] * len(line.plain)
    for span in line.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        for at in range(span.start, min(span.end, len(styles))):
            styles[at] += style
    begin = 0
    for at in range(1, len(styles) + 1):
        if at == len(styles) or styles[at] != styles[begin]:
            yield line.plain[begin:at], styles[begin]
            begin = at


def _colour(style: Style) -> str:
    plain = MONOKAI.foreground_color
    try:
        colour = style.color.get_truecolor(MONOKAI) if style.color is not None else plain
    except ColorParseError:
        colour = plain
    if style.dim:
        colour = type(colour)(*(channel * 2 // 3 for channel in colour))
    return colour.hex


def main() -> None:
    """Write docs/pictures/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome") or "chromium")
    options = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="farrier-pictures-") as directory:
        frames = record(Path(directory), options.chromium)
    chosen = [frames[number * (len(frames) - 1) // (_FRAMES - 1)] for number in range(_FRAMES)]
    (PICTURES / "demo.svg").write_text(animated(chosen), encoding="utf-8")
    for path in sorted(PICTURES.iterdir()):
        sys.stdout.write(f"{path.name}: {path.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
