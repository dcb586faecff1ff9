// Small kernel functions for tests, and a fixture in which a real lambent-executor runs them.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "gpu/executor/testing/process_testing.h"

namespace lambent::executor {

inline const std::string kSteps = LAMBENT_BINARY_DIR "/kernels/tested/gxx/steps";

inline std::string bytes_of(const std::vector<int>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int)};
}
inline std::vector<int> ints_of(const std::string& bytes) {
  std::vector<int> values(bytes.size() / sizeof(int));
  memcpy(values.data(), bytes.data(), values.size() * sizeof(int));
  return values;
}

inline std::string buffer(const std::string& name, const std::string& role, size_t count,
                          const std::string& more = "") {
  return R"({"name": ")" + name + R"(", "role": ")" + role +
         R"(", "datatype": "INT32", "shape": [)" + std::to_string(count) + "]" + more + "}";
}
inline std::string grid_of(size_t count) { return std::to_string((count + 63) / 64); }
// to = from * factor + summand
inline std::string scale(const std::string& from, const std::string& to, int factor, int summand,
                         size_t count) {
  const auto literal = [](auto value) {
    return R"({"literal": )" + std::to_string(value) + R"(, "datatype": "INT32"})";
  };
  return R"({"kernel": "scale", "bundle": "bundles/steps", "grid": [)" + grid_of(count) +
         R"(], "block": [64], "arguments": [{"buffer": ")" + from +
         R"(", "access": "read"}, {"buffer": ")" + to + R"(", "access": "write"}, )" +
         literal(factor) + ", " + literal(summand) + ", " + literal(count) + "]}";
}
inline std::string increment(const std::string& values, size_t count) {
  return R"({"kernel": "increment", "bundle": "bundles/steps", "grid": [)" + grid_of(count) +
         R"(], "block": [64], "arguments": [{"buffer": ")" + values + R"("}, {"literal": )" +
         std::to_string(count) + R"(, "datatype": "INT32"}]})";
}
inline std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ",\n") + part;
  return text;
}

inline Files function(const std::vector<std::string>& buffers,
                      const std::vector<std::string>& steps) {
  Files files;
  add_bundle(files, kSteps, "bundles/steps");
  files["graph.json"] =
      "{\"buffers\": [" + joined(buffers) + "], \"steps\": [" + joined(steps) + "]}";
  return files;
}
// y = 3x + 1, by way of a temporary.
inline Files affine(size_t count) {
  return function(
      {buffer("x", "input", count), buffer("t", "temporary", count), buffer("y", "output", count)},
      {scale("x", "t", 3, 0, count), scale("t", "y", 1, 1, count)});
}

class ExecutorTest : public ::testing::Test {
 protected:
  void start(const std::vector<std::pair<std::string, std::string>>& settings = {},
             const std::vector<std::string>& more = {}) {
    process_.emplace(settings, more);
    const auto hello = process_->expect<protocol::ExecutorHello>();
    ASSERT_TRUE(hello.has_value());
    EXPECT_EQ(hello->version, protocol::kExecutorProtocolVersion);
  }
  void SetUp() override { start(); }

  void add(uint64_t instance, const std::string& package, Bytes memory = Bytes::mib(64)) {
    process_->add_instance(instance, package, memory);
    const auto ready = process_->expect<protocol::InstanceReady>();
    ASSERT_TRUE(ready.has_value());
    EXPECT_EQ(ready->instance, SandboxId(instance));
  }
  Error refused(uint64_t instance, const Files& files, Bytes memory = Bytes::mib(64)) {
    process_->add_instance(instance, process_->package(files), memory);
    const auto failed = process_->expect<protocol::InstanceFailed>();
    return failed ? failed->error : Error{};
  }
  // A raw request, by value.
  std::vector<int> run(uint64_t invocation, uint64_t instance, const std::vector<int>& input) {
    process_->run(invocation, instance, bytes_of(input));
    return answer();
  }
  std::vector<int> answer() {
    std::vector<OwnedFd> fds;
    const auto finished = process_->expect<protocol::Finished>(&fds);
    if (!finished) return {};
    EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
    return ints_of(ExecutorProcess::payload_of(*finished, fds));
  }
  Error failure(uint64_t invocation, uint64_t instance, const std::string& payload,
                const std::string& type = "application/octet-stream") {
    process_->run(invocation, instance, payload, type);
    const auto finished = process_->expect<protocol::Finished>();
    return finished && finished->error ? *finished->error : Error{};
  }
  void works(uint64_t instance) { EXPECT_EQ(run(999, instance, {1, 2}), (std::vector<int>{4, 7})); }

  std::optional<ExecutorProcess> process_;
};

}  // namespace lambent::executor
