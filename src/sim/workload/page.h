// The frame of our HTML pages: one style, light and dark, nothing fetched from outside. Pure; used
// by the report and by the page of a sweep.
#pragma once

#include <cstddef>
#include <string>

namespace lambent::workload {

// Runs and series take the CSS classes "c0" to "c7" in turn.
constexpr size_t kPageColours = 8;

// A whole page; `body` is HTML, `title` is not.
std::string html_page(const std::string& title, const std::string& body);
// A card with a heading; nothing if it has no content. All three are HTML.
std::string html_section(const std::string& title, const std::string& what,
                         const std::string& content);

}  // namespace lambent::workload
