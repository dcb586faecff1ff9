#include "sim/workload/page.h"

#include "sim/workload/svg.h"

namespace lambent::workload {
namespace {

constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#5b6675;--rule:#dfe3e8;
--c0:#0b62c4;--c1:#d9480f;--c2:#0d8a5f;--c3:#9b3fb5;--c4:#a37600;--c5:#0891a8;--c6:#c2255c;--c7:#4b5563;
--queue:#f0a13a;--cold:#3d8bd4;--memory:#8a63c7;--run:#3a9d6e;--rest:#9aa4b2}
@media(prefers-color-scheme:dark){:root{--paper:#10151c;--card:#181f29;--ink:#e7ecf2;--soft:#98a4b3;--rule:#2b3542;
--c0:#5aa9ff;--c1:#ff8a4c;--c2:#3fcf97;--c3:#d08bea;--c4:#e3b341;--c5:#41c7dd;--c6:#ff7aa8;--c7:#a3adba;
--queue:#e0963a;--cold:#4f9be0;--memory:#a07fdb;--run:#46b580;--rest:#6d7887}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 20px 48px}
h1{font-size:26px;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:16px;margin:0 0 2px}
p{margin:0 0 10px;color:var(--soft)}
.facts{margin-bottom:18px}
.note{border-left:4px solid var(--c4);background:var(--card);padding:10px 14px;border-radius:0 8px 8px 0;color:var(--ink);margin-bottom:18px}
.bad{border-left-color:var(--c6)}
section{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:18px 20px;margin-bottom:18px;min-width:0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(480px,100%),1fr));gap:18px}
.pair section{margin-bottom:0}
.pair{margin-bottom:18px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:7px 12px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{font-weight:600;color:var(--soft);font-size:13px}
th:first-child,td:first-child{text-align:left;padding-left:0}
tr:last-child td{border-bottom:0}
td.best{font-weight:700}
.key{display:inline-flex;align-items:center;gap:6px;margin-right:16px;color:var(--ink);font-size:13px}
.key i{width:12px;height:12px;border-radius:3px;display:inline-block}
svg{display:block;width:100%;max-width:860px;height:auto;margin-top:6px}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft)}
svg text.value{fill:var(--ink);font-weight:600}
.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
.mark{stroke:var(--ink);stroke-width:1.5}
.heat{fill:var(--c0)}.frame{fill:none;stroke:var(--ink);stroke-width:2}
.curve{fill:none;stroke-width:2.2;stroke-linejoin:round}
.queue{fill:var(--queue);background:var(--queue)}.cold{fill:var(--cold);background:var(--cold)}
.memory{fill:var(--memory);background:var(--memory)}
.run{fill:var(--run);background:var(--run)}.rest{fill:var(--rest);background:var(--rest)}
)";

std::string colour_rules() {
  std::string css;
  for (size_t i = 0; i < kPageColours; ++i) {
    const std::string c = "c" + std::to_string(i);
    css += ".curve." + c + "{stroke:var(--" + c + ")}.bar." + c + "{fill:var(--" + c + ")}i." + c +
           "{background:var(--" + c + ")}\n";
  }
  return css;
}

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
         markup_escape(title) + "</title>\n<style>" + kStyle + colour_rules() +
         "</style>\n</head>\n<body>\n<main>\n<h1>" + markup_escape(title) + "</h1>\n" + body +
         "</main>\n</body>\n</html>\n";
}

std::string html_section(const std::string& title, const std::string& what,
                         const std::string& content) {
  if (content.empty()) return "";
  return "<section><h2>" + title + "</h2><p>" + what + "</p>\n" + content + "</section>\n";
}

}  // namespace lambent::workload
