"""What search engines and chats show of a page: description, card, map of the site.

A page's description is its first paragraph. The card is one picture for all pages:
the name, what it is for, and a digit along its rotation tangent.
"""

import html
from pathlib import Path

from sphinx.application import Sphinx

SITE = "https://widemargin.readthedocs.io/en/stable/"
CARD = "_static/card.png"
LONGEST = 160


def describe(app, page, template, context, doctree):
    """Put the description and the card into the head of a page."""
    title, text = getattr(app.env, "widemargin_pages", {}).get(page, ("", ""))
    if not text:
        return
    if len(text) > LONGEST:
        text = text[: LONGEST - 1].rsplit(" ", 1)[0] + "…"
    site = app.config.html_baseurl or SITE
    heads = {
        'name="description"': text,
        'property="og:title"': title,
        'property="og:description"': text,
        'property="og:type"': "website",
        'property="og:url"': site + app.builder.get_target_uri(page),
        'property="og:image"': site + CARD,
        'name="twitter:card"': "summary_large_image",
    }
    context["metatags"] = context.get("metatags", "") + "".join(
        f'\n<meta {key} content="{html.escape(value)}" />'
        for key, value in heads.items()
    )


def draw_card(path):
    """Draw the card, 1200 x 630 pixels."""
    import numpy as np
    from matplotlib import pyplot as plt
    from sklearn.datasets import load_digits

    from widemargin.tangents import ImageTangents

    digit = load_digits().data[[7]] / 16
    turn = ImageTangents((8, 8), "rotation").tangents(digit)[:, 0]
    strip = [(digit + p * turn).reshape(8, 8) for p in np.linspace(-1.6, 1.6, 5)]
    figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="white")
    figure.text(0.06, 0.83, "widemargin", fontsize=56, weight="bold", color="#1f2933")
    words = "Classifiers for scikit-learn that ignore harmless\nchanges, report a "
    figure.text(0.06, 0.6, words + "confidence, and can abstain", fontsize=27)
    for k, image in enumerate(strip):
        ax = figure.add_axes((0.06 + 0.18 * k, 0.08, 0.16, 0.42))
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="bicubic")
        ax.set(xticks=[], yticks=[])
    figure.savefig(path)
    plt.close(figure)


def write(app, exception):
    """Write the card and the map beside the pages."""
    if exception or app.builder.format != "html":
        return
    site = app.config.html_baseurl or SITE
    pages = sorted(name for name in app.env.found_docs if "sg_execution" not in name)
    places = [site + app.builder.get_target_uri(name) for name in pages]
    lines = [f"<url><loc>{html.escape(place)}</loc></url>" for place in places]
    Path(app.outdir, "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        + "\n".join(lines)
        + "\n</urlset>\n"
    )
    Path(app.outdir, "robots.txt").write_text(f"Sitemap: {site}sitemap.xml\n")
    card = Path(app.outdir, CARD)
    if not card.exists():
        draw_card(card)


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("html-page-context", describe)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
