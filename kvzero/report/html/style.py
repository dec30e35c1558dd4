"""How a report looks: one style sheet, light and dark, from a phone to a desktop.

Colours are variables with a value for each scheme; text on any of them has a contrast
of at least 4.5 to 1, which a test computes. Nothing is told by colour alone.
"""

from base64 import b64encode
from hashlib import sha256

LIGHT = {
    "page": "#f3f5f8",
    "card": "#ffffff",
    "ink": "#19212c",
    "muted": "#556070",
    "line": "#cfd6df",
    "soft": "#eaeef3",
    "accent": "#1a5bb8",
    "fault": "#b3261e",
    "refusal": "#7b3fa3",
    "cost": "#8a5200",
    "good": "#1a6e3c",
    "on-mark": "#ffffff",
    "missed": "#b3261e",
    "touched": "#6a1b9a",
    "listed": "#1a6e3c",
    "segment-0": "#b9d3f5",
    "segment-1": "#f6d5a2",
    "segment-2": "#c3e6bd",
    "segment-3": "#e2c8f1",
    "segment-4": "#f5c3cd",
    "segment-5": "#bfe5e8",
}
"""Colours of the light scheme; also those where a style sheet is forbidden."""
DARK = {
    "page": "#0f1318",
    "card": "#191f27",
    "ink": "#e8ecf1",
    "muted": "#a6b0bd",
    "line": "#35404d",
    "soft": "#232b35",
    "accent": "#8ab6f9",
    "fault": "#ff8d83",
    "refusal": "#d6a9f7",
    "cost": "#f0b45f",
    "good": "#7dd49c",
    "on-mark": "#120508",
    "missed": "#ff8d83",
    "touched": "#d6a9f7",
    "listed": "#7dd49c",
    "segment-0": "#2c4a76",
    "segment-1": "#66481a",
    "segment-2": "#2c5731",
    "segment-3": "#533270",
    "segment-4": "#6a2d3b",
    "segment-5": "#1c555b",
}
SEGMENT_COLOURS = 6
NARROW_BELOW_PX = 820
"""Below this width, pictures have shorter rows."""


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_FILLS = "".join(f".f-{name}{{fill:var(--{name})}}" for name in LIGHT)
_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main,.top,footer{max-width:1240px;margin:0 auto;padding:0 24px}
.top{padding-top:28px}
footer{padding-top:8px;padding-bottom:40px;color:var(--muted);font-size:14px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px}
h2{font-size:20px;line-height:1.3;margin:36px 0 12px}
h3{font-size:17px;line-height:1.35;margin:0 0 10px;overflow-wrap:anywhere}
h4{font-size:15px;line-height:1.4;margin:22px 0 8px}
p{margin:8px 0}
a{color:var(--accent)}
.muted{color:var(--muted)}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:14px 0 0;
padding:0}
nav a{display:inline-block;padding:4px 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:18px 20px;margin:0 0 16px}
.finding{border-left:5px solid var(--line)}
.finding.fault{border-left-color:var(--fault)}
.finding.refusal{border-left-color:var(--refusal)}
.finding.cost{border-left-color:var(--cost)}
.badge{display:inline-block;border:1.5px solid currentColor;border-radius:6px;
padding:0 8px;font-weight:650;font-size:14px;line-height:1.6;margin-right:8px;
white-space:nowrap}
.badge.fault{color:var(--fault)}.badge.refusal{color:var(--refusal)}
.badge.cost,.badge.open{color:var(--cost)}.badge.good{color:var(--good)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));
gap:12px 24px;margin:12px 0 0}
dt{color:var(--muted);font-size:13.5px}
dd{margin:0;overflow-wrap:anywhere}
.figures{display:flex;flex-wrap:wrap;gap:12px 44px}
.figures dd{overflow-wrap:normal;font-size:20px;font-weight:600;
font-variant-numeric:tabular-nums}
code,pre,.mono{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",
monospace;font-size:13.5px}
pre{margin:8px 0;padding:12px 14px;background:var(--soft);border-radius:8px;
overflow-x:auto;line-height:1.5;tab-size:4}
pre.wrap,pre.command{white-space:pre-wrap;overflow-wrap:anywhere}
pre.command code{-webkit-user-select:all;user-select:all;cursor:copy}
details,summary{overflow-wrap:anywhere}
details{margin:10px 0}
summary{cursor:pointer;padding:5px 0;color:var(--accent);font-weight:550}
.scroll{overflow-x:auto;margin:8px 0}
table{border-collapse:collapse;width:100%;font-size:14.5px}
th,td{padding:7px 12px 7px 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}
thead th{color:var(--muted);font-weight:550;font-size:13.5px;white-space:nowrap}
tbody th{font-weight:500}
td,th{overflow-wrap:break-word}
ol.contents{padding-left:44px}ol.contents li{margin:4px 0}
dl.explanation{grid-template-columns:max-content minmax(0,1fr);gap:5px 18px;
background:var(--soft);border-radius:8px;padding:12px 14px;margin:8px 0}
dl.explanation div{display:contents}
dl.explanation dd{font-family:ui-monospace,"SF Mono",Menlo,Consolas,
"DejaVu Sans Mono",monospace;font-size:13.5px}
td.number,th.number{padding-right:22px}
section>h3:not(:first-child){margin-top:24px}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.bar,.bar{min-width:120px;width:34%}
.bar svg{display:block;width:100%;height:14px;margin-top:4px}
figure{margin:18px 0 0}
figcaption{font-weight:600;font-size:14.5px;margin-bottom:6px}
figure svg{display:block;max-width:100%;height:auto}
.narrow{display:none!important}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:6px 20px;margin:12px 0 0;
padding:0;font-size:13.5px;color:var(--muted)}
.legend li{display:flex;align-items:center;gap:8px}
.legend svg{flex:none}
svg text{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:var(--ink)}
svg .on-mark{fill:var(--on-mark)}svg .dim{fill:var(--muted)}
.s-line{stroke:var(--line)}.s-ink{stroke:var(--ink)}.s-muted{stroke:var(--muted)}
.s-accent{stroke:var(--accent)}.s-card{stroke:var(--card)}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(430px,100%),1fr));
gap:0 32px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
@media (max-width:NARROWpx){
main,.top,footer{padding-left:12px;padding-right:12px}
.top{padding-top:18px}
.card{padding:14px 12px}
h1{font-size:22px}
dl{grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:10px 16px}
.figures{gap:10px 28px}.figures dd{font-size:18px}
.wide{display:none!important}.narrow{display:block!important}
table{font-size:13.5px}
ol.contents{padding-left:34px}
.stacks thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;
overflow:hidden}
.stacks,.stacks tbody,.stacks tr,.stacks th,.stacks td{display:block}
.stacks tr{padding:8px 0;border-bottom:1px solid var(--line)}
tbody th{min-width:118px;overflow-wrap:anywhere}
.stacks th{font-weight:600}
.stacks .badge{justify-self:start}
td.bar,.bar{min-width:48px}
thead th{white-space:normal}
.stacks th,.stacks td{border:0;padding:2px 0;text-align:left;white-space:normal;
overflow-wrap:anywhere}
.stacks td{display:grid;grid-template-columns:92px minmax(0,1fr);gap:10px}
.stacks td:empty{display:none}
.stacks td::before{content:attr(data-label);color:var(--muted)}
}
@media print{.card{break-inside:avoid}nav{display:none}pre{white-space:pre-wrap}}
"""


def style_sheet() -> str:
    """Return the style sheet of every report."""
    rules = _RULES.replace("NARROW", str(NARROW_BELOW_PX - 1))
    return (
        f":root{{color-scheme:light dark;{_variables(LIGHT)}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
        f"{rules}{_FILLS}\n"
    )


def content_policy() -> str:
    """Return a Content-Security-Policy that allows this style sheet and no more."""
    digest = b64encode(sha256(style_sheet().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        f"form-action 'none'"
    )
