// The list of functions of our own API.
#include "edge/frontend/native_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/domain/testing/every_field.h"

namespace lambent::frontend {
namespace {

TEST(NativeJson, OfAFunctionIsWrittenAsItAlwaysWas) {
  EXPECT_EQ(
      function_list({{with_every_field_set(), 1, 2, 3, 4, {40, 1, 2, 3, milliseconds(1500)}}}, ""),
      R"({"functions":[{"async_max_age_seconds":2.5,"async_on_failure":"async_on_failure",)"
      R"("async_on_success":"async_on_success","async_retries":2.0,"checkpoint":true,"code_bytes":314572800,"code_sha256":"code_sha256",)"
      R"("completed":3,"cpu_variant":{"gpu_speedup":2.5,"handler":"cpu_handler"},"cpus":2.5,)"
      R"("gpu_count":40,"gpu_domain":"gpu_domain","gpu_memory_bytes":314572800,"gpu_runtime":"shared",)"
      R"("gpu_share":40,"handler":"handler","http_concurrency":40,"http_port":40,"http_readiness":"http_readiness",)"
      R"("instance_failures":3,"instances_ready":1,"instances_starting":2,"keep_alive_seconds":2.5,"kind":"kernel","last_modified_seconds":7.0,)"
      R"("launch_mode":"model","max_concurrency":40,"max_queue_time_seconds":2.5,"memory_bytes":314572800,)"
      R"("memory_mode":"uvm","min_instances":40,"mounts":[{"at":"/weights","volume":"weights"},{"at":"/models","host":"/data/models"}],"name":"name",)"
      R"("network":["api.example.org:443","10.1.2.3:5432"],"next_instance_start_seconds":1.5,"queued":1,"revision":40,"running":2,)"
      R"("runtime":"python3.11","sandboxes":4,)"
      R"x("schedules":[{"catch_up":true,"cron":"30 2 * * *","enabled":false,"name":"nightly","payload":"{\"full\":true}","rate":"","timezone":"UTC"}],)x"
      R"("scratch_bytes":314572800,"shared_memory_bytes":314572800,"slo_ms":40,"timeout_seconds":7.0,"url_auth":"none","url_cors":"url_cors",)"
      R"("url_invoke_mode":"response_stream","warm_up":"warm_up","weight":2.5,)"
      R"("working_set":"whole"}]})");
}

// The keys that api/openapi.yaml requires of a function, each with a comma behind it.
std::string required_keys() {
  std::ifstream file(LAMBENT_SOURCE_DIR "/api/openapi.yaml");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string head = "    Function:\n      type: object\n      required: [";
  const size_t begin = page.find(head) + head.size();
  std::string keys;
  for (const char c : page.substr(begin, page.find(']', begin) - begin)) {
    if (c != ' ' && c != '\n') keys += c;
  }
  return keys + ",";
}

TEST(NativeJson, OfAFunctionHasTheKeysThatTheApiPromisesAndNoOther) {
  const auto list = nlohmann::json::parse(function_list({FunctionStatus{}}, ""));
  std::string promised = required_keys();
  for (const auto& [key, value] : list["functions"][0].items()) {
    const size_t found = ("," + promised).find("," + key + ",");
    ASSERT_NE(found, std::string::npos) << key;
    promised.erase(found, key.size() + 1);
  }
  EXPECT_EQ(promised, "");
}

TEST(NativeJson, AFunctionWithoutACpuVariantHasNull) {
  const auto list = nlohmann::json::parse(function_list({FunctionStatus{}}, "after"));
  EXPECT_EQ(list["functions"][0].at("cpu_variant"), nullptr);
  EXPECT_EQ(list["next"], "after");
}

}  // namespace
}  // namespace lambent::frontend
