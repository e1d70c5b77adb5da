"""Digits as people draw them with a mouse: strokes of usual forms, varied at random.

Every digit has the forms that people write, bar-less 7s and open 4s among them, as
polylines in the unit square (y downwards). A drawing is one form, smoothed by a spline,
turned, slanted, stretched and bent by a smooth random displacement; its points shake a
little, as a hand with a mouse does.
"""

import numpy as np
from scipy.interpolate import CubicSpline


def _arc(x, y, rx, ry, start, end, n=14):
    """Points of an ellipse from one angle to another, in degrees, y downwards."""
    angle = np.radians(np.linspace(start, end, n))
    return [(x + rx * np.cos(a), y + ry * np.sin(a)) for a in angle]


# Forms of each digit: strokes, and which of them are of straight lines.
CURVED, STRAIGHT = True, False
FORMS = {
    0: [
        [(CURVED, _arc(0.5, 0.5, 0.33, 0.5, -90, -450))],
        [(CURVED, _arc(0.5, 0.5, 0.38, 0.48, -60, -425))],
        [(CURVED, _arc(0.5, 0.5, 0.42, 0.45, -100, 265))],
    ],
    1: [
        [(STRAIGHT, [(0.5, 0), (0.5, 1)])],
        [(STRAIGHT, [(0.3, 0.22), (0.52, 0), (0.52, 1)])],
        [(STRAIGHT, [(0.3, 0.2), (0.5, 0), (0.5, 1)]),
         (STRAIGHT, [(0.25, 1), (0.75, 1)])],
        [(STRAIGHT, [(0.56, 0), (0.44, 1)])],
    ],
    2: [
        [(CURVED, [(0.15, 0.25), (0.3, 0.05), (0.6, 0.02), (0.8, 0.22), (0.7, 0.48),
                   (0.4, 0.75), (0.12, 0.97)]),
         (STRAIGHT, [(0.12, 0.97), (0.88, 0.97)])],
        [(CURVED, [(0.12, 0.2), (0.4, 0), (0.75, 0.1), (0.75, 0.4), (0.45, 0.72),
                   (0.2, 0.95), (0.12, 0.85), (0.3, 0.8), (0.6, 0.93), (0.9, 0.9)])],
        [(CURVED, [(0.2, 0.12), (0.5, 0), (0.78, 0.16), (0.66, 0.45), (0.35, 0.75),
                   (0.1, 1)]), (CURVED, [(0.1, 1), (0.5, 0.96), (0.9, 0.98)])],
    ],
    3: [
        [(CURVED, [(0.18, 0.12), (0.45, 0), (0.75, 0.1), (0.75, 0.33), (0.42, 0.47)]),
         (CURVED, [(0.42, 0.47), (0.78, 0.58), (0.8, 0.85), (0.5, 1), (0.14, 0.88)])],
        [(STRAIGHT, [(0.15, 0.03), (0.8, 0.03), (0.42, 0.42)]),
         (CURVED, [(0.42, 0.42), (0.8, 0.55), (0.78, 0.88), (0.45, 1), (0.12, 0.88)])],
        [(CURVED, [(0.2, 0.1), (0.6, 0), (0.78, 0.2), (0.6, 0.42), (0.4, 0.47),
                   (0.7, 0.52), (0.82, 0.76), (0.55, 0.98), (0.15, 0.92)])],
    ],
    4: [
        [(STRAIGHT, [(0.3, 0), (0.1, 0.55), (0.9, 0.55)]),
         (STRAIGHT, [(0.7, 0.05), (0.65, 1)])],
        [(STRAIGHT, [(0.2, 0.05), (0.2, 0.5), (0.8, 0.5)]),
         (STRAIGHT, [(0.75, 0.02), (0.75, 1)])],
        [(STRAIGHT, [(0.65, 1), (0.65, 0), (0.08, 0.65), (0.92, 0.65)])],
        [(STRAIGHT, [(0.6, 0), (0.08, 0.62), (0.92, 0.62)]),
         (STRAIGHT, [(0.64, 0.3), (0.62, 1)])],
        [(CURVED, [(0.2, 0.02), (0.15, 0.35), (0.35, 0.5), (0.75, 0.42)]),
         (STRAIGHT, [(0.78, 0), (0.7, 1)])],
    ],
    5: [
        [(STRAIGHT, [(0.25, 0.03), (0.2, 0.42)]),
         (CURVED, [(0.2, 0.42), (0.5, 0.36), (0.82, 0.55), (0.75, 0.88), (0.4, 1),
                   (0.1, 0.9)]),
         (STRAIGHT, [(0.25, 0.03), (0.82, 0.03)])],
        [(STRAIGHT, [(0.82, 0.03), (0.28, 0.03), (0.22, 0.44)]),
         (CURVED, [(0.22, 0.44), (0.55, 0.38), (0.82, 0.6), (0.68, 0.92), (0.35, 1),
                   (0.12, 0.9)])],
        [(CURVED, [(0.8, 0.02), (0.45, 0.02), (0.25, 0.18), (0.28, 0.4), (0.62, 0.46),
                   (0.8, 0.7), (0.6, 0.96), (0.15, 0.94)])],
    ],
    6: [
        [(CURVED, [(0.7, 0.02), (0.4, 0.2), (0.2, 0.5), (0.18, 0.8), (0.45, 1),
                   (0.75, 0.88), (0.76, 0.62), (0.5, 0.5), (0.22, 0.66)])],
        [(CURVED, [(0.55, 0), (0.3, 0.35), (0.22, 0.75), (0.5, 0.99), (0.78, 0.8),
                   (0.66, 0.58), (0.36, 0.62), (0.25, 0.78)])],
        [(CURVED, [(0.8, 0.1), (0.5, 0.03), (0.22, 0.35), (0.16, 0.75), (0.45, 1),
                   (0.8, 0.85), (0.72, 0.56), (0.4, 0.52), (0.18, 0.7)])],
    ],
    7: [
        [(STRAIGHT, [(0.1, 0.04), (0.88, 0.04), (0.4, 1)])],
        [(STRAIGHT, [(0.1, 0.04), (0.85, 0.04), (0.42, 1)]),
         (STRAIGHT, [(0.3, 0.5), (0.85, 0.5)])],
        [(STRAIGHT, [(0.14, 0.2), (0.14, 0.04), (0.86, 0.04), (0.5, 1)])],
        [(CURVED, [(0.1, 0.08), (0.5, 0.05), (0.85, 0.05)]),
         (CURVED, [(0.85, 0.05), (0.58, 0.42), (0.46, 1)])],
        [(STRAIGHT, [(0.2, 0.03), (0.8, 0.06), (0.62, 1)])],
    ],
    8: [
        [(CURVED, [(0.72, 0.12), (0.45, 0.02), (0.24, 0.18), (0.4, 0.42), (0.68, 0.6),
                   (0.76, 0.84), (0.48, 1), (0.2, 0.84), (0.32, 0.6), (0.64, 0.38),
                   (0.76, 0.16), (0.6, 0.03)])],
        [(CURVED, _arc(0.5, 0.25, 0.26, 0.24, 90, 450)),
         (CURVED, _arc(0.5, 0.74, 0.32, 0.26, -90, 270))],
        [(CURVED, [(0.55, 0.47), (0.28, 0.3), (0.32, 0.06), (0.66, 0.04), (0.74, 0.26),
                   (0.5, 0.47), (0.24, 0.7), (0.3, 0.95), (0.66, 0.98), (0.78, 0.72),
                   (0.55, 0.47)])],
    ],
    9: [
        [(CURVED, [(0.76, 0.2), (0.5, 0.02), (0.24, 0.2), (0.34, 0.48), (0.66, 0.46),
                   (0.78, 0.2)]), (STRAIGHT, [(0.78, 0.15), (0.72, 1)])],
        [(CURVED, [(0.78, 0.22), (0.5, 0), (0.2, 0.2), (0.3, 0.5), (0.62, 0.5),
                   (0.78, 0.22), (0.8, 0.6), (0.62, 0.95), (0.25, 0.95)])],
        [(CURVED, _arc(0.5, 0.26, 0.28, 0.25, 0, -355)),
         (STRAIGHT, [(0.78, 0.24), (0.5, 1)])],
    ],
}  # fmt: skip


def drawing(digit, rng, size=280, form=None):
    """Strokes, each (n, 2) in pixels of the paper, of one digit drawn at random.

    `form` is the number of its form, which one person keeps; None takes any.
    """
    form = FORMS[digit][rng.integers(len(FORMS[digit])) if form is None else form]
    turn, slant = rng.normal(0, np.radians(5)), rng.normal(0, 0.12)
    wide, tall = rng.uniform(0.5, 0.85), rng.uniform(0.85, 1.1)
    scale = size * rng.uniform(0.45, 0.75)
    matrix = (
        np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        @ np.array([[1, -slant], [0, 1]])
        @ np.diag([wide, tall])
    )
    bend = rng.normal(0, 0.02, (2, 2, 2))
    phase = rng.uniform(0, 2 * np.pi, (2, 2))
    place = size / 2 + rng.uniform(-0.08, 0.08, 2) * size
    strokes = []
    for is_curved, points in form:
        points = np.asarray(points, float) + rng.normal(0, 0.018, (len(points), 2))
        along = np.linspace(0, len(points) - 1, 8 * (len(points) - 1) + 1)
        if is_curved:
            points = CubicSpline(np.arange(len(points)), points)(along)
        else:
            points = np.stack(
                [np.interp(along, np.arange(len(points)), axis) for axis in points.T], 1
            )
        for wave in range(2):
            at = points @ np.array([1.0, 0.7]) * np.pi * (wave + 1)
            points = points + np.stack(
                [np.sin(at + phase[wave, k]) * bend[wave, k, 0] for k in range(2)], 1
            )
        points = (points - 0.5) @ matrix.T * scale + place
        points += rng.normal(0, 0.8, points.shape)
        strokes.append(np.clip(points, 6, size - 6))
    return strokes


def drawings(n_per_digit, seed):
    """Give (digit, strokes) for so many drawings of every digit."""
    rng = np.random.default_rng(seed)
    for _ in range(n_per_digit):
        for digit in range(10):
            yield digit, drawing(digit, rng)


def draw_with_mouse(page, strokes, size=280):
    """Move the mouse along strokes over a page's paper."""
    box = page.locator("#paper").bounding_box()
    for stroke in strokes:
        points = [
            (box["x"] + x * box["width"] / size, box["y"] + y * box["height"] / size)
            for x, y in stroke
        ]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point)
        page.mouse.up()
