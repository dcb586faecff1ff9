// lambent plan, from files, and slices as people name them.
#include "edge/cli/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "edge/cli/slice_names.h"

namespace lambent::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kPipeline = R"({"pipeline": 1, "handler": "app.App", "inputs": ["image"],
  "components": [{"name": "deblur", "inputs": ["$image"]}, {"name": "classify", "inputs": ["deblur"]}],
  "outputs": ["classify"], "slo": {"scale": 1.5}})";
constexpr const char* kProfile = R"({"profile": 1, "context_mb": 512, "start_ms": 300,
  "shapes": {"1g.10gb": {"multiprocessors": 14, "memory_mb": 9728},
             "2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}},
  "components": {
    "deblur": {"weights_mb": 6144, "memory_mb": 7168, "output_bytes": 0,
               "ms": {"1g.10gb": 20, "2g.20gb": 10}},
    "classify": {"weights_mb": 6144, "memory_mb": 7168, "output_bytes": 0,
                 "ms": {"1g.10gb": 20, "2g.20gb": 10}}}})";

// A worker that has one pipeline function and answers what it is given.
class OneFunction final : public Transport {
 public:
  Result<http::Response> upload(const http::Request&, Bytes, Duration,
                                const http::BodySource&) override {
    return Error{ErrorCode::kUnimplemented, "nothing is put here"};
  }
  Result<http::Response> send(const http::Request& request, Duration) override {
    http::Response response{.status = 200};
    if (request.target == "/v1/functions/app/pipeline") {
      response.body = R"({"pipeline": )" + pipeline + R"(, "profile": )" + profile +
                      R"(, "gpu_memory_mb": )" + memory_mb + R"(, "queued": 0)" + isolation + "}";
    } else if (request.target == "/v1/slices") {
      response.body = slices;
    } else {
      response = {.status = 404,
                  .body = R"({"error": {"code": "NOT_FOUND", "message": "no such function"}})"};
    }
    return response;
  }
  Result<http::Response> stream(const http::Request& request, Duration timeout,
                                const Sink&) override {
    return send(request, timeout);
  }

  std::string pipeline = kPipeline;
  std::string isolation;
  std::string profile = kProfile;
  std::string memory_mb = "12288";
  std::string slices = R"({"policy": "slo", "slices": [
    {"slice": "0:0", "uuid": "MIG-1", "shape": "2g.20gb", "multiprocessors": 28, "memory_mb": 19968,
     "lost": false, "busy_s": 1.5, "holders": [{"function": "other"}]},
    {"slice": "0:1", "uuid": "MIG-2", "shape": "1g.10gb", "multiprocessors": 14, "memory_mb": 9728,
     "lost": false, "busy_s": 0, "holders": []},
    {"slice": "1:0", "uuid": "MIG-3", "shape": "1g.10gb", "multiprocessors": 14, "memory_mb": 9728,
     "lost": false, "busy_s": 0, "holders": []},
    {"slice": "1:1", "uuid": "MIG-4", "shape": "1g.10gb", "multiprocessors": 14, "memory_mb": 9728,
     "lost": true, "busy_s": 0, "holders": []}]})";
};

class PlanVerb : public testing::Test {
 protected:
  PlanVerb() {
    EXPECT_TRUE(write_file_atomically(folder_.path() + "/pipeline.json", kPipeline, false).ok());
    EXPECT_TRUE(write_file_atomically(folder_.path() + "/profile.json", kProfile, false).ok());
    options_.pipeline = folder_.path();
    options_.profile = folder_.path() + "/profile.json";
  }

  int run() {
    out_.str("");
    err_.str("");
    Console console{out_, err_, json_};
    return run_plan(worker_, console, options_);
  }
  std::string out() const { return out_.str(); }

  TemporaryFolder folder_;
  PlanOptions options_;
  OneFunction worker_;
  bool json_ = false;
  std::ostringstream out_, err_;
};

TEST_F(PlanVerb, TellsWhichWayIsTakenAndWhyNotThoseBeforeIt) {
  options_.slices = "2*1g.10gb";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), AllOf(HasSubstr("app.App: 2 components, ranked by balance, SLO 30.0 ms"),
                           HasSubstr("First that fits (2): deblur | classify\n"
                                     "  on 1g.10gb + 1g.10gb: latency 40.0 ms, longer than the "
                                     "SLO; 50.0 results/s; weights are there after 1073.7 ms\n"
                                     "  not 1: needs 1 slice with at least 13.5 GiB, the largest "
                                     "has 9.5 GiB\n")));
}

TEST_F(PlanVerb, InOnePieceWhereASliceIsLargeEnough) {
  options_.slices = "1g.10gb,2g.20gb";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), AllOf(HasSubstr("First that fits (1): deblur classify\n  on 2g.20gb: latency "
                                     "20.0 ms; 50.0 results/s"),
                           Not(HasSubstr("not 1"))));
}

TEST_F(PlanVerb, SaysWhatWouldHaveToBeFree) {
  options_.slices = "1g.10gb";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(),
              HasSubstr("None fits these slices. It needs a slice with 13.5 GiB (2g.20gb), "
                        "or 2 slices of one node with 7.5 GiB + 7.5 GiB (1g.10gb + 1g.10gb)."));
}

TEST_F(PlanVerb, AsJsonItIsTheSame) {
  options_.slices = "1g.10gb";
  options_.gpus = 2;
  json_ = true;
  ASSERT_EQ(run(), 0) << err_.str();
  const Json plan = Json::parse(out());
  EXPECT_EQ(plan["first_that_fits"], 1);
  EXPECT_EQ(plan["slo_ms"], 30);
  const Json& cut = plan["partitions"][1];
  EXPECT_EQ(cut["stages"], Json::parse(R"([[["deblur"]], [["classify"]]])"));
  EXPECT_EQ(cut["stage_ms"], Json::parse("[20.0, 20.0]"));
  EXPECT_EQ(cut["variation"], 0);
  EXPECT_EQ(cut["placement"]["slices"],
            Json::parse(R"([{"gpu": 0, "shape": "1g.10gb"}, {"gpu": 1, "shape": "1g.10gb"}])"));
  EXPECT_EQ(plan["partitions"][0]["placement"], nullptr);
  EXPECT_THAT(plan["partitions"][0]["why_not"], HasSubstr("needs 1 slice"));
}

TEST_F(PlanVerb, OfAWorkersFunctionItIsForTheSlicesThatAreFreeThere) {
  options_ = {.function = "app"};
  json_ = true;
  ASSERT_EQ(run(), 0) << err_.str();
  const Json plan = Json::parse(out());
  EXPECT_EQ(plan["measured"], true);
  EXPECT_EQ(plan["first_that_fits"], 1);
  EXPECT_EQ(plan["partitions"][1]["placement"]["slices"],
            Json::parse(R"([{"gpu": 0, "shape": "1g.10gb"}, {"gpu": 1, "shape": "1g.10gb"}])"));
  EXPECT_EQ(plan["partitions"][0]["why_not"],
            "needs 1 slice with at least 13.5 GiB, the largest has 9.5 GiB");
  // What would be if others were free.
  options_.slices = "2g.20gb";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_EQ(Json::parse(out())["first_that_fits"], 0);
}

TEST_F(PlanVerb, TellsWhatTheWorkerChoseBetweenSlicesAndASharedDevice) {
  options_ = {.function = "app"};
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), Not(HasSubstr("isolation"))) << "there is no choice";
  worker_.pipeline.insert(worker_.pipeline.size() - 1, R"(, "isolation": "auto")");
  worker_.isolation = R"(, "isolation": {"rule": "auto", "chosen": "shared",
      "reasons": ["slices of its own would be busy for 2 % of the time only"]})";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), HasSubstr("isolation auto: its next request goes to a shared device\n"
                               "  slices of its own would be busy for 2 %"));
  worker_.isolation = R"(, "isolation": {"chosen": 7})";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), Not(HasSubstr("goes to"))) << "what a worker says is not taken on trust";
}

TEST_F(PlanVerb, NoSliceIsFreeIsAnAnswerToo) {
  options_ = {.function = "app"};
  worker_.slices = R"({"slices": []})";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), HasSubstr("None fits these slices. It needs a slice with 13.5 GiB"));
  EXPECT_THAT(out(), Not(HasSubstr("already")));
  worker_.isolation = R"(, "instances": [{"instance": 1}])";  // which has them all
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), HasSubstr("It has 1 instance already; of another one:\nNone fits"));
}

TEST_F(PlanVerb, WhatAWorkerSaysIsNotTakenOnTrust) {
  options_ = {.function = "nobody"};
  EXPECT_EQ(run(), exit_code_of(ErrorCode::kNotFound));
  EXPECT_THAT(err_.str(), HasSubstr("no such function"));
  options_.function = "app";
  for (const char* slices :
       {"[]", "{}", R"({"slices": [1]})", R"({"slices": [{"slice": "0:0"}]})", "{"}) {
    worker_.slices = slices;
    EXPECT_EQ(run(), exit_code_of(ErrorCode::kInternal)) << slices;
  }
}

TEST_F(PlanVerb, OfAWorkersFunctionTheDeclaredMemoryIsThatOfItsManifest) {
  options_ = {.function = "app", .slices = "1g.10gb,2g.20gb"};
  worker_.profile = R"({"profile": 1, "context_mb": 0, "start_ms": 0, "shapes": {},
                        "components": {}})";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), AllOf(HasSubstr("Nothing was measured"), HasSubstr("12 GiB"),
                           HasSubstr("on 2g.20gb")));
  options_.memory = "8G";  // as if it declared that
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), Not(HasSubstr("12 GiB")));
  worker_.memory_mb = "-1";
  EXPECT_EQ(run(), exit_code_of(ErrorCode::kInternal));
}

TEST_F(PlanVerb, AFolderThatIsDeployedStandsForItsCode) {
  TemporaryFolder app;
  std::filesystem::create_directory(app.path() + "/src");
  EXPECT_TRUE(write_file_atomically(app.path() + "/src/pipeline.json", kPipeline, false).ok());
  const std::string manifest = "name = \"app\"\nkind = \"pipeline\"\ncode = \"src\"\n";
  EXPECT_TRUE(write_file_atomically(app.path() + "/lambent.toml", manifest, false).ok());
  options_.pipeline = app.path();
  options_.slices = "2g.20gb";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), HasSubstr("First that fits (1): deblur classify"));
}

TEST_F(PlanVerb, TheManifestSaysWhatItsFilesDoNot) {
  TemporaryFolder app;
  std::filesystem::create_directory(app.path() + "/src");
  EXPECT_TRUE(write_file_atomically(app.path() + "/src/pipeline.json", kPipeline, false).ok());
  const std::string manifest =
      "name = \"app\"\nkind = \"pipeline\"\ncode = \"src\"\n[gpu]\nmemory = \"12G\"\n"
      "[slo]\nms = 35\n";
  EXPECT_TRUE(write_file_atomically(app.path() + "/lambent.toml", manifest, false).ok());
  options_ = {.pipeline = app.path(), .slices = "1g.10gb,2g.20gb"};
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), AllOf(HasSubstr("SLO 35.0 ms"), HasSubstr("Nothing was measured"),
                           HasSubstr("12 GiB")));
  // Its profile lies where its code is.
  EXPECT_TRUE(write_file_atomically(app.path() + "/src/profile.json", kProfile, false).ok());
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), AllOf(HasSubstr("SLO 35.0 ms"), Not(HasSubstr("Nothing was measured")),
                           HasSubstr("on 2g.20gb: latency 20.0 ms")));
}

TEST_F(PlanVerb, WithoutMeasurementsTheDeclaredMemoryDecides) {
  std::filesystem::remove(folder_.path() + "/profile.json");
  options_.profile.clear();
  options_.memory = "12G";
  options_.slices = "1g.10gb,2g.20gb";
  ASSERT_EQ(run(), 0) << err_.str();
  EXPECT_THAT(out(), AllOf(HasSubstr("Nothing was measured"), HasSubstr("on 2g.20gb"),
                           Not(HasSubstr("SLO"))));
}

TEST_F(PlanVerb, ErrorsNameTheFile) {
  options_.pipeline = folder_.path() + "/profile.json";
  EXPECT_NE(run(), 0);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("profile.json"), HasSubstr("'pipeline' is missing")));
  options_.pipeline = folder_.path() + "/nothing.json";
  EXPECT_NE(run(), 0);
  EXPECT_THAT(err_.str(), HasSubstr("nothing.json"));
}

TEST(SliceNames, ReadsNamesAndNumbers) {
  const mig::MigFamily* family = mig::find_mig_family("a100-80gb");
  const auto names = [&](std::string_view text) {
    std::string found;
    const auto profiles = parse_profiles(text, *family);
    if (!profiles.ok()) return profiles.error().message;
    for (const mig::MigProfile* each : *profiles) found += std::string(each->name) + " ";
    return found;
  };
  EXPECT_EQ(names("4g.40gb,2*1g.10gb"), "4g.40gb 1g.10gb 1g.10gb ");
  EXPECT_EQ(names("1g.10gb+me+2g.20gb"), "1g.10gb+me 2g.20gb ");
  EXPECT_EQ(names("4g.41gb"),
            "no slices of a100-80gb are called '4g.41gb'; did you mean '4g.40gb'?");
  EXPECT_EQ(names("x*1g.10gb"), "'x*1g.10gb': a number is expected before '*'");
  EXPECT_EQ(names("65*1g.10gb"), "more than 64 slices");
  EXPECT_THAT(names(""), HasSubstr("are called ''"));
  EXPECT_THAT(parse_family("a100-80g").error().message, HasSubstr("did you mean 'a100-80gb'?"));
  EXPECT_THAT(parse_family("v").error().message, HasSubstr("there are a100-40gb, a100-80gb"));
}

}  // namespace
}  // namespace lambent::cli
