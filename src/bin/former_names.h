// What flags, verbs, words and settings were called in the version before: they still work, with a
// warning that names what they are called now. Used by mains.
#pragma once

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

namespace lambent::bin {

// `former`: with what it is one of, as in "the setting move_patience".
inline void warn_of_former_name(const std::string& former, const std::string& present) {
  std::cerr << "warning: " << former << " is called " << present
            << " now; the next version does not know the old name\n";
}

// A value that had another name. Added after the check of the values: CLI11 runs the transformation
// that was added last first.
inline CLI::Validator former_word(std::string flag, std::string former, std::string present) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        if (text != former) return "";
        warn_of_former_name(flag + " " + former, present);
        text = present;
        return "";
      },
      "");
}

// An option that had another name, which help does not show. `value` outlives the parsing.
template <typename Value>
CLI::Option* add_former_option(CLI::App& app, const std::string& former, const std::string& present,
                               Value& value) {
  return app
      .add_option_function<Value>(former,
                                  [former, present, &value](const Value& given) {
                                    warn_of_former_name(former, present);
                                    value = given;
                                  })
      ->group("");
}

}  // namespace lambent::bin
