"""Makes the links of alerts and dashboards to the published pages of docs/."""

from __future__ import annotations

import msgspec

PAGE = "{page}"
"""The place of a page's path in the URL."""


class Runbooks(msgspec.Struct, frozen=True):
    """The place where the pages are published. The URL of a page consists of `before`, then the page's path without the
    suffix .md, then `after`."""

    before: str = "docs/"
    after: str = ".md"

    @classmethod
    def at(cls, url: str) -> Runbooks:
        """Return the pages at a base URL, or at a URL that contains `{page}`. If the URL is empty, links lead to the
        pages of a checkout."""
        if not url:
            return cls()
        if PAGE in url:
            return cls(*url.split(PAGE, 1))
        return cls(f"{url.rstrip('/')}/")

    def link(self, page: str) -> str:
        """Return the URL of a page such as `reference/failures.md#failure-timeout`."""
        file, mark, anchor = page.partition("#")
        return f"{self.before}{file.removesuffix('.md')}{self.after}{mark}{anchor}"
