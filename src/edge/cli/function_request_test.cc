// What deploy sends: every setting reaches the worker, as a tag or as a field of Lambda's.
#include "edge/cli/function_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/domain/testing/every_field.h"
#include "core/http/multipart.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::json;

TEST(FunctionRequest, IsWrittenAsItAlwaysWas) {
  EXPECT_EQ(
      settings_text(with_every_field_set()),
      R"({"FunctionName":"name","Runtime":"python3.11","Role":"role","Handler":"handler",)"
      R"("Description":"description","Timeout":7,"MemorySize":300,"EphemeralStorage":{"Size":300},)"
      R"("Environment":{"Variables":{"environment":"1"}},)"
      R"("Tags":{"tag":"1","lambent:kind":"kernel","lambent:cpus":"2.5","lambent:shared-memory":"300MiB",)"
      R"("lambent:mounts":"weights:/weights,/data/models:/models",)"
      R"("lambent:network":"api.example.org:443,10.1.2.3:5432","lambent:gpu-memory":"300MiB","lambent:gpu-count":"40",)"
      R"("lambent:launch-mode":"model","lambent:memory-mode":"uvm","lambent:working-set":"whole",)"
      R"("lambent:checkpoint":"true","lambent:gpu-runtime":"shared","lambent:gpu-domain":"gpu_domain",)"
      R"("lambent:gpu-share":"40","lambent:cpu-variant":"true","lambent:cpu-handler":"cpu_handler",)"
      R"("lambent:gpu-speedup":"2.5","lambent:http-port":"40",)"
      R"("lambent:http-readiness":"http_readiness","lambent:http-concurrency":"40","lambent:url-auth":"none","lambent:url-invoke-mode":"response_stream","lambent:url-cors":"url_cors","lambent:weight":"2.5","lambent:max-concurrency":"40","lambent:max-queue-time":"2.5",)"
      R"("lambent:min-instances":"40","lambent:slo-ms":"40","lambent:keep-alive":"2.5","lambent:warm-up":"warm_up",)"
      R"x("lambent:schedules":"[{\"name\":\"nightly\",\"cron\":\"30 2 * * *\",\"timezone\":\"UTC\",\"payload\":\"{\\\"full\\\":true}\",\"catch_up\":true,\"enabled\":false}]",)x"
      R"("lambent:async-retries":"2","lambent:async-max-age":"2.5",)"
      R"("lambent:async-on-success":"async_on_success","lambent:async-on-failure":"async_on_failure"}})");
}

TEST(FunctionRequest, OfADefaultFunctionTakesBackEverySetting) {
  EXPECT_EQ(
      settings_text(FunctionSpec()),
      R"({"FunctionName":"","Runtime":"provided.al2023",)"
      R"("Role":"arn:aws:iam::000000000000:role/lambent","Handler":"bootstrap","Description":"",)"
      R"("Timeout":30,"MemorySize":512,"EphemeralStorage":{"Size":512},"Environment":{"Variables":{}},)"
      R"("Tags":{"lambent:kind":"handler","lambent:cpus":"0","lambent:shared-memory":"64MiB","lambent:mounts":"",)"
      R"("lambent:network":"","lambent:gpu-memory":"0MiB","lambent:gpu-count":"1",)"
      R"("lambent:launch-mode":"compute","lambent:memory-mode":"vmm","lambent:working-set":"worker",)"
      R"("lambent:checkpoint":"false","lambent:gpu-runtime":"own","lambent:gpu-domain":"",)"
      R"("lambent:gpu-share":"100","lambent:cpu-variant":"false","lambent:cpu-handler":"",)"
      R"("lambent:gpu-speedup":"0","lambent:http-port":"8080","lambent:http-readiness":"",)"
      R"("lambent:http-concurrency":"1","lambent:weight":"1","lambent:max-concurrency":"1000","lambent:max-queue-time":"-1",)"
      R"("lambent:min-instances":"0","lambent:slo-ms":"0","lambent:keep-alive":"-1","lambent:warm-up":"","lambent:schedules":"",)"
      R"("lambent:async-retries":"-1","lambent:async-max-age":"0",)"
      R"("lambent:async-on-success":"","lambent:async-on-failure":""}})");
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
  ExpectSent expect{Json::parse(settings_text(spec))};
  visit_fields(expect, spec);
}

TEST(FunctionRequest, IsOneCallWithTheSettingsAndTheCodeAsItIs) {
  FunctionSpec spec;
  spec.name.name = "hello";
  const http::Request request = deploy_request(spec, {.zip = "PK\r\n--", .dry_run = true});
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.target, "/v1/functions/hello?dry_run=1");
  const auto parts = http::parse_multipart(request.headers.get("Content-Type"), request.body);
  ASSERT_TRUE(parts.ok()) << to_string(parts.error());
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "settings");
  EXPECT_EQ((*parts)[0].content, settings_text(spec));
  EXPECT_EQ((*parts)[1].name, "code");
  EXPECT_EQ((*parts)[1].content, "PK\r\n--");
}

TEST(FunctionRequest, NamesCodeThatIsNotSentByItsDigest) {
  FunctionSpec spec;
  spec.name.name = "hello";
  const http::Request request = deploy_request(spec, {.code_sha256 = "a+b/c="});
  EXPECT_EQ(request.target, "/v1/functions/hello?code_sha256=a%2Bb%2Fc%3D");
  const auto parts = http::parse_multipart(request.headers.get("Content-Type"), request.body);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->size(), 1u);
}

}  // namespace
}  // namespace lambent::cli
