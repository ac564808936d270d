"""Pages that tests open in a browser: in which nothing may go wrong, and from which no request may go out."""

from contextlib import contextmanager


@contextmanager
def shown(tab, folder):
    """A function that writes a page and opens it in a tab; at the end the console is empty and nothing was fetched."""
    tab.problems.clear()
    tab.requests.clear()

    def show(text, **options):
        (folder / "report.html").write_text(text, encoding="utf-8")
        tab.open(folder / "report.html", **options)
        return tab

    yield show
    assert tab.problems == []
    assert {address.rsplit("/", 1)[1] for address in tab.requests} == {"report.html"}
