"""The layout's style sheet: tabs by default, a grid where the terminal is large."""

from __future__ import annotations

CSS = """
Screen { background: $background; color: $foreground; }
* { scrollbar-color: $foreground 30%; scrollbar-background: $background; }

#head, #keys { background: $panel; }
#body { height: 1fr; }
#top, #bottom { height: 0; display: none; }
#top.-shown, #bottom.-shown { height: 1fr; display: block; }
#console-box { height: auto; max-height: 9; display: none; border-top: solid $foreground 30%; }
#console-box.-open { display: block; }
#console { height: auto; max-height: 100%; }

Pane { width: 1fr; height: 1fr; display: none; }
Pane.-shown { display: block; }
.lower-title { background: $panel; }
#trace-upper { height: 1fr; min-height: 4; layout: vertical; }
#trace-list { width: 1fr; height: 1fr; }
#trace-queue { width: 1fr; height: 1fr; display: none; }
#trace-detail { height: auto; max-height: 9; display: none; border-top: solid $foreground 30%; }
TracePane.-queue #trace-list { display: none; }
TracePane.-queue #trace-queue, TracePane.-queue #trace-detail { display: block; }
TracePane.-wide #trace-upper { layout: horizontal; }
TracePane.-wide #trace-list, TracePane.-wide #trace-queue { width: 6fr; }
TracePane.-wide #trace-detail {
    display: block; width: 5fr; height: 1fr; max-height: 100%;
    border-top: none; border-left: solid $foreground 30%;
}
TracePane > .lower { display: none; }
TracePane > LineView.lower { height: 8; }
TracePane.-memory > .memory { display: block; }
TracePane.-timeline > .timeline { display: block; }
TracePane.-queue > .lower { display: none; }
FindingsPane > #findings-body { height: 1fr; layout: vertical; }
#findings-left { width: 1fr; height: auto; max-height: 45%; }
#findings-detail { height: 1fr; border-top: solid $foreground 30%; }
#output-summary { display: none; }
OutputPane.-golden > #output-summary { display: block; }
#output-detail { height: auto; max-height: 50%; border-top: solid $foreground 30%; }

.-grid Pane { border: solid $foreground 30%; border-title-color: $text-muted; }
.-grid Pane:focus-within {
    border: heavy $primary; border-title-color: $text; border-title-style: bold;
}
.-grid #bottom.-shown { height: 1fr; }
.-grid #findings { height: 10; }
.-grid #top.-shown { height: 11; }
.-grid #console-box { max-height: 14; }
.-grid TracePane > .lower { display: block; }
.-grid TracePane.-queue > .lower { display: none; }
.-grid.-zoom TracePane.-queue > .timeline { display: block; }
.-grid TracePane > #trace-memory { height: 6; }
.-grid.-zoom TracePane > #trace-memory { height: 10; }
.-grid FindingsPane > #findings-body { layout: horizontal; }
.-grid #findings-left { width: 2fr; height: 1fr; max-height: 100%; }
.-grid #findings-detail {
    width: 3fr; height: 1fr; border-top: none; border-left: solid $foreground 30%;
}
.-grid.-zoom #findings, .-grid.-zoom #top.-shown, .-grid.-zoom #bottom.-shown { height: 1fr; }
"""
