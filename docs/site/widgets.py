"""Explorers without a kernel: what a widget shows when it opens, as plain HTML.

A notebook that was run holds the state of its widgets (nbformat, "widget-state+json"): a model for each, with the ids
of those inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

VIEW = "application/vnd.jupyter.widget-view+json"
"""The type of an output that is a widget."""
STATE = "application/vnd.jupyter.widget-state+json"

Models = Mapping[str, Mapping[str, Any]]

_NOTE = "An explorer, as it opens. In JupyterLab you can move what is set here:"
_ALT = "The explorer's picture. The text beside it says what it shows."
_REFERENCE = "IPY_MODEL_"


def stand_still(notebook: Any) -> None:
    """Replace each widget among a notebook's outputs by what it shows, and drop the state of widgets."""
    models: Models = notebook.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if VIEW in output.get("data", {}):
                shown = html_of(output["data"][VIEW]["model_id"], models)
                output["data"] = {"text/html": shown, "text/plain": "An explorer."}


def html_of(model_id: str, models: Models) -> str:
    """What the widget *model_id* shows; raises ``ValueError`` where there is a kind of widget that it does not know."""
    parts = [*_parts(model_id, models)]
    settings = "; ".join(text for kind, text in parts if kind == "setting")
    shown = "\n".join(text for kind, text in parts if kind == "shown")
    return f'<div class="explorer">\n<p><em>{_NOTE}</em> {settings}.</p>\n{shown}\n</div>'


def _parts(model_id: str, models: Models) -> Iterator[tuple[str, str]]:
    """Settings that can be moved and things shown, in the order of the widget: ("setting" or "shown", HTML)."""
    model = models[model_id.removeprefix(_REFERENCE)]
    state = model["state"]
    if state.get("disabled") or _is_hidden(state, models):
        return
    if "children" in state:
        for child in state["children"]:
            yield from _parts(child, models)
    elif model["model_name"] == "HTMLModel":
        yield "shown", f"<div>{state['value']}</div>"
    elif model["model_name"] == "ImageModel":
        (picture,) = (buffer["data"] for buffer in model["buffers"] if buffer["path"] == ["value"])
        source = f"data:image/{state['format']};base64,{''.join(picture.split())}"
        yield "shown", f'<p><img alt="{_ALT}" src="{source}"></p>'
    elif "_options_labels" in state:
        yield "setting", _setting(state, state["_options_labels"][state["index"]])
    elif "value" in state and "min" in state:
        yield "setting", _setting(state, f"{state['value']:g}")
    else:
        raise ValueError(f"a widget of the kind {model['model_name']} cannot be shown without a kernel yet")


def _is_hidden(state: Mapping[str, Any], models: Models) -> bool:
    layout = models.get(str(state.get("layout", "")).removeprefix(_REFERENCE), {"state": {}})
    return layout["state"].get("display") == "none"


def _setting(state: Mapping[str, Any], value: str) -> str:
    return f"{escape(state.get('description', ''))} <b>{escape(value)}</b>"
