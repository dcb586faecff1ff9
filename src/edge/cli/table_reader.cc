#include "edge/cli/table_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/json_text.h"
#include "core/base/spelling.h"

namespace lambent::cli {

void TableReader::read(std::string_view key, std::string& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (const auto value = node->value_exact<std::string>()) {
    to = *value;
  } else {
    wrong(key, *node, "must be text in quotes");
  }
}

void TableReader::read(std::string_view key, double& to) {
  if (const auto value = number(key)) to = *value;
}

void TableReader::read(std::string_view key, unsigned& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto value = node->value_exact<int64_t>();
  const bool may_be_zero = to == 0;
  if (value && *value >= (may_be_zero ? 0 : 1) && *value <= 1'000'000) {
    to = static_cast<unsigned>(*value);
  } else {
    wrong(key, *node, may_be_zero ? "must be a whole number" : "must be a whole number above zero");
  }
}

void TableReader::read(std::string_view key, bool& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto value = node->value_exact<bool>();
  if (!value) return wrong(key, *node, "must be true or false");
  to = *value;
}

void TableReader::read(std::string_view key, Bytes& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (const auto text = node->value_exact<std::string>()) {
    const auto amount = parse_bytes(*text);
    if (amount.ok()) {
      to = *amount;
    } else {
      wrong(key, *node, "is '" + *text + "', not an amount such as \"512M\"");
    }
  } else if (const auto mib = node->value_exact<int64_t>(); mib && *mib >= 0 && *mib <= (1 << 24)) {
    to = Bytes::mib(static_cast<uint64_t>(*mib));
  } else {
    wrong(key, *node, "must be an amount such as \"512M\", or a number of MiB");
  }
}

void TableReader::read(std::string_view key, Duration& to) {
  const auto value = number(key);
  if (!value) return;
  // Beyond these bounds validate() refuses; clamped so that the clock's type can hold it.
  to = from_seconds(std::isfinite(*value) ? std::clamp(*value, -1.0, 1e6) : -1.0);
}

void TableReader::read(std::string_view key, std::vector<std::string>& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_array()) return wrong(key, *node, "must be a list of texts");
  for (const toml::node& each : *node->as_array()) {
    const auto value = each.value_exact<std::string>();
    if (!value) return wrong(key, each, "must be a list of texts");
    to.push_back(*value);
  }
}

void TableReader::read(std::string_view key, std::map<std::string, std::string>& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_table()) return wrong(key, *node, "must be a table of texts");
  for (const auto& [name, value] : *node->as_table()) {
    const auto text = value.value_exact<std::string>();
    if (!text) return wrong(key, value, "must have only texts in quotes");
    to[std::string(name.str())] = *text;
  }
}

void TableReader::read(std::string_view key, NetworkAccess& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  Result<NetworkAccess> access = NetworkAccess();
  if (const auto text = node->value_exact<std::string>()) {
    access = parse_network_access(*text);
  } else {
    std::vector<std::string> entries;
    read(key, entries);
    access = parse_network_entries(entries);
  }
  if (!access.ok()) return wrong(key, *node, "is wrong: " + access.error().message);
  to = std::move(*access);
}

namespace {
constexpr const char* kMountForm =
    "are tables, [[mounts]], each with at = \"/weights\" and either volume = \"NAME\" or host = "
    "\"/a/folder\"";
}  // namespace

std::optional<Mount> TableReader::read_mount(std::string_view key, const toml::node& node) {
  Mount mount;
  if (node.is_table()) {
    for (const auto& [name, value] : *node.as_table()) {
      const auto text = value.value_exact<std::string>();
      std::string* to = nullptr;
      if (name.str() == "volume") to = &mount.volume;
      if (name.str() == "host") to = &mount.host;
      if (name.str() == "at") to = &mount.at;
      if (to == nullptr || !text) {
        wrong(key, value,
              "has '" + std::string(name.str()) +
                  "'; a mount has only the texts volume or host, and at");
        return std::nullopt;
      }
      *to = *text;
    }
  }
  if (mount.at.empty() || mount.volume.empty() == mount.host.empty()) {
    wrong(key, node, kMountForm);
    return std::nullopt;
  }
  return mount;
}

void TableReader::read(std::string_view key, Mounts& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_array()) return wrong(key, *node, kMountForm);
  for (const toml::node& each : *node->as_array()) {
    auto mount = read_mount(key, each);
    if (!mount) return;
    if (const auto good = validate(Mounts{*mount}); !good.ok()) {
      return wrong(key, each, "are wrong: " + good.error().message);
    }
    to.push_back(std::move(*mount));
  }
}

namespace {

constexpr const char* kScheduleForm =
    "are tables, [[schedules]], each with cron = \"*/5 * * * *\" or rate = \"5 minutes\"";

// A payload or an event as people write it in TOML.
std::string text_of(const toml::node& node) {
  std::ostringstream text;
  if (const toml::table* table = node.as_table()) text << toml::json_formatter(*table);
  if (const toml::array* array = node.as_array()) text << toml::json_formatter(*array);
  return json_text(nlohmann::ordered_json::parse(text.str(), nullptr, false));
}

}  // namespace

void TableReader::read_event(std::string_view key, std::string& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (const auto text = node->value_exact<std::string>()) {
    to = *text;
  } else if (node->is_table() || node->is_array()) {
    to = text_of(*node);
  } else {
    wrong(key, *node, "must be a path such as \"/warm\", or an event as a table");
  }
}

std::optional<Schedule> TableReader::read_schedule(std::string_view key, const toml::node& node) {
  if (!node.is_table()) {
    wrong(key, node, kScheduleForm);
    return std::nullopt;
  }
  Schedule schedule;
  for (const auto& [name, value] : *node.as_table()) {
    std::string* to = nullptr;
    if (name.str() == "name") to = &schedule.name;
    if (name.str() == "cron") to = &schedule.cron;
    if (name.str() == "rate") to = &schedule.rate;
    if (name.str() == "timezone") to = &schedule.timezone;
    const bool is_event = value.is_table() || value.is_array();
    if (name.str() == "payload" && is_event) {
      schedule.payload = text_of(value);
    } else if (name.str() == "catch_up" && value.is_boolean()) {
      schedule.catch_up = value.value_or(false);
    } else if (name.str() == "enabled" && value.is_boolean()) {
      schedule.enabled = value.value_or(true);
    } else if (to != nullptr && value.is_string()) {
      *to = value.value_or(std::string());
    } else {
      wrong(key, value,
            "has '" + std::string(name.str()) +
                "'; a schedule has the texts name, cron or rate, and timezone, a table payload, "
                "and catch_up and enabled, which are true or false");
      return std::nullopt;
    }
  }
  return schedule;
}

void TableReader::read(std::string_view key, Schedules& to) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_array()) return wrong(key, *node, kScheduleForm);
  for (const toml::node& each : *node->as_array()) {
    auto schedule = read_schedule(key, each);
    if (!schedule) return;
    // The only one needs no name.
    if (schedule->name.empty() && node->as_array()->size() == 1) schedule->name = "schedule";
    if (const auto good = validate(Schedules{*schedule}); !good.ok()) {
      return wrong(key, each, "are wrong: " + good.error().message);
    }
    to.push_back(std::move(*schedule));
  }
}

std::optional<double> TableReader::number(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (node->is_number()) return node->value<double>();
  wrong(key, *node, "must be a number");
  return std::nullopt;
}

const toml::table* TableReader::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  if (!node->is_table())
    wrong(key, *node,
          "must be a table: [" + prefix_ + std::string(key) +
              "] on a line of its own, with its keys below");
  return node->as_table();
}

void TableReader::know(std::span<const std::string_view> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void TableReader::know_elsewhere(std::string_view key, std::string table) {
  elsewhere_.insert({key, std::move(table)});
}

void TableReader::warn_of_unknown(std::vector<std::string>& warnings) const {
  for (const auto& [key, node] : table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
    const auto other = elsewhere_.find(key.str());
    std::string hint = other != elsewhere_.end() ? "; it belongs into " + other->second
                                                 : did_you_mean(key.str(), known_, prefix_);
    // Of a table they are few enough to be told.
    if (hint.empty() && !prefix_.empty()) {
      hint = "; [" + prefix_.substr(0, prefix_.size() - 1) + "] has";
      for (size_t i = 0; i < known_.size(); ++i) {
        hint += (i == 0 ? " " : ", ") + std::string(known_[i]);
      }
    }
    warnings.push_back(file_ + " line " + std::to_string(node.source().begin.line) + ": no key '" +
                       prefix_ + std::string(key.str()) + "'" + hint);
  }
}

Result<void> TableReader::verdict() const {
  if (error_.empty()) return {};
  return Error{ErrorCode::kInvalidArgument, error_};
}

const toml::node* TableReader::find(std::string_view key) {
  known_.push_back(key);
  return table_.get(key);
}

void TableReader::wrong(std::string_view key, const toml::node& node, const std::string& why) {
  if (!error_.empty()) return;
  error_ = file_ + " line " + std::to_string(node.source().begin.line) + ": " + prefix_ +
           std::string(key) + " " + why;
}

}  // namespace lambent::cli
