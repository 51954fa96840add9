"""What the site needs beside MyST and Breathe: the API of headers, links to sources, files of the root as pages, tabs for languages, and
directives that GitHub hides."""

import os
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from breathe.renderer.sphinxrenderer import SphinxRenderer
from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

import reference
import write_reference


def shown_members(entity: reference.Entity) -> list[str]:
    """What the docstring of the class, of a member beside them or their own tells of, the data of objects, whose names and
    defaults say what they are, and the names of a rule's state."""
    told = reference.names_in_code([entity, *entity.members]) | {"state_names"}
    shown = [each.short_name for each in entity.members if each.kind not in reference.CLASSES
             and (each.is_documented or each.short_name in told
                  or (each.kind == "variable" and not each.is_static))]
    return list(dict.fromkeys(shown))


def without_detail(tree: ElementTree.ElementTree) -> list[tuple[ElementTree.Element, ElementTree.Element]]:
    """Names what it can without namespace detail, and returns, with their parents, the members that only gradstep's own code calls."""
    def has_detail(element: ElementTree.Element | None) -> bool:
        return element is not None and "detail::" in "".join(element.itertext())

    def replace(element: ElementTree.Element, text: str) -> None:
        tail = element.tail
        element.clear()
        element.text, element.tail = text, tail

    out = []
    for element in tree.iter():
        for parameter in element.findall("templateparamlist/param"):
            if has_detail(parameter.find("type")):
                replace(parameter.find("type"), "class")
            if has_detail(parameter.find("defval")):
                replace(parameter.find("defval"), "implementation_defined")
        out += [(element, clause) for clause in element.findall("requiresclause") if has_detail(clause)]
    for section in tree.iter("sectiondef"):
        for member in section.findall("memberdef"):
            for parameter in member.findall("param"):
                if has_detail(parameter.find("defval")):
                    replace(parameter.find("defval"), "implementation_defined")
            if has_detail(member.find("initializer")):
                member.remove(member.find("initializer"))
            is_free = section.get("kind") in ("var", "typedef")
            if has_detail(member.find("type")) and (member.get("kind") == "typedef" or is_free):
                replace(member.find("type"), "implementation_defined")
            elif has_detail(member.find("type")) or any(has_detail(parameter.find("type")) for parameter in member.findall("param")):
                out.append((section, member))
    return out


def tidy_xml(app):
    """Takes out of Doxygen's XML what is private, where Breathe finds it by the name of a public overload, values that are code (a
    lambda, a requires-expression), which Sphinx does not parse, and what namespace detail has."""
    for file in reference.XML.glob("*.xml"):
        tree = ElementTree.parse(file)
        out = without_detail(tree)
        out += [(compound, section) for compound in tree.iter("compounddef") for section in compound.findall("sectiondef")
               if section.get("kind").startswith("private")]
        out += [(variable, value) for variable in tree.iter("memberdef") for value in variable.findall("initializer")
                if re.search(r"\[\]|\brequires\b", "".join(value.itertext()))]
        for parent, child in out:
            parent.remove(child)
        if out:
            tree.write(file, encoding="utf-8", xml_declaration=True)


class Api(SphinxDirective):
    """What headers offer. Its content is lines of reference.Listing."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        entities = reference.read()
        overloads = Counter(each.name for each in entities)
        out = []
        for listing in reference.listings(self.content):
            for header in reference.matching_headers(listing.pattern):
                self.env.note_dependency(str(reference.INCLUDE / header))
                shown = [each for each in entities if each.header == header and each.is_documented and not each.is_specialization
                         and each.short_name not in listing.hidden]
                for each in sorted(shown, key=lambda each: listing.place(each.short_name)):
                    out += self.parse_text_to_nodes(self.breathe(each, overloads[each.name] > 1, listing.hidden))
        return out

    @staticmethod
    def breathe(entity: reference.Entity, is_overloaded: bool, hidden: set[str]) -> str:
        name = entity.name + (entity.arguments if is_overloaded else "")
        members = [x for x in shown_members(entity) if x not in hidden] if entity.kind in reference.CLASSES else []
        options = f":members: {', '.join(members)}\n:undoc-members:\n" if members else ""
        if entity.kind == "namespace":
            options = ":desc-only:\n"
        return f"```{{doxygen{entity.kind}}} {name}\n{options}```\n"


class Links(SphinxTransform):
    """Links to sources lead to pages of the site that show them, instead of to downloads; those to folders, which the
    site does not have, are text; those that have the name of a Markdown file as text show its title."""

    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        for link in list(self.document.findall(addnodes.download_reference)):
            link.replace_self(self.to_source(link))
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link["reftype"] == "myst" and self.path(link).is_dir():
                link.replace_self(link.children)
            elif link["reftype"] == "myst" and re.fullmatch(r"[\w/.]+\.md", link.astext()):
                link["refexplicit"] = False

    def path(self, link: nodes.Element) -> Path:
        return Path(self.env.relfn2path(link["reftarget"], self.env.docname)[1])

    def to_source(self, link: nodes.Element) -> nodes.Element:
        target = str(self.path(link).resolve().relative_to(reference.ROOT))
        return addnodes.pending_xref("", *link.children, refdomain="", reftype="gradstep-source", reftarget=target,
                                     refdoc=self.env.docname, refexplicit=True)


class ShortSignatures(SphinxTransform):
    """Declarations without the namespaces that say no more than the page, and without `inline`, which most are."""

    default_priority = 500
    namespaces = re.compile(r"^gradstep::(dialects::\w+::)?")

    def apply(self, **kwargs: object) -> None:
        for signature in self.document.findall(addnodes.desc_signature):
            if "_toc_name" in signature:
                signature["_toc_name"] = self.namespaces.sub("", signature["_toc_name"])
        for scope in list(self.document.findall(addnodes.desc_addname)):
            shown = self.namespaces.sub("", scope.astext())
            scope.children = [nodes.Text(shown)] if shown else []
        for word in list(self.document.findall(addnodes.desc_sig_keyword)):
            if word.astext() == "inline":
                at = word.parent.index(word)
                del word.parent.children[at:at + 2]  # and the space


def source_page(path: str) -> str:
    return f"source/{path}"


def resolve_source(app, env, node, content):
    if node["reftype"] != "gradstep-source":
        return None
    app.gradstep_sources.add(node["reftarget"])
    uri = app.builder.get_relative_uri(node["refdoc"], source_page(node["reftarget"]))
    return nodes.reference("", "", content, internal=True, refuri=uri)


def code(app, path: str) -> str:
    try:
        language = get_lexer_for_filename(path).aliases[0]
    except ClassNotFound:
        language = "text"
    return app.builder.highlighter.highlight_block((reference.ROOT / path).read_text(), language)


def source_pages(app):
    for path in sorted(app.gradstep_sources):
        yield source_page(path), {"title": path, "body": f"<h1>{path}</h1>\n{code(app, path)}"}, "page.html"


LANGUAGE = r"<details(?: open)?><summary><b>([^<]+)</b></summary>\n(.*?)^</details>\n"


def language_tabs(app, docname, content):
    """Shows blocks `<details><summary><b>LANGUAGE</b></summary> ... </details>` that follow each other as tabs. Tabs of the same language
    change together on all pages."""
    def as_tabs(match: re.Match[str]) -> str:
        items = re.findall(LANGUAGE, match[0], flags=re.MULTILINE | re.DOTALL)
        tabs = "".join(f":::{{tab-item}} {name}\n:sync: {name.lower()}\n{text}:::\n" for name, text in items)
        return f"::::{{tab-set}}\n{tabs}::::\n"

    content[0] = re.sub(rf"(?:^{LANGUAGE})+", as_tabs, content[0], flags=re.MULTILINE | re.DOTALL)


def hidden_directives(app, docname, content):
    """`<!--{toctree} ... -->` and `<!--{api} ... -->` are directives here and nothing on GitHub. The tables that GitHub shows
    below the latter (write_reference.py) are left out."""
    text = re.sub(re.escape(write_reference.BEGIN) + ".*?" + re.escape(write_reference.END), "", content[0], flags=re.DOTALL)
    content[0] = re.sub(r"^<!--(\{(?:toctree|api)\}.*?)^-->", r"```\1```", text, flags=re.MULTILINE | re.DOTALL)


def included_file(page: Path) -> str | None:
    """The file, relative to the root, that a page of docs/site shows: the page consists of an include of it."""
    found = re.fullmatch(r"```\{include\} (?:\.\./)+(\S+)\n```\s*", page.read_text()) if page.parent.name == "site" else None
    return found and found[1]


def files_outside(app, docname, content):
    """Shows files of the root, such as CHANGELOG.md, as pages of docs/site. Links in them and to them lead to the site."""
    docs = Path(app.srcdir)
    pages = {included_file(page): page for page in (docs / "site").glob("*.md")}
    page = docs / f"{docname}.md"
    own = included_file(page)
    source = reference.ROOT / own if own else page
    if own:
        content[0] = source.read_text()

    def followed(link: re.Match[str]) -> str:
        path, hash_sign, fragment = link[1].partition("#")
        target = Path(os.path.normpath(source.parent / path))
        if not path or not target.exists() or not target.is_relative_to(reference.ROOT):
            return link[0]
        to = pages.get(str(target.relative_to(reference.ROOT)), target if own else None)
        return link[0] if to is None else f"]({os.path.relpath(to, page.parent)}{hash_sign}{fragment})"

    content[0] = re.sub(r"\]\(([^)\s:]+)\)", followed, content[0])


def title_alone(toc: nodes.Node) -> nodes.Node:
    """The table of contents of a page without its sections and declarations, unless pages are among them."""
    if not toc.children or any(True for _ in toc.findall(addnodes.toctree)):
        return toc
    return nodes.bullet_list("", nodes.list_item("", toc[0][0].deepcopy()))


def navigation_of_titles(app, page, template, context, doctree):
    """The navigation beside a page has the titles of all pages. To find them, Sphinx would copy every heading and declaration of the
    site for each page, which takes most of the time of a build."""
    toctree, env = context["toctree"], app.env
    if app.gradstep_titles is None:
        app.gradstep_titles = {name: title_alone(toc) for name, toc in env.tocs.items()}

    def of_titles(**options):
        whole, env.tocs = env.tocs, app.gradstep_titles
        try:
            return toctree(**options)
        finally:
            env.tocs = whole

    context["toctree"] = of_titles


def setup(app):
    SphinxRenderer.sections = sorted(SphinxRenderer.sections, key=lambda section: section[0].value == "public-type")  # types come last
    app.gradstep_sources = set()
    app.gradstep_titles = None
    app.add_directive("api", Api)
    app.add_transform(Links)
    app.add_transform(ShortSignatures)
    app.connect("builder-inited", tidy_xml)
    app.connect("source-read", files_outside)
    app.connect("source-read", hidden_directives)
    app.connect("source-read", language_tabs)
    app.connect("missing-reference", resolve_source)
    app.connect("html-collect-pages", source_pages)
    app.connect("html-page-context", navigation_of_titles, priority=400)  # before the theme asks for it
    return {"parallel_read_safe": False, "parallel_write_safe": False}
