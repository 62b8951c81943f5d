# MkDocs hook: CONTRIBUTING.md, SECURITY.md and CHANGELOG.md are at the top of the repository, where GitHub expects them; on the site they are pages.
import re


def on_page_markdown(markdown, **_):
    return re.sub(r'\]\(\.\./(CONTRIBUTING|SECURITY|CHANGELOG)\.md', lambda m: f'](./{m[1].lower()}.md', markdown)
