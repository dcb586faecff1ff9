"""A hook of MkDocs: pages of docs/ also link to files of the repository, which a site does not have. There the link becomes its text."""
import posixpath
import re

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)")
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:|^#")


def without_links_to(is_there, page, text):
    """`text` of the page at `page`, with the links whose target is not there replaced by what they say."""
    def replaced(match):
        target = match[2].partition("#")[0]
        if OUTSIDE.match(match[2]) or is_there(posixpath.normpath(posixpath.join(posixpath.dirname(page), target))):
            return match[0]
        return match[1]

    parts = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def on_page_markdown(markdown, page, config, files):
    return without_links_to(lambda path: files.get_file_from_path(path) is not None, page.file.src_uri, markdown)
