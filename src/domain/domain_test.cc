#include <gtest/gtest.h>

#include "domain/function.h"

namespace lambent {
namespace {

FunctionSpec good_spec() {
  FunctionSpec spec;
  spec.name = {kDefaultTenant, "resize-image_2"};
  spec.runtime = Runtime::kPython;
  spec.handler = "app.handler";
  return spec;
}

TEST(FunctionSpec, AGoodOneIsAccepted) { EXPECT_TRUE(validate(good_spec()).ok()); }

TEST(FunctionSpec, EachBrokenLimitIsNamed) {
  const auto message_after = [](auto change) {
    FunctionSpec spec = good_spec();
    change(spec);
    const auto result = validate(spec);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_NE(message_after([](auto& s) { s.name.name = "a/b"; }).find("name"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.name.name = std::string(65, 'a'); }).find("64"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.timeout = seconds(0); }).find("timeout"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) {
              s.gpu = {.memory_mode = MemoryMode::kUvm, .checkpoint = true};
            }).find("vmm"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) {
              s.gpu = {.checkpoint = true, .runtime = GpuRuntime::kShared};
            }).find("shared"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.gpu.domain = "a/b"; }).find("domain"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.gpu.share = 0; }).find("share"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.memory = Bytes::mib(1); }).find("memory"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.weight = 0; }).find("weight"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.handler = "handler"; }).find("module.function"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.environment["A B"] = "1"; }).find("A B"),
            std::string::npos);
  EXPECT_NE(
      message_after([](auto& s) { s.environment["A"] = std::string(5000, 'x'); }).find("4096"),
      std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.max_concurrency = 0; }).find("max_concurrency"),
            std::string::npos);
}

}  // namespace
}  // namespace lambent
