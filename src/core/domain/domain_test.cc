#include <gtest/gtest.h>

#include <cmath>

#include "core/domain/function.h"

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

TEST(FunctionSpec, AnSloIsForAllKindsButPipelines) {
  FunctionSpec spec = good_spec();
  spec.slo_ms = 200;
  EXPECT_TRUE(validate(spec).ok());
  spec.kind = FunctionKind::kPipeline;
  EXPECT_NE(validate(spec).error().message.find("its class or [slo] has it"), std::string::npos);
  spec = good_spec();
  spec.slo_ms = 86'400'001;
  EXPECT_NE(validate(spec).error().message.find("slo_ms"), std::string::npos);
}

TEST(FunctionSpec, OneThatTakesSeveralGpusIsToldWhatItCannotHaveBeside) {
  const auto message_after = [](auto change) {
    FunctionSpec spec = good_spec();
    spec.gpu = {.memory = Bytes::gib(1), .count = 2};
    change(spec);
    const auto result = validate(spec);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_EQ(message_after([](auto&) {}), "");
  const auto expect_named = [&](auto change, const char* remedy) {
    EXPECT_NE(message_after(change).find(remedy), std::string::npos) << message_after(change);
  };
  expect_named([](auto& s) { s.gpu.count = 0; }, "1 to 64");
  expect_named([](auto& s) { s.gpu.count = 65; }, "1 to 64");
  expect_named([](auto& s) { s.gpu.memory = Bytes(0); }, "say how much it takes of each GPU");
  expect_named([](auto& s) { s.gpu.runtime = GpuRuntime::kShared; }, "set gpu.runtime to 'own'");
  expect_named([](auto& s) { s.cpu_variant.emplace(); }, "remove the CPU variant");
  expect_named([](auto& s) { s.gpu.checkpoint = true; }, "remove checkpoint");
  expect_named([](auto& s) { s.kind = FunctionKind::kKernel; }, "needs gpu.count = 1");
}

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
  EXPECT_NE(message_after([](auto& s) {
              s.gpu = {.memory_mode = MemoryMode::kUvm, .working_set = WorkingSet::kTouched};
            }).find("working_set"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) {
              s.gpu = {.working_set = WorkingSet::kTouched, .runtime = GpuRuntime::kShared};
            }).find("working_set"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.gpu.domain = "a/b"; }).find("domain"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.gpu.share = 0; }).find("share"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.memory = Bytes::mib(1); }).find("memory"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.weight = 0; }).find("weight"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.handler = "handler"; }).find("module.function"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.handler = std::string("app.h\0", 6); }).find("control"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.environment["A B"] = "1"; }).find("A B"),
            std::string::npos);
  EXPECT_NE(
      message_after([](auto& s) { s.environment["A"] = std::string(5000, 'x'); }).find("4096"),
      std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.max_concurrency = 0; }).find("max_concurrency"),
            std::string::npos);
  for (const double wrong : {-1.0, 0.01, 1025.0, std::nan("")}) {
    EXPECT_NE(message_after([=](auto& s) { s.cpus = wrong; }).find("cpus must be 0.05 to 1024"),
              std::string::npos)
        << wrong;
  }
  for (const double right : {0.0, 0.05, 2.5, 1024.0}) {
    EXPECT_EQ(message_after([=](auto& s) { s.cpus = right; }), "") << right;
  }
}

TEST(FunctionSpec, OnlyAHandlerThatUsesAGpuHasACpuVariant) {
  const auto message_after = [](auto change) {
    FunctionSpec spec = good_spec();
    spec.gpu.memory = Bytes::gib(1);
    spec.cpu_variant = CpuVariant{.handler = "app.on_cpu", .gpu_speedup = 7.5};
    change(spec);
    const auto result = validate(spec);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_EQ(message_after([](auto&) {}), "");
  EXPECT_EQ(message_after([](auto& s) { s.cpu_variant = CpuVariant{}; }), "");
  EXPECT_NE(message_after([](auto& s) { s.gpu = {}; }).find("without GPU"), std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.gpu.runtime = GpuRuntime::kShared; }).find("shared"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.kind = FunctionKind::kKernel; }).find("kernel"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.cpu_variant->gpu_speedup = -1; }).find("gpu_speedup"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.cpu_variant->handler = "app.h\n"; }).find("control"),
            std::string::npos);
  EXPECT_NE(message_after([](auto& s) { s.cpu_variant->handler = "app"; }).find("module.function"),
            std::string::npos);
}

TEST(FunctionSpec, ChangesThatSandboxesWereNotMadeFromKeepThem) {
  const FunctionSpec before = good_spec();
  const auto keeps = [&](auto change) {
    FunctionSpec after = before;
    ++after.revision;
    after.last_modified += seconds(1);
    change(after);
    return keeps_sandboxes(before, after);
  };
  EXPECT_TRUE(keeps([](auto&) {}));
  EXPECT_TRUE(keeps([](auto& s) { s.weight = 2; }));
  EXPECT_TRUE(keeps([](auto& s) { s.max_concurrency = 3; }));
  EXPECT_TRUE(keeps([](auto& s) { s.tags["team"] = "vision"; }));
  EXPECT_FALSE(keeps([](auto& s) { s.code_sha256 = "other"; }));
  EXPECT_FALSE(keeps([](auto& s) { s.environment["A"] = "b"; }));
  EXPECT_FALSE(keeps([](auto& s) { s.memory = Bytes::gib(1); }));
  EXPECT_FALSE(keeps([](auto& s) { s.gpu.memory = Bytes::gib(1); }));
  EXPECT_FALSE(keeps([](auto& s) { s.description = "warm no more"; }));
  EXPECT_FALSE(keeps([](auto& s) { s.gpu.share = 50; }));
}

TEST(FunctionSpec, AHandlerOfASharedRuntimeKeepsItsSandboxesWhenItsShareChanges) {
  FunctionSpec before = good_spec();
  before.gpu.runtime = GpuRuntime::kShared;
  FunctionSpec after = before;
  after.gpu.share = 50;
  EXPECT_TRUE(keeps_sandboxes(before, after));
  before.gpu.runtime = GpuRuntime::kOwn;
  EXPECT_FALSE(keeps_sandboxes(before, after));
}

TEST(FunctionSpec, AKernelFunctionKeepsItsSandboxesWhenItsShareChanges) {
  FunctionSpec before = good_spec();
  before.kind = FunctionKind::kKernel;
  FunctionSpec after = before;
  after.gpu.share = 50;
  EXPECT_TRUE(keeps_sandboxes(before, after));
  after.gpu.domain = "other";
  EXPECT_FALSE(keeps_sandboxes(before, after));
}

}  // namespace
}  // namespace lambent
