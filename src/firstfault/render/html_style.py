"""The style sheet of the HTML report: one column, one accent, system fonts, light and dark, fit for printing."""

CSS = """
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #1d2024; --soft: #5b626b; --line: #e3e5e8; --code: #f3f4f6;
  --accent: #0f62a8; --fault: #c02626; --open: #9a5b00; --good: #1a7f4b; --plus: #e4f5ea; --minus: #f4f4f5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --card: #1b1f24; --ink: #e4e7eb; --soft: #9aa3ad; --line: #2d333b; --code: #22272e;
    --accent: #74b3ee; --fault: #ff7b72; --open: #e3b341; --good: #56d38f; --plus: #173524; --minus: #23282f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere;
}
header, main, footer { max-width: 960px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 28px; display: flex; flex-wrap: wrap; gap: 4px 20px; justify-content: space-between; }
header p, footer p { margin: 0; max-width: none; color: var(--soft); font-size: 14px; }
header .name { color: var(--accent); font-weight: 650; letter-spacing: .01em; }
section { margin: 36px 0 0; }
h1 { font-size: 28px; line-height: 1.25; font-weight: 680; margin: 8px 0 14px; letter-spacing: -.012em; text-wrap: balance; }
h2 { font-size: 13px; font-weight: 680; letter-spacing: .07em; text-transform: uppercase; margin: 0 0 12px; }
h2 { color: var(--soft); }
h3 { font-size: 16px; font-weight: 620; margin: 22px 0 8px; }
p { margin: 0 0 12px; max-width: 72ch; }
ul { margin: 0; padding-left: 20px; } li { margin: 0 0 8px; max-width: 76ch; } li::marker { color: var(--soft); }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: 3px; }
a:focus-visible, .scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
code, pre, .place { font-family: ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, monospace; font-size: 13.5px; }
code { background: var(--code); border-radius: 4px; padding: 1px 5px; unicode-bidi: isolate; }
pre {
  background: var(--code); border-radius: 8px; padding: 12px 16px; margin: 0 0 12px; line-height: 1.5; overflow-x: auto;
  tab-size: 4;
}
pre code { background: none; padding: 0; font-size: inherit; }
pre.command { white-space: pre-wrap; }
.verdict { border-left: 5px solid var(--fault); padding: 4px 0 4px 20px; margin-top: 24px; }
.verdict.undetermined { border-color: var(--open); } .verdict.no_failure { border-color: var(--good); }
.word { font-weight: 750; font-size: 14px; letter-spacing: .09em; color: var(--fault); margin: 0; }
.undetermined .word { color: var(--open); } .no_failure .word { color: var(--good); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 18px; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; }
.sure {
  display: inline-block; border: 1px solid currentColor; border-radius: 99px; padding: 0 9px; font-size: 13px;
  line-height: 1.55; color: var(--soft); margin-left: 8px; white-space: nowrap;
}
.sure.established { color: var(--accent); font-weight: 600; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 22px; }
.card > :first-child, .card > p:first-child { margin-top: 0; } .card > :last-child { margin-bottom: 0; }
.ask { border-left: 5px solid var(--open); }
.lead { font-size: 18px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td {
  text-align: left; vertical-align: top; padding: 9px 16px 9px 0; border-top: 1px solid var(--line); font-weight: 400;
}
thead th { border-top: 0; color: var(--soft); font-size: 13px; padding-top: 0; }
tbody tr:target { background: var(--code); }
td:last-child { padding-right: 0; }
.place { color: var(--soft); }
th .place, td .place { display: inline-block; max-width: 32ch; overflow-wrap: break-word; }
th .short, td .short { max-width: none; white-space: nowrap; }
.first .place { color: var(--fault); }
.log {
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 13.5px;
  unicode-bidi: isolate; white-space: pre-line;
}
.weight { color: var(--soft); font-size: 13px; white-space: nowrap; text-align: right; }
.weight.decisive { color: var(--accent); }
.diff span { display: block; padding: 0 16px; margin: 0 -16px; min-width: max-content; }
.diff .plus { background: var(--plus); } .diff .minus { background: var(--minus); } .diff .at { color: var(--soft); }
.quiet, .quiet td, .quiet th { color: var(--soft); }
.pair { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0 32px; }
summary { cursor: pointer; color: var(--soft); font-size: 14px; margin-top: 8px; }
svg { display: block; width: 100%; min-width: 640px; height: auto; }
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); } svg .strong { font-weight: 650; }
svg .busy { stroke: var(--accent); stroke-width: 5; stroke-linecap: round; opacity: .8; }
svg .alive { stroke: var(--line); stroke-width: 5; stroke-linecap: round; }
svg .initiating { fill: var(--fault); } svg .collateral { fill: var(--card); stroke: var(--soft); stroke-width: 1.6; }
svg .stopped, svg .silent { stroke: var(--soft); stroke-width: 2; fill: none; } svg .outside { fill: var(--open); }
svg a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
svg .axis { stroke: var(--line); } svg .fault-line { stroke: var(--fault); stroke-dasharray: 2 4; opacity: .7; }
footer { margin-top: 44px; padding-bottom: 44px; } footer p { border-top: 1px solid var(--line); padding-top: 18px; }
@media (max-width: 640px) {
  header, main, footer { padding-left: 16px; padding-right: 16px; }
  h1 { font-size: 23px; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 8px; }
  .evidence tr { display: block; border-top: 1px solid var(--line); padding: 8px 0; }
  .evidence th, .evidence td { display: block; border: 0; padding: 0; text-align: left; } .evidence thead { display: none; }
  .lanes tr { display: block; border-top: 1px solid var(--line); padding: 8px 0; } .lanes thead { display: none; }
  .lanes th, .lanes td { display: block; border: 0; padding: 0; } .lanes td:empty { display: none; }
  @supports selector(::details-content) {
    .drawn, .lanes summary { display: none; } .lanes::details-content { content-visibility: visible; block-size: auto; }
  }
}
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --code: #f5f5f5; }
  body { font-size: 11pt; } pre { white-space: pre-wrap; } section, .card, tr { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } summary { display: none; }
}
"""
