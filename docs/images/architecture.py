"""Draws docs/images/architecture.svg: `python3 docs/images/architecture.py`. Needs the standard library alone.

The picture has a background of its own, so it reads the same on a light and on a dark page.
"""

from html import escape
from pathlib import Path

WIDTH, HEIGHT = 1000, 640
INK, MUTED, LINE, PAPER = "#1f2933", "#52606d", "#7b8794", "#ffffff"
CONTROL, CONTROL_EDGE = "#e8f0fb", "#3b6fb6"
DATA, DATA_EDGE = "#e6f5f0", "#23856d"
SIDE, SIDE_EDGE = "#f5f3ee", "#8a7d5a"


def band(x, y, width, height, fill, title):
    """A plane: a tinted area with a title in its upper right corner."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" fill="{fill}"/>'
        f'<text x="{x + width - 20}" y="{y + 27}" class="plane" text-anchor="end">{escape(title)}</text>'
    )


def box(x, y, width, height, edge, title, *lines):
    """A part of the system: its name, and what it does in a line or two."""
    middle = x + width / 2
    top = y + height / 2 - 9 * len(lines)
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{PAPER}" stroke="{edge}" stroke-width="1.8"/>',
        f'<text x="{middle}" y="{top + 5}" class="name">{escape(title)}</text>',
    ]
    for number, line in enumerate(lines, 1):
        parts.append(f'<text x="{middle}" y="{top + 5 + 18 * number}" class="note">{escape(line)}</text>')
    return "".join(parts)


def arrow(points, edge=LINE, both=False, dashed=False):
    """A line with a head at its end, and at its start too if `both`."""
    path = "M" + " L".join(f"{x},{y}" for x, y in points)
    start = ' marker-start="url(#head)"' if both else ""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="{path}" fill="none" stroke="{edge}" stroke-width="1.8"{dash} marker-end="url(#head)"{start}/>'


def label(x, y, text, anchor="middle"):
    return f'<text x="{x}" y="{y}" class="label" text-anchor="{anchor}">{escape(text)}</text>'


def picture():
    parts = [
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="12" fill="{PAPER}" stroke="#d5dbe1"/>',
        band(380, 20, 600, 220, CONTROL, "Control plane: what may be released"),
        band(380, 260, 600, 220, DATA, "Data plane: the noise"),
        band(20, 500, 960, 120, SIDE, "Before and after a run"),
        box(30, 60, 160, 400, INK, "Training job", "PyTorch, JAX,", "Opacus, a federated", "server, or any", "gRPC client"),
        box(420, 80, 230, 110, CONTROL_EDGE, "Coordinator", "assigns shards, binds rows,", "signs release grants;", "holds no key"),
        box(790, 80, 170, 110, CONTROL_EDGE, "Ledger", "row ↔ commitment,", "durable first"),
        box(790, 330, 170, 110, DATA_EDGE, "Checkpoint store", "sealed state;", "saves time only"),
    ]
    for shift in (16, 8):
        parts.append(
            f'<rect x="{420 + shift}" y="{330 + shift}" width="230" height="110" rx="8" fill="{PAPER}" '
            f'stroke="{DATA_EDGE}" stroke-width="1.8"/>'
        )
    parts += [
        box(420, 330, 230, 110, DATA_EDGE, "Workers", "one or more shards each;", "rows made ahead of need", "from the key"),
        # The training job and the coordinator.
        arrow([(190, 110), (418, 110)]),
        label(290, 102, "1  bind row to commitment"),
        arrow([(420, 160), (192, 160)]),
        label(290, 152, "2  release grant"),
        # The training job and the workers.
        arrow([(190, 360), (418, 360)]),
        label(290, 352, "3  fetch slices, with the grant"),
        arrow([(420, 410), (192, 410)]),
        label(290, 402, "4  the noise"),
        # Within and between the planes.
        arrow([(650, 135), (788, 135)], both=True),
        label(719, 126, "bind, leases"),
        arrow([(500, 190), (500, 328)]),
        label(492, 224, "leases, epochs", "end"),
        arrow([(570, 330), (570, 192)]),
        label(578, 224, "heartbeats: rows released", "start"),
        arrow([(666, 385), (788, 385)], both=True),
        label(728, 376, "state"),
        # Beside them.
        box(250, 540, 200, 62, SIDE_EDGE, "Planner", "picks C for (ε, δ), memory"),
        box(520, 540, 200, 62, SIDE_EDGE, "Accountant", "ε of a plan or of a run"),
        box(770, 540, 190, 62, SIDE_EDGE, "Report", "the guarantee, stated"),
        box(60, 540, 100, 62, INK, "plan.toml"),
        arrow([(250, 571), (162, 571)]),
        arrow([(110, 540), (110, 462)]),
        arrow([(520, 571), (452, 571)], both=True),
        arrow([(720, 571), (768, 571)]),
        arrow([(960, 135), (970, 135), (970, 571), (962, 571)], dashed=True),
        label(964, 224, "rows released", "end"),
    ]
    style = (
        "text{font-family:'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif;fill:" + INK + "}"
        ".plane{font-size:14px;font-weight:bold;fill:" + MUTED + "}"
        ".name{font-size:16px;font-weight:bold;text-anchor:middle}"
        ".note{font-size:13px;text-anchor:middle;fill:" + MUTED + "}"
        ".label{font-size:12.5px;fill:" + INK + "}"
    )
    head = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="{LINE}"/></marker>'
    )
    title = "Rustle's architecture: a training job binds rows at the coordinator and fetches noise from the workers"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">\n'
        f"<title>{title}</title>\n<defs><style>{style}</style>{head}</defs>\n" + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture(), encoding="utf-8")
