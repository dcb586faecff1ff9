#include "edge/frontend/native_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/json_text.h"
#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"
#include "core/domain/slice.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// Writes the fields that our API has.
struct FieldWriter {
  json object = json::object();

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    if (field.native.empty()) return;
    if constexpr (requires { json_of(value); }) {
      // Of "cpu_variant.handler" the last word: the variant is an object of its own.
      object[field.native.substr(field.native.find('.') + 1)] = json_of(value);
    } else {
      CHECK(false, "a field of this type has no form in our API");
    }
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    object[field.native] = nullptr;
    if (!variant) return;
    FieldWriter writer;
    visit_cpu_variant(writer, *variant);
    object[field.native] = std::move(writer.object);
  }

 private:
  static json json_of(const std::string& text) { return text; }
  static json json_of(bool value) { return value; }
  static json json_of(unsigned number) { return number; }
  static json json_of(uint64_t number) { return number; }
  static json json_of(double number) { return number; }
  static json json_of(Bytes amount) { return amount.count; }
  static json json_of(const Mounts& mounts) {
    json list = json::array();
    for (const Mount& mount : mounts) {
      const bool is_volume = !mount.volume.empty();
      list.push_back({{is_volume ? "volume" : "host", is_volume ? mount.volume : mount.host},
                      {"at", mount.at}});
    }
    return list;
  }
  static json json_of(const Schedules& schedules) {
    json list = json::array();
    for (const Schedule& schedule : schedules) {
      list.push_back({{"name", schedule.name},
                      {"cron", schedule.cron},
                      {"rate", schedule.rate},
                      {"timezone", schedule.timezone},
                      {"payload", schedule.payload},
                      {"catch_up", schedule.catch_up},
                      {"enabled", schedule.enabled}});
    }
    return list;
  }
  static json json_of(const NetworkAccess& access) {
    json list = json::array();
    for (const NetworkRule& rule : access.rules) list.push_back(text_of(rule));
    return list;
  }
  static json json_of(Duration duration) { return seconds_of(duration); }
  template <HasWords Enum>
  static json json_of(Enum value) {
    return name_of(value);
  }
};

json to_json(const FunctionStatus& status) {
  FieldWriter writer;
  visit_fields(writer, status.spec);
  writer.object.update({
      {"queued", status.queued},
      {"running", status.running},
      {"completed", status.completed},
      {"sandboxes", status.sandboxes},
      {"instances_ready", status.instances.ready},
      {"instances_starting", status.instances.starting},
      {"instance_failures", status.instances.failures},
      {"next_instance_start_seconds", seconds_of(status.instances.next_start_in)},
  });
  return std::move(writer.object);
}

json to_json(const SandboxStatus& status) {
  json gpus = json::array();
  if (status.device != DeviceId(0)) gpus.push_back(place_name(status.device));
  for (const DeviceId other : status.beside) gpus.push_back(place_name(other));
  return {
      {"id", status.id.value},
      {"function", status.function.name},
      {"state", status.state},
      {"pid", status.pid},
      {"device", status.device.value},
      {"gpu", status.device == DeviceId(0) ? json() : json(place_name(status.device))},
      {"gpus", std::move(gpus)},
      {"age_seconds", seconds_of(status.age)},
      {"invocations", status.invocations},
      {"in_flight", status.in_flight},
      {"device_memory_bytes", status.device_memory.count},
      {"device_memory_place", status.device_memory_place},
      {"host_memory_bytes", status.host_memory.count},
  };
}

template <typename T>
json list(const char* key, const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return {{key, std::move(array)}};
}

}  // namespace

std::string function_list(const std::vector<FunctionStatus>& functions, const std::string& next) {
  json body = list("functions", functions);
  if (!next.empty()) body["next"] = next;
  return json_text(body);
}

std::string sandbox_list(std::vector<SandboxStatus> sandboxes, size_t limit) {
  const size_t all = sandboxes.size();
  if (all > limit) sandboxes.resize(limit);
  json body = list("sandboxes", sandboxes);
  body["all"] = all;
  return json_text(body);
}

}  // namespace lambent::frontend
