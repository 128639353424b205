"""The view of GX's pages that needs no internet: loaded by name from data_docs.SITE_CONFIG.

GX's templates take their styles and scripts from six public servers. Without them a page is a
heap of text, so each page carries pages/offline.css instead, and waits for nobody.
"""

import re

from great_expectations.render.view import DefaultJinjaPageView

from lockstep.quality.data_docs import PAGES

_FROM_THE_INTERNET = re.compile(
    r"""<script[^>]*\bsrc="https?://[^>]*></script>|<link[^>]*\bhref="https?://[^>]*>"""
)
_NEWSLETTER = re.compile(r"<footer.*?</footer>", re.DOTALL)


class OfflinePageView(DefaultJinjaPageView):
    """GX's page, with our style sheet in place of everything it would load."""

    def render(self, document, template=None, **kwargs):
        """The page as HTML."""
        html = super().render(document, template, **kwargs)
        html = _NEWSLETTER.sub("", _FROM_THE_INTERNET.sub("", html))
        style = (PAGES / "offline.css").read_text(encoding="utf-8")
        return html.replace("</head>", f"<style>{style}</style></head>", 1)
