"""Sphinx's settings for the lessons as static pages; ``build.py`` runs it on what it has gathered."""

project = "torch-clinic"
author = "The torch-clinic authors"
copyright = "The torch-clinic authors, MIT License"

extensions = ["myst_nb"]
# Lessons have been run before, see build.py; exercises are shown as they are handed out.
nb_execution_mode = "off"
# A list of links that a cell prints leads to pages, as in the text.
nb_render_markdown_format = "myst"
# Explorers are pictures here. This would load the widgets' scripts from another host.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
myst_heading_anchors = 3

html_theme = "sphinx_book_theme"
html_title = "torch-clinic"
html_theme_options = {
    "use_download_button": False,
    "show_toc_level": 2,
    "home_page_in_toc": True,
}
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
