"""``widemargin demo``: what a tangent is and what it buys, on bundled digits.

Everything shown is computed here and now: one image and its nearest, 1-NN errors over
repeated draws of a few labelled images per class, then models side by side.
"""

from pathlib import Path

from widemargin.cli import Refusal, check_library, check_out, console, story
from widemargin.saving import write_atomically


def run(out: Path, report: Path) -> None:
    """Tell the story in the terminal, as a picture and as a page."""
    check_out("--out", out, ".png")
    check_out("--report", report, ".html")
    screen, missing = console(), None
    try:
        check_library("matplotlib", "a report", "'widemargin[plot]'")
    except Refusal as refusal:
        missing = f"No picture, no report: {refusal}"
        screen.print(missing + "\n")
    case = story.find_case()
    story.print_case(case, screen)
    with screen.status("distances of all pairs of 1797 digits"):
        errors = story.errors_with_few_labels()
    story.print_errors(errors, screen)
    with screen.status("seven models on the same digits"):
        # Late: the first tables are on the screen before all models are imported.
        from widemargin.cli import demo_models as models

        data = models.digits()
        found = models.side_by_side(data, models.contestants())
    models.print_rows(found, screen)
    tvq = next(row.estimator for row in found.rows if row.name == "TVQ")
    models.print_prototypes(tvq, screen)
    if missing is None:
        write_atomically(out, lambda path: story.draw(case, errors, path))
        models.write_report(found, tvq, data, out, report)
        screen.print(f"\nPicture: {out}\nReport: {report}")
    screen.print(f"\nThe Python that does the same:\n\n{models.SNIPPET}")
