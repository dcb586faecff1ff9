#include "node/worker/sandbox_plan.h"
#include "node/sandbox/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lambent::worker {
namespace {

SandboxSetting setting() {
  SandboxSetting setting;
  setting.python_folder = "/p";
  setting.shim_folder = "/s";
  setting.gpu.folder = "/prefix/lib/emulated";
  setting.gpu.emulated_node = "/n";
  return setting;
}

FunctionSpec python_function() {
  FunctionSpec spec;
  spec.name = {TenantId(7), "f"};
  spec.runtime = Runtime::kPython;
  spec.handler = "app.handler";
  spec.environment = {{"MINE", "1"}, {"AWS_LAMBDA_RUNTIME_API", "elsewhere"}, {"PYTHONPATH", "/x"}};
  return spec;
}

SandboxRequest request() { return {SandboxId(3), DeviceId(1), "/code/abc", "/run/ledger-3"}; }

TEST(SandboxPlan, APythonFunctionIsRunByOurRuntimeClient) {
  const auto plan = plan_sandbox(setting(), python_function(), request());
  EXPECT_EQ(plan.argv,
            (std::vector<std::string>{"/usr/bin/python3", "-m", "lambent_runtime", "app.handler"}));
  EXPECT_EQ(plan.environment.at("PYTHONPATH"), "/var/task:/var/runtime:/x");
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
}

TEST(SandboxPlan, TheUsersVariablesCannotReplaceOurs) {
  const auto plan = plan_sandbox(setting(), python_function(), request());
  EXPECT_EQ(plan.environment.at("MINE"), "1");
  EXPECT_EQ(plan.environment.at("AWS_LAMBDA_RUNTIME_API"), "127.0.0.1:9001");
}

TEST(SandboxPlan, AFunctionMaySayItsTimeZoneItsLanguageAndMoreFolders) {
  auto spec = python_function();
  const auto without = plan_sandbox(setting(), spec, request()).environment;
  EXPECT_EQ(without.at("TZ"), ":UTC");
  EXPECT_EQ(without.at("PATH"), "/usr/local/bin:/usr/bin:/bin:/opt/bin");
  spec.environment = {{"TZ", "Europe/Zurich"},
                      {"LANG", "de_CH.UTF-8"},
                      {"HOME", "/tmp/home"},
                      {"PATH", "/var/task/bin"},
                      {"LD_LIBRARY_PATH", "/var/task/own"}};
  for (const Runtime runtime : {Runtime::kPython, Runtime::kProvided}) {
    spec.runtime = runtime;
    auto environment = plan_sandbox(setting(), spec, request()).environment;
    EXPECT_EQ(environment["TZ"], "Europe/Zurich");
    EXPECT_EQ(environment["LANG"], "de_CH.UTF-8");
    EXPECT_EQ(environment["HOME"], "/tmp/home");
    EXPECT_EQ(environment["PATH"], "/var/task/bin:" + without.at("PATH"));
    EXPECT_EQ(environment["LD_LIBRARY_PATH"], "/var/task/own:" + without.at("LD_LIBRARY_PATH"));
  }
}

TEST(SandboxPlan, AZygoteHasThePackagesAndNothingOfTheFunction) {
  auto spec = python_function();
  spec.environment = {{"SECRET", "treasure"}};
  auto with = request();
  with.environment = {"/state/environments/ready/k/python", {"numpy"}};
  const auto plan = plan_sandbox(setting(), spec, with);
  ASSERT_TRUE(plan.zygote.has_value());
  EXPECT_EQ(plan.zygote->argv, (std::vector<std::string>{"/opt/lambent/python/bin/python", "-m",
                                                         "lambent_runtime.zygote", "numpy"}));
  EXPECT_FALSE(plan.zygote->environment.contains("SECRET"));
  EXPECT_FALSE(plan.zygote->environment.contains("_HANDLER"));
  EXPECT_EQ(plan.zygote->binds.size(), 2U);
  EXPECT_EQ(plan.environment.at("SECRET"), "treasure");
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
}

TEST(SandboxPlan, AZygoteOfAModelHasItsProgramAndThePackagesAndNothingOfTheModel) {
  auto spec = python_function();
  spec.kind = FunctionKind::kHttp;
  spec.handler = "lambent-model-server model.onnx --threads 2";
  spec.environment = {{"SECRET", "treasure"}};
  SandboxSetting with_server = setting();
  with_server.model_server = "/prefix/bin/lambent-model-server";
  auto with = request();
  with.environment = {"/state/environments/ready/k/python", {}};
  const auto plan = plan_sandbox(with_server, spec, with);
  ASSERT_TRUE(plan.zygote.has_value());
  EXPECT_EQ(plan.zygote->argv, (std::vector<std::string>{kModelServerFile, "--zygote"}));
  EXPECT_EQ(plan.argv[0], kModelServerFile);
  EXPECT_FALSE(plan.zygote->environment.contains("SECRET"));
  EXPECT_TRUE(plan.zygote->environment.contains("VIRTUAL_ENV"));
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
  EXPECT_FALSE(plan_sandbox(with_server, spec, request()).zygote.has_value()) << "no library";
  // What the library reads when it is loaded was read before a fork.
  spec.environment = {{"ORT_ANY", "1"}};
  EXPECT_FALSE(plan_sandbox(with_server, spec, with).zygote.has_value());
  spec.environment.clear();
  spec.handler = "python server.py";
  EXPECT_FALSE(plan_sandbox(with_server, spec, with).zygote.has_value());
}

TEST(SandboxPlan, AZygoteOfAGpuFunctionHasTheShimAndTheDriverButNoGpu) {
  auto spec = python_function();
  spec.environment.clear();
  spec.gpu.memory = Bytes::mib(64);
  const auto plan = plan_sandbox(setting(), spec, request());
  ASSERT_TRUE(plan.zygote.has_value());
  EXPECT_EQ(plan.zygote->environment.at("LD_PRELOAD"), plan.environment.at("LD_PRELOAD"));
  EXPECT_EQ(plan.zygote->environment.at("LD_LIBRARY_PATH"), plan.environment.at("LD_LIBRARY_PATH"));
  for (const char* of_a_gpu :
       {"CUDA_VISIBLE_DEVICES", "LAMBENT_SHIM_LEDGER", "EMULATED_CUDA_NODE"}) {
    EXPECT_TRUE(plan.environment.contains(of_a_gpu)) << of_a_gpu;
    EXPECT_FALSE(plan.zygote->environment.contains(of_a_gpu)) << of_a_gpu;
  }
  for (const sandbox::Bind& bind : plan.zygote->binds) {
    EXPECT_FALSE(bind.writable) << bind.sandbox_path;
  }
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
  spec.gpu.memory = Bytes(0);
  EXPECT_NE(plan_sandbox(setting(), spec, request()).zygote->key, plan.zygote->key);
}

TEST(SandboxPlan, OneOnSeveralGpusSeesTheseAndHasALedgerForEach) {
  SandboxSetting with_nodes = setting();
  with_nodes.gpu.emulated_node.clear();
  with_nodes.gpu.nodes.common = {{"/dev/nvidiactl", "/dev/nvidiactl"}};
  for (uint32_t i = 1; i <= 3; ++i) {
    const std::string node = "/dev/nvidia" + std::to_string(i - 1);
    with_nodes.gpu.nodes.own[DeviceId(i)] = {{node, node}};
  }
  auto spec = python_function();
  spec.gpu = {.memory = Bytes::mib(64), .count = 2};
  auto with = request();
  with.beside = {DeviceId(3)};
  with.ledgers_beside = {"/run/ledger-3.1"};
  const auto plan = plan_sandbox(with_nodes, spec, with);
  EXPECT_EQ(plan.environment.at("CUDA_VISIBLE_DEVICES"), "0,2");
  EXPECT_EQ(plan.environment.at("LAMBENT_SHIM_GPUS"), "2");
  std::set<std::string> seen;
  for (const sandbox::DeviceNode& node : plan.devices) seen.insert(node.sandbox_path);
  EXPECT_EQ(seen, (std::set<std::string>{"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia2"}));
  const auto is_ledger = [](const sandbox::Bind& bind) {
    return bind.host_path == "/run/ledger-3.1" && bind.sandbox_path == "/opt/lambent/ledger.1" &&
           bind.writable;
  };
  EXPECT_EQ(std::count_if(plan.binds.begin(), plan.binds.end(), is_ledger), 1);
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
}

TEST(SandboxPlan, OneOnAsManyGpusAsAFunctionCanHaveCanBeStarted) {
  for (const bool real : {false, true}) {
    SandboxSetting with_nodes = setting();
    if (real) with_nodes.gpu.emulated_node.clear();
    with_nodes.gpu.nodes.common = {{"/dev/nvidiactl", "/dev/nvidiactl"},
                                   {"/dev/nvidia-uvm", "/dev/nvidia-uvm"}};
    auto spec = python_function();
    spec.gpu = {.memory = Bytes::mib(64), .count = kMostGpusOfFunction};
    auto with = request();
    for (uint32_t i = 0; i < kMostGpusOfFunction; ++i) {
      const std::string node = "/dev/nvidia" + std::to_string(i);
      with_nodes.gpu.nodes.own[DeviceId(i + 1)] = {{node, node}};
      if (i == 0) continue;
      with.beside.emplace_back(i + 1);
      with.ledgers_beside.push_back("/run/ledger-3." + std::to_string(i));
    }
    for (int i = 0; i < 16; ++i) {
      spec.mounts.push_back({.volume = "v", .at = "/mounted" + std::to_string(i)});
      with.mount_folders.push_back("/volumes/" + std::to_string(i));
    }
    const auto plan = plan_sandbox(with_nodes, spec, with);
    EXPECT_GT(plan.binds.size(), kMostGpusOfFunction);
    EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
  }
}

TEST(SandboxPlan, TenantsEnvironmentsAndPreloadsHaveZygotesOfTheirOwn) {
  auto spec = python_function();
  spec.environment.clear();
  auto with = request();
  std::set<std::string> keys;
  for (const uint32_t tenant : {1, 2}) {
    spec.name.tenant = TenantId(tenant);
    for (const char* folder : {"", "/a", "/b"}) {
      with.environment.folder = folder;
      with.environment.preload.clear();
      keys.insert(plan_sandbox(setting(), spec, with).zygote->key);
      with.environment.preload = {"x"};
      keys.insert(plan_sandbox(setting(), spec, with).zygote->key);
    }
  }
  EXPECT_EQ(keys.size(), 12U);
  spec.name.name = "another";
  EXPECT_TRUE(keys.contains(plan_sandbox(setting(), spec, with).zygote->key));
}

TEST(SandboxPlan, PythonOfLayersIsBehindTheFunctionsOwnAndHasAZygoteOfItsOwn) {
  auto spec = python_function();
  spec.environment.clear();
  spec.runtime_name = "python3.11";
  const auto without = plan_sandbox(setting(), spec, request());
  EXPECT_EQ(without.environment.at("PYTHONPATH"), "/var/task:/var/runtime");
  spec.mounts = {{.volume = "layers.0123456789abcdef0123456789abcdef01234567",
                  .host = {},
                  .at = "/opt/python"}};
  auto with = request();
  with.mount_folders = {"/state/layers/1/.composed/x/python"};
  const auto plan = plan_sandbox(setting(), spec, with);
  EXPECT_EQ(plan.environment.at("PYTHONPATH"),
            "/var/task:/var/runtime:/opt/python:/opt/python/lib/python3.11/site-packages");
  ASSERT_TRUE(plan.zygote.has_value());
  EXPECT_NE(plan.zygote->key, without.zygote->key);
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
}

TEST(SandboxPlan, WhatIsReadBeforeAForkKeepsAFunctionFromZygotes) {
  auto spec = python_function();
  for (const char* name : {"PYTHONHASHSEED", "PYTHONPATH", "LD_PRELOAD", "OMP_NUM_THREADS", "TZ",
                           "LANG", "LC_ALL", "PATH", "HOME"}) {
    spec.environment = {{name, "1"}};
    EXPECT_FALSE(plan_sandbox(setting(), spec, request()).zygote.has_value()) << name;
  }
  spec.environment.clear();
  EXPECT_TRUE(plan_sandbox(setting(), spec, request()).zygote.has_value());
  spec.runtime = Runtime::kProvided;
  EXPECT_FALSE(plan_sandbox(setting(), spec, request()).zygote.has_value());
}

TEST(SandboxPlan, OnlyAFunctionThatAsksForAGpuGetsTheShimAndTheDriver) {
  auto spec = python_function();
  EXPECT_FALSE(plan_sandbox(setting(), spec, request()).environment.contains("LD_PRELOAD"));
  spec.gpu.memory = Bytes::mib(64);
  spec.gpu.launch_mode = GpuNeeds::LaunchMode::kModel;
  const auto plan = plan_sandbox(setting(), spec, request());
  EXPECT_EQ(plan.environment.at("EMULATED_CUDA_LAUNCH_MODE"), "model");
  EXPECT_EQ(plan.environment.at("CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_NE(plan.environment.at("LD_PRELOAD").find("liblambent_shim.so"), std::string::npos);
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
  const sandbox::Bind compiler{"/prefix/bin/lambent-bundle",
                               "/opt/lambent/compiler/bin/lambent-bundle", false};
  EXPECT_NE(std::ranges::find(plan.binds, compiler), plan.binds.end());
  EXPECT_EQ(plan.environment.at("EMULATED_CUDA_PTX_COMPILER"), compiler.sandbox_path);
  EXPECT_EQ(plan.limits.file_size, limits::kSandboxFileSize);
  EXPECT_EQ(plan.limits.memory, spec.memory + spec.gpu.memory * 2)
      << "an emulated device's memory counts for the processes that use it";
  auto real = setting();
  real.gpu.emulated_node.clear();
  EXPECT_EQ(plan_sandbox(real, spec, request()).limits.memory, spec.memory);
  spec.gpu.memory = Bytes::gib(12);
  EXPECT_EQ(plan_sandbox(setting(), spec, request()).limits.file_size, Bytes::gib(24))
      << "an emulated device's memory is a file";
}

TEST(SandboxPlan, AQuotaOfProcessorsIsALimitOfTheSandbox) {
  auto spec = python_function();
  EXPECT_FALSE(plan_sandbox(setting(), spec, request()).limits.cpus.has_value());
  spec.cpus = 0.5;
  const auto plan = plan_sandbox(setting(), spec, request());
  EXPECT_EQ(plan.limits.cpus, 0.5);
  EXPECT_TRUE(sandbox::validate(plan).ok());
}

TEST(SandboxPlan, ACpuVariantSeesNoGpu) {
  auto spec = python_function();
  spec.gpu.memory = Bytes::mib(64);
  spec.environment["CUDA_VISIBLE_DEVICES"] = "1";
  EXPECT_EQ(plan_sandbox(setting(), spec, request()).environment.at("LAMBENT_DEVICE"), "gpu");
  spec.cpu_variant = CpuVariant{};
  EXPECT_EQ(cpu_variant_of(spec).handler, "app.handler") << "unless it has one of its own";
  spec.cpu_variant->handler = "app.on_cpu";
  const auto plan = plan_sandbox(setting(), cpu_variant_of(spec), request());
  EXPECT_EQ(plan.argv.back(), "app.on_cpu");
  EXPECT_EQ(plan.environment.at("_HANDLER"), "app.on_cpu");
  EXPECT_EQ(plan.environment.at("LAMBENT_DEVICE"), "cpu");
  EXPECT_EQ(plan.environment.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_FALSE(plan.environment.contains("LD_PRELOAD"));
  EXPECT_TRUE(plan.devices.empty());
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
}

TEST(SandboxPlan, AFunctionWhoseMemoryMovesGetsItsSockets) {
  auto spec = python_function();
  spec.gpu.memory = Bytes::mib(64);
  SandboxRequest moving = request();
  EXPECT_FALSE(plan_sandbox(setting(), spec, moving).environment.contains("LAMBENT_SHIM_MEMORY"));
  moving.memory_path = "/run/memory-3";
  moving.link_path = "/run/link-3";
  const auto plan = plan_sandbox(setting(), spec, moving);
  EXPECT_EQ(plan.environment.at("LAMBENT_SHIM_MEMORY"), "/opt/lambent/memory");
  EXPECT_EQ(plan.environment.at("LAMBENT_SHIM_LINK"), "/opt/lambent/link");
  EXPECT_EQ(plan.environment.at("LAMBENT_SHIM_MEMORY_MODE"), "vmm");
  EXPECT_EQ(plan.environment.at("LAMBENT_SHIM_UVM"), "prefetch");
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
}

TEST(SandboxPlan, AFunctionThatDoesNotSayHasTheWorkersWorkingSet) {
  auto spec = python_function();
  spec.gpu.memory = Bytes::mib(64);
  SandboxRequest moving = request();
  moving.memory_path = "/run/memory-3";
  const auto planned = [&](WorkingSet of_function, WorkingSet of_worker) {
    spec.gpu.working_set = of_function;
    SandboxSetting here = setting();
    here.working_set = of_worker;
    return plan_sandbox(here, spec, moving).environment.at("LAMBENT_SHIM_WORKING_SET");
  };
  EXPECT_EQ(planned(WorkingSet::kWorker, WorkingSet::kWhole), "whole");
  EXPECT_EQ(planned(WorkingSet::kWorker, WorkingSet::kTouched), "touched");
  EXPECT_EQ(planned(WorkingSet::kWhole, WorkingSet::kTouched), "whole");
  EXPECT_EQ(planned(WorkingSet::kTouched, WorkingSet::kWhole), "touched");
}

TEST(SandboxPlan, AFunctionThatSharesARuntimeSeesNoDeviceAndNoShim) {
  auto spec = python_function();
  spec.gpu.memory = Bytes::mib(64);
  spec.gpu.runtime = GpuRuntime::kShared;
  SandboxSetting here = setting();
  here.forward_folder = "/prefix/lib/forward";
  SandboxRequest shared = request();
  shared.runtime_path = "/run/runtime-3";
  const auto plan = plan_sandbox(here, spec, shared);
  EXPECT_EQ(plan.environment.at("LAMBENT_FORWARD_SOCKET"), "/opt/lambent/runtime");
  EXPECT_TRUE(plan.environment.at("LD_LIBRARY_PATH").starts_with("/opt/lambent/forward:"));
  EXPECT_FALSE(plan.environment.contains("LD_PRELOAD"));
  EXPECT_TRUE(plan.devices.empty());
  for (const auto& bind : plan.binds) EXPECT_NE(bind.sandbox_path, "/opt/lambent/driver");
  EXPECT_TRUE(sandbox::validate(plan).ok()) << sandbox::validate(plan).error().message;
}

TEST(SandboxPlan, TheRuntimeOfAnEmulatedGpuComesBehindWhatAFunctionHasItself) {
  SandboxSetting here = setting();
  here.forward_folder = "/prefix/lib/forward";
  here.emulated_runtime_folder = "/prefix/lib/emulated_runtime";
  const sandbox::Bind expected{"/prefix/lib/emulated_runtime", "/opt/lambent/emulated_runtime",
                               false};
  const auto has_it = [&](const sandbox::LaunchPlan& plan) {
    return std::ranges::find(plan.binds, expected) != plan.binds.end() &&
           plan.environment.at("LD_LIBRARY_PATH")
               .ends_with(":/opt/lib:/opt/lambent/emulated_runtime");
  };
  auto spec = python_function();
  EXPECT_FALSE(has_it(plan_sandbox(here, spec, request()))) << "it uses no GPU";
  spec.gpu.memory = Bytes::mib(64);
  EXPECT_TRUE(has_it(plan_sandbox(here, spec, request())));
  spec.gpu.runtime = GpuRuntime::kShared;
  EXPECT_TRUE(has_it(plan_sandbox(here, spec, request())));
  here.emulated_runtime_folder.clear();
  EXPECT_FALSE(has_it(plan_sandbox(here, spec, request()))) << "the GPU is a real one";
}

TEST(SandboxPlan, AFunctionThatServesAModelRunsOurProgram) {
  SandboxSetting with_server = setting();
  with_server.model_server = "/usr/lib/lambent/bin/lambent-model-server";
  FunctionSpec model = python_function();
  model.kind = FunctionKind::kHttp;
  model.handler = "lambent-model-server model.onnx --threads 2";
  const auto plan = plan_sandbox(with_server, model, request());
  EXPECT_EQ(plan.argv, (std::vector<std::string>{"/opt/lambent/model-server", "model.onnx",
                                                 "--threads", "2"}));
  const sandbox::Bind expected{with_server.model_server, "/opt/lambent/model-server", false};
  EXPECT_NE(std::ranges::find(plan.binds, expected), plan.binds.end());
  EXPECT_TRUE(sandbox::validate(plan).ok());
}

TEST(SandboxPlan, APythonFunctionWithPackagesRunsTheInterpreterOfItsEnvironment) {
  SandboxRequest with = request();
  with.environment.folder = "/state/environments/ready/k/python";
  const auto plan = plan_sandbox(setting(), python_function(), with);
  EXPECT_EQ(plan.argv[0], "/opt/lambent/python/bin/python");
  EXPECT_TRUE(plan.environment.at("PATH").starts_with("/opt/lambent/python/bin:"));
  const sandbox::Bind expected{"/state/environments/ready/k/python", "/opt/lambent/python", false};
  EXPECT_NE(std::ranges::find(plan.binds, expected), plan.binds.end());
  EXPECT_TRUE(sandbox::validate(plan).ok());
}

FunctionSpec image_function() {
  auto spec = python_function();
  spec.runtime = Runtime::kProvided;
  spec.runtime_name = "image";
  spec.handler = "ghcr.io/a/b:1 app.handler";
  return spec;
}

SandboxRequest image_request() {
  SandboxRequest with = request();
  with.image = {.folder = "/state/images/ready/k/root",
                .command = {"python", "-m", "awslambdaric", "app.handler"},
                .environment = {{"COLOUR", "red"}, {"MINE", "the image's"}, {"HOME", "/home/app"}},
                .working_directory = "/srv",
                .user = 1000};
  return with;
}

TEST(SandboxPlan, AFunctionOfAnImageRunsWhatTheImageSays) {
  const auto plan = plan_sandbox(setting(), image_function(), image_request());
  EXPECT_EQ(plan.argv, image_request().image.command);
  EXPECT_EQ(plan.working_directory, "/srv");
  const sandbox::ImageRoot expected{.host_path = "/state/images/ready/k/root", .user = 1000};
  EXPECT_EQ(plan.image, expected);
  EXPECT_TRUE(plan.code.empty());
  EXPECT_FALSE(plan.zygote.has_value());
  EXPECT_EQ(plan.environment.at("COLOUR"), "red");
  EXPECT_EQ(plan.environment.at("MINE"), "1");
  EXPECT_EQ(plan.environment.at("HOME"), "/home/app");
  EXPECT_EQ(plan.environment.at("_HANDLER"), "app.handler");
  EXPECT_EQ(plan.environment.at("AWS_LAMBDA_RUNTIME_API"), "127.0.0.1:9001");
  EXPECT_FALSE(plan.environment.contains("LD_LIBRARY_PATH"));
  EXPECT_TRUE(sandbox::validate(plan).ok());
}

TEST(SandboxPlan, AnImageIsShownTheDriversLibrariesAndNoOthersOfTheSystem) {
  SandboxSetting real = setting();
  real.gpu.folder = "/usr/lib/x86_64-linux-gnu";
  real.gpu.emulated_node.clear();
  real.gpu.libraries = {"libcuda.so.1"};
  FunctionSpec spec = image_function();
  spec.gpu.memory = Bytes::mib(64);
  const auto plan = plan_sandbox(real, spec, image_request());
  const sandbox::Bind expected{"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                               "/opt/lambent/driver/libcuda.so.1", false};
  EXPECT_NE(std::ranges::find(plan.binds, expected), plan.binds.end());
  EXPECT_EQ(plan.environment.at("LD_LIBRARY_PATH"), "/opt/lambent/driver");
  EXPECT_EQ(plan.environment.at("LAMBENT_SHIM_DRIVER"), "/opt/lambent/driver/libcuda.so.1");
  EXPECT_TRUE(sandbox::validate(plan).ok());
}

TEST(SandboxPlan, ANativeFunctionRunsItsBootstrap) {
  auto spec = python_function();
  spec.runtime = Runtime::kProvided;
  EXPECT_EQ(plan_sandbox(setting(), spec, request()).argv,
            std::vector<std::string>{"/var/task/bootstrap"});
}

TEST(FunctionArn, IsTheOneThatTheFrontendGives) {
  EXPECT_EQ(function_arn({TenantId(7), "f"}), "arn:aws:lambda:us-east-1:000000000000:function:f");
}

}  // namespace
}  // namespace lambent::worker
