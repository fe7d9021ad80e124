"""The judge's canary: a page that invites alteration, made of a nonce and the judge's key, whose digest we therefore know.

Pure, standard library only. Nobody who lacks the key can make the page, and none is ever asked for twice.
"""

from __future__ import annotations

from proxypool.checks.mac import mac

_LINES = 16
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'self'">
<script>window.ready = "{title}";</script></head>
<body><h1>{title}</h1>
<p><a href="http://example.com/shop">shop</a> <img src="/pixel.gif" alt="" width="1" height="1"></p>
<form action="/login" method="post"><input name="user"><input name="password" type="password"></form>
<pre>
{lines}
</pre>
</body></html>
"""


def canary(key: bytes | None, nonce: str) -> bytes:
    """The page for this nonce: about 1.7 KB of HTML that an injector finds everything in that it looks for."""
    lines = [mac(key or b"", f"{nonce}{number}") for number in range(_LINES)]
    return _PAGE.format(title=lines[0][:16], lines="\n".join(lines)).encode()
