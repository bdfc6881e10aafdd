"""How Sphinx builds the book out of what `tools/book.py` lays out for it."""

project = "perdure"
html_title = "perdure"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f4e5f", "color-brand-content": "#1d6580"},
    "dark_css_variables": {"color-brand-primary": "#7cc3da", "color-brand-content": "#7cc3da"},
}

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # as other readers of these pages make them, so that a link works in both
myst_links_external_new_tab = False
smartquotes = False  # "first" is a value, to be typed as it stands
pygments_style = "friendly"
highlight_language = "text"
