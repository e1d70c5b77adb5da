"""Print the lowest versions that pyproject.toml allows, as constraints for pip."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for requirement in (
    *(project["dependencies"]),
    *(part for name in ("plot", "cli", "data") for part in extras[name]),
):
    print(requirement.replace(">=", "=="))
