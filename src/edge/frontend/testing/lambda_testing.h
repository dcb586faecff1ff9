// What the tests of the Lambda API stand on: the frontend before a service of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/base64.h"
#include "core/base/random.h"
#include "edge/frontend/lambda.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

inline const std::string kFunctions = "/2015-03-31/functions";

class LambdaTest : public testing::Test {
 protected:
  std::shared_ptr<Exchanged> start(http::Request request) {
    auto seen = std::make_shared<Exchanged>();
    frontend_.handle(Caller(), std::move(request), responder_to(seen));
    return seen;
  }
  http::Response call(const std::string& method, const std::string& target,
                      const std::string& body = "", const HeaderList& headers = {}) {
    const auto seen = start(request_of(method, target, body, headers));
    EXPECT_TRUE(seen->response.has_value()) << method << " " << target;
    return seen->response.value_or(http::Response{.status = 0});
  }
  http::Response call_json(const std::string& method, const std::string& target,
                           const nlohmann::json& body) {
    return call(method, target, body.dump());
  }
  http::Response invoke(const std::string& body, const HeaderList& headers = {},
                        const std::string& name = "f") {
    return call("POST", kFunctions + "/" + name + "/invocations", body, headers);
  }
  static nlohmann::json create_body(const std::string& name) {
    return {{"FunctionName", name},
            {"Runtime", "python3.11"},
            {"Role", "any"},
            {"Handler", "app.handler"},
            {"Code", {{"ZipFile", base64_encode("PK zip")}}}};
  }
  void create(const std::string& name) {
    ASSERT_EQ(call_json("POST", kFunctions, create_body(name)).status, 201);
  }
  static void expect_fault(const http::Response& response, int status, const std::string& type,
                           const std::string& words = "") {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.headers.get("x-amzn-ErrorType"), type);
    const nlohmann::json body = nlohmann::json::parse(response.body);
    EXPECT_EQ(body["Type"], status < 500 ? "User" : "Service");
    EXPECT_NE(body["Message"].get<std::string>().find(words), std::string::npos) << response.body;
    EXPECT_FALSE(response.headers.get("x-amzn-RequestId").empty());
  }
  FunctionSpec& spec(const std::string& name) {
    return service_.functions.at({kDefaultTenant, name});
  }

  FakeService service_;
  SeededRandom random_{1};
  FakeVersions versions_{service_};
  FakeRelays relays_;
  LambdaFrontend frontend_{
      {service_, versions_, relays_, random_, [](TenantId) { return std::string("team"); }}};
};

}  // namespace lambent::frontend
