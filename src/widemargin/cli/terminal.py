"""Small grey images in a terminal: two cells a pixel, shaded without colour."""

import numpy as np
from rich.style import Style
from rich.text import Text

RAMP = " .:-=+*#%@"


def image_text(image: np.ndarray, low: float = 0.0, high: float = 1.0) -> Text:
    """Render a (height, width) image as text, dark where the value is `low`.

    The characters carry the picture where there is no colour; the background carries
    it where there is.
    """
    grey = np.clip((np.asarray(image, float) - low) / (high - low), 0, 1)
    text = Text()
    for i, row in enumerate(grey):
        if i:
            text.append("\n")
        for value in row:
            level = round(255 * value)
            mark = RAMP[round(value * (len(RAMP) - 1))] * 2
            shade = f"rgb({level},{level},{level})"
            text.append(mark, Style(color=shade, bgcolor=shade))
    return text
