// The last line of a bench: numbers, text, and members or elements joined; and how it is
// written. Used by the benches of papers.
#pragma once

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

namespace lambent::bench {

inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";  // a ratio to nothing
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

// What we write ourselves: nothing in it needs an escape.
inline std::string quoted(const std::string& text) { return "\"" + text + "\""; }

inline std::string truth(bool value) { return value ? "true" : "false"; }

// Members of a JSON object or elements of a list.
class Joined {
 public:
  Joined& add(const std::string& name, const std::string& value) {
    return add("\"" + name + "\":" + value);
  }
  Joined& add(const std::string& name, double value) { return add(name, number(value)); }
  Joined& add(const std::string& value) {
    text_ += (text_.empty() ? "" : ",") + value;
    return *this;
  }
  std::string object() const { return "{" + text_ + "}"; }
  std::string list() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

// Prints the line, and keeps it in a file where `out` names one. What main returns: 1 if the file
// cannot be written.
inline int write_last_line(const std::string& json, const char* out) {
  std::printf("%s\n", json.c_str());
  if (out == nullptr || std::ofstream(out) << json << "\n") return 0;
  std::fprintf(stderr, "%s: %s cannot be written\n", program_invocation_short_name, out);
  return 1;
}

}  // namespace lambent::bench
