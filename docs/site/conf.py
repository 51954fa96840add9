"""The documentation site: ./dev docs builds it from docs/**/*.md and from the comments of include/gradstep."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import reference

project = "gradstep"
copyright = "the gradstep authors"
version_header = (reference.INCLUDE / "gradstep/version.hpp").read_text()
version = release = ".".join(re.findall(r"GRADSTEP_VERSION_\w+ (\d+)", version_header))

extensions = ["myst_parser", "breathe", "sphinx_design", "sphinx_copybutton", "extension"]
smartquotes = False  # primes are primes
highlight_language = "text"
toc_object_entries_show_parents = "hide"
cpp_index_common_prefix = ["gradstep::"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

copybutton_selector = "div.highlight:not(.highlight-text .highlight) pre"  # not for output

breathe_projects = {"gradstep": str(reference.XML)}
breathe_default_project = "gradstep"
breathe_show_include = False

html_theme = "furo"
html_title = f"gradstep {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["sidebar.js"]
html_show_sphinx = False
html_copy_source = False
