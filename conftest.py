"""What pytest leaves out where an optional library is not installed."""

from importlib.util import find_spec

# Doctests import the modules they are in.
collect_ignore_glob = []
if find_spec("torch") is None:
    collect_ignore_glob.append("src/widemargin/_compute/device/*.py")
