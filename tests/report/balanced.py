"""Whether HTML closes what it opens."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "wbr"}


class Balanced(HTMLParser):
    """Fails where an element is closed that is not the last one opened."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.count = {}

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another element"


def balanced(html):
    """The number of elements of each tag."""
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser.count
