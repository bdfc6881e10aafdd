"""The HTTP API and the web pages: an ASGI application over a client.

```python
app = perdure.web.app("sqlite:///shop.db", key=...)            # by itself
host.mount("/instances", perdure.web.app(engine, authorize=is_admin))   # in another application
```

Loaded only by those who serve it.
"""

from perdure.web.access import Access, Token, make_token, read_tokens
from perdure.web.application import app, lifespan
from perdure.web.audit import AuditRow, audit_file
from perdure.web.hooks import hooks
from perdure.web.settings import WebLimits
from perdure.web.sse import StreamEvent, sse
from perdure.web.worker_health import worker_app

__all__ = [
    "Access",
    "AuditRow",
    "StreamEvent",
    "Token",
    "WebLimits",
    "app",
    "audit_file",
    "hooks",
    "lifespan",
    "make_token",
    "read_tokens",
    "sse",
    "worker_app",
]
