"""One self-contained HTML file: no script, no request, readable anywhere."""
