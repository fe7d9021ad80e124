"""The judge's canary page: HTML that invites injection, derived from a nonce and the judge's key, so its digest is
known.

Pure, standard library only. The page cannot be made without the key, and each nonce is used once.
"""

from __future__ import annotations

from proxypool.checks.judge.mac import hmac_hex

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


def canary_page(key: bytes | None, nonce: str) -> bytes:
    """The page for this nonce: about 1.7 KB of HTML with everything that content injectors look for."""
    lines = [hmac_hex(key or b"", f"{nonce}{number}") for number in range(_LINES)]
    return _PAGE.format(title=lines[0][:16], lines="\n".join(lines)).encode()
