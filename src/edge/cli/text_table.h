// TextTable: rows of words set in columns for a terminal. A value; pure.
#pragma once

#include <string>
#include <vector>

namespace lambent::cli {

class TextTable {
 public:
  // A column whose title begins with '>' is set to the right.
  explicit TextTable(std::vector<std::string> titles);
  void add(std::vector<std::string> row);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace lambent::cli
