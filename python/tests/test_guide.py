"""The guide, as it is printed."""

import tempfile
import unittest
from pathlib import Path

import guide


class Guide(unittest.TestCase):
    def test_what_the_guide_prints_is_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertGreaterEqual(guide.run(Path(folder), ("",)), 6)
