"""Checks that a drawing is readable, from the positions of its texts."""

from itertools import combinations


def texts(figure):
    """Return all visible texts of a drawn figure."""
    return [text.get_text() for text in _seen(figure)]


def assert_readable(figure):
    """Check that no visible text lies outside the figure and that no two visible texts overlap."""
    figure.draw_without_rendering()
    boxes = {text: text.get_window_extent() for text in _seen(figure)}
    whole = figure.bbox
    for text, box in boxes.items():
        assert whole.x0 - 1 <= box.x0 and box.x1 <= whole.x1 + 1, f"{text.get_text()!r} is cut"
        assert whole.y0 - 1 <= box.y0 and box.y1 <= whole.y1 + 1, f"{text.get_text()!r} is cut"
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        assert not a.padded(-1).overlaps(b.padded(-1)), f"{one.get_text()!r} lies upon {other.get_text()!r}"


def _seen(figure):
    from matplotlib.text import Text

    ticks = {
        tick.label1: low <= tick.get_loc() <= high
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for low, high in [sorted(axis.get_view_interval())]
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
    }
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text() and ticks.get(text, True)]
