// TableReader: one table of a manifest. Reads its keys by the type of what they give, remembers the
// first thing that is wrong, and knows which keys were asked for. Used by parse_manifest.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function_words.h"
#include "core/domain/mount.h"
#include "core/domain/network_access.h"
#include "core/domain/schedule.h"

namespace lambent::cli {

class TableReader {
 public:
  // `prefix` is that of its keys in messages: "gpu." for those of [gpu].
  TableReader(const toml::table& table, std::string prefix, const std::string& file)
      : table_(table), prefix_(std::move(prefix)), file_(file) {}

  // What a missing key gives stays as it was.
  void read(std::string_view key, std::string& to);
  void read(std::string_view key, double& to);
  void read(std::string_view key, unsigned& to);  // above zero, or zero where that is the default
  void read(std::string_view key, bool& to);
  void read(std::string_view key, Bytes& to);     // "512M", or a number of MiB
  void read(std::string_view key, Duration& to);  // a number of seconds
  void read(std::string_view key, std::vector<std::string>& to);
  void read(std::string_view key, std::map<std::string, std::string>& to);
  void read(std::string_view key, Mounts& to);     // tables, each with `at` and `volume` or `host`
  void read(std::string_view key, Schedules& to);  // tables, [[schedules]]
  void read(std::string_view key, NetworkAccess& to);  // "outbound", or a list of HOST:PORT
  // Text, or a table or list, which is written as JSON.
  void read_event(std::string_view key, std::string& to);
  template <HasWords Enum>
  void read(std::string_view key, Enum& to) {
    std::string word(name_of(to));
    read(key, word);
    if (const auto known = value_named<Enum>(word)) {
      to = *known;
    } else {
      wrong(key, *table_.get(key), "is '" + word + "'; it can be " + list_of_words<Enum>("'"));
    }
  }
  std::optional<double> number(std::string_view key);
  const toml::table* table(std::string_view key);

  // Keys that are not asked for here, but known.
  void know(std::span<const std::string_view> keys);
  // Where a key that is none of this table belongs, such as "[gpu]".
  void know_elsewhere(std::string_view key, std::string table);
  const std::vector<std::string_view>& known() const { return known_; }
  // Of keys that were not asked for, with the known one that was perhaps meant.
  void warn_of_unknown(std::vector<std::string>& warnings) const;
  // INVALID_ARGUMENT for the first wrong key, with the file and the line.
  Result<void> verdict() const;

 private:
  // The key's value, which is known from now on; nothing if it is missing.
  const toml::node* find(std::string_view key);
  std::optional<Schedule> read_schedule(std::string_view key, const toml::node& node);
  std::optional<Mount> read_mount(std::string_view key, const toml::node& node);
  void wrong(std::string_view key, const toml::node& node, const std::string& why);

  const toml::table& table_;
  std::string prefix_;
  const std::string& file_;
  std::map<std::string_view, std::string> elsewhere_;
  std::vector<std::string_view> known_;
  std::string error_;
};

}  // namespace lambent::cli
