"""The view of GX's pages that needs no internet: loaded by name from data_docs.SITE_CONFIG.

GX's templates take their styles, icons and scripts from six public servers; without them a page is
a heap of text that does not even say which expectations were met. Each page carries
pages/offline.css instead, and waits for no server.
"""

import re

from great_expectations.render.view import DefaultJinjaPageView

from lockstep.quality.data_docs import PAGES, SUMMARY_PLACE

_FROM_THE_INTERNET = re.compile(
    r"""<script[^>]*\bsrc="https?:[^>]*></script>|<(?:link|img)[^>]*"https?:[^>]*>"""
    r"""|url\(['"]?https?:[^)]*\)"""
)
_NEWSLETTER = re.compile(r"<footer>.*?</footer>", re.DOTALL)
_MAIN_COLUMN = re.compile(r'<div class="col-md-10 [^>]*>')


class OfflinePageView(DefaultJinjaPageView):
    """GX's page with our style sheet, and room for the summary of the checks."""

    def render(self, document, template=None, **kwargs):
        """The page as HTML; nothing in it is loaded from another server."""
        html = super().render(document, template, **kwargs)
        html = _NEWSLETTER.sub("", _FROM_THE_INTERNET.sub("", html))
        html = _MAIN_COLUMN.sub(lambda column: column[0] + SUMMARY_PLACE, html, count=1)
        # GX counts a warning as a failure; which it is, the summary says.
        html = html.replace("</i> Failed", "</i>").replace("</i> Succeeded", "</i>")
        html = html.replace("Data asset: None<br>", "")  # it looks where no frame has its name
        style = (PAGES / "offline.css").read_text(encoding="utf-8")
        return html.replace("</head>", f"<style>{style}</style></head>", 1)
