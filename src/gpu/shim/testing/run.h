// Runs a program with the shim preloaded, and what it printed. For tests, on the test's thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace lambent::shim {

struct Finished {
  int exit_code = -1;  // 128 + signal if it was killed
  std::string output;
  // The lines "name value" of the output.
  std::map<std::string, std::string> values;
};

// A program that is running; its standard input stays open until finish().
class Running {
 public:
  Running(const std::vector<std::string>& words,
          const std::map<std::string, std::string>& environment);
  Running(Running&& other) noexcept;
  Running(const Running&) = delete;
  ~Running();
  // Reads standard output until a line begins with `word`; false if it ends before.
  bool wait_for(const std::string& word);
  // Writes a line to standard input.
  void tell(const std::string& line);
  // What was printed so far; wait_for() finds nothing of it again.
  std::string take_text();
  pid_t process() const { return process_; }
  Finished finish();

 private:
  void read_some();

  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
  bool ended_ = false;
  std::string text_;
};

Finished run(const std::vector<std::string>& words,
             const std::map<std::string, std::string>& environment);

}  // namespace lambent::shim
