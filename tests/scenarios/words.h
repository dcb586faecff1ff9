// Words: one line of a scenario, taken apart from left to right. Used by the scenario runner.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::scenario {

// A line that is wrong or that did not come true; caught in main. Test code, so it may be thrown.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Words {
 public:
  // Splits at spaces, keeps "quoted text" together, drops what follows a '#'.
  explicit Words(const std::string& line);

  bool done() const { return next_ == words_.size(); }
  bool next_is(const std::string& word) const { return !done() && words_[next_] == word; }
  // Takes the word if it is the next one.
  bool take(const std::string& word);
  std::string take_any();
  void expect(const std::string& word);
  // The rest of the line as it is written, with its quotation marks.
  std::string rest();

  Duration duration();  // 3s, 250ms, 10us, 2min
  Bytes bytes();        // 16GiB
  double number();
  uint64_t count();

 private:
  std::string line_;  // without what follows a '#'
  std::vector<std::string> words_;
  std::vector<size_t> begins_;  // where each word begins in the line
  size_t next_ = 0;
};

// "1.5s"
std::string in_words(Duration duration);

}  // namespace lambent::scenario
