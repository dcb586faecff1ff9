// Functions over the Lambda API: made, shown, changed, removed, and what is refused.
#include "core/domain/limits.h"
#include "edge/frontend/testing/lambda_testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

TEST_F(LambdaTest, AFunctionIsCreatedWithAllItsSettings) {
  json body = create_body("f");
  body["Description"] = "hello";
  body["Timeout"] = 7;
  body["MemorySize"] = 256;
  body["Environment"] = {{"Variables", {{"MODE", "fast"}}}};
  body["Tags"] = {{"lambent:gpu-memory", "1GiB"}, {"team", "vision"}};
  body["Architectures"] = {"x86_64"};
  body["PackageType"] = "Zip";
  body["Publish"] = false;
  body["VpcConfig"] = {{"SubnetIds", json::array()}, {"SecurityGroupIds", json::array()}};
  const http::Response response = call_json("POST", kFunctions, body);
  ASSERT_EQ(response.status, 201) << response.body;
  EXPECT_EQ(service_.changes[0].zip_base64, base64_encode("PK zip"));
  EXPECT_EQ(spec("f").gpu.memory, Bytes::gib(1));
  EXPECT_EQ(spec("f").memory, Bytes::mib(256));
  EXPECT_EQ(spec("f").timeout, seconds(7));
  EXPECT_EQ(spec("f").runtime, Runtime::kPython);
  EXPECT_EQ(spec("f").environment.at("MODE"), "fast");
  const json configuration = json::parse(response.body);
  EXPECT_EQ(configuration["FunctionName"], "f");
  EXPECT_EQ(configuration["FunctionArn"], "arn:aws:lambda:us-east-1:000000000000:function:f");
  EXPECT_EQ(configuration["State"], "Active");
  EXPECT_EQ(configuration["LastUpdateStatus"], "Successful");
  EXPECT_EQ(configuration["Environment"]["Variables"]["MODE"], "fast");
  EXPECT_EQ(configuration["Timeout"], 7);
  EXPECT_EQ(configuration["MemorySize"], 256);
  EXPECT_EQ(configuration["CodeSize"], 6);
  EXPECT_EQ(configuration["Version"], "$LATEST");
}

TEST_F(LambdaTest, LastModifiedIsWrittenAsLambdaWritesIt) {
  create("f");
  spec("f").last_modified = milliseconds(1'700'000'000'045);
  const auto response = call("GET", kFunctions + "/f/configuration");
  EXPECT_EQ(json::parse(response.body)["LastModified"], "2023-11-14T22:13:20.045+0000");
}

TEST_F(LambdaTest, ABadCreationIsRefusedNamingTheField) {
  const std::pair<const char*, json> bad[] = {
      {"FunctionName", "a b"},
      {"FunctionName", nullptr},
      {"FunctionName", 7},
      {"Runtime", "nodejs20.x"},
      {"Runtime", nullptr},
      {"Role", nullptr},
      {"Handler", "handler"},
      {"Timeout", 0},
      {"Timeout", 5401},
      {"Timeout", 1.5},
      {"Timeout", "3"},
      {"Timeout", -1},
      {"Timeout", 18446744073709551615ULL},
      {"MemorySize", 1},
      {"MemorySize", 40000},
      {"Environment", {{"Variables", {{"A B", "1"}}}}},
      {"Environment", {{"Variables", {{"A", 1}}}}},
      {"Environment", "A=1"},
      {"Tags", {{"lambent:weight", "heavy"}}},
      {"Tags", json::array({"a"})},
      {"Description", std::string(257, 'x')},
      {"Layers", {"arn:layer"}},
      {"VpcConfig", {{"SubnetIds", {"subnet-1"}}}},
      {"Architectures", {"arm64"}},
      {"PackageType", "Image"},
      {"Publish", "yes"},
      {"EphemeralStorage", {{"Size", 0}}},
      {"EphemeralStorage", 1024},
      {"EphemeralStorage", {{"Size", "1"}}},
      {"Code", nullptr},
      {"Code", {{"S3Bucket", "b"}, {"S3Key", "k"}}},
      {"Code", {{"ImageUri", "i"}}},
      {"Code", {{"ZipFile", "not base64!"}}},
      {"Code", {{"ZipFile", ""}}},
  };
  for (const auto& [key, value] : bad) {
    json body = create_body("f");
    if (value.is_null()) {
      body.erase(key);
    } else {
      body[key] = value;
    }
    const auto response = call_json("POST", kFunctions, body);
    expect_fault(response, 400, "InvalidParameterValueException");
    EXPECT_TRUE(service_.changes.empty()) << key;
  }
}

json image_body(const std::string& name) {
  return {{"FunctionName", name},
          {"Role", "r"},
          {"PackageType", "Image"},
          {"Code", {{"ImageUri", "ghcr.io/a/b:1"}}}};
}

TEST_F(LambdaTest, AFunctionOfAnImageHasNeitherRuntimeNorHandlerNorZip) {
  json body = image_body("f");
  body["ImageConfig"] = {
      {"EntryPoint", {"/bin/x"}}, {"Command", {"a b"}}, {"WorkingDirectory", "/w"}};
  const json made = json::parse(call_json("POST", kFunctions, body).body);
  EXPECT_EQ(made["PackageType"], "Image");
  EXPECT_FALSE(made.contains("Runtime"));
  EXPECT_FALSE(made.contains("Handler"));
  EXPECT_EQ(made["ImageConfigResponse"]["ImageConfig"], body["ImageConfig"]);
  EXPECT_EQ(spec("f").runtime_name, "image");
  EXPECT_EQ(spec("f").handler, "--entrypoint=/bin/x --workdir=/w ghcr.io/a/b:1 \"a b\"");
  EXPECT_TRUE(service_.changes.at(0).zip_base64.empty());
  const json shown = json::parse(call("GET", kFunctions + "/f").body);
  EXPECT_EQ(shown["Code"]["ImageUri"], "ghcr.io/a/b:1");
}

TEST_F(LambdaTest, TheImageAndItsConfigurationAreChanged) {
  ASSERT_EQ(call_json("POST", kFunctions, image_body("f")).status, 201);
  const json config = {{"ImageConfig", {{"Command", {"app.other"}}}}};
  ASSERT_EQ(call_json("PUT", kFunctions + "/f/configuration", config).status, 200);
  EXPECT_EQ(spec("f").handler, "ghcr.io/a/b:1 app.other");
  const json code = {{"ImageUri", "ghcr.io/a/b:2"}};
  ASSERT_EQ(call_json("PUT", kFunctions + "/f/code", code).status, 200);
  EXPECT_EQ(spec("f").handler, "ghcr.io/a/b:2 app.other");
  const json none = {{"ImageConfig", json::object()}};
  ASSERT_EQ(call_json("PUT", kFunctions + "/f/configuration", none).status, 200);
  EXPECT_EQ(spec("f").handler, "ghcr.io/a/b:2");
}

TEST_F(LambdaTest, WhatIsOfZipsIsRefusedForImagesAndTheOtherWayRound) {
  const std::pair<const char*, json> bad[] = {{"Runtime", "python3.11"},
                                              {"Handler", "app.handler"},
                                              {"Code", json::object()},
                                              {"Code", {{"ImageUri", "Not/A/Name"}}},
                                              {"Code", {{"ImageUri", 7}}},
                                              {"ImageConfig", {{"Command", "app.handler"}}},
                                              {"ImageConfig", {{"WorkingDirectory", "relative"}}},
                                              {"ImageConfig", json::array({"x"})}};
  for (const auto& [key, value] : bad) {
    json body = image_body("f");
    body[key] = value;
    expect_fault(call_json("POST", kFunctions, body), 400, "InvalidParameterValueException");
  }
  json zip = create_body("f");
  zip["ImageConfig"] = {{"Command", {"x"}}};
  expect_fault(call_json("POST", kFunctions, zip), 400, "InvalidParameterValueException");
  create("zip");
  const json code = {{"ImageUri", "ghcr.io/a/b:1"}};
  expect_fault(call_json("PUT", kFunctions + "/zip/code", code), 400,
               "InvalidParameterValueException");
  ASSERT_EQ(call_json("POST", kFunctions, image_body("g")).status, 201);
  const json runtime = {{"Runtime", "python3.11"}};
  expect_fault(call_json("PUT", kFunctions + "/g/configuration", runtime), 400,
               "InvalidParameterValueException");
}

TEST_F(LambdaTest, ABodyThatIsNoJsonObjectIsBadContent) {
  for (const char* body : {"{", "[]", "\"a\"", "{\"a\":\xff}"}) {
    expect_fault(call("POST", kFunctions, body), 400, "InvalidRequestContentException");
    create("f" + std::to_string(service_.functions.size()));
    expect_fault(call("PUT", kFunctions + "/f0/code", body), 400, "InvalidRequestContentException");
  }
}

TEST_F(LambdaTest, ALargeZipArrivesWhole) {
  std::string zip;
  for (int i = 0; i < 100'000; ++i) zip += static_cast<char>(i * 7);
  json body = create_body("f");
  body["Code"]["ZipFile"] = base64_encode(zip);
  ASSERT_EQ(call_json("POST", kFunctions, body).status, 201);
  EXPECT_EQ(service_.changes.at(0).zip_base64, base64_encode(zip));
  ASSERT_EQ(
      call_json("PUT", kFunctions + "/f/code", json{{"ZipFile", base64_encode(zip + "1")}}).status,
      200);
  EXPECT_EQ(service_.changes.at(1).zip_base64, base64_encode(zip + "1"));
  expect_fault(
      call_json("PUT", kFunctions + "/f/code", json{{"ZipFile", std::string(10'000, '*')}}), 400,
      "InvalidParameterValueException", "base64");
}

TEST_F(LambdaTest, AZipThatIsTooLargeIsRefused) {
  json body = create_body("f");
  const std::string most = base64_encode(std::string(limits::kZippedCode.count, 'x'));
  body["Code"]["ZipFile"] = most.substr(0, most.size() - 4) + "eHh4";
  expect_fault(call_json("POST", kFunctions, body), 413, "RequestTooLargeException", "50 MiB");
  body["Code"]["ZipFile"] = most;
  EXPECT_EQ(call_json("POST", kFunctions, body).status, 201);
}

TEST_F(LambdaTest, ErrorsOfTheServiceBecomeTypedExceptions) {
  create("f");
  const std::tuple<ErrorCode, int, const char*> table[] = {
      {ErrorCode::kInvalidArgument, 400, "InvalidParameterValueException"},
      {ErrorCode::kNotFound, 404, "ResourceNotFoundException"},
      {ErrorCode::kAlreadyExists, 409, "ResourceConflictException"},
      {ErrorCode::kAborted, 409, "ResourceConflictException"},
      {ErrorCode::kFailedPrecondition, 409, "ResourceConflictException"},
      {ErrorCode::kOutOfRange, 413, "RequestTooLargeException"},
      {ErrorCode::kResourceExhausted, 429, "TooManyRequestsException"},
      {ErrorCode::kStorageFull, 503, "ServiceException"},
      {ErrorCode::kPermissionDenied, 403, "AccessDeniedException"},
      {ErrorCode::kUnimplemented, 501, "NotImplementedException"},
      {ErrorCode::kUnavailable, 503, "ServiceException"},
      {ErrorCode::kDeadlineExceeded, 504, "ServiceException"},
      {ErrorCode::kDataLoss, 500, "ServiceException"},
      {ErrorCode::kInternal, 500, "ServiceException"},
  };
  for (const auto& [code, status, type] : table) {
    service_.failure = Error{code, "the reason"};
    const http::Response refused = call_json("POST", kFunctions, create_body("g"));
    expect_fault(refused, status, type, "the reason");
    EXPECT_EQ(refused.headers.get("x-lambent-code"), name_of(code));
    service_.behaviour = [code = code](const InvocationRequest& request) {
      InvocationResult result;
      result.id = request.id;
      result.outcome = Outcome::kRejected;
      result.error = Error{code, "rejected"};
      return result;
    };
    expect_fault(invoke("{}"), status, type, "rejected");
    expect_fault(invoke("{}", {{"X-Amz-Invocation-Type", "Event"}}), status, type, "rejected");
    service_.behaviour = [code = code](const InvocationRequest&) { return Error{code, "none"}; };
    expect_fault(invoke("{}"), status, type, "none");
  }
}

TEST_F(LambdaTest, NamesComeInEveryForm) {
  create("f");
  for (const char* name : {"f", "f:$LATEST", "f%3A%24LATEST",
                           "arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Af",
                           "000000000000:function:f"}) {
    EXPECT_EQ(invoke("{}", {}, name).status, 200) << name;
  }
  EXPECT_EQ(call("GET", kFunctions + "/f?Qualifier=%24LATEST").status, 200);
  expect_fault(call("GET", kFunctions + "/f?Qualifier=prod"), 404, "ResourceNotFoundException",
               "function:f:prod");
  expect_fault(invoke("{}", {}, "f:1"), 404, "ResourceNotFoundException");
  expect_fault(invoke("{}", {}, "f%20"), 400, "InvalidParameterValueException");
  expect_fault(invoke("{}", {}, "g"), 404, "ResourceNotFoundException");
}

TEST_F(LambdaTest, AFunctionIsShownAndRemoved) {
  create("f");
  spec("f").tags = {{"team", "vision"}};
  const json shown = json::parse(call("GET", kFunctions + "/f").body);
  EXPECT_EQ(shown["Configuration"]["FunctionName"], "f");
  EXPECT_EQ(shown["Tags"]["team"], "vision");
  EXPECT_EQ(json::parse(call("GET", kFunctions + "/f/configuration").body)["Handler"],
            "app.handler");
  const auto removed = call("DELETE", kFunctions + "/f");
  EXPECT_EQ(removed.status, 204);
  EXPECT_EQ(removed.body, "");
  expect_fault(call("DELETE", kFunctions + "/f"), 404, "ResourceNotFoundException");
  expect_fault(call("GET", kFunctions + "/f"), 404, "ResourceNotFoundException");
}

TEST_F(LambdaTest, FunctionsAreListedPageByPage) {
  for (const char* name : {"c", "a", "b", "e", "d"}) create(name);
  std::string names;
  std::string marker;
  for (int page = 0; page < 3; ++page) {
    const json list = json::parse(call("GET", kFunctions + "/?MaxItems=2&Marker=" + marker).body);
    for (const json& one : list["Functions"]) names += one["FunctionName"].get<std::string>();
    EXPECT_EQ(list.contains("NextMarker"), page < 2);
    marker = list.value("NextMarker", "");
  }
  EXPECT_EQ(names, "abcde");
  EXPECT_EQ(json::parse(call("GET", kFunctions).body)["Functions"].size(), 5u);
  for (const char* bad : {"0", "x", "10001", "-1"}) {
    expect_fault(call("GET", kFunctions + "?MaxItems=" + bad), 400,
                 "InvalidParameterValueException", "MaxItems");
  }
}

TEST_F(LambdaTest, CodeIsReplacedAndTheRestKept) {
  create("f");
  const std::string revision =
      json::parse(call("GET", kFunctions + "/f/configuration").body)["RevisionId"];
  const auto updated =
      call_json("PUT", kFunctions + "/f/code",
                json{{"ZipFile", base64_encode("PK new")}, {"RevisionId", revision}});
  ASSERT_EQ(updated.status, 200) << updated.body;
  EXPECT_EQ(service_.changes.at(1).zip_base64, base64_encode("PK new"));
  EXPECT_EQ(service_.changes.at(1).spec.handler, "app.handler");
  EXPECT_NE(json::parse(updated.body)["RevisionId"], revision);
  expect_fault(call_json("PUT", kFunctions + "/f/code",
                         json{{"ZipFile", base64_encode("x")}, {"RevisionId", revision}}),
               412, "PreconditionFailedException");
  const json refused[] = {{{"S3Bucket", "b"}, {"S3Key", "k"}},
                          {{"ZipFile", base64_encode("x")}, {"Publish", "yes"}},
                          {{"ZipFile", base64_encode("x")}, {"DryRun", 1}},
                          {{"ZipFile", base64_encode("x")}, {"Architectures", {"arm64"}}},
                          json::object()};
  for (const json& body : refused) {
    expect_fault(call_json("PUT", kFunctions + "/f/code", body), 400,
                 "InvalidParameterValueException");
  }
  expect_fault(call_json("PUT", kFunctions + "/g/code", json{{"ZipFile", base64_encode("x")}}), 404,
               "ResourceNotFoundException");
}

TEST_F(LambdaTest, AConfigurationIsChangedFieldByField) {
  create("f");
  const auto updated =
      call_json("PUT", kFunctions + "/f/configuration",
                json{{"Timeout", 9}, {"Environment", {{"Variables", {{"A", "1"}}}}}});
  ASSERT_EQ(updated.status, 200) << updated.body;
  EXPECT_EQ(spec("f").timeout, seconds(9));
  EXPECT_EQ(spec("f").environment.at("A"), "1");
  EXPECT_EQ(spec("f").handler, "app.handler");
  EXPECT_TRUE(service_.changes.at(1).zip_base64.empty());
  expect_fault(call_json("PUT", kFunctions + "/f/configuration", json{{"Handler", "x"}}), 400,
               "InvalidParameterValueException", "module.function");
  expect_fault(call_json("PUT", kFunctions + "/f/configuration", json{{"Layers", {"l"}}}), 400,
               "InvalidParameterValueException", "Layers");
}

TEST_F(LambdaTest, TagsChangeTheSettingsTheyStandFor) {
  create("f");
  const std::string tags =
      "/2017-03-31/tags/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Af";
  EXPECT_EQ(call_json("POST", tags, json{{"Tags", {{"lambent:weight", "3"}, {"a", "1"}}}}).status,
            204);
  EXPECT_EQ(spec("f").weight, 3);
  EXPECT_EQ(json::parse(call("GET", tags).body)["Tags"]["a"], "1");
  EXPECT_EQ(call("DELETE", tags + "?tagKeys=lambent%3Aweight&tagKeys=a").status, 204);
  EXPECT_EQ(spec("f").weight, 1);
  EXPECT_TRUE(spec("f").tags.empty());
  expect_fault(call_json("POST", tags, json{{"Tags", {{"lambent:weight", "x"}}}}), 400,
               "InvalidParameterValueException", "lambent:weight");
  expect_fault(call_json("POST", tags, json{{"Tags", {{"lambent:kind", "x"}}}}), 400,
               "InvalidParameterValueException", "not handler, kernel, workflow, pipeline or http");
  expect_fault(call_json("POST", tags, json::object()), 400, "InvalidParameterValueException");
  expect_fault(call("DELETE", tags), 400, "InvalidParameterValueException", "tagKeys");
}

TEST_F(LambdaTest, AccountSettingsCountTheFunctions) {
  create("f");
  const json settings = json::parse(call("GET", "/2016-08-19/account-settings").body);
  EXPECT_EQ(settings["AccountUsage"]["FunctionCount"], 1);
  EXPECT_EQ(settings["AccountUsage"]["TotalCodeSize"], 6);
}

TEST_F(LambdaTest, WhatIsNotSupportedIsSaidSo) {
  create("f");
  for (const char* target :
       {"/2015-03-31/functions/f/policy", "/2014-11-13/functions/f/invoke-async",
        "/2015-03-31/event-source-mappings", "/2018-10-31/layers/l/versions/1",
        "/2025-12-01/durable-executions/a/stop", "/2025-12-01/functions/f/durable-executions",
        "/2026-07-09/resource-policy/a", "/2025-11-30/functions/f/function-scaling-config"}) {
    expect_fault(call("POST", target, "{}"), 501, "NotImplementedException");
  }
  for (const char* target : {"/2015-03-31/f", "/2015-03-31/functions/f/x", "/2015-03-31/",
                             "/2015-03-31/functions/f/code/x", "/2015-03-31/functions/%zz",
                             "/2015-03-31/tags", "/2015-03-31/functions/f/invocations/x"}) {
    expect_fault(call("GET", target), 404, "UnknownOperationException");
  }
}

TEST_F(LambdaTest, ARefusalSaysWhatDoesTheSameHere) {
  create("f");
  expect_fault(call("POST", "/2015-03-31/functions/f/policy", "{}"), 501, "NotImplementedException",
               "'policy' of Lambda's API is not supported: tokens say who may invoke");
}

TEST_F(LambdaTest, WhoAsksForWhatThereIsNoneOfIsToldSo) {
  create("f");
  const std::pair<const char*, const char*> lists[] = {
      {"/2015-03-31/event-source-mappings/?MaxItems=1", R"({"EventSourceMappings":[]})"},
      {"/2020-04-22/code-signing-configs", R"({"CodeSigningConfigs":[]})"},
      {"/2025-11-30/capacity-providers", R"({"CapacityProviders":[]})"},
      {"/2020-06-30/functions/f/code-signing-config",
       R"({"CodeSigningConfigArn":"","FunctionName":"f"})"},
      {"/2024-08-31/functions/f/recursion-config", R"({"RecursiveLoop":"Allow"})"}};
  for (const auto& [target, body] : lists) {
    const http::Response response = call("GET", target);
    EXPECT_EQ(response.status, 200) << target;
    EXPECT_EQ(json::parse(response.body), json::parse(body)) << target;
  }
  expect_fault(call("GET", "/2015-03-31/functions/f/policy"), 404, "ResourceNotFoundException",
               "function:f has no 'policy'");
  expect_fault(call("GET", "/2020-06-30/functions/g/code-signing-config"), 404,
               "ResourceNotFoundException", "Function not found");
  expect_fault(call("GET", "/2019-09-25/functions/f/event-invoke-config/x"), 404,
               "UnknownOperationException");
}

// As 'lambent load' asks for a function before it sends anything.
TEST_F(LambdaTest, OfAFunctionThatIsNotThereTheNameThatWasMeantIsTold) {
  create("hello");
  const auto message = [&](const std::string& name) {
    const http::Response response = call("GET", kFunctions + "/" + name);
    EXPECT_EQ(response.status, 404);
    return json::parse(response.body)["Message"].get<std::string>();
  };
  EXPECT_TRUE(message("helo").starts_with("Function not found: arn:")) << message("helo");
  EXPECT_TRUE(message("helo").ends_with(":function:helo; did you mean 'hello'?"));
  EXPECT_TRUE(message("other-one").ends_with(":function:other-one")) << "in AWS's words";
}

TEST_F(LambdaTest, AWrongMethodIs405) {
  const auto response = call("PATCH", kFunctions + "/f");
  expect_fault(response, 405, "MethodNotAllowedException", "GET, DELETE");
  EXPECT_EQ(response.headers.get("Allow"), "GET, DELETE");
  EXPECT_EQ(call("GET", kFunctions + "/f/invocations").status, 405);
  EXPECT_EQ(call("GET", kFunctions + "/f/code").status, 405);
  EXPECT_EQ(call("DELETE", kFunctions).status, 405);
}

}  // namespace
}  // namespace lambent::frontend
