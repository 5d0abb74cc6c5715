"""Where the pages of docs/operating/ are published: links of alerts and dashboards to them."""

from __future__ import annotations

import msgspec

PAGE = "{page}"
"""The place of a page's path in the URL."""


class Runbooks(msgspec.Struct, frozen=True):
    """The URL of a page is `before`, its path without the suffix .md, and `after`."""

    before: str = "docs/operating/"
    after: str = ".md"

    @classmethod
    def at(cls, url: str) -> Runbooks:
        """The pages at a base URL, or at a URL with `{page}`; if the URL is empty, the pages of a checkout."""
        if not url:
            return cls()
        if PAGE in url:
            return cls(*url.split(PAGE, 1))
        return cls(f"{url.rstrip('/')}/")

    def link(self, page: str) -> str:
        """The URL of a page such as `failures.md#failure-timeout`."""
        file, mark, anchor = page.partition("#")
        return f"{self.before}{file.removesuffix('.md')}{self.after}{mark}{anchor}"
