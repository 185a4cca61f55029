"""``python -m eraseblock``: the command."""

import os
import sys
import sysconfig

from ._cli import main

sys.argv[0] = os.path.join(sysconfig.get_path("scripts"), "eraseblock")
sys.exit(main())
