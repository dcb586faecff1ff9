// Models that kernels serve: which package is sent, and what is said of what has no kernels.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "core/http/multipart.h"
#include "edge/cli/deploy.h"
#include "edge/cli/testing/verbs_testing.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class ModelImport : public Verbs {
 protected:
  void write(const std::filesystem::path& path, std::string_view text) {
    std::filesystem::create_directories(path.parent_path());
    ASSERT_TRUE(write_file_atomically(path, text, false).ok());
  }
  // Writes a package as lambent.onnx does, and keeps what it was asked for.
  ImportModel covered() {
    return [this](const ModelImportRequest& request) -> Result<ModelImportOutcome> {
      asked = request;
      write(std::filesystem::path(request.folder) / "lambent.toml",
            "name = \"model\"\nkind = \"kernel\"\ngraph = \"graph.json\"\n");
      write(std::filesystem::path(request.folder) / "graph.json", "{}");
      return ModelImportOutcome{true, "1 launch"};
    };
  }
  static ImportModel not_covered() {
    return [](const ModelImportRequest&) -> Result<ModelImportOutcome> {
      return ModelImportOutcome{false, "node 1, LSTM, which makes 'y'"};
    };
  }
  Json sent_settings() const {
    const http::Request& request = transport.requests.at(0);
    const auto read = http::parse_multipart(request.headers.get("Content-Type"), request.body);
    for (const http::Part& part : read.value()) {
      if (part.name == "settings") return Json::parse(part.content);
    }
    return {};
  }
  void answer_deployment() {
    transport.answer(response(201, R"({"action":"created","configuration":{}})"));
    transport.answer(response(200, R"({"aliases":[]})"));
    transport.answer(response(404, ""));  // no log yet
    transport.answer(response(200, R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2,4]}],
                                       "outputs":[]})"));
  }
  TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
  ModelImportRequest asked;
};

TEST_F(ModelImport, AFileBecomesAKernelFunctionAndTellsWhatItTakes) {
  write(folder / "net.onnx", "model");
  answer_deployment();
  EXPECT_EQ(run_deploy(transport, console,
                       {.path = folder / "net.onnx",
                        .engine = ModelEngineChoice::kKernels,
                        .shapes = {"x=2,4"},
                        .batch = 2,
                        .precision = "fp16",
                        .import_model = covered()}),
            0)
      << err.str();
  EXPECT_EQ(asked.shapes, std::vector<std::string>{"x=2,4"});
  EXPECT_EQ(asked.batch, 2u);
  EXPECT_EQ(asked.precision, "fp16");
  // Where it lies, so that what it refers to is beside it.
  EXPECT_EQ(asked.model, (folder / "net.onnx").string());
  EXPECT_EQ(sent_settings()["FunctionName"], "net");
  EXPECT_EQ(sent_settings()["Tags"]["lambent:kind"], "kernel");
  EXPECT_EQ(transport.requests.at(3).target, "/v2/models/net");
  EXPECT_THAT(out.str(), HasSubstr("x FP32[2,4] ->"));
}

TEST_F(ModelImport, KernelsAreMadeForSeveralBatchSizes) {
  write(
      folder / "lambent.toml",
      "kind = \"model\"\nname = \"own\"\nmodel = \"m.onnx\"\nengine = \"kernels\"\n[batch]\nsize = "
      "8\nwait_ms = 2\n");
  write(folder / "m.onnx", "model");
  answer_deployment();
  EXPECT_EQ(run_deploy(transport, console, {.path = folder, .import_model = covered()}), 0)
      << err.str();
  ASSERT_TRUE(asked.batches.has_value());
  EXPECT_EQ(flags_of(*asked.batches),
            (std::vector<std::string>{"--batch", "8", "--batch-wait-ms", "2"}));
}

TEST_F(ModelImport, TheCommandLineSaysTheLargestBatchToo) {
  write(folder / "net.onnx", "model");
  const auto deploy = [&](std::optional<unsigned> one, std::optional<unsigned> most) {
    return run_deploy(transport, console,
                      {.path = folder / "net.onnx",
                       .engine = ModelEngineChoice::kKernels,
                       .batch = one,
                       .most_elements = most,
                       .import_model = covered()});
  };
  EXPECT_NE(deploy(2, 4), 0);
  EXPECT_THAT(err.str(), HasSubstr("--batch-size is for requests of one size"));
  EXPECT_NE(deploy({}, 1), 0);
  EXPECT_THAT(err.str(), HasSubstr("--max-batch-size is from 2 to 65536"));
  answer_deployment();
  EXPECT_EQ(deploy({}, 4), 0) << err.str();
  EXPECT_EQ(flags_of(*asked.batches), (std::vector<std::string>{"--batch", "4"}));
}

TEST_F(ModelImport, SettingsOfTheModelHoldForItsKernels) {
  write(folder / "lambent.toml",
        "kind = \"model\"\nname = \"own\"\nmodel = \"m.onnx\"\nengine = \"kernels\"\nweight = "
        "2.5\ntimeout_s = 7\n[gpu]\nshare = 40\n");
  write(folder / "m.onnx", "model");
  answer_deployment();
  EXPECT_EQ(run_deploy(transport, console, {.path = folder, .import_model = covered()}), 0)
      << err.str();
  EXPECT_EQ(asked.model, (folder / "m.onnx").string());
  const Json sent = sent_settings();
  EXPECT_EQ(sent["FunctionName"], "own");
  EXPECT_EQ(sent["Timeout"], 7);
  EXPECT_EQ(sent["Tags"]["lambent:gpu-share"], "40");
}

TEST_F(ModelImport, WhatHasNoKernelsIsRefusedOrLeftToOnnxruntime) {
  write(folder / "net.onnx", "model");
  const DeployOptions kernels{.path = folder / "net.onnx",
                              .engine = ModelEngineChoice::kKernels,
                              .import_model = not_covered()};
  EXPECT_NE(run_deploy(transport, console, kernels), 0);
  EXPECT_TRUE(transport.requests.empty());
  EXPECT_THAT(err.str(), HasSubstr("node 1, LSTM, which makes 'y'"));
  DeployOptions automatic = kernels;
  automatic.engine = ModelEngineChoice::kAuto;
  answer_deployment();
  EXPECT_EQ(run_deploy(transport, console, automatic), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("warning: onnxruntime serves it: node 1, LSTM"));
  EXPECT_EQ(sent_settings()["Tags"]["lambent:kind"], "http");
}

TEST_F(ModelImport, WhatIsLeftOpenRunsOnTheProcessorsOfAWorkerWithoutAGpu) {
  write(folder / "model.onnx", "model");
  const std::string both =
      "kind = \"model\"\nname = \"own\"\nengine = \"auto\"\nprovider = \"auto\"\n"
      "[gpu]\nmemory = \"2G\"\n";
  for (const std::string& manifest :
       {both, std::string("kind = \"model\"\nname = \"own\"\nengine = \"auto\"\n")}) {
    write(folder / "lambent.toml", manifest);
    transport.requests.clear();
    answer_deployment();
    EXPECT_EQ(
        run_deploy(transport, console,
                   {.path = folder, .has_gpu = [] { return false; }, .import_model = covered()}),
        0)
        << err.str();
    EXPECT_THAT(err.str(), HasSubstr("warning: the worker has no GPU: onnxruntime runs the model"));
    const Json sent = sent_settings();
    EXPECT_EQ(sent["Tags"]["lambent:kind"], "http");
    EXPECT_EQ(sent["Handler"], "lambent-model-server model.onnx");
    EXPECT_EQ(sent["Tags"]["lambent:gpu-memory"], "0MiB");
    EXPECT_EQ(asked.model, "") << "no kernels were made";
  }
  // What is said is meant.
  write(folder / "lambent.toml",
        "kind = \"model\"\nname = \"own\"\nprovider = \"cuda\"\n[gpu]\nmemory = \"2G\"\n");
  transport.requests.clear();
  answer_deployment();
  EXPECT_EQ(run_deploy(transport, console, {.path = folder, .has_gpu = [] { return false; }}), 0);
  EXPECT_EQ(sent_settings()["Handler"], "lambent-model-server model.onnx --provider cuda");
}

TEST_F(ModelImport, WithoutWhatMakesKernelsOnnxruntimeServesIt) {
  write(folder / "lambent.toml",
        "kind = \"model\"\nname = \"own\"\nengine = \"auto\"\n[gpu]\nshare = 40\n");
  write(folder / "model.onnx", "model");
  DeployOptions options{
      .path = folder, .import_model = [](const ModelImportRequest&) -> Result<ModelImportOutcome> {
        return Error{ErrorCode::kFailedPrecondition, "there is no apache-tvm"};
      }};
  answer_deployment();
  EXPECT_EQ(run_deploy(transport, console, options), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("warning: onnxruntime serves it: there is no apache-tvm"));
  EXPECT_EQ(sent_settings()["Tags"]["lambent:gpu-share"], "100") << "the default";
  options.engine = ModelEngineChoice::kKernels;
  EXPECT_NE(run_deploy(transport, console, options), 0);
}

TEST_F(ModelImport, OptionsOfKernelsAreForModelsThatKernelsServe) {
  write(folder / "net.onnx", "model");
  EXPECT_NE(run_deploy(transport, console, {.path = folder / "net.onnx", .batch = 2}), 0);
  EXPECT_THAT(err.str(), HasSubstr("add --engine kernels"));
  write(folder / "lambent.toml", "name = \"f\"\nruntime = \"python3\"\nhandler = \"app.f\"\n");
  EXPECT_NE(run_deploy(transport, console, {.path = folder, .engine = ModelEngineChoice::kKernels}),
            0);
  EXPECT_THAT(err.str(), HasSubstr("are for functions of kind 'model'"));
  EXPECT_TRUE(transport.requests.empty());
}

}  // namespace
}  // namespace lambent::cli
