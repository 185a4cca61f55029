"""The blocks of Python in docs/guide-python.md, run one after the other."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

BLOCK = re.compile(r"```python( plugins)?\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def run(folder: Path, kinds: tuple[str, ...]) -> int:
    """Run the blocks of these kinds in a folder; return their number."""
    page = Path(os.environ["ERASEBLOCK_REPOSITORY"], "docs/guide-python.md")
    names: dict[str, object] = {}
    before, number = os.getcwd(), 0
    os.chdir(folder)
    try:
        for kind, code, expected in BLOCK.findall(page.read_text()):
            if kind.strip() not in kinds:
                continue
            number += 1
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, str(page), "exec"), names)
            if printed.getvalue() != expected:
                raise AssertionError(f"{code}\nprinted:\n{printed.getvalue()}\nexpected:\n{expected}")
    finally:
        os.chdir(before)
    return number
