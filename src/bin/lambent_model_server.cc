// lambent-model-server: serves one ONNX model by the Open Inference Protocol. The program of
// functions of kind 'model': started by the worker in a sandbox, asked over the sandbox's loopback.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include "bin/zygote_program.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"
#include "edge/inference/batch.h"
#include "edge/inference/model_service.h"
#include "gpu/cuda/driver.h"
#include "node/onnx_runtime/onnx_engine.h"

namespace {

using namespace lambent;

constexpr unsigned kMostThreads = 4;

std::string variable(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value == nullptr ? otherwise : value;
}

// Of the packages that the function's Python has; empty if onnxruntime is not one.
std::string library_of_packages() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path libraries = fs::path(variable("VIRTUAL_ENV", "/usr")) / "lib";
  for (const fs::directory_entry& python : fs::directory_iterator(libraries, error)) {
    const fs::path folder = python.path() / "site-packages/onnxruntime/capi";
    std::error_code absent;
    for (const fs::directory_entry& file : fs::directory_iterator(folder, absent)) {
      if (file.path().filename().string().starts_with("libonnxruntime.so")) return file.path();
    }
  }
  return {};
}

// As many as it may run on, and no more than serve one run well beside other functions.
int default_threads() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  return std::clamp(CPU_COUNT(&mask), 1, static_cast<int>(kMostThreads));
}

// Of all requests together. Growing a string takes twice its size for a moment, so that a quarter
// leaves room for the model.
Bytes most_decompressed() {
  const std::string memory = variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "");
  const uint64_t mib = std::strtoull(memory.c_str(), nullptr, 10);
  return mib == 0 ? inference::kMostBody : std::min(inference::kMostBody, Bytes::mib(mib / 4));
}

// Of the function: why CUDA's provider cannot run on it; empty if it can.
std::string why_no_gpu() {
  const auto driver = cuda::Driver::load();
  if (!driver.ok()) {
    return "the function sees no GPU; [gpu] memory gives it one, on a node that has GPUs (" +
           driver.error().message + ")";
  }
  if (getenv("EMULATED_CUDA_NODE") == nullptr) return {};
  return "the GPU is emulated, and cuDNN has no code for it; engine = \"kernels\" runs there";
}

Result<void> serve(const onnx::OnnxOptions& options, const batching::BatchLimits& batches,
                   const std::string& name, uint16_t port) {
  if (options.library.empty()) {
    return Error{ErrorCode::kNotFound,
                 "there is no onnxruntime among the function's packages; name it under [python] "
                 "requirements"};
  }
  ASSIGN_OR_RETURN(const onnx::LoadedModel loaded, onnx::load_onnx_model(options));
  const std::unique_ptr<ModelEngine>& engine = loaded.engine;
  if (!loaded.provider.why_not.empty()) {
    std::cout << "model " << name << " runs on the host's processors: " << loaded.provider.why_not
              << std::endl;
  }
  if (batches.most_elements > 1 && !inference::has_batches(engine->description())) {
    return Error{ErrorCode::kInvalidArgument,
                 "batches need a model whose inputs and outputs all have an open first dimension"};
  }
  const SystemClock clock;
  loop::EventLoop loop(clock);
  inference::ModelService service(*engine, loop,
                                  {.function = name,
                                   .version = LAMBENT_VERSION,
                                   .batches = batches,
                                   .most_decompressed = most_decompressed()});
  http::ServerOptions server_options;
  server_options.max_body = inference::kMostBody;
  server_options.max_unfinished_bodies = Bytes::gib(1);
  server_options.error_response = [](int status, std::string_view reason, const http::Request&) {
    return inference::error_response(status, std::string(reason));
  };
  http::Server server(loop, server_options, [&](http::Request request, http::Responder responder) {
    service.handle(std::move(request), std::move(responder));
  });
  ASSIGN_OR_RETURN(OwnedFd listener, http::listen_tcp("127.0.0.1", port));
  RETURN_IF_ERROR(server.listen(std::move(listener)));
  const ModelDescription& model = engine->description();
  std::cout << "model " << name << ":";
  for (const TensorSpec& input : model.inputs) {
    std::cout << " " << input.name << " " << name_of(input.type) << to_string(input.shape);
  }
  std::cout << " ->";
  for (const TensorSpec& output : model.outputs) {
    std::cout << " " << output.name << " " << name_of(output.type) << to_string(output.shape);
  }
  std::cout << std::endl;
  loop.run();
  return {};
}

int run(int count, const char* const* words) {
  CLI::App app("Serves one ONNX model by the Open Inference Protocol (v2) on 127.0.0.1.");
  onnx::OnnxOptions options;
  options.library = library_of_packages();
  options.threads = default_threads();
  batching::BatchLimits batches;
  double batch_wait_ms = 0;
  double batch_slo_ms = 0;
  std::string name = variable("K_SERVICE", "model");
  uint16_t port =
      static_cast<uint16_t>(std::strtoul(variable("PORT", "8080").c_str(), nullptr, 10));
  app.add_option("MODEL", options.model, "The file, such as model.onnx")->required();
  app.add_option("--onnxruntime", options.library,
                 "libonnxruntime.so.* (default: of the package onnxruntime in $VIRTUAL_ENV)");
  app.add_option("--threads", options.threads, "Threads that share one run")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  std::string provider = "cpu";
  app.add_option("--provider", provider,
                 "What runs it: cpu, the host's processors; cuda, a GPU, by onnxruntime-gpu; auto: "
                 "a GPU where that is possible")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  app.add_option("--batch", batches.most_elements,
                 "So many elements of the first dimension are run together, of several requests")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--batch-wait-ms", batch_wait_ms,
                 "How long an idle model waits for more of them, in milliseconds")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 60'000.0));
  app.add_option("--batch-slo-ms", batch_slo_ms,
                 "Batches grow while requests are run within so many milliseconds (0: without a "
                 "bound)")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3'600'000.0));
  app.add_option("--name", name, "What the model is called (default: $K_SERVICE)");
  app.add_option("--port", port, "Where it listens (default: $PORT)");
  CLI11_PARSE(app, count, words);
  // A reader of its output that goes away is no reason to end.
  signal(SIGPIPE, SIG_IGN);
  options.provider = onnx::provider_from(provider).value_or(onnx::Provider::kCpu);
  if (options.provider != onnx::Provider::kCpu) options.no_gpu = why_no_gpu();
  batches.most_wait = from_seconds(batch_wait_ms / 1e3);
  batches.slo = from_seconds(batch_slo_ms / 1e3);
  const auto served = serve(options, batches, name, port);
  if (served.ok()) return 0;
  std::cerr << "lambent-model-server: " << served.error().message << std::endl;
  return 1;
}

// Until its fork is in a sandbox: nothing of a function is in here.
int run_as_zygote() {
  std::unique_ptr<onnx::LoadedLibrary> library;
  const auto words = serve_as_zygote([&library]() -> Result<void> {
    ASSIGN_OR_RETURN(library, onnx::load_onnx_library(library_of_packages()));
    return {};
  });
  if (!words) return 0;
  std::vector<const char*> pointers;
  for (const std::string& word : *words) pointers.push_back(word.c_str());
  return run(static_cast<int>(pointers.size()), pointers.data());
}

}  // namespace

int main(int count, char** words) {
  // It would be collected in a thread of its own, and sent where a function's network lets it.
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  if (count == 2 && std::string_view(words[1]) == kZygoteFlag) return run_as_zygote();
  return run(count, words);
}
