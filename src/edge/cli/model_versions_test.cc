// deploy of a model's versions: the order of what is sent.
#include "edge/cli/model_versions.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "edge/cli/fetch_cache.h"
#include "edge/cli/testing/verbs_testing.h"

namespace lambent::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kMetadata =
    R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1]}],"outputs":[]})";

class ModelVersionsTest : public Verbs {
 protected:
  void write(const std::string& name, std::string_view text) {
    const auto path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    ASSERT_TRUE(write_file_atomically(path, text, false).ok());
  }
  std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    for (const http::Request& request : transport.requests) {
      lines.push_back(request.method + " " + request.target);
    }
    return lines;
  }
  int deploy(const DeployOptions& given = {}) {
    DeployOptions options = given;
    options.path = (folder / "scores").string();
    return run_deploy(transport, console, options);
  }
  TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
};

TEST_F(ModelVersionsTest, AFolderWithNumbersIsAModelsUnlessItSaysOtherwise) {
  write("scores/1/model.onnx", "one");
  write("scores/12/model.onnx", "twelve");
  write("scores/01/model.onnx", "no number");
  const auto found = find_model_folder(folder / "scores");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->versions.size(), 2u);
  write("scores/lambent.toml", "name = \"f\"\nruntime = \"python3\"\nhandler = \"a.b\"\n");
  EXPECT_FALSE(find_model_folder(folder / "scores")) << "a function of another kind";
  write("scores/lambent.toml", "kind = \"model\"\nmodel = \"own.onnx\"\n");
  EXPECT_TRUE(find_model_folder(folder / "scores"));
  write("scores/own.onnx", "its own");
  EXPECT_FALSE(find_model_folder(folder / "scores"));
  EXPECT_FALSE(find_model_folder(folder / "nothing"));
  write("texts/1/readme.txt", "no model");
  EXPECT_FALSE(find_model_folder(folder / "texts"));
}

TEST_F(ModelVersionsTest, ANewVersionIsLoadedBeforeItIsPublishedAndServesOnceItIsLoadedAgain) {
  write("scores/2/model.onnx", "two");
  transport.answer(response(200, R"({"versions":[{"version":"1"}]})"));
  transport.answer(response(200, R"({"aliases":[{"name":"serving","version":"1"}]})"));
  transport.answer(response(200, R"({"action":"updated","configuration":{}})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(201, R"({"version":"2"})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(200, R"({"name":"serving","version":"2"})"));
  EXPECT_EQ(deploy(), 0) << err.str();
  EXPECT_THAT(asked(),
              ElementsAre("GET /v1/functions/scores/versions", "GET /v1/functions/scores/aliases",
                          "PUT /v1/functions/scores", "GET /v2/models/scores:$LATEST",
                          "POST /v1/functions/scores/versions", "GET /v2/models/scores/versions/2",
                          "PUT /v1/functions/scores/aliases/serving"));
  EXPECT_EQ(Json::parse(transport.requests[4].body)["version"], 2);
  EXPECT_EQ(Json::parse(transport.requests[6].body)["version"], "2");
  EXPECT_EQ(out.str(), "published scores:2\n  x FP32[-1] -> \n  /v2/models/scores -> version 2\n");
}

TEST_F(ModelVersionsTest, WhatCannotBeLoadedIsNotPublished) {
  write("scores/2/model.onnx", "two");
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no"}})"));
  transport.answer(response(201, R"({"action":"created","configuration":{}})"));
  transport.answer(response(502, R"({"error":"it ended"})"));
  EXPECT_NE(deploy(), 0);
  EXPECT_THAT(err.str(), HasSubstr("scores:2: the model cannot be loaded: it ended"));
  EXPECT_EQ(transport.requests.size(), 3u);
}

TEST_F(ModelVersionsTest, WhatTheServerSaidOfAModelThatItCannotLoadIsTold) {
  write("scores.onnx", "one");
  transport.answer(response(201, R"({"action":"created","configuration":{}})"));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no"}})"));
  constexpr const char* kNext = "x-lambent-next-offset";
  transport.answer(response(200, "", {{kNext, "33"}}));
  transport.answer(response(502, R"x({"error":"it ended (its log: lambent logs scores)"})x"));
  transport.answer(response(200, "lambent-model-server: a map\nEND\n", {{kNext, "66"}}));
  transport.answer(response(200, "", {{kNext, "66"}}));
  DeployOptions options;
  options.path = (folder / "scores.onnx").string();
  EXPECT_NE(run_deploy(transport, console, options), 0);
  EXPECT_THAT(err.str(), HasSubstr("(its log: lambent logs scores): a map\n"));
  EXPECT_EQ(asked()[2], "GET /v1/functions/scores/log?offset=end");
  EXPECT_EQ(asked()[asked().size() - 2], "GET /v1/functions/scores/log?offset=33");
}

TEST_F(ModelVersionsTest, VersionsOutsideOfThePolicyGoButForTheOneThatServed) {
  for (const char* version : {"1", "2", "3", "4"}) {
    write(std::string("scores/") + version + "/model.onnx", version);
  }
  transport.answer(
      response(200, R"({"versions":[{"version":"1"},{"version":"2"},{"version":"3"}]})"));
  transport.answer(response(200, R"({"aliases":[{"name":"serving","version":"3"}]})"));
  transport.answer(response(200, R"({"action":"updated","configuration":{}})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(201, R"({"version":"4"})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(200, R"({"name":"serving","version":"4"})"));
  transport.answer(
      response(412, R"({"error":{"code":"FAILED_PRECONDITION","message":"an alias needs it"}})"));
  transport.answer(response(200, R"({"version":"2"})"));
  console.json = true;
  EXPECT_EQ(deploy(), 0) << err.str();
  EXPECT_EQ(Json::parse(out.str()), Json::parse(R"({"model":"scores","serving":"4","removed":[2],
      "versions":[{"version":4,"action":"published"}]})"));
  EXPECT_EQ(asked().back(), "DELETE /v1/functions/scores/versions/2");
}

TEST_F(ModelVersionsTest, ARepositoryIsAllItsModelsAndGoesOnAfterAFailure) {
  write("repository/bad/1/other.onnx", "bad");
  write("repository/good/3/model.onnx", "good");
  write("repository/texts/readme.txt", "no model");
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no"}})"));
  transport.answer(response(201, R"({"action":"created","configuration":{}})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(201, R"({"version":"3"})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(200, R"({"name":"serving","version":"3"})"));
  EXPECT_NE(run_deploy(transport, console, {.path = folder / "repository"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("bad/1 has no model.onnx; it has other.onnx"));
  EXPECT_THAT(out.str(), HasSubstr("/v2/models/good -> version 3"));
  EXPECT_NE(run_deploy(transport, console, {.path = folder / "repository", .name = "one"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("--name: these are several models"));
  write("repository/lambent.toml", "kind = \"model\"\n");
  EXPECT_TRUE(find_model_repository(folder / "repository").empty());
}

TEST_F(ModelVersionsTest, AManifestThatCameFromAStoreIsNotRead) {
  write("cache/scores/1/model.onnx", "one");
  write(
      "cache/scores/lambent.toml",
      "name = \"planted\"\nruntime = \"python3\"\nhandler = \"a.b\"\n[[mount]]\nvolume = \"v\"\n");
  FetchCache cache((folder / "entries").string());
  const std::string path = (folder / "cache/scores").string();
  const auto entry = cache.open("s3://models/scores/");
  ASSERT_TRUE(entry.ok());
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no"}})"));
  transport.answer(response(201, R"({"action":"created","configuration":{}})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(201, R"({"version":"1"})"));
  transport.answer(response(200, kMetadata));
  transport.answer(response(200, R"({"name":"serving","version":"1"})"));
  const auto fetch = [&](const std::string&, const FolderChoice&) -> Result<FetchedFolder> {
    return FetchedFolder{.models = {{.path = path, .versions = {{1, path + "/1"}}}},
                         .entry = *entry};
  };
  EXPECT_EQ(run_deploy(transport, console, {.path = "s3://models/scores", .fetch_folder = fetch}),
            0)
      << err.str();
  EXPECT_EQ(asked()[1], "PUT /v1/functions/scores");
  EXPECT_THAT(out.str(), HasSubstr("published scores:1"));
  EXPECT_FALSE(std::filesystem::exists((*entry)->path())) << "it is deployed";
}

TEST_F(ModelVersionsTest, ANameForSeveralModelsOfAStoreIsRefusedBeforeTheyAreFetched) {
  std::vector<Result<void>> checked;
  const auto fetch = [&](const std::string&, const FolderChoice& choice) -> Result<FetchedFolder> {
    checked = {choice.check(false), choice.check(true)};
    return Error{ErrorCode::kUnavailable, "nothing is fetched"};
  };
  EXPECT_NE(run_deploy(transport, console,
                       {.path = "s3://models/", .name = "one", .fetch_folder = fetch}),
            0);
  ASSERT_EQ(checked.size(), 2u);
  EXPECT_TRUE(checked[0].ok()) << "it is one model";
  ASSERT_FALSE(checked[1].ok());
  EXPECT_THAT(checked[1].error().message, HasSubstr("--name: these are several models"));
  EXPECT_NE(run_deploy(transport, console, {.path = "s3://models/", .fetch_folder = fetch}), 0);
  EXPECT_TRUE(checked[1].ok()) << "it has no name";
}

TEST_F(ModelVersionsTest, FlagsThatDoNotGoTogetherAreRefused) {
  write("scores/1/model.onnx", "one");
  EXPECT_NE(deploy({.waits = false}), 0);
  EXPECT_THAT(err.str(), HasSubstr("--no-wait"));
  EXPECT_NE(deploy({.version_policy = "specific:7"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("version 7, which is not there"));
  write("one.onnx", "one");
  EXPECT_NE(run_deploy(transport, console, {.path = folder / "one.onnx", .version_policy = "all"}),
            0);
  EXPECT_THAT(err.str(), HasSubstr("--version-policy is for models with versions"));
  EXPECT_TRUE(transport.requests.empty());
}

}  // namespace
}  // namespace lambent::cli
