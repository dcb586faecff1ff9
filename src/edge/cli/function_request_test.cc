// What deploy sends: every setting reaches the worker, as a tag or as a field of Lambda's.
#include "edge/cli/function_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/domain/testing/every_field.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::json;

TEST(FunctionRequest, IsWrittenAsItAlwaysWas) {
  EXPECT_EQ(
      create_request(with_every_field_set(), "zip").body,
      R"({"FunctionName":"name","Runtime":"python3.11","Role":"role","Handler":"handler",)"
      R"("Description":"description","Timeout":7,"MemorySize":300,"EphemeralStorage":{"Size":300},)"
      R"("Environment":{"Variables":{"environment":"1"}},)"
      R"("Tags":{"tag":"1","lambent:kind":"kernel","lambent:shared-memory":"300MiB",)"
      R"("lambent:mounts":"weights:/weights,/data/models:/models","lambent:gpu-memory":"300MiB",)"
      R"("lambent:launch-mode":"model","lambent:memory-mode":"uvm","lambent:working-set":"whole",)"
      R"("lambent:checkpoint":"true","lambent:gpu-runtime":"shared","lambent:gpu-domain":"gpu_domain",)"
      R"("lambent:gpu-share":"40","lambent:cpu-variant":"true","lambent:cpu-handler":"cpu_handler",)"
      R"("lambent:gpu-speedup":"2.5","lambent:http-port":"40",)"
      R"("lambent:http-readiness":"http_readiness","lambent:weight":"2.5","lambent:max-concurrency":"40","lambent:max-queue-time":"2.5"},)"
      R"("Code":{"ZipFile":"emlw"}})");
}

TEST(FunctionRequest, OfADefaultFunctionTakesBackEverySetting) {
  EXPECT_EQ(
      create_request(FunctionSpec(), "zip").body,
      R"({"FunctionName":"","Runtime":"provided.al2023",)"
      R"("Role":"arn:aws:iam::000000000000:role/lambent","Handler":"bootstrap","Description":"",)"
      R"("Timeout":30,"MemorySize":512,"EphemeralStorage":{"Size":512},"Environment":{"Variables":{}},)"
      R"("Tags":{"lambent:kind":"handler","lambent:shared-memory":"64MiB","lambent:mounts":"",)"
      R"("lambent:gpu-memory":"0MiB",)"
      R"("lambent:launch-mode":"compute","lambent:memory-mode":"vmm","lambent:working-set":"worker",)"
      R"("lambent:checkpoint":"false","lambent:gpu-runtime":"own","lambent:gpu-domain":"",)"
      R"("lambent:gpu-share":"100","lambent:cpu-variant":"false","lambent:cpu-handler":"",)"
      R"("lambent:gpu-speedup":"0","lambent:http-port":"8080","lambent:http-readiness":"",)"
      R"("lambent:weight":"1","lambent:max-concurrency":"1000","lambent:max-queue-time":"-1"},)"
      R"("Code":{"ZipFile":"emlw"}})");
}

// Expects the name of every setting in a request.
struct ExpectSent {
  Json request;

  template <typename Value>
  void operator()(const FunctionField& field, const Value&) {
    if (field.role != FieldRole::kSetting) return;
    if (!field.tag.empty()) {
      EXPECT_TRUE(request["Tags"].contains("lambent:" + std::string(field.tag))) << field.tag;
    } else if (!field.lambda.empty()) {
      EXPECT_TRUE(request.contains(field.lambda)) << field.lambda;
    } else {
      EXPECT_EQ(field.key, "tags");
    }
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    visit_cpu_variant(*this, *variant);
  }
};

TEST(FunctionRequest, HasEverySetting) {
  const FunctionSpec spec = with_every_field_set();
  ExpectSent expect{Json::parse(create_request(spec, "zip").body)};
  visit_fields(expect, spec);
}

}  // namespace
}  // namespace lambent::cli
