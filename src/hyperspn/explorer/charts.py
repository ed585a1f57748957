"""Charts as SVG, without scripts: bars, histograms and heat maps, real beside sampled."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

WIDTH, ROW, LABEL, HEIGHT = 340, 24, 120, 120
LONGEST_LABEL = 17
MOST_NAMED = 40


def bars(labels: Sequence[str], real: FloatArray, sampled: FloatArray) -> str:
    """Two bars for each label, the real share above the sampled one."""
    most = max(float(np.max([real, sampled])), 1e-9)
    length = (WIDTH - LABEL - 52) / most
    parts = []
    for i, (label, a, b) in enumerate(zip(labels, real, sampled, strict=True)):
        y = i * ROW
        parts.append(
            f"<g>{_title(f'{label}: real {a:.2%}, sampled {b:.2%}')}"
            f'<text class="label" x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{_short(label)}</text>'
            f'<rect class="real" x="{LABEL}" y="{y + 4}" width="{max(a * length, 0.5):.1f}" height="7"/>'
            f'<rect class="sampled" x="{LABEL}" y="{y + 12}" width="{max(b * length, 0.5):.1f}" height="7"/>'
            f'<text class="number" x="{LABEL + max(a, b) * length + 6:.1f}" y="{y + 15}">{a:.1%}</text></g>'
        )
    return _svg(WIDTH, len(labels) * ROW + 4, "".join(parts), "shares of values, real and sampled")


def histogram(ticks: Sequence[str], real: FloatArray, sampled: FloatArray, spikes: int) -> str:
    """Equally wide columns: real ones filled, sampled ones as a line; the first `spikes` are single values.

    Arguments:
        ticks: A text for each column, "" for none below it.
        real: The real shares, (columns,).
        sampled: The sampled shares, (columns,).
        spikes: How many of the columns stand for single values.
    """
    most = max(float(np.max([real, sampled])), 1e-9)
    gap = 14 if spikes and len(real) > spikes else 0
    step = (WIDTH - gap) / len(real)
    places: FloatArray = np.arange(len(real), dtype=np.float64) * step + np.where(
        np.arange(len(real)) >= spikes, gap, 0
    )
    parts = []
    for i, (x, a, b) in enumerate(zip(places, real / most * HEIGHT, sampled / most * HEIGHT, strict=True)):
        inset = step * 0.2 if i < spikes else 0.4
        kind = "real spike" if i < spikes else "real"
        parts.append(
            f"<g>{_title(f'{ticks[i] or _range(ticks, i)}: real {real[i]:.2%}, sampled {sampled[i]:.2%}')}"
            f'<rect class="room" x="{x:.1f}" y="0" width="{step:.1f}" height="{HEIGHT}"/>'
            f'<rect class="{kind}" x="{x + inset:.1f}" y="{HEIGHT - a:.1f}" width="{step - 2 * inset:.1f}" height="{a:.1f}"/>'
            f'<path class="line" d="M{x:.1f} {HEIGHT - b:.1f}h{step:.1f}"/></g>'
        )
    parts.append(f'<path class="axis" d="M0 {HEIGHT + 0.5}H{WIDTH}"/>')
    parts += _tick_labels(ticks, places, step, spikes)
    return _svg(WIDTH, HEIGHT + 20, "".join(parts), "histogram, real and sampled")


def heat_map(names: Sequence[str], values: FloatArray, most: float) -> str:
    """Values of pairs of columns, (columns, columns), as squares; what is on the diagonal does not count."""
    count = len(names)
    has_names = count <= MOST_NAMED
    room = 112 if has_names else 0
    size = (360 - room) / count
    parts = []
    for i, first in enumerate(names):
        if has_names:
            y = room + (i + 0.5) * size
            parts.append(f'<text class="tiny" x="{room - 4}" y="{y + 3:.1f}" text-anchor="end">{_short(first)}</text>')
            parts.append(
                f'<text class="tiny" transform="translate({y + 3:.1f} {room - 4}) rotate(-90)">{_short(first)}</text>'
            )
        for j, second in enumerate(names):
            if i != j:
                share = min(abs(float(values[i, j])) / most, 1.0) if most > 0 else 0.0
                parts.append(
                    f'<rect class="heat" x="{room + j * size:.1f}" y="{room + i * size:.1f}" width="{size * 0.94:.2f}" '
                    f'height="{size * 0.94:.2f}" fill-opacity="{0.04 + 0.96 * share:.3f}">'
                    f"{_title(f'{first}, {second}: {values[i, j]:.3f}')}</rect>"
                )
    return _svg(360, 360, "".join(parts), "heat map of pairs of columns")


def _tick_labels(ticks: Sequence[str], places: FloatArray, step: float, spikes: int) -> list[str]:
    parts = []
    for i, (tick, x) in enumerate(zip(ticks, places, strict=True)):
        if tick:
            anchor = "middle" if i < spikes else "start" if x < WIDTH / 3 else "end" if x > WIDTH * 0.75 else "middle"
            at = x + {"start": 0.0, "middle": step / 2, "end": step}[anchor]
            parts.append(
                f'<text class="tick" x="{at:.1f}" y="{HEIGHT + 15}" text-anchor="{anchor}">{_short(tick)}</text>'
            )
    return parts


def _range(ticks: Sequence[str], i: int) -> str:
    """Between which of the columns that have a text one without is."""
    before = next((tick for tick in reversed(ticks[:i]) if tick), "")
    after = next((tick for tick in ticks[i:] if tick), "")
    return f"between {before} and {after}"


def _svg(width: int, height: int, content: str, description: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(description)}">{content}</svg>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _short(text: str) -> str:
    return escape(text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…")
