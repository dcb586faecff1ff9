#include "edge/cli/text_table.h"

#include <algorithm>

namespace lambent::cli {

TextTable::TextTable(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    right_.push_back(title.starts_with('>'));
    if (right_.back()) title.erase(0, 1);
  }
  rows_.push_back(std::move(titles));
}

void TextTable::add(std::vector<std::string> row) {
  row.resize(right_.size());
  rows_.push_back(std::move(row));
}

std::string TextTable::str() const {
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (right_[i] ? gap + row[i] : row[i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lambent::cli
