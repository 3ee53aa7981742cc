"""Whether HTML closes what it opens."""

import re
from collections import Counter
from xml.etree import ElementTree

VOID = re.compile(r"<(!doctype|meta|link|br|wbr)\b[^>]*>")


def balanced(html):
    """The number of elements of each tag; fails where what is closed is not the last one opened."""
    root = ElementTree.fromstring(f"<all>{VOID.sub('', html)}</all>")
    return Counter(element.tag.rpartition("}")[2] for element in root.iter())
