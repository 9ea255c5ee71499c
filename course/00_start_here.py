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

# %% [markdown]
# ## Is this machine ready?
#
# The next cell tries what the course needs and takes some seconds. A line with ✓ works. A line with –
# says what this machine cannot show, and what that means for you; mostly it means nothing. Run the cell
# with *Shift+Enter*.

# %%
from autograder.self_test import self_test

self_test()

# %% [markdown]
# ## How a chapter works
#
# 1. **Read the lesson with your hands**: make the predictions, run the cells, move the sliders.
# 2. **Open the exercise.** Every task begins with a complaint, as you would get it at work: the symptom,
#    not the cause. Hints are folded away below it; open them one at a time.
# 3. **Change the function and run its cell.** You may add cells of your own wherever you like.
# 4. **Run the check**, `check("task")`, as often as you want. A table says what holds and what does not,
#    and which section of the lesson to read again. A check that takes longer shows how far it is.
# 5. When the last task of a chapter is done, the check shows what you changed in all of them, beside the
#    code as you got it. `what_you_fixed()` shows that again.
#
# Nothing here overwrites what you have written. Save, and `pytest exercises` in a terminal checks
# everything at once, in the folder of the course.

# %% [markdown]
# ## How far you are
#
# The next cell shows every chapter and task. **Begin with chapter 1**: all others build on what a tensor
# is. From there, take the chapters in the order of the list, or go where your own code hurts. Times are
# for people who make the predictions; an exercise may well be spread over two evenings.
#
# Leave this tab open: the board follows your checks by itself. When it has been closed or reloaded, run
# the cell once more.

# %%
from autograder.board import show_board

show_board()
