"""Runs the tests of this folder, or of the folder named, with the package that is installed.

The last line counts them; ``xtask`` reads it.
"""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    folder = HERE / sys.argv[1] if len(sys.argv) > 1 else HERE
    sys.path.insert(0, str(HERE))
    suite = unittest.defaultTestLoader.discover(str(folder), top_level_dir=str(folder))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    print(f"{result.testsRun - bad - skipped} passed, {bad} failed, {skipped} skipped")
    return 0 if bad == 0 and result.testsRun else 1


sys.exit(main())
