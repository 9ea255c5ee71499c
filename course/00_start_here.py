# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Start here
#
# This course is about the mistakes that PyTorch does **not** stop you from making: code that runs,
# returns the right shapes and is wrong, slow or wasteful all the same. Each chapter takes one family of
# them and has two parts:
#
# * a **lesson** in `course/`: the idea behind the family, with pictures and sliders to play with,
# * an **exercise** in `exercises/`: a small program that runs and is wrong on purpose. You fix it.
#
# You need Python and some PyTorch. Everything runs on a laptop without a GPU, and nothing is downloaded.
#
# ## How a chapter works
#
# 1. Read the lesson with your hands: make the predictions, run the cells, move the sliders.
# 2. Open the exercise and repair the cells marked for it. Every task names the symptom, not the cause.
# 3. Run `check("task")` in the notebook, with the task's name, as often as you like. A failed check
#    says what it observed and which lesson section to read again.
# 4. To check everything at once, run `pytest exercises` in a terminal, in the folder of the project.
#
# ## Is this machine ready?
#
# The next cell prints what the course found here. If it runs without an error, you can begin.

# %%
from autograder.hardware import fingerprint

for name, value in fingerprint().items():
    print(f"{name}: {value}")

# %% [markdown]
# ## The chapters

# %%
from pathlib import Path

from IPython.display import Markdown, display


def chapter_line(lesson: Path) -> str:
    """One line of the list below: the lesson and, where there is one, the exercise."""
    exercise = Path("..", "exercises", lesson.stem, lesson.name)
    number, _, topic = lesson.stem.removeprefix("ch").partition("_")
    line = f"* Chapter {int(number)}, {topic.replace('_', ' ')}: [lesson]({lesson.as_posix()})"
    if exercise.exists():
        line += f", [exercise]({exercise.as_posix()})"
    return line


lessons = sorted(Path(".").glob("ch[0-9]*.ipynb"))
lines = [chapter_line(lesson) for lesson in lessons]
display(Markdown("\n".join(lines) or "No lessons found: run this notebook from the folder `course`."))
