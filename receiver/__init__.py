"""Takes events over HTTP and writes them to a bus: an ASGI app, its credentials, and its server."""
