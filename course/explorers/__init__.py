"""Explorers: pictures with sliders that the lessons are built around.

Each module has a plain part (numbers computed by running torch, testable
without a notebook) and a thin widget part that draws those numbers.
"""
