"""What pytest leaves out where an optional library is not installed, and needs set."""

import os
from importlib.util import find_spec

# scikit-learn's checks of other arrays skip without it, and it is read but once.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Doctests import the modules they are in.
collect_ignore_glob = []
if find_spec("torch") is None:
    collect_ignore_glob.append("src/widemargin/_compute/device/*.py")
